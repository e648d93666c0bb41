"""Cut the inputs of a job into shards: runs of lines of one file, each of which has a file of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any

from beamsplit import checks
from beamsplit.batch.sources import Source, scan
from beamsplit.errors import ArgumentError
from beamsplit.progress import Progress

__all__ = ["LARGEST", "Plan", "Shard", "make_plan", "shard_size_of"]

LARGEST, _SMALLEST, _SHARDS = 4096, 64, 64
_STEP = 64  # lines between places that are known: every shard of the sizes chosen here begins at one


@dataclass(frozen=True)
class Shard:
    """Some lines of a file."""

    index: int
    source: Source
    first: int
    """The first of its lines in the file, from 0."""
    rows: int
    number: int
    """The number of the file's first line among all of the job."""
    place: tuple[int, int] | None = None
    """A line at or before the first, and the byte that it begins at; None if the file is read as a whole."""

    @property
    def name(self) -> str:
        """The name of its results, without an extension."""
        return f"part-{self.index:05}"


@dataclass(frozen=True)
class Plan:
    """All files of a job, in their order, and how many lines a shard has."""

    sources: tuple[Source, ...]
    shard_size: int

    @property
    def rows(self) -> int:
        """How many lines there are."""
        return sum(source.rows for source in self.sources)

    def shards(self) -> list[Shard]:
        """Return the shards, in the order of the lines. None has lines of two files."""
        numbers = accumulate((source.rows for source in self.sources), initial=0)
        found: list[Shard] = []
        for source, number in zip(self.sources, numbers, strict=False):
            alone = replace(source, offsets=())  # a worker needs one place, not all of them
            for first in range(0, source.rows, self.shard_size):
                rows = min(self.shard_size, source.rows - first)
                found.append(Shard(len(found), alone, first, rows, number, source.place(first)))
        return found

    @property
    def fingerprint(self) -> list[dict[str, Any]]:
        """What tells the inputs from others: of each file its name, rows and content."""
        return [
            {"file": each.name, "bytes": each.bytes, "rows": each.rows, "sha256": each.digest}
            for each in self.sources
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all of it, so that the files need not be looked at again."""
        return {"shard_size": self.shard_size, "sources": [asdict(each) for each in self.sources]}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Plan:
        """Return what was written."""
        sources = [Source(**{**each, "offsets": tuple(each["offsets"])}) for each in content["sources"]]
        return cls(tuple(sources), content["shard_size"])


def make_plan(files: Sequence[Source], shard_size: int | None, known: Plan | None = None) -> Plan:
    """Look at the files and cut their lines into shards.

    A file that an earlier run knew, and that was not written again since, is not looked at. That run's shards
    stay as they were, unless another size is given.
    """
    step = _STEP if shard_size is None else checks.at_least("shard_size", shard_size, 1)
    if known is not None and shard_size is None:
        step, shard_size = known.shard_size, known.shard_size
    before = {(each.url, each.bytes, each.version): each for each in (known.sources if known else ())}
    scanned = []
    with Progress("look at the inputs").bar(sum(each.bytes for each in files), brief=True) as bar:
        for file in files:
            found = before.get((file.url, file.bytes, file.version))
            scanned.append(found or scan(file, step))
            bar.advance(file.bytes)
    rows = sum(each.rows for each in scanned)
    if not rows:
        raise ArgumentError("there is nothing to decode: the input is empty")
    size = shard_size_of(rows) if shard_size is None else shard_size
    return Plan(tuple(_thinned(scanned, size)), size)


def shard_size_of(rows: int) -> int:
    """Return how many lines a shard has where nobody says.

    It depends on nothing but the number of lines, so that the same inputs have the same shards on every
    machine: some 64 of them, each of 64 to 4,096 lines.

    >>> [shard_size_of(rows) for rows in (10, 5_000, 100_000, 10**8)]
    [64, 64, 1024, 4096]
    """
    wanted = max(_SMALLEST, min(LARGEST, rows // _SHARDS))
    return int(1 << wanted.bit_length() - 1)


def _thinned(sources: Iterable[Source], size: int) -> list[Source]:
    """Keep only the places that shards begin at."""
    found = []
    for source in sources:
        if source.offsets and source.step and size % source.step == 0:
            every = size // source.step
            source = replace(source, step=size, offsets=source.offsets[::every])
        found.append(source)
    return found
