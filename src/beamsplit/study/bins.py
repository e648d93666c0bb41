"""Bins of items by a number that they have, such as the complexity of a picture."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["PAPER", "Bin", "Bins"]


_MAX_BINS = 20


@dataclass(frozen=True)
class Bin:
    """An interval from `low` to `high`. The flags say whether its ends belong to it."""

    low: float
    high: float
    with_low: bool = True
    with_high: bool = False

    def holds(self, value: float) -> bool:
        above = value >= self.low if self.with_low else value > self.low
        return above and (value <= self.high if self.with_high else value < self.high)

    @property
    def name(self) -> str:
        """The name of the bin in tables."""
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
    """How to bin items: as the paper does, into `count` bins of about equal size, or at given edges.

    The paper has three bins, with edges one standard deviation below and above the mean. Both edges belong
    to the outer bins.
    """

    count: int | None = None
    edges: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Bins:
        """Return the bins for "paper", a count, or edges separated by commas."""
        if text == "paper":
            return cls()
        count = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
        edges = _parse_edges(text) if count is None else ()
        if (count is None and not edges) or (count is not None and not 1 <= count <= _MAX_BINS):
            raise ArgumentError(
                f"bins is {checks.short_repr(text)}: give paper, a number from 1 to {_MAX_BINS}, "
                "or rising edges such as 2.5,3.5"
            )
        return cls(count, edges)

    def over(self, values: Sequence[float]) -> list[Bin]:
        """Return the bins for items with these numbers."""
        if not self.edges and self.count is None:
            return _paper_bins(values)
        edges = self.edges or _quantiles(values, self.count or 1)
        limits = [-math.inf, *edges, math.inf]
        return [Bin(low, high) for low, high in pairwise(limits)]


def _parse_edges(text: str) -> tuple[float, ...]:
    """Return the edges in a text, or nothing if they are not rising numbers."""
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError:
        return ()
    rising = all(low < high for low, high in pairwise(numbers))
    return numbers if rising and all(map(math.isfinite, numbers)) else ()


def _paper_bins(values: Sequence[float]) -> list[Bin]:
    low, high = np.mean(values) - np.std(values), np.mean(values) + np.std(values)
    if low == high:
        return [Bin(-math.inf, math.inf)]
    return [
        Bin(-math.inf, float(low), with_high=True),
        Bin(float(low), float(high), with_low=False),
        Bin(float(high), math.inf),
    ]


def _quantiles(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Return the inner quantiles, fewer where many items have the same number."""
    inner = [index / count for index in range(1, count)]
    edges = np.quantile(values, inner).tolist() if inner else []
    return tuple(dict.fromkeys(edge for edge in edges if edge > min(values)))


PAPER = Bins()
"""The three bins of the paper."""
