"""Read files of inputs, line by line: texts or paths, or JSON objects that say more of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from beamsplit.errors import ArgumentError
from beamsplit.files import json_object

__all__ = ["Input", "InputKind", "InputLine", "check_same_inputs", "parse_lines"]

InputKind = Literal["texts", "pictures", "anything"]
"""What a model takes."""

_RESULTS = ("hypotheses", "error")  # keys of results, which inputs do not have


class Input(NamedTuple):
    """Something to decode."""

    shown: str
    """How people know it: a text, or the name of a picture's file."""
    value: Any
    """What the model takes."""


@dataclass(frozen=True)
class InputLine:
    """An input from a file, its number among all, and what its line says."""

    number: int
    about: dict[str, Any]
    """Its id, and all that its line says."""
    given: Input


@dataclass(frozen=True)
class _Parser:
    kind: InputKind
    folder: Path
    """The folder that paths of pictures begin from."""
    out: Path | None
    """The file of the result, from which paths of pictures are to be found too."""

    def parse_text(self, number: int, text: str) -> InputLine:
        key = "image" if self.kind == "pictures" else "input"
        return self._line(number, {key: text}, key)

    def parse_json(self, number: int, text: str, where: str) -> InputLine:
        entry = json_object(text, where, '{"input": ...}')
        only_image = "image" in entry and "input" not in entry
        key = "image" if self.kind == "pictures" or only_image else "input"
        self._check(entry, key, where)
        return self._line(number, entry, key)

    def _check(self, entry: dict[str, Any], key: str, where: str) -> None:
        if key not in entry:
            raise ArgumentError(f'{where} has nothing under "{key}": give {{"{key}": ...}}')
        if key == "image" and self.kind == "texts":
            raise ArgumentError(f'{where} has an "image", and the model reads texts: give --model captioner')
        if self.kind != "anything" and not isinstance(entry[key], str):
            raise ArgumentError(f'{where} has no text under "{key}": {json.dumps(entry[key]):.60}')

    def _line(self, number: int, entry: dict[str, Any], key: str) -> InputLine:
        shown, value = entry[key], entry[key]
        if key == "image":
            value = str(self.folder / shown)
            entry = {**entry, "image": self._path_for_result(shown, value)}
        about = {"id": str(entry.get("id", number)), **entry}
        about["id"] = str(about["id"])
        about = {key: value for key, value in about.items() if key not in _RESULTS}
        return InputLine(number, about, Input(str(shown), value))

    def _path_for_result(self, shown: str, path: str) -> str:
        if self.out is None or os.path.isabs(shown):
            return shown
        return os.path.relpath(path, self.out.parent)


def parse_lines(
    lines: Iterable[tuple[int, str]],
    name: str,
    kind: InputKind,
    *,
    is_json: bool | None = None,
    folder: Path = Path(),
    out: Path | None = None,
) -> Iterator[InputLine]:
    """Yield the inputs of numbered lines; by default, the first tells whether they are JSON.

    Paths of pictures begin from the `folder`, and in the result from the folder of `out`.
    """
    lines = iter(lines)
    first = list(islice(lines, 1))
    is_json = bool(first) and _is_json(first[0][1]) if is_json is None else is_json
    parser, seen = _Parser(kind, folder, out), set[str]()
    for number, (line_number, text) in enumerate(chain(first, lines)):
        where = f"{name}, line {line_number}"
        line = parser.parse_json(number, text, where) if is_json else parser.parse_text(number, text)
        if line.about["id"] in seen:
            raise ArgumentError(
                f"{where} has the id {line.about['id']!r}, which is there twice: give its own"
            )
        seen.add(line.about["id"])
        yield line


def _is_json(text: str) -> bool:
    try:
        entry = json.loads(text)
    except ValueError:
        return False
    return isinstance(entry, dict) and bool({"input", "image"} & set(entry))


def check_same_inputs(lines: Iterable[InputLine], written: Iterable[str], part: Path) -> int:
    """Raise if a result was begun with other inputs; return how many of its lines have an error."""
    refused = 0
    for line, entry in zip(lines, map(json.loads, written), strict=False):
        before = {key: value for key, value in entry.items() if key not in _RESULTS}
        if before != line.about:
            raise ArgumentError(
                f"{part} was begun with {json.dumps(before)[:60]} where the input now has "
                f"{json.dumps(line.about)[:60]}: give the same input, another --out, or --force"
            )
        refused += "error" in entry
    return refused
