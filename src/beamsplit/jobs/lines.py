"""Files of inputs, line by line: texts or paths, or JSON objects that say more of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from beamsplit.cli.inputs import STDIN, Input, numbered
from beamsplit.errors import ArgumentError
from beamsplit.files import json_object

__all__ = ["Kind", "Line", "check_same", "read"]

Kind = Literal["texts", "pictures", "anything"]
"""What a model takes."""

_OURS = ("hypotheses", "error")  # what results have, and inputs have not


@dataclass(frozen=True)
class Line:
    """An input, its place among all, and what is known of it."""

    number: int
    about: dict[str, Any]
    """Its id, and all that its line says."""
    given: Input


@dataclass(frozen=True)
class _File:
    name: str
    kind: Kind
    out: Path | None
    """Where the result goes, from where paths of pictures are to be found too."""

    @property
    def folder(self) -> Path:
        return Path() if self.name == STDIN else Path(self.name).parent

    def read_text(self, number: int, text: str) -> Line:
        key = "image" if self.kind == "pictures" else "input"
        return self._line(number, {key: text}, key)

    def read_json(self, number: int, text: str, where: str) -> Line:
        entry = json_object(text, where, '{"input": ...}')
        only_image = "image" in entry and "input" not in entry
        known = "image" if self.kind == "pictures" or only_image else "input"
        self._check(entry, known, where)
        return self._line(number, entry, known)

    def _check(self, entry: dict[str, Any], key: str, where: str) -> None:
        if key not in entry:
            raise ArgumentError(f'{where} has nothing under "{key}": give {{"{key}": ...}}')
        if key == "image" and self.kind == "texts":
            raise ArgumentError(f'{where} has an "image", and the model reads texts: give --model captioner')
        if self.kind != "anything" and not isinstance(entry[key], str):
            raise ArgumentError(f'{where} has no text under "{key}": {json.dumps(entry[key]):.60}')

    def _line(self, number: int, entry: dict[str, Any], key: str) -> Line:
        shown, value = entry[key], entry[key]
        if key == "image":
            value = str(self.folder / shown)
            entry = {**entry, "image": self._path_for_result(shown, value)}
        about = {"id": str(entry.get("id", number)), **entry}
        about["id"] = str(about["id"])
        return Line(number, {k: v for k, v in about.items() if k not in _OURS}, Input(str(shown), value))

    def _path_for_result(self, shown: str, path: str) -> str:
        if self.out is None or os.path.isabs(shown):
            return shown
        return os.path.relpath(path, self.out.parent)


def read(name: str, kind: Kind, out: Path | None = None) -> Iterator[Line]:
    """The inputs in a file, or on standard input; JSON in a .jsonl, and where standard input begins so."""
    file, source = _File(name, kind, out), numbered(name)
    first = list(islice(source, 1))
    is_json = name.endswith(".jsonl") or (name == STDIN and bool(first) and _is_json(first[0][1]))
    shown = "standard input" if name == STDIN else name
    seen: set[str] = set()
    for place, (number, text) in enumerate(chain(first, source)):
        where = f"{shown}, line {number}"
        line = file.read_json(place, text, where) if is_json else file.read_text(place, text)
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


def check_same(lines: Iterable[Line], written: Iterable[str], part: Path) -> int:
    """Whether these lines are what a result was begun with; how many of them have an error in it."""
    refused = 0
    for line, entry in zip(lines, map(json.loads, written), strict=False):
        before = {key: value for key, value in entry.items() if key not in _OURS}
        if before != line.about:
            raise ArgumentError(
                f"{part} was begun with {json.dumps(before)[:60]} where the input now has "
                f"{json.dumps(line.about)[:60]}: give the same input, another --out, or --force"
            )
        refused += "error" in entry
    return refused
