"""What a metric is: numbers for each input first, one number for the whole set after.

As in sacreBLEU, a metric is split in two: `statistics` looks at texts, which is slow, and gives a row of
numbers for each input; `score` turns the sum of some rows into a figure, which is fast. So a figure for a
part of the inputs, and the thousand figures of a bootstrap, cost nothing more. Every figure is signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError

__all__ = ["Example", "Metric", "Score", "TextMetric", "mean_of", "measure", "resamples"]


@dataclass(frozen=True, slots=True)
class Example:
    """One input's list: what was said, best first, and what people said."""

    hypotheses: tuple[str, ...]
    references: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()


class Metric(Protocol):
    """A figure for a set of lists."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str:
        """How it is measured, in the manner of sacreBLEU: `distinct|n:2|of:list|tok:words|version:0.1.0`."""
        ...

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        """[examples d], float64; rows may be added up."""
        ...

    def score(self, total: Tensor) -> Tensor:
        """From sums of rows [... d] to figures [...]."""
        ...


class TextMetric(Protocol):
    """A figure for one text beside its references: what `Oracle` takes the best of."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        """One for each hypothesis of each example."""
        ...


@dataclass(frozen=True, slots=True)
class Score:
    """A figure, with what it takes to compare it and to read it years later."""

    name: str
    value: float
    signature: str
    statistics: Tensor
    """[examples d]"""


def measure(metric: Metric, examples: Sequence[Example]) -> Score:
    """The figure of a metric for all examples."""
    if not examples:
        raise ArgumentError(f"there is no {metric.name} of no examples")
    statistics = metric.statistics(examples).double()
    return Score(metric.name, float(metric.score(statistics.sum(0))), metric.signature, statistics)


def resamples(metric: Metric) -> bool:
    """Whether the rows of some inputs, each any number of times, say something about those inputs.

    They do, unless the metric has a `resamples` of its own that says no.
    """
    return bool(getattr(metric, "resamples", True))


def mean_of(values: Sequence[float]) -> Tensor:
    """The statistics of a mean: [examples 2], a value and a one each; its score is the ratio of the sums."""
    column = torch.tensor(values, dtype=torch.double)
    return torch.stack([column, torch.ones_like(column)], 1)
