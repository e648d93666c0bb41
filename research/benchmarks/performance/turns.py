"""Let contestants take turns, within a limit of time, and sum up what each needed.

A go of a contestant is a whole generation. It is timed with all its tokens and with one token; the difference
is what the further steps took, and the second is what the prompt took.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Clock", "Contestant", "Go", "measure", "measure_whole", "ratio", "spread"]

SLOW = 4.0
"""A contestant whose go takes so many seconds gets two turns, since more would cost what others need."""


@dataclass(frozen=True, slots=True)
class Go:
    """One generation."""

    seconds: float
    mib: float | None = None
    """Memory beyond the weights; None where it cannot be told."""


class Contestant(Protocol):
    """Whoever generates so many tokens, as often as is asked."""

    warm_tokens: int | None
    """Tokens of the first go, which does not count: all if None, as is needed where a length is prepared."""

    def go(self, tokens: int) -> Go: ...


class Clock:
    """The time that a part may take."""

    def __init__(self, limit: float) -> None:
        self._end = time.monotonic() + limit

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    @property
    def is_out(self) -> bool:
        return self.left <= 0


@dataclass(slots=True)
class _Taken:
    warm_up: float
    mib: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)

    def keep(self, go: Go, into: list[float]) -> None:
        into.append(go.seconds)
        if go.mib is not None:
            self.mib.append(go.mib)

    def wants(self, turn: int) -> bool:
        return turn < 2 or self.whole[0] < SLOW

    def figures(self, tokens: int) -> dict[str, Any]:
        steps = [
            (whole - first) / max(1, tokens - 1) for whole, first in zip(self.whole, self.first, strict=True)
        ]
        return {
            "turns": len(self.whole),
            "ms_per_step": spread([1e3 * each for each in steps]),
            "end_to_end_ms": spread([1e3 * each for each in self.whole]),
            "first_token_ms": spread([1e3 * each for each in self.first]),
            "mib": round(max(self.mib), 1) if self.mib else None,
            "warm_up_s": round(self.warm_up, 3),
            "all_end_to_end_ms": [round(1e3 * each, 4) for each in self.whole],
            "all_first_token_ms": [round(1e3 * each, 4) for each in self.first],
        }


def measure(
    contestants: Mapping[str, Contestant],
    tokens: int,
    turns: int,
    clock: Clock,
    note: Callable[[dict[str, dict[str, Any]]], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Return the figures of each contestant, by name, or the line that says why it has none.

    Each has a first go that does not count. Then they take turns, until there were enough or the time is out.
    What slows one contestant of a turn, on a machine that others use too, slows its neighbours.

    `note` is given the figures so far, after every turn: a run may be cut off before the last.
    """
    found: dict[str, dict[str, Any]] = {}
    taken: dict[str, _Taken] = {}
    for name, contestant in contestants.items():
        if clock.is_out:
            found[name] = {"error": "the time was out"}
            continue
        answer = _warmed_up(contestant, tokens)
        if isinstance(answer, str):
            found[name] = {"error": answer}
        else:
            taken[name] = answer
    for turn in range(turns):
        for name in [name for name in taken if taken[name].wants(turn) and not (turn and clock.is_out)]:
            if error := _take_turn(contestants[name], tokens, taken[name]):
                found[name] = {"error": error}
                del taken[name]
        so_far = found | {name: each.figures(tokens) for name, each in taken.items()}
        note({name: so_far[name] for name in contestants})
    found |= {name: each.figures(tokens) for name, each in taken.items()}
    return {name: found[name] for name in contestants}


def measure_whole(
    runs: Mapping[str, Callable[[], object]], turns: int, clock: Clock
) -> dict[str, dict[str, Any]]:
    """Return the seconds of each run, taken in turns after a first one that does not count.

    There are two turns at least, so that figures have a spread; more only while there is time.
    """
    taken: dict[str, list[float]] = {name: [] for name in runs}
    errors: dict[str, str] = {}
    for turn in range(turns + 1):
        if turn > 2 and clock.is_out:
            break
        for name in [name for name in runs if name not in errors]:
            begin = time.perf_counter()
            try:
                runs[name]()
            except Exception as error:
                errors[name] = _line(error)
            taken[name].append(time.perf_counter() - begin)
    return {name: {"error": errors[name]} if name in errors else _whole(taken[name]) for name in runs}


def _whole(seconds: Sequence[float]) -> dict[str, Any]:
    return {
        "turns": len(seconds) - 1,
        "seconds": spread(seconds[1:]),
        "warm_up_s": round(seconds[0], 3),
        "all_seconds": [float(f"{each:.5g}") for each in seconds[1:]],
    }


def ratio(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """Return the spread of first over second, turn by turn.

    >>> ratio([2.0, 3.0, 6.0], [1.0, 1.0, 2.0])
    {'median': 3.0, 'low': 2.5, 'high': 3.0}
    """
    return spread([one / other for one, other in zip(first, second, strict=False)])


def _warmed_up(contestant: Contestant, tokens: int) -> _Taken | str:
    try:
        go = contestant.go(contestant.warm_tokens or tokens)
        if contestant.warm_tokens is None:
            contestant.go(1)
    except Exception as error:  # whatever a contestant raises is its result
        return _line(error)
    return _Taken(go.seconds, [] if go.mib is None else [go.mib])


def _take_turn(contestant: Contestant, tokens: int, taken: _Taken) -> str | None:
    try:
        whole, first = contestant.go(tokens), contestant.go(1)
    except Exception as error:
        return _line(error)
    taken.keep(whole, taken.whole)
    taken.keep(first, taken.first)
    return None


def _line(error: Exception) -> str:
    said = str(error).splitlines()
    return f"{type(error).__name__}: {said[0] if said else ''}"[:200]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
    {'median': 3.0, 'low': 2.0, 'high': 4.0}
    """
    low, high = values[0], values[0]
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {
        name: float(f"{value:.5g}")
        for name, value in (("median", statistics.median(values)), ("low", low), ("high", high))
    }
