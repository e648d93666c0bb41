"""Read and write files: text, lines, JSON. Errors are one line that names the file."""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = [
    "LINE_LIMIT",
    "UNPACKED_LIMIT",
    "AnyPath",
    "Place",
    "TextLine",
    "check_extension",
    "id_of",
    "json_object",
    "parse_json",
    "read_bytes",
    "read_json_lines",
    "read_json_objects",
    "read_lines",
    "read_text",
    "stream_lines",
    "write_bytes",
]

AnyPath: TypeAlias = str | PathLike[str]

UNPACKED_LIMIT = 2_000_000_000
"""The most bytes that a compressed file may unpack to where it is read as a whole: a few kilobytes can hold
more than any memory."""

LINE_LIMIT = 64_000_000
"""The most bytes of a line, where lines are read one at a time."""

_PART = 1 << 16  # bytes that are taken at a time of what is not kept

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PICTURE = "a picture, not lines of text: write its path on a line of a text file"

# The first bytes of files that are no text, and what to do about them.
_BINARY = {
    b"PK\x03\x04": "a zip archive, not lines of text: unpack it first (unzip)",
    b"BZh91AY&SY": "compressed by bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ\0": "compressed by xz: unpack it first (unxz)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive, not lines of text: unpack it first (7z x)",
    b"%PDF-": "a PDF, not lines of text: convert it first (pdftotext)",
    b"\x89PNG\r\n": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"GIF87a": _PICTURE,
    b"GIF89a": _PICTURE,
    b"PAR1": "a Parquet file, not lines of text: write its texts to a file of lines first",
    b"\xff\xfe": "UTF-16 text, not UTF-8: convert it first (iconv -f utf-16 -t utf-8)",
    b"\xfe\xff": "UTF-16 text, not UTF-8: convert it first (iconv -f utf-16 -t utf-8)",
}


class Place(str):
    """Where a line stands, as people read it."""

    line_index: int
    """The line's index in the file, from 0."""

    @classmethod
    def of(cls, path: AnyPath, number: int) -> Place:
        """Return the place of a line by its number, from 1."""
        place = cls(f"{path}, line {number}")
        place.line_index = number - 1
        return place


class TextLine(NamedTuple):
    """A line of a file of text."""

    number: int
    """Its number, from 1."""
    text: str
    """Its text, without space at the ends; U+FFFD stands for what is not UTF-8."""
    fault: str = ""
    """Why it cannot be read, if so."""


def check_extension(path: AnyPath, known: Iterable[str], hint: str = "") -> str:
    """Return the extension of a file's name, in lower case; raise if it is not known.

    That a file is compressed (`.gz`, `.zst`) does not matter.

    >>> check_extension("captions.JSONL.gz", [".jsonl", ".json"])
    '.jsonl'
    """
    name = Path(path).name.lower()
    found = Path(name.removesuffix(".gz").removesuffix(".zst")).suffix
    if found not in (known := tuple(known)):
        raise ArgumentError(f"{path}: unknown extension {found!r} (known: {', '.join(known)}{hint})")
    return found


# Reading


def read_bytes(path: AnyPath) -> bytes:
    """Return the content of a file, decompressed if gzip or zstd has compressed it.

    Raise if it unpacks to more than `UNPACKED_LIMIT`.
    """
    with _opened(path) as stream:
        unpacked = _decompressed(stream, str(path))
        if unpacked is stream:
            return stream.read()
        content = unpacked.read(UNPACKED_LIMIT + 1)
    if len(content) > UNPACKED_LIMIT:
        raise ArgumentError(
            f"{path} unpacks to more than {UNPACKED_LIMIT:,} bytes, the most that is read at once: "
            "unpack it yourself if it is meant to be so large"
        )
    return content


def stream_lines(source: AnyPath | IO[bytes], name: str, first: int = 1) -> Iterator[TextLine]:
    """Yield the lines of a file or stream, compressed or not, without holding more than one of them.

    A line that is not UTF-8 has a fault, and so has one of more than `LINE_LIMIT` bytes. Raise if the whole
    is no text; `name` is for error messages. `first` is the number of the first line, where a stream begins
    in the middle of a file.
    """
    with _opened(source, name) as stream:
        text = _decompressed(stream, name) if first == 1 else stream
        if first == 1:
            _check_text(text.peek(1), name)
        number = first - 1
        while line := text.readline(LINE_LIMIT + 1):
            number += 1
            is_whole = len(line) <= LINE_LIMIT or line.endswith(b"\n")
            yield _text_line(number, line) if is_whole else _long_line(number, line, text)


def _long_line(number: int, begin: bytes, text: io.BufferedReader) -> TextLine:
    """Return the beginning of a line that is too long, and pass over the rest of it."""
    part = begin
    while part and not part.endswith(b"\n"):
        part = text.readline(_PART)
    fault = f"has more than {LINE_LIMIT:,} bytes: end each input with a line break"
    return TextLine(number, f"{_text_line(number, begin[:80]).text}...", fault)


