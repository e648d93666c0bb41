"""From a path to text, lines or JSON: what is wrong with a file is said in one line that names it."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from beamsplit import extras
from beamsplit.checks import shown
from beamsplit.errors import ArgumentError

__all__ = [
    "AnyPath",
    "content",
    "data_folder",
    "extension",
    "field",
    "json_lines",
    "lines",
    "listed",
    "names",
    "need",
    "parsed",
    "text",
    "texts",
]

AnyPath: TypeAlias = str | PathLike[str]

_GZIP = b"\x1f\x8b"


def data_folder(given: AnyPath | None = None) -> Path:
    """Where the data is: the folder given, else what the environment variable BEAMSPLIT_DATA says."""
    told = given or os.environ.get("BEAMSPLIT_DATA")
    if not told:
        raise ArgumentError("no data folder: give one as an option, or set BEAMSPLIT_DATA to it")
    folder = Path(told).expanduser()
    if not folder.is_dir():
        name = "the data folder" if given else "BEAMSPLIT_DATA"
        raise ArgumentError(f"{name} is {str(told)!r}, which is no folder: give one that exists")
    return folder


def need(module: str) -> Any:
    """A module that not everyone has installed."""
    return extras.need(module, "beamsplit.data")


def extension(path: AnyPath, known: Iterable[str], hint: str = "") -> str:
    """How the name ends, `.gz` aside.

    >>> extension("captions.JSONL.gz", [".jsonl", ".json"])
    '.jsonl'
    """
    name = Path(path).name.lower()
    found = Path(name.removesuffix(".gz")).suffix
    if found not in (known := tuple(known)):
        raise ArgumentError(f"{path}: unknown extension {found!r} (known: {', '.join(known)}{hint})")
    return found


def content(path: AnyPath) -> bytes:
    """All of a file, unpacked if it is gzipped."""
    data = _bytes(path)
    if data.startswith(_GZIP):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ArgumentError(f"{path}: broken gzip ({error}): fetch the file again") from error
    if str(path).lower().endswith(".gz"):
        raise ArgumentError(f"{path}: not gzipped, though its name says so: rename it or fetch it again")
    return data


def _bytes(path: AnyPath) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise ArgumentError(f"{path}: no such file, check the path") from error
    except IsADirectoryError as error:
        raise ArgumentError(f"{path}: a folder, give a file in it") from error
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read ({error.strerror})") from error


def text(path: AnyPath) -> str:
    """All of a file as text, a byte order mark left out."""
    data = content(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(f"{path}, line {line}: not UTF-8, convert the file (iconv -t utf-8)") from error


def lines(path: AnyPath) -> list[str]:
    """The lines of a text file, without their ends.

    Not `splitlines`, which takes characters inside a sentence (U+2028, U+0085) for ends of lines.
    """
    found = text(path).replace("\r\n", "\n").split("\n")
    return found if found[-1] else found[:-1]


def parsed(source: str, where: str) -> Any:
    """JSON as Python values."""
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if "\n" in source else f"column {error.colno}"
        raise ArgumentError(f"{where}: not JSON ({error.msg} at {place})") from error
    except (ValueError, RecursionError) as error:  # endless digits, endless brackets
        raise ArgumentError(f"{where}: not JSON that can be read ({error})") from error


def json_lines(path: AnyPath) -> Iterator[tuple[str, Any]]:
    """One JSON value a line, each with the place it stands at; empty lines are passed over."""
    for number, line in enumerate(lines(path), start=1):
        if line and not line.isspace():
            where = f"{path}, line {number}"
            yield where, parsed(line, where)


def field(row: Any, key: str, where: str) -> Any:
    """What an object has under a key."""
    if not isinstance(row, dict):
        raise ArgumentError(f"{where}: must be an object with {key!r}, not {shown(row)}")
    if key not in row:
        raise ArgumentError(f"{where}: no {key!r} (it has: {names(row)})")
    return row[key]


def names(found: Iterable[str]) -> str:
    """What there is instead of what was looked for: on one line, and not too long."""
    line = " ".join(", ".join(found).split()) or "nothing"
    return line if len(line) <= 100 else line[:97] + "..."


def listed(value: Any, key: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ArgumentError(f"{where}: {key} must be a list, not {shown(value)}")
    return value


def texts(values: Any, key: str, where: str) -> tuple[str, ...]:
    """Strings without the white space around them, and without those that are nothing else."""
    try:
        return tuple(filter(None, map(str.strip, listed(values, key, where))))
    except TypeError as error:
        odd = next(value for value in values if not isinstance(value, str))
        raise ArgumentError(f"{where}: {key} must be text, not {shown(odd)}") from error
