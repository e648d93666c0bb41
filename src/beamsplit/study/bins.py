"""Parts of a study by a number that items have, such as the complexity of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from beamsplit.errors import ArgumentError

__all__ = ["PAPER", "Bin", "Bins"]


_MOST = 20


@dataclass(frozen=True)
class Bin:
    """Numbers from `low` to `high`; whether these themselves belong to it is said apart."""

    low: float
    high: float
    with_low: bool = True
    with_high: bool = False

    def holds(self, value: float) -> bool:
        above = value >= self.low if self.with_low else value > self.low
        return above and (value <= self.high if self.with_high else value < self.high)

    @property
    def name(self) -> str:
        """As a table says it."""
        if self.low == -math.inf and self.high == math.inf:
            return "all"
        if self.low == -math.inf:
            return f"{'≤' if self.with_high else '<'} {self.high:.3g}"
        if self.high == math.inf:
            return f"{'≥' if self.with_low else '>'} {self.low:.3g}"
        brackets = "[" if self.with_low else "(", "]" if self.with_high else ")"
        return f"{brackets[0]}{self.low:.3g}, {self.high:.3g}{brackets[1]}"


@dataclass(frozen=True)
class Bins:
    """How to divide: as the paper does, into so many of about as many items each, or at these edges.

    The paper's three bins end one standard deviation below and above the mean; both edges belong to the
    outer bins.
    """

    count: int | None = None
    edges: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Bins:
        """From "paper", a count or edges with commas between."""
        if text == "paper":
            return cls()
        count = int(text) if text.isascii() and text.isdigit() else None
        edges = _edges(text) if count is None else ()
        if (count is None and not edges) or (count is not None and not 1 <= count <= _MOST):
            raise ArgumentError(
                f"bins is {text!r}: give paper, a number from 1 to {_MOST}, or rising edges such as 2.5,3.5"
            )
        return cls(count, edges)

    def over(self, values: Sequence[float]) -> list[Bin]:
        """The bins of a study whose items have these numbers."""
        if not self.edges and self.count is None:
            return _paper(values)
        edges = self.edges or _quantiles(values, self.count or 1)
        limits = [-math.inf, *edges, math.inf]
        return [Bin(low, high) for low, high in pairwise(limits)]


def _edges(text: str) -> tuple[float, ...]:
    """None where the text has none that rise."""
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError:
        return ()
    rising = all(low < high for low, high in pairwise(numbers))
    return numbers if rising and all(map(math.isfinite, numbers)) else ()


def _paper(values: Sequence[float]) -> list[Bin]:
    low, high = np.mean(values) - np.std(values), np.mean(values) + np.std(values)
    if low == high:
        return [Bin(-math.inf, math.inf)]
    return [
        Bin(-math.inf, float(low), with_high=True),
        Bin(float(low), float(high), with_low=False),
        Bin(float(high), math.inf),
    ]


def _quantiles(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Fewer where many items have the same number."""
    inner = [place / count for place in range(1, count)]
    edges = np.quantile(values, inner).tolist() if inner else []
    return tuple(dict.fromkeys(edge for edge in edges if edge > min(values)))


PAPER = Bins()
"""Three bins."""
