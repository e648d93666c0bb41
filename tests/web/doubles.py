"""Models that the tests of the web demo search with, and a client."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from starlette.testclient import TestClient
from torch import Tensor

from beamsplit.loading import load_model
from beamsplit.model import StepModel
from beamsplit.web import DemoLimits, DemoSettings, make_app
from beamsplit.web.catalogue import Catalogue

WORDS = "a red boat small on the water sky and sea".split()


class Slow:
    """Says words without end, and takes its time over each; counts its steps."""

    end: int | None = None

    def __init__(self, seconds: float = 0.05) -> None:
        self.seconds = seconds
        self.steps = 0
        self.latest = 0.0

    def start(self, inputs: Sequence[str]) -> tuple[Tensor, Tensor]:
        return self._say(torch.zeros(len(inputs), dtype=torch.long))

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        time.sleep(self.seconds)
        self.steps += 1
        self.latest = time.monotonic()
        return self._say(tokens)

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)

    def to_text(self, tokens: Sequence[int]) -> str:
        return " ".join(WORDS[token] for token in tokens)

    def _say(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        # The word itself is unlikely to come again, its neighbour likely.
        after = (torch.arange(len(WORDS)) - tokens.unsqueeze(1)) % len(WORDS)
        return -after.float(), tokens


class Mute(Slow):
    """Likes best to say nothing: its first word is the end, which has no text."""

    end = 0

    def __init__(self) -> None:
        super().__init__(0.0)

    def to_text(self, tokens: Sequence[int]) -> str:
        return " ".join(WORDS[token] for token in tokens if token)


class Broken:
    """Raises what a model of anyone's might."""

    end = None

    def start(self, inputs: Sequence[str]) -> tuple[Tensor, Tensor]:
        raise RuntimeError(f"cannot\nread {inputs}")

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        raise NotImplementedError


class Shelf:
    """A loader that remembers what it loaded."""

    def __init__(self, **models: StepModel | Exception) -> None:
        self.models = models
        self.loaded: list[str] = []
        self.lock = threading.Lock()

    def __call__(self, name: str) -> StepModel:
        with self.lock:
            self.loaded.append(name)
        found = self.models.get(name) or SHARED(name)
        if isinstance(found, Exception):
            raise found
        return found


class _Shared:
    """The package's own models, once for all tests."""

    def __init__(self) -> None:
        self._models: dict[str, StepModel] = {}

    def __call__(self, name: str) -> StepModel:
        if name not in self._models:
            self._models[name] = load_model(name)
        return self._models[name]


SHARED = _Shared()


def app_with(shelf: Shelf | None = None, settings: DemoSettings | None = None, **limits: Any) -> Any:
    """An application whose models come from the shelf."""
    shelf = shelf or Shelf()
    settings = settings or DemoSettings(limits=DemoLimits(**limits))
    return make_app(settings, Catalogue(list(shelf.models), shelf))


def client_of(app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1")


def picture(width: int = 60, height: int = 40, kind: str = "PNG", **options: Any) -> bytes:
    """A small file with colours in it."""
    from PIL import Image

    image = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def events(content: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and data of server-sent events."""
    for block in content.split("\n\n")[:-1]:
        name, data = block.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
