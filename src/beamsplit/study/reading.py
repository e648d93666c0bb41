"""Read the files with the lists and inputs of a study.

{"id": "17", "hypotheses": ["a dog", {"text": "a dog on a beach"}]}        a line of a file of lists

The same line, or the line of a task with the same id, may have an input to show above the lists ("input", a
text, or "image", the path of a picture relative to the file) and numbers for bins ("complexity",
"difficulty").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.saved import read_lists
from beamsplit.evaluation.tasks import check_once, is_plain_text, read_plain_lines
from beamsplit.files import id_of, read_json_objects
from beamsplit.study.pictures import Source

__all__ = ["clean", "read_ids", "read_sources", "read_texts"]


def read_ids(path: Path) -> list[str]:
    """Return the ids in a file of lists, without empty ones (blank lines have those) unless all are empty."""
    entries = [entry for _, entry in read_json_objects(path, '{"id": ..., "hypotheses": [...]}')]
    named = [entry for entry in entries if "id" in entry]
    return [str(entry["id"]) for entry in named if entry.get("hypotheses") != []] or [
        str(entry["id"]) for entry in named
    ]


def read_texts(path: Path, ids: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the lists of these inputs, best output first."""
    examples = read_lists(path, ids, [()] * len(ids))
    return [tuple(map(clean, example.hypotheses)) for example in examples]


def read_sources(path: Path, *, pictures: bool = False) -> dict[str, Source]:
    """Return what a file says about its inputs, by id. Without one, a line's index is its id.

    Lines of a .txt file are texts, or the paths of pictures if `pictures` says so.
    """
    if is_plain_text(path):
        return {name: _plain(path, line, pictures) for name, line in read_plain_lines(path).items()}
    entries = list(read_json_objects(path, '{"input": ...}'))
    entries = [each for each in entries if each[1].get("hypotheses") != []]  # of blank lines
    ids = [id_of(entry, where.line_index) for where, entry in entries]
    check_once(ids, path)
    return {each: _source(path, where, entry) for each, (where, entry) in zip(ids, entries, strict=True)}


def _plain(path: Path, line: str, pictures: bool) -> Source:
    return Source(image=path.parent / line) if pictures else Source(text=clean(line))


def _source(path: Path, where: str, entry: Mapping[str, Any]) -> Source:
    image, text = entry.get("image"), entry.get("input")
    if image is not None and not isinstance(image, str):
        raise ArgumentError(f'{where} has no path under "image": {checks.short_repr(image)}')
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
        raise ArgumentError(f'{where} has no number under "{key}": {checks.short_repr(value)}')
    return float(value)


def clean(text: str) -> str:
    """Replace what a database or a page cannot hold: lone surrogates and the null character."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
