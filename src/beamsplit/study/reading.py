"""Two lists of each input, from the files that they are in.

{"id": "17", "hypotheses": ["a dog", {"text": "a dog on a beach"}]}        a line of lists

The same line, or a line of a task with the same id, may have what is shown above the lists ("input", a text,
or "image", the path of a picture beside the file), and numbers to split by ("complexity", "difficulty").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.saved import read_lists
from beamsplit.evaluation.tasks import check_once, read_lines
from beamsplit.study.pictures import Source

__all__ = ["read_ids", "read_sources", "read_texts"]

_ABOUT = ("input", "complexity", "difficulty")


def read_ids(path: Path) -> list[str]:
    """The ids of a file of lists."""
    return [
        str(entry["id"]) for _, entry in read_lines(path, '{"id": ..., "hypotheses": [...]}') if "id" in entry
    ]


def read_texts(path: Path, ids: Sequence[str]) -> list[tuple[str, ...]]:
    """The lists of these inputs, best first."""
    examples = read_lists(path, ids, [()] * len(ids))
    return [tuple(map(clean, example.hypotheses)) for example in examples]


def read_sources(path: Path) -> dict[str, Source]:
    """What a file says of its inputs beside lists, by id; without one, a line's number from 0 is its id."""
    entries = list(read_lines(path, '{"input": ...}'))
    ids = [str(entry.get("id", place)) for place, (_, entry) in enumerate(entries)]
    check_once(ids, path)
    return {each: _source(path, where, entry) for each, (where, entry) in zip(ids, entries, strict=True)}


def _source(path: Path, where: str, entry: Mapping[str, Any]) -> Source:
    image, text = entry.get("image"), entry.get("input")
    if image is not None and not isinstance(image, str):
        raise ArgumentError(f'{where} has no path under "image": {checks.shown(image)}')
    return Source(
        text=clean(text) if isinstance(text, str) else "",
        image=None if image is None else path.parent / image,
        complexity=_number(entry, "complexity", where),
        difficulty=_number(entry, "difficulty", where),
    )


def _number(entry: Mapping[str, Any], key: str, where: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError(f'{where} has no number under "{key}": {checks.shown(value)}')
    return float(value)


def clean(text: str) -> str:
    """Without what a database or a page cannot hold: lone halves of characters, and the character 0."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