@contextmanager
def _opened(source: AnyPath | IO[bytes], name: str | None = None) -> Iterator[io.BufferedReader]:
    """Open a file to be read once; what is wrong with it while it is read is raised as one line."""
    name = name or str(source)
    try:
        if isinstance(source, str | PathLike):
            with Path(source).open("rb") as file:
                if str(source).lower().endswith(".gz") and not file.peek(1).startswith(_GZIP):
                    raise ArgumentError(
                        f"{name} is not gzipped, though its name says so: rename it or fetch it again"
                    )
                yield file
        else:
            raw: Any = source
            yield raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArgumentError(f"{name} is a broken gzip file: {error} (fetch it again)") from error
    except OSError as error:
        raise ArgumentError(f"{name} cannot be read: {checks.reason(error)}") from error


def _decompressed(stream: io.BufferedReader, name: str) -> io.BufferedReader:
    """Return what a stream holds, whether it is compressed or not: its first bytes tell."""
    begin = stream.peek(1)
    if begin.startswith(_GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    if begin.startswith(_ZSTD):
        return io.BufferedReader(_ZstdStream(stream, name))
    return stream


# zstd writes up to 128 KiB of equal bytes in four, so this many unpack to 32 MiB at most.
_ZSTD_PIECE = 1024


class _ZstdStream(io.RawIOBase):
    """What a stream of zstd frames holds, a little at a time."""

    def __init__(self, source: io.BufferedReader, name: str) -> None:
        self._source = source
        self._name = name
        self._new_frame = _zstd_decompressor(name)
        self._frame: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._unpack_more():
            pass
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _unpack_more(self) -> bool:
        """Unpack the next bytes. Return False if there are none."""
        packed = self._packed or self._source.read1(_ZSTD_PIECE)
        if not packed and self._frame is not None:
            raise self._broken("it ends in the middle")
        if not packed:
            return False
        self._frame = self._frame or self._new_frame()
        try:
            self._ready, self._packed = memoryview(self._frame.decompress(packed)), b""
        except Exception as error:  # a class of whichever package unpacks
            raise self._broken(" ".join(str(error).split())) from error
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None
        return True

    def _broken(self, why: str) -> ArgumentError:
        return ArgumentError(f"{self._name} is a broken zstd file: {why} (fetch it again)")


def _zstd_decompressor(name: str) -> Any:
    """Return what makes a decompressor of one zstd frame: Python's own from 3.14 on, or zstandard's."""
    try:
        return importlib.import_module("compression.zstd").ZstdDecompressor
    except ImportError:
        pass
    try:
        return importlib.import_module("zstandard").ZstdDecompressor().decompressobj
    except ImportError as error:
        raise ArgumentError(
            f"{name} is compressed by zstd, which needs a package: pip install zstandard, "
            "or unpack it first (unzstd)"
        ) from error


def _check_text(begin: bytes, name: str) -> None:
    """Raise if the first bytes are not those of UTF-8 text."""
    for magic, what in _BINARY.items():
        if begin.startswith(magic):
            raise ArgumentError(f"{name} is {what}")
    if (zeros := begin.count(0)) and (zeros > len(begin) // 10 or not _is_utf8(begin)):
        raise ArgumentError(f"{name} is binary (it has zero bytes), not lines of text: give a text file")


def _is_utf8(begin: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)  # which may end within a letter
    except UnicodeDecodeError:
        return False
    return True


def _text_line(number: int, line: bytes) -> TextLine:
    """Read a line; a byte order mark before the first is passed over."""
    coding = "utf-8-sig" if number == 1 else "utf-8"
    try:
        return TextLine(number, line.decode(coding).strip())
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} is 0x{error.object[error.start]:02x}"
        fault = f"is not UTF-8 ({bad}): convert the file (iconv -f latin1 -t utf-8)"
        return TextLine(number, line.decode(coding, "replace").strip(), fault)


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


def read_json_lines(path: AnyPath) -> Iterator[tuple[Place, Any]]:
    """Yield the JSON value of each line that is not blank, after the place where it stands."""
    for number, line in enumerate(read_lines(path), start=1):
        if line and not line.isspace():
            where = Place.of(path, number)
            yield where, parse_json(line, where)


def read_json_objects(path: AnyPath, example: str) -> Iterator[tuple[Place, dict[str, Any]]]:
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


def id_of(entry: Mapping[str, Any], line_index: int) -> str:
    """Return the id that a line has, or else its index.

    >>> id_of({"id": 17}, 3), id_of({"id": None}, 3), id_of({}, 3)
    ('17', '3', '3')
    """
    found = entry.get("id")
    return str(line_index if found is None else found)


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
    """Write a file whole or not at all; folders that are missing are made.

    It is written under a name that nobody can guess, in a file that is made for it: in a folder of many
    people, a link that somebody else has put there is not followed.
    """
    temporary = path.with_name(f".beamsplit-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            try:
                file.write(content)
                file.close()
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror} (give another place)") from error
