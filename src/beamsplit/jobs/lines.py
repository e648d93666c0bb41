"""Read files of inputs, line by line: texts or paths, or JSON objects that say more of each.

Every line is an input, and its index among all lines is its number. A blank line has nothing to decode. A
line that cannot be read has a fault, and the lines after it are read all the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from beamsplit.errors import ArgumentError
from beamsplit.files import TextLine, id_of, json_object
from beamsplit.messages import check_conversation

__all__ = [
    "JSON_NAMES",
    "RESULT_KEYS",
    "Input",
    "InputKind",
    "InputLine",
    "check_readable",
    "parse_entries",
    "parse_lines",
    "refuse_unreadable",
]

InputKind = Literal["texts", "pictures", "anything"]
"""What a model takes."""

RESULT_KEYS = ("hypotheses", "error")
"""Keys of results, which inputs do not have."""

JSON_NAMES = tuple(f"{name}{zipped}" for name in (".jsonl", ".ndjson") for zipped in ("", ".gz", ".zst"))
"""Ends of the names of files whose lines are JSON objects."""


class Input(NamedTuple):
    """Something to decode."""

    shown: str
    """How people know it: a text, or the name of a picture's file."""
    value: Any
    """What the model takes."""
    fault: str = ""
    """Why it cannot be decoded, if that is known before the model sees it."""
    blank: bool = False
    """Whether it is a blank line, where there is nothing to decode."""

    @property
    def decodable(self) -> bool:
        """Whether it is something for the model."""
        return not (self.fault or self.blank)


@dataclass(frozen=True)
class InputLine:
    """An input from a file, its number among all, and what its line says."""

    number: int
    about: dict[str, Any]
    """Its id, and all that its line says."""
    given: Input


@dataclass(frozen=True)
class _Parser:
    name: str
    """The name of the file, for error messages."""
    kind: InputKind
    is_json: bool
    folder: Path
    """The folder that paths of pictures begin from."""
    out: Path | None
    """The file of the result, from which paths of pictures are to be found too."""
    chat: bool
    """Whether inputs are for a chat model, and may be messages."""
    first: int = 0
    """The number of the file's first line among all lines of the job."""
    column: str | None = None
    """The key of the input, if it has another name than usual."""
    seen: set[str] | None = field(default_factory=set)
    """The ids of a JSON file so far, without those of blank lines. Other files have numbers for ids.

    None: ids are not compared.
    """

    def parse(self, line: TextLine) -> InputLine:
        """Return the input of a line: blank if the line is, with a fault if it cannot be read."""
        number, where = self.first + line.number - 1, f"{self.name}, line {line.number}"
        about, fault = {"id": str(number)}, f"{where} {line.fault}" if line.fault else ""
        if not self.is_json:
            about[self._key] = line.text
        elif line.text and not fault:
            about, fault = self._read_json(line.text, number, where)
            fault = fault or self._notice_id(about["id"], where)
        if fault or not line.text:
            return InputLine(number, about, Input(line.text, None, fault=fault, blank=not line.text))
        return self._usable(number, about)

    def parse_entry(self, row: int, entry: dict[str, Any]) -> InputLine:
        """Return the input of a row of a table: blank if it has none, with a fault if it cannot be used."""
        number = self.first + row
        key = self._key_of(entry)
        value = entry.get(key)
        if key in entry and value is None:
            about, _ = self._about({**entry, key: ""}, number, "")
            return InputLine(number, {**about, key: None}, Input("", None, blank=True))
        about, fault = self._about(entry, number, f"{self.name}, row {row + 1}")
        if fault:
            return InputLine(number, about, Input(str(value), None, fault=fault))
        return self._usable(number, about)

    @property
    def _key(self) -> str:
        return "image" if self.kind == "pictures" else "input"

    def _read_json(self, text: str, number: int, where: str) -> tuple[dict[str, Any], str]:
        """Return what a line says, and what is wrong with it."""
        try:
            entry = json_object(text, where, '{"input": ...}')
        except ArgumentError as error:
            return {"id": str(number)}, str(error)
        return self._about(entry, number, where)

    def _about(self, entry: dict[str, Any], number: int, where: str) -> tuple[dict[str, Any], str]:
        """Return what is kept of an entry, and what is wrong with it."""
        said = {name: value for name, value in entry.items() if name not in ("id", *RESULT_KEYS)}
        about = {"id": id_of(entry, number), **said}
        return about, self._fault(about, where)

    def _fault(self, about: dict[str, Any], where: str) -> str:
        key = self._key_of(about)
        if key not in about:
            return f'{where} has nothing under "{key}": give {{"{key}": ...}}'
        role = self._role(key, about[key])
        if role == "messages":
            return self._fault_of_messages(about[key], where)
        if role == "image" and self.kind == "texts":
            return f'{where} has an "image", and the model reads texts: give a model of pictures (captioner)'
        if (role == "image" or self.kind != "anything") and not isinstance(about[key], str):
            return f'{where} has no text under "{key}": {json.dumps(about[key], default=str):.60}'
        return ""

    def _fault_of_messages(self, messages: Any, where: str) -> str:
        if not self.chat:
            return f'{where} has "messages", which are for a chat: ask for one (--chat), or give an "input"'
        try:
            check_conversation(messages, f'{where}, "messages"')
        except ArgumentError as error:
            return str(error)
        return ""

    def _key_of(self, about: dict[str, Any]) -> str:
        """Return the key of the input in what a line says."""
        if self.column is not None:
            return self.column
        if self.chat and "messages" in about:
            return "messages"
        if "input" in about:
            return self._key
        return next((key for key in ("image", "messages") if key in about), self._key)

    def _role(self, key: str, value: Any) -> str:
        """Return what stands under a key: an "input", an "image" or "messages"."""
        if key != self.column:
            return key
        if self.kind == "pictures":
            return "image"
        return "messages" if self.chat and not isinstance(value, str) else "input"

    def _notice_id(self, identity: str, where: str) -> str:
        """Return what is wrong with an id: an earlier line may have it."""
        if self.seen is None:
            return ""
        if identity in self.seen:
            return f"{where} has the id {identity!r}, which is there twice: give its own"
        self.seen.add(identity)
        return ""

    def _usable(self, number: int, about: dict[str, Any]) -> InputLine:
        shown = value = about[key := self._key_of(about)]
        role = self._role(key, value)
        if role == "image":
            value = str(self.folder / shown)
            about = {**about, key: self._path_for_result(shown, value)}
        if role == "messages":
            shown = value[-1].get("content")
        return InputLine(number, about, Input(str(shown), value))

    def _path_for_result(self, shown: str, path: str) -> str:
        if self.out is None or os.path.isabs(shown):
            return shown
        return os.path.relpath(path, self.out.parent)


