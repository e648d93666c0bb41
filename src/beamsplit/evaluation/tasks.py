"""What experiments are about: inputs, and what people said of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from beamsplit.data import read_described, read_features, read_pairs, read_projection
from beamsplit.errors import ArgumentError
from beamsplit.models.text import normalised

__all__ = ["TASKS", "Task", "read_task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Inputs for a model, with references."""

    name: str
    ids: tuple[str, ...]
    inputs: Sequence[str] | Tensor
    references: tuple[tuple[str, ...], ...]
    difficulty: tuple[float, ...] | None = None
    """How hard people find the pictures, where that is known."""

    def some(self, count: int | None) -> Task:
        """So many inputs, evenly spread: files are often in the order of length."""
        whole = len(self.ids)
        if count is None or count >= whole:
            return self
        return self.only([place * whole // count for place in range(count)])

    def only(self, places: Sequence[int]) -> Task:
        """The same with these inputs alone."""
        difficulty, inputs = self.difficulty, self.inputs
        return Task(
            name=self.name,
            ids=tuple(self.ids[place] for place in places),
            inputs=inputs[list(places)] if isinstance(inputs, Tensor) else [inputs[p] for p in places],
            references=tuple(self.references[place] for place in places),
            difficulty=None if difficulty is None else tuple(difficulty[place] for place in places),
        )


def _pictures(texts: str, features: str) -> Callable[[Path], Task]:
    def read(folder: Path) -> Task:
        described = read_described(folder / f"{texts}.jsonl.gz")
        ids = tuple(each.image for each in described)
        projection = read_projection(folder / "captions" / "features.projection.npz")
        known = [each.difficulty for each in described if each.difficulty is not None]
        return Task(
            name=Path(texts).name,
            ids=ids,
            inputs=read_features(folder / f"{features}.features.npz", projection).of(ids),
            references=tuple(each.texts for each in described),
            difficulty=tuple(known) if len(known) == len(ids) else None,
        )

    return read


def _translation(name: str) -> Callable[[Path], Task]:
    def read(folder: Path) -> Task:
        pairs = read_pairs(folder / "translation" / f"{name}.jsonl.gz")
        return Task(
            name=name,
            ids=tuple(map(str, range(len(pairs)))),
            inputs=[pair.source for pair in pairs],
            references=tuple(tuple(map(normalised, pair.targets)) for pair in pairs),
        )

    return read


TASKS: dict[str, Callable[[Path], Task]] = {
    **{
        f"coco.{part}": _pictures(f"captions/coco.{part}", f"captions/coco.{part}")
        for part in ("valid", "test")
    },
    "pascal50s": _pictures("captions/pascal50s", "captions/pascal50s"),
    **{f"vqg.{part}": _pictures(f"questions/vqg.{part}", "questions/vqg") for part in ("val", "test")},
    **{f"tatoeba.{part}": _translation(f"tatoeba.{part}") for part in ("valid", "test")},
    **{f"newstest{year}": _translation(f"newstest{year}") for year in (2012, 2013, 2014)},
    "multi30k.val": _translation("multi30k.val"),
    "multi30k.test": _translation("multi30k.test_2016_flickr"),
}


def read_task(name: str, folder: Callable[[], Path]) -> Task:
    """A task by its name, whose data are in the folder; or from a .jsonl of one's own."""
    if name in TASKS:
        return TASKS[name](folder())
    if Path(name).suffix == ".jsonl":
        return _own(Path(name))
    raise ArgumentError(f"there is no task {name!r}: there are {', '.join(TASKS)}, or give a .jsonl file")


def _own(path: Path) -> Task:
    """Lines of `{"input": text, "references": [text, ...]}`, with an "id" if you like."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    entries = [_entry(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not entries:
        raise ArgumentError(f'{path} is empty: give lines of {{"input": ..., "references": [...]}}')
    ids = tuple(str(entry.get("id", place)) for place, entry in enumerate(entries))
    if len(set(ids)) != len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise ArgumentError(f"{path} has the id {twice!r} twice: give each input its own")
    return Task(
        name=path.stem,
        ids=ids,
        inputs=[entry["input"] for entry in entries],
        references=tuple(tuple(entry["references"]) for entry in entries),
    )


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ArgumentError(f"{where} is no JSON: {error}") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("input"), str) or not entry["input"].strip():
        raise ArgumentError(f'{where} has no text under "input"')
    references = entry.get("references")
    if not isinstance(references, list) or not all(isinstance(r, str) and r.strip() for r in references):
        raise ArgumentError(f'{where} has no list of texts under "references"')
    if not references:
        raise ArgumentError(f"{where} has no references: give one at least")
    return entry
