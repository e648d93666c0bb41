"""Decode the lines of a file, a batch at a time, and hand on the results of every batch when it is done.

Lines are taken in windows of some batches, within which texts of like length go into one batch. The batches
depend on the lines of their window alone. A run that goes on where an earlier one was stopped makes the same
batches, so its results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from beamsplit.errors import ArgumentError
from beamsplit.jobs.batches import by_length, chunks
from beamsplit.jobs.fitting import halve_until_it_fits
from beamsplit.jobs.lines import InputLine

if TYPE_CHECKING:
    from beamsplit.hypotheses import Hypotheses
    from beamsplit.jobs.footprint import Footprint
    from beamsplit.jobs.searching import Searcher

__all__ = ["WINDOW", "KnownLine", "LineResult", "ListCounts", "Windows", "decode_windows", "shard_range"]

WINDOW = 16
"""Batches to a window."""

_LARGEST_UNIT = 1024  # lines: a window of batches of 64


class KnownLine(NamedTuple):
    """A line, and whether an earlier run has its result."""

    line: InputLine
    done: bool = False
    refused: bool = False
    """Whether that result is an error."""
    result: dict[str, Any] | None = None
    """That result, if there is one."""


class LineResult(NamedTuple):
    """What is written for a line."""

    number: int
    result: dict[str, Any]
    blank: bool = False
    """Whether the line is blank, so that its list is empty."""

    @property
    def refused(self) -> bool:
        """Whether it is an error."""
        return "error" in self.result


@dataclass
class ListCounts:
    """How many lists there are, and how many of them fall short of what was asked."""

    asked: int
    """How many outputs are asked for of each list."""
    lists: int = 0
    short: int = 0
    """How many of them have fewer outputs."""
    repetitive: int = 0
    """How many of them have two outputs that read the same."""

    def add(self, result: Mapping[str, Any]) -> None:
        """Count the list of a line that is not blank; an error has none."""
        found = result.get("hypotheses")
        if found is None:
            return
        self.lists += 1
        self.short += len(found) < self.asked
        self.repetitive += len({_content(each) for each in found}) < len(found)

    def __str__(self) -> str:
        """Say what falls short, in a line for people; nothing if nothing does."""
        counts = {
            f"fewer outputs than the {self.asked} asked for": self.short,
            "outputs that read the same": self.repetitive,
        }
        parts = [f"{count} {_have(count)} {what}" for what, count in counts.items() if count]
        return f"of {self.lists} {_lists(self.lists)}, {' and '.join(parts)}" if parts else ""


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _lists(count: int) -> str:
    return "list" if count == 1 else "lists"


def _content(hypothesis: Mapping[str, Any]) -> object:
    return tuple(hypothesis["tokens"]) if hypothesis["text"] is None else hypothesis["text"]


class Windows:
    """Lines in windows of some size, without those at the beginning that are done."""

    def __init__(self, lines: Iterable[KnownLine], size: int) -> None:
        self.lines = 0
        """How many lines were read."""
        self.done = 0
        """How many of them an earlier run has done."""
        self.refused = 0
        """How many of those have an error."""
        windows = chunks(self._counted(lines), size)
        first = next((window for window in windows if not all(each.done for each in window)), None)
        self._rest = windows if first is None else chain([first], windows)

    def __iter__(self) -> Iterator[list[KnownLine]]:
        return self._rest

    def _counted(self, lines: Iterable[KnownLine]) -> Iterator[KnownLine]:
        for each in lines:
            self.lines += 1
            self.done += each.done
            self.refused += each.refused
            yield each


def decode_windows(
    searcher: Searcher,
    windows: Iterable[Sequence[KnownLine]],
    batch_size: int,
    footprint: Footprint | None = None,
) -> Iterator[list[LineResult]]:
    """Yield the results of the lines that are not done, a batch at a time.

    They are in the order of the batches, not of the lines: a line's number tells where it belongs. A batch
    has no more inputs than fit, if a footprint says how much memory there is.
    """
    for window in windows:
        if found := _without_search(each for each in window if not each.line.given.decodable):
            yield found
        rest = [each for each in window if each.line.given.decodable]
        values = [each.line.given.value for each in rest]
        order = by_length(values)
        cut = chunks(order, batch_size) if footprint is None else footprint.cut(order, values, batch_size)
        for places in cut:
            batch = [rest[place] for place in places]
            if not all(each.done for each in batch):
                yield _with_search(searcher, batch)


def _with_search(searcher: Searcher, batch: Sequence[KnownLine]) -> list[LineResult]:
    """Decode a batch; also lines that are done, without which the others' last bits might differ."""

    def search(lines: Sequence[InputLine]) -> list[list[Hypotheses] | ArgumentError]:
        return searcher.search([line.given for line in lines], [line.number for line in lines], len(lines))

    lists = halve_until_it_fits(search, [each.line for each in batch], _too_large)
    found = zip(batch, lists, strict=True)
    return [
        LineResult(known.line.number, _result(known.line, each)) for known, each in found if not known.done
    ]


def _too_large(_line: InputLine, error: BaseException) -> list[Hypotheses] | ArgumentError:
    reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
    return ArgumentError(f"does not fit into memory, even alone: {reason}")


def _without_search(lines: Iterable[KnownLine]) -> list[LineResult]:
    """Return the results of lines that no model needs to see."""
    found = ((each.line, each.line.given.fault) for each in lines if not each.done)
    return [
        LineResult(line.number, _result(line, ArgumentError(fault) if fault else []), line.given.blank)
        for line, fault in found
    ]


def _result(line: InputLine, found: Any) -> dict[str, Any]:
    if isinstance(found, ArgumentError):
        return {**line.about, "error": str(found)}
    hypotheses = found[0] if found else []  # a blank line has none
    return {**line.about, "hypotheses": [asdict(hypothesis) for hypothesis in hypotheses]}


def shard_range(shard: int, shards: int, lines: int) -> range:
    """Return the lines of one of several parts of a file; shards count from 1.

    >>> [shard_range(shard, 3, 10) for shard in (1, 2, 3)]
    [range(0, 3), range(3, 6), range(6, 10)]

    They depend on nothing else, such as the batch size: machines that share a file may have others. Parts of
    a long file begin at multiples of a power of two, at which windows of batches of 1, 2, 4, ... begin too:
    such batches are those of the whole file.

    >>> [shard_range(shard, 2, 100) for shard in (1, 2)]
    [range(0, 48), range(48, 100)]
    """
    unit = min(_LARGEST_UNIT, 1 << max(0, (lines // (4 * shards)).bit_length() - 1))
    units = -(-lines // unit)
    first, last = (min(units * each // shards * unit, lines) for each in (shard - 1, shard))
    return range(first, last)