def parse_lines(
    lines: Iterable[TextLine],
    name: str,
    kind: InputKind,
    *,
    is_json: bool | None = None,
    folder: Path = Path(),
    out: Path | None = None,
    chat: bool = False,
    first: int = 0,
    column: str | None = None,
    compare_ids: bool = True,
) -> Iterator[InputLine]:
    """Yield the input of each line; by default, the first that is not blank tells whether they are JSON.

    Paths of pictures begin from the `folder`, and in the result from the folder of `out`. For a `chat`, JSON
    may have "messages". `first` is the number of the file's first line among all of the job, `column` the key
    of the input in JSON. An id that is there twice is a fault, unless ids are not compared.
    """
    lines = iter(lines)
    if is_json is None:
        begin = _up_to_text(lines)
        is_json, lines = bool(begin) and _is_json(begin[-1].text), chain(begin, lines)
    seen: set[str] | None = set() if compare_ids else None
    parser = _Parser(name, kind, is_json, folder, out, chat, first, column if is_json else None, seen)
    return map(parser.parse, lines)


def parse_entries(
    entries: Iterable[tuple[int, dict[str, Any]]],
    name: str,
    kind: InputKind,
    *,
    folder: Path = Path(),
    out: Path | None = None,
    chat: bool = False,
    first: int = 0,
    column: str | None = None,
) -> Iterator[InputLine]:
    """Yield the input of each row of a table, which is given with its place in the file."""
    parser = _Parser(name, kind, True, folder, out, chat, first, column, None)
    return (parser.parse_entry(row, entry) for row, entry in entries)


def check_readable(inputs: Iterator[InputLine], count: int) -> Iterator[InputLine]:
    """Return the same inputs. Raise if there are none, or if none of the first can be read: a wrong file."""
    first = list(islice(inputs, count))
    if len(first) < count and all(line.given.blank for line in first):
        raise ArgumentError("there is nothing to decode: the input is empty")
    refuse_unreadable(first)
    return chain(first, inputs)


def refuse_unreadable(lines: Iterable[InputLine]) -> None:
    """Raise the first fault if all lines have one, those that are blank aside."""
    given = [line.given for line in lines if not line.given.blank]
    if given and all(each.fault for each in given):
        raise ArgumentError(given[0].fault)


def _up_to_text(lines: Iterator[TextLine]) -> list[TextLine]:
    """Take the blank lines at the beginning and the first that is not blank."""
    taken = []
    for line in lines:
        taken.append(line)
        if line.text:
            break
    return taken


def _is_json(text: str) -> bool:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and bool({"input", "image", "messages"} & set(entry))
