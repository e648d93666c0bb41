"""Read and write files: text, lines, JSON. Errors are one line that names the file."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = [
    "AnyPath",
    "check_extension",
    "json_object",
    "parse_json",
    "read_bytes",
    "read_json_lines",
    "read_json_objects",
    "read_lines",
    "read_text",
    "write_bytes",
]

AnyPath: TypeAlias = str | PathLike[str]

_GZIP = b"\x1f\x8b"


def check_extension(path: AnyPath, known: Iterable[str], hint: str = "") -> str:
    """Return the extension of a file's name, in lower case and without `.gz`; raise if it is not known.

    >>> check_extension("captions.JSONL.gz", [".jsonl", ".json"])
    '.jsonl'
    """
    name = Path(path).name.lower()
    found = Path(name.removesuffix(".gz")).suffix
    if found not in (known := tuple(known)):
        raise ArgumentError(f"{path}: unknown extension {found!r} (known: {', '.join(known)}{hint})")
    return found


# Reading


def read_bytes(path: AnyPath) -> bytes:
    """Return the content of a file, decompressed if it is gzipped."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {checks.reason(error)}") from error
    if data.startswith(_GZIP):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ArgumentError(f"{path} is a broken gzip file: {error} (fetch it again)") from error
    if str(path).lower().endswith(".gz"):
        raise ArgumentError(f"{path} is not gzipped, though its name says so: rename it or fetch it again")
    return data


def read_text(path: AnyPath) -> str:
    """Return the content of a UTF-8 file, without a byte order mark."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(f"{path}, line {line} is not UTF-8: convert the file (iconv -t utf-8)") from error


def read_lines(path: AnyPath) -> list[str]:
    """Return the lines of a text file, without their ends.

    `splitlines` would also split at characters inside a sentence (U+2028, U+0085).
    """
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def read_json_lines(path: AnyPath) -> Iterator[tuple[str, Any]]:
    """Yield the JSON value of each line that is not blank, after the place where it stands."""
    for number, line in enumerate(read_lines(path), start=1):
        if line and not line.isspace():
            where = f"{path}, line {number}"
            yield where, parse_json(line, where)


def read_json_objects(path: AnyPath, example: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON object of each line, after the place where it stands; raise if there is none.

    `example` is a line as it should be, for error messages.
    """
    empty = True
    for where, value in read_json_lines(path):
        empty = False
        yield where, _check_object(value, where, example)
    if empty:
        raise ArgumentError(f"{path} is empty: give lines of {example}")


def json_object(line: str, where: str, example: str) -> dict[str, Any]:
    """Return the object that a line of JSON holds; `where` and `example` are for error messages."""
    return _check_object(parse_json(line, where), where, example)


def _check_object(value: Any, where: str, example: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{where} is not a JSON object: give {example}")
    return value


def parse_json(source: str, where: str) -> Any:
    """Return the value of a JSON text; `where` is its place, for error messages."""
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if "\n" in source else f"column {error.colno}"
        raise ArgumentError(f"{where} is not JSON: {error.msg} at {place}") from error
    except (ValueError, RecursionError) as error:  # too many digits, too many brackets
        raise ArgumentError(f"{where} is JSON that cannot be read: {error}") from error


# Writing


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; folders that are missing are made."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror} (give another place)") from error
