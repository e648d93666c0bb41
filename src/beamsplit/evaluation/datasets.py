"""Read the data sets of the tasks that have names: sentences with translations, pictures with texts.

Each is a file of JSON lines in the data folder. Text stays as it is, but for white space around it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamsplit.checks import is_whole, number, short_repr
from beamsplit.errors import ArgumentError
from beamsplit.files import AnyPath, read_json_lines

__all__ = [
    "Described",
    "Pair",
    "check_list",
    "data_folder",
    "field_of",
    "join_names",
    "picture_id",
    "read_described_lines",
    "read_pair_lines",
    "stripped_texts",
]


def data_folder(given: AnyPath | None = None) -> Path:
    """Return the data folder: the one given, else the environment variable BEAMSPLIT_DATA."""
    chosen = given or os.environ.get("BEAMSPLIT_DATA")
    if not chosen:
        raise ArgumentError("no data folder: give one (--data), or set BEAMSPLIT_DATA to it")
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        name = "the data folder" if given else "BEAMSPLIT_DATA"
        raise ArgumentError(f"{name} is {str(chosen)!r}, which is no folder: give one that exists")
    return folder


# Sentences


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence and its translations."""

    source: str
    targets: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether neither side is blank."""
        return bool(self.source and self.targets)


def read_pair_lines(path: AnyPath, source: str = "en", target: str = "fr") -> list[Pair]:
    """Return the pairs of lines such as {"en": "Go!", "fr": ["Va !"]}; incomplete ones are left out."""
    pairs = [pair for pair in _pairs(path, source, target) if pair.is_complete]
    if not pairs:
        raise ArgumentError(f"{path}: no sentence with a translation in it")
    return pairs


def _pairs(path: AnyPath, source: str, target: str) -> Iterator[Pair]:
    for where, row in read_json_lines(path):
        sentence, translations = field_of(row, source, where), field_of(row, target, where)
        if not isinstance(sentence, str):
            raise ArgumentError(f"{where}: {source} must be a string, not {short_repr(sentence)}")
        several = [translations] if isinstance(translations, str) else translations
        yield Pair(sentence.strip(), stripped_texts(several, target, where))


# Pictures


@dataclass(frozen=True, slots=True)
class Described:
    """A picture's id and its captions or questions."""

    image: str
    texts: tuple[str, ...]
    difficulty: float | None = None
    """How hard people found it to search the picture, where the file has it."""

    @property
    def is_complete(self) -> bool:
        """Return whether the picture has a text or a difficulty."""
        return bool(self.texts) or self.difficulty is not None


def read_described_lines(path: AnyPath) -> list[Described]:
    """Return the pictures of lines such as {"image": 9, "captions": ["A cat."], "difficulty": 3.1}.

    Questions are under "questions". The difficulty is optional. Pictures with neither a text nor a difficulty
    are left out.
    """
    pictures = [picture for picture in _described(path) if picture.is_complete]
    if not pictures:
        raise ArgumentError(f"{path}: no picture with a text in it")
    return pictures


def _described(path: AnyPath) -> Iterator[Described]:
    for where, row in read_json_lines(path):
        image = picture_id(field_of(row, "image", where), "image", where)
        difficulty = row.get("difficulty")
        if difficulty is not None:
            difficulty = number(f"{where}: difficulty", difficulty)
        yield Described(image, _texts(row, where, required=difficulty is None), difficulty)


def _texts(row: dict[str, Any], where: str, *, required: bool) -> tuple[str, ...]:
    for key in ("captions", "questions"):
        if key in row:
            return stripped_texts(row[key], key, where)
    if required:
        raise ArgumentError(f"{where}: no 'captions' or 'questions' (it has: {join_names(row)})")
    return ()


def picture_id(value: Any, key: str, where: str) -> str:
    """Return a picture's id as a string: some files have numbers, some names."""
    if is_whole(value):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{where}: {key} must be a number or a name, not {short_repr(value)}")
    return value.strip()


# Parts of a row


def field_of(row: Any, key: str, where: str) -> Any:
    """Return the value that a JSON object has under a key."""
    if not isinstance(row, dict):
        raise ArgumentError(f"{where}: must be an object with {key!r}, not {short_repr(row)}")
    if key not in row:
        raise ArgumentError(f"{where}: no {key!r} (it has: {join_names(row)})")
    return row[key]


def join_names(names: Iterable[str]) -> str:
    """Return names for an error message, on one line and not too long."""
    line = " ".join(", ".join(names).split()) or "nothing"
    return line if len(line) <= 100 else line[:97] + "..."


def check_list(value: Any, key: str, where: str) -> list[Any]:
    """Return the value; raise if it is not a list."""
    if not isinstance(value, list):
        raise ArgumentError(f"{where}: {key} must be a list, not {short_repr(value)}")
    return value


def stripped_texts(values: Any, key: str, where: str) -> tuple[str, ...]:
    """Return the strings of a list without white space around them; blank ones are left out."""
    try:
        return tuple(filter(None, map(str.strip, check_list(values, key, where))))
    except TypeError as error:
        odd = next(value for value in values if not isinstance(value, str))
        raise ArgumentError(f"{where}: {key} must be text, not {short_repr(odd)}") from error
