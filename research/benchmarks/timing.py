"""Take times that can be compared: contestants take turns, and the median of their ratios counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Times", "take_turns"]


@dataclass(frozen=True)
class Times:
    """Seconds of one contestant, a value a turn."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def ratio_to(self, other: Times) -> tuple[float, float, float]:
        """Return the median, first and third quartile of this over other, turn by turn."""
        ratios = [mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        return statistics.median(ratios), low, high


def take_turns(contestants: Mapping[str, Callable[[], object]], turns: int) -> dict[str, Times]:
    """Time each contestant once a turn, after one turn that does not count.

    On a machine that others use too, what slows one contestant of a turn slows its neighbours.
    """
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            if turn:
                taken[name].append(time.perf_counter() - begin)
    return {name: Times(tuple(seconds)) for name, seconds in taken.items()}
