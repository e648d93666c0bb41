"""Files of inputs: which there are, what is in them, and how they are read from the middle.

A file is looked at once before anything is decoded. Of a file of lines, all bytes are read, so that its
lines are counted, places in it are known, and it can be told from another of the same name. Of a Parquet
file only the footer is read.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

import numpy as np

from beamsplit import extras
from beamsplit.batch.storage import filesystem_of, is_remote, local_path
from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.files import TextLine, stream_lines
from beamsplit.jobs.lines import JSON_NAMES, RESULT_KEYS

__all__ = ["Source", "expand", "find", "open_parquet", "read_lines", "read_table", "scan"]

Kind = Literal["json", "parquet", "text"]

_BLOCK = 1 << 20
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # how files begin that gzip and zstd have compressed
_GLOBS = frozenset("*?[")
_PARQUET = (".parquet", ".pq")
_HIDDEN = ("_", ".")
_EXTENSIONS = (*JSON_NAMES, *_PARQUET, ".txt", ".txt.gz", ".txt.zst")


@dataclass(frozen=True)
class Source:
    """A file of inputs. Until it is scanned, nobody knows its rows."""

    url: str
    kind: Kind
    bytes: int
    version: str
    """Changes when the file is written again: what its place says of it, such as a date."""
    rows: int = 0
    digest: str = ""
    """Of all its bytes; of a Parquet file, of its footer."""
    step: int = 0
    """Every so many lines, a place in the file is known."""
    offsets: tuple[int, ...] = ()
    """Those places, in bytes; none in a compressed file, which is read from its beginning."""

    def place(self, line: int) -> tuple[int, int] | None:
        """Return the last known place up to a line: the line there, and its first byte."""
        if not self.offsets:
            return None
        known = min(line // self.step, len(self.offsets) - 1)
        return known * self.step, self.offsets[known]

    @property
    def name(self) -> str:
        """The name of the file for people."""
        return self.url

    @property
    def folder(self) -> Path:
        """Where paths in it begin from."""
        return Path(self.url).parent


# Which files there are


def expand(patterns: Iterable[str]) -> list[Source]:
    """Return the files that paths, URLs, globs and folders stand for, in this order; none of them twice.

    What a glob or a folder stands for is sorted by name. Files whose names begin with _ or . are left out
    there, as other programs leave them out.
    """
    found = [each for pattern in patterns for each in find(pattern)]
    seen: set[str] = set()
    for source in found:
        if source.url in seen:
            raise ArgumentError(f"{source.name} is given twice: give it once")
        seen.add(source.url)
    return found


def find(pattern: str) -> list[Source]:
    """Return the files that a path, a URL, a glob or a folder stands for."""
    filesystem, path = filesystem_of(pattern if is_remote(pattern) else local_path(pattern))
    with _readable(pattern):
        if filesystem.isfile(path):
            return [_source(filesystem, path, pattern)]
        if filesystem.isdir(path):
            inside = [each for each in filesystem.ls(path, detail=False) if str(each).endswith(_EXTENSIONS)]
            return _sources(
                filesystem, inside, pattern, "in that folder with a name that ends in .jsonl, .parquet, .txt"
            )
        if not _is_glob(path):
            raise ArgumentError(f"there is no file {pattern}")
        return _sources(filesystem, filesystem.glob(path), pattern, "that matches")


def _sources(filesystem: Any, paths: Iterable[str], pattern: str, which: str) -> list[Source]:
    paths = sorted(path for path in paths if not PurePosixPath(path).name.startswith(_HIDDEN))
    found = [_source(filesystem, path, pattern) for path in paths if filesystem.isfile(path)]
    if not found:
        raise ArgumentError(f"there is no file for {pattern}: none {which}")
    return found


def _source(filesystem: Any, path: str, pattern: str) -> Source:
    url = filesystem.unstrip_protocol(path) if is_remote(pattern) else path
    about = filesystem.info(path)
    version = str(about.get("mtime") or about.get("ETag") or about.get("etag") or filesystem.ukey(path))
    return Source(url, _kind_of(path), int(about["size"]), version)


def _kind_of(path: str) -> Kind:
    name = path.lower()
    if name.endswith(_PARQUET):
        return "parquet"
    return "json" if name.endswith(JSON_NAMES) else "text"


def _is_glob(path: str) -> bool:
    return bool(_GLOBS & set(path))


# What is in them


def scan(source: Source, step: int) -> Source:
    """Return what there is to know of a file before its inputs are read."""
    with _readable(source.name):
        if source.kind == "parquet":
            return _scan_table(source)
        with _opened(source) as file:
            begin = file.read(len(_PACKED[1]))
        return _scan_packed(source) if begin.startswith(_PACKED) else _scan_lines(source, step)


def _scan_table(source: Source) -> Source:
    with open_parquet(source) as table, _opened(source) as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        digest = hashlib.sha256(file.read(length)).hexdigest()
        return replace(source, rows=table.metadata.num_rows, digest=digest)


def _scan_packed(source: Source) -> Source:
    digest = hashlib.sha256()
    with _opened(source) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    with _opened(source) as file:
        rows = sum(1 for _ in stream_lines(file, source.name))
    return replace(source, rows=rows, digest=digest.hexdigest())


def _scan_lines(source: Source, step: int) -> Source:
    digest, offsets, rows, at, ended = hashlib.sha256(), [0], 0, 0, True
    with _opened(source) as file:
        first = file.read(_BLOCK)
        next(iter(stream_lines(io.BytesIO(first), source.name)), None)  # raises if it is no text
        block = first
        while block:
            digest.update(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            # Line n begins after the n-th end; every step-th is kept.
            chosen = ends[step - 1 - rows % step :: step]
            offsets += (at + 1 + chosen).tolist()
            rows, at, ended = rows + len(ends), at + len(block), block.endswith(b"\n")
            block = file.read(_BLOCK)
    rows += not ended
    if len(offsets) > 1 and offsets[-1] == at:
        offsets.pop()  # after the last line nothing begins
    return replace(source, rows=rows, digest=digest.hexdigest(), step=step, offsets=tuple(offsets))


# Reading


def read_lines(source: Source, first: int, count: int, place: tuple[int, int] | None) -> Iterator[TextLine]:
    """Yield so many lines from one on, which count from 0; read from a known place on, if there is one."""
    with _readable(source.name), _opened(source, _BLOCK) as file:
        line, byte = place or (0, 0)
        file.seek(byte)
        yield from islice(stream_lines(file, source.name, line + 1), first - line, first - line + count)


def read_table(source: Source, first: int, count: int) -> Any:
    """Return so many rows of a Parquet file as an Arrow table, without the columns of earlier results."""
    arrow = extras.need("pyarrow", "a Parquet file", "ray")
    with _readable(source.name), open_parquet(source) as table:
        columns = [name for name in table.schema_arrow.names if name not in RESULT_KEYS]
        schema = arrow.schema([table.schema_arrow.field(name) for name in columns])
        groups, before = _row_groups(table.metadata, first, count)
        batches, skipped, wanted = [], first - before, count
        for batch in table.iter_batches(batch_size=min(count, 1 << 14), row_groups=groups, columns=columns):
            taken = batch.slice(skipped, wanted)
            skipped -= min(skipped, batch.num_rows)
            wanted -= taken.num_rows
            batches.append(taken)
            if not wanted:
                break
        return arrow.Table.from_batches(batches, schema)


def _row_groups(metadata: Any, first: int, count: int) -> tuple[list[int], int]:
    """Return the row groups that have these rows, and how many rows come before the first of them."""
    groups: list[int] = []
    before = begin = 0
    for index in range(metadata.num_row_groups):
        end = begin + metadata.row_group(index).num_rows
        if end > first and begin < first + count:
            before = begin if not groups else before
            groups.append(index)
        begin = end
    return groups, before


@contextmanager
def open_parquet(source: Source) -> Iterator[Any]:
    """Open a Parquet file for the length of a block."""
    parquet = extras.need("pyarrow.parquet", "a Parquet file", "ray")
    arrow = extras.need("pyarrow", "a Parquet file", "ray")
    with _opened(source, _BLOCK) as file:
        try:
            table = parquet.ParquetFile(file)
        except arrow.ArrowInvalid as error:
            raise ArgumentError(f"{source.name} is no Parquet file: {_one_line(error)}") from error
        yield table


@contextmanager
def _opened(source: Source, block: int | None = None) -> Iterator[IO[bytes]]:
    """Open a file for the length of a block.

    Of a store, at least so many bytes are fetched at once. What suits a whole file, such as the 50 MiB of
    s3fs, is a hundred times what a shard in the middle of a file has.
    """
    if not is_remote(source.url):
        with Path(source.url).open("rb") as file:
            yield file
        return
    filesystem, path = filesystem_of(source.url)
    with filesystem.open(path, "rb", block_size=block) as file:
        yield file


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ArgumentError(f"there is no file {name}") from error
    except OSError as error:
        raise ArgumentError(f"{name} cannot be read: {error.strerror or _one_line(error)}") from error
    except (BeamsplitError, ImportError):
        raise
    except Exception as error:
        if not is_remote(name):
            raise
        raise ArgumentError(f"{name} cannot be read: {_one_line(error)}") from error  # each store has its own


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
