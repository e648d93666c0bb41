"""Lists of outputs, decoded once: what was decoded before is read from a cache.

A cache's file belongs to one model, one method and one set of settings, told from their contents; in it is
a line for each input. So scoring again is free, a larger part of a data set only decodes what is new, and a
run that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import beamsplit
from beamsplit.evaluation.experiment import Method
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel
from beamsplit.models import storage
from beamsplit.models.inputs import decode_in_batches
from beamsplit.training.progress import Progress

__all__ = ["Cache", "decoded", "fingerprint"]


def decoded(
    model: StepModel,
    inputs: Sequence[Any] | Tensor,
    method: Method,
    *,
    max_length: int,
    cache: Cache,
    seed: int = 0,
    batch_size: int = 32,
) -> list[Hypotheses]:
    """The method's lists for these inputs, from the cache as far as it has them."""
    file = cache.file(model, {**method.description, "max_length": max_length, "seed": seed})
    keys = [_digest(each) for each in inputs]
    missing = [place for place, key in enumerate(keys) if key not in file.lists]
    guided, strategy = method.guided(model), method.strategy(model)
    with Progress(method.name).bar(len(keys), len(keys) - len(missing)) as bar:
        for begin in range(0, len(missing), batch_size):
            places = missing[begin : begin + batch_size]
            part: Any = inputs[places] if isinstance(inputs, Tensor) else [inputs[place] for place in places]
            # A seed of an input's own: what it gets must not depend on what the cache had.
            seeds = [seed + int(keys[place][:8], 16) for place in places]
            found = decode_in_batches(
                guided, part, strategy, max_length=max_length, batch_size=batch_size, seed=seeds
            )
            file.add({keys[place]: each for place, each in zip(places, found, strict=True)})
            for _ in places:
                bar.advance()
    return [file.lists[key] for key in keys]


class Cache:
    """A folder of lists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, model: StepModel, settings: dict[str, Any]) -> _File:
        about = {"model": fingerprint(model), "beamsplit": beamsplit.__version__, **settings}
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
        return _File(self._folder / f"{name}.jsonl", about)


class _File:
    """One line about it, then one for each input."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        self.lists: dict[str, Hypotheses] = {}
        if path.exists():
            self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(about) + "\n", encoding="utf-8")

    def add(self, lists: dict[str, Hypotheses]) -> None:
        lines = [json.dumps({"input": key, "list": found.to_json()}) for key, found in lists.items()]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        self.lists.update(lists)

    def _read(self) -> None:
        whole = self._path.read_text(encoding="utf-8").split("\n")
        # A run that was killed may have left half a line; it is cut off, so that what follows is readable.
        if whole[-1]:
            self._path.write_text("".join(line + "\n" for line in whole[:-1]), encoding="utf-8")
        for line in whole[1:-1]:
            entry = json.loads(line)
            self.lists[entry["input"]] = Hypotheses.from_json(entry["list"])


def fingerprint(model: object) -> str:
    """What tells a model from others: its kind and all its weights."""
    module = model if isinstance(model, nn.Module) else getattr(model, "module", None)
    weights = module.state_dict().values() if isinstance(module, nn.Module) else ()
    return f"{type(model).__name__} {storage.fingerprint(weights)}"


def _digest(value: Any) -> str:
    content = value.numpy().tobytes() if isinstance(value, Tensor) else str(value).encode()
    return hashlib.sha256(content).hexdigest()[:24]
