"""Decode once: what was decoded before is read from a cache.

A file of the cache belongs to one model, one method and one set of settings, known by their contents; it has
a line for each input. So scoring again is free, a larger part of a data set decodes only what is new, and a
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
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.methods import Method
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.model import StepModel, fingerprint_of
from beamsplit.models import Translator, storage
from beamsplit.models.pictures import PictureModel
from beamsplit.progress import Progress
from beamsplit.strategies.defaults import BATCH_SIZE

__all__ = ["Cache", "decode_cached", "fingerprint"]


def decode_cached(
    model: StepModel,
    inputs: Sequence[Any] | Tensor,
    method: Method,
    *,
    max_length: int,
    cache: Cache,
    min_length: int = 0,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    keys: Sequence[str] | None = None,
    shown: bool = True,
) -> list[Hypotheses]:
    """Return the method's lists for these inputs; decode those that the cache lacks, and keep them.

    `keys` are what the cache knows the inputs by, if not by their contents. `shown` tells whether there is a
    bar for people to watch.
    """
    # Only if there is one, so that lists from before there was a least length are still found.
    least = {"min_length": min_length} if min_length else {}
    # Of the search alone: what is chosen of its lists afterwards makes no difference to them.
    file = cache.file(model, {**method.spec.description, "max_length": max_length, **least, "seed": seed})
    digests = [_digest(each) for each in inputs]
    # By contents too, since that is how lists were kept before inputs had keys.
    names = [
        digest if digest in file.lists else key for key, digest in zip(keys or digests, digests, strict=True)
    ]
    missing = [index for index, name in enumerate(names) if name not in file.lists]
    if not missing:
        return [file.lists[name] for name in names]
    guided, strategy = method.make(model)
    with Progress(method.name).bar(len(names), len(names) - len(missing), shown=shown) as bar:

        def keep(indices: Sequence[int], lists: Sequence[Hypotheses]) -> None:
            file.add({names[missing[index]]: each for index, each in zip(indices, lists, strict=True)})
            bar.advance(len(indices))

        decode_in_batches(
            guided,
            inputs[missing] if isinstance(inputs, Tensor) else [inputs[index] for index in missing],
            strategy,
            batch_size=batch_size,
            on_batch=keep,
            max_length=max_length,
            min_length=min_length,
            # A seed of its own, from its content: what an input gets must not depend on what the cache had.
            seed=[seed + int(digests[index][:8], 16) for index in missing],
            **method.spec.decode_options,
        )
    return [file.lists[name] for name in names]


class Cache:
    """A folder of lists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, model: StepModel, settings: dict[str, Any]) -> _CacheFile:
        kind = fingerprint(model)
        if kind is None:
            return _CacheFile(None, {})
        about = {"model": kind, "beamsplit": beamsplit.__version__, **settings}
        name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
        return _CacheFile(self._folder / f"{name}.jsonl", about)


class _CacheFile:
    """A line about the file, then one for each input; without a path, nothing is kept beyond this run."""

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
    """Return what tells a model's outputs from those of others: a name that it gives itself, or its weights.

    Return None if that is not known, as of a model whose code may change: its lists must not be taken for
    those of another.
    """
    name, own = type(model).__name__, fingerprint_of(model)
    if own is not None:
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
