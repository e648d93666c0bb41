"""Lists of outputs, decoded once: what was decoded before is read from a cache.

A cache's file belongs to one model, one method and one set of settings, told from their contents; in it is
a line for each input. So scoring again is free, a larger part of a data set only decodes what is new, and a
run that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import beamsplit
from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.methods import Method
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel
from beamsplit.models import Translator, storage
from beamsplit.models.pictures import PictureModel
from beamsplit.progress import Progress

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
    missing = sorted(
        (place for place, key in enumerate(keys) if key not in file.lists),
        # Texts of one length in a batch: no short one waits for a long one.
        key=lambda place: len(inputs[place]) if isinstance(inputs[place], str) else 0,
    )
    guided, strategy = method.make(model)
    with Progress(method.name).bar(len(keys), len(keys) - len(missing)) as bar:
        for begin in range(0, len(missing), batch_size):
            places = missing[begin : begin + batch_size]
            part: Any = inputs[places] if isinstance(inputs, Tensor) else [inputs[place] for place in places]
            # A seed of an input's own: what it gets must not depend on what the cache had.
            seeds = [seed + int(keys[place][:8], 16) for place in places]
            found = decode(
                guided, part, strategy, max_length=max_length, seed=seeds, unique=method.spec.unique
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
        kind = fingerprint(model)
        if kind is None:
            return _File(None, {})
        about = {"model": kind, "beamsplit": beamsplit.__version__, **settings}
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
        return _File(self._folder / f"{name}.jsonl", about)


class _File:
    """One line about it, then one for each input; without a path, nothing is kept beyond this run."""

    def __init__(self, path: Path | None, about: dict[str, Any]) -> None:
        self._path = path
        self.lists: dict[str, Hypotheses] = {}
        if path is not None and path.exists():
            self._read(path)
        elif path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(about) + "\n", encoding="utf-8")

    def add(self, lists: dict[str, Hypotheses]) -> None:
        self.lists.update(lists)
        if self._path is None:
            return
        lines = [json.dumps({"input": key, "list": found.to_json()}) for key, found in lists.items()]
        # In one piece, since another run may be writing to the same file.
        with self._path.open("ab", buffering=0) as file:
            file.write("".join(line + "\n" for line in lines).encode())

    def _read(self, path: Path) -> None:
        whole = path.read_text(encoding="utf-8", errors="replace").split("\n")
        # A run that was killed may have left half a line; it is cut off, so that what follows is readable.
        if whole[-1]:
            path.write_text("".join(line + "\n" for line in whole[:-1]), encoding="utf-8")
        damaged = 0
        for line in whole[1:-1]:
            try:
                entry = json.loads(line)
                self.lists[entry["input"]] = Hypotheses.from_json(entry["list"])
            except (ArgumentError, ValueError, KeyError, TypeError):
                damaged += 1
        if damaged:
            print(f"{path}: {damaged} damaged lines are passed over and decoded again", file=sys.stderr)


def fingerprint(model: object) -> str | None:
    """What tells a model's outputs from others': its own word for it, or its weights and what else counts.

    None of a model of which that is not known, such as one whose code may change: its lists must not be
    taken for those of another.
    """
    name, own = type(model).__name__, getattr(model, "fingerprint", None)
    if isinstance(own, str):
        return f"{name} {own}"
    if isinstance(model, Translator | PictureModel):
        return f"{name} {storage.fingerprint(model.state_dict().values())}"
    origin, module = getattr(model, "origin", None), getattr(model, "module", None)
    if isinstance(origin, str) and isinstance(module, nn.Module):
        return f"{name} {origin} {storage.fingerprint(module.state_dict().values())}"
    return None


def _digest(value: Any) -> str:
    content = value.cpu().numpy().tobytes() if isinstance(value, Tensor) else str(value).encode()
    return hashlib.sha256(content).hexdigest()[:24]
