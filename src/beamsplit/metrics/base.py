"""The protocol of metrics: statistics for each input first, one score for the whole set after.

As in sacreBLEU, a metric has two parts. `statistics` reads the texts, which is slow, and returns a row of
numbers for each input. `score` turns the sum of some rows into a score, which is fast. So the score of a part
of the inputs, and the thousand scores of a bootstrap, cost next to nothing. Every score has a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

import beamsplit
from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = [
    "Example",
    "InParts",
    "Metric",
    "Score",
    "TextMetric",
    "check_name",
    "lists_of",
    "mean_of",
    "measure",
    "ratio",
    "resamples",
    "score_of",
    "signed",
]


@dataclass(frozen=True, slots=True)
class Example:
    """The hypotheses for one input, best first, and the references for it."""

    hypotheses: tuple[str, ...]
    references: tuple[str, ...] = ()
    log_probs: tuple[float, ...] = ()


class Metric(Protocol):
    """A measure of a set of lists."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str:
        """The metric's settings, as in sacreBLEU: `distinct|n:2|of:list|tok:words|version:0.1.0`."""
        ...

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        """Return a row for each example: [examples d], float64. Rows may be added up."""
        ...

    def score(self, total: Tensor) -> Tensor:
        """Turn sums of rows into scores: [... d] -> [...]."""
        ...


class TextMetric(Protocol):
    """A measure of one text against its references. `Oracle` takes the best of these."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return a score for each hypothesis of each example."""
        ...


@dataclass(frozen=True)
class InParts:
    """How to score examples a part at a time, in other processes too.

    A metric of texts may have a method `in_parts(examples)` that returns this.
    """

    scores: Callable[[Sequence[Example]], list[list[float]]]
    """What scores a part; it can be pickled."""
    examples: Sequence[Example]
    """What to take parts of, in the form that `scores` wants."""


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's value, with the signature and the statistics that comparisons need."""

    name: str
    value: float
    signature: str
    statistics: Tensor
    """[examples d]"""


def measure(metric: Metric, examples: Sequence[Example]) -> Score:
    """Return the score of a metric over all examples."""
    if not examples:
        raise ArgumentError(f"there are no examples to measure {metric.name} on: give one at least")
    return score_of(metric, metric.statistics(examples).double())


def score_of(metric: Metric, statistics: Tensor) -> Score:
    """Return the score of a metric, given the statistics of all examples [examples d]."""
    return Score(metric.name, float(metric.score(statistics.sum(0))), metric.signature, statistics)


def resamples(metric: Metric) -> bool:
    """Return whether a metric can be bootstrapped: whether rows may be drawn repeatedly and added up.

    That is so unless the metric has an attribute `resamples` that is false.
    """
    return bool(getattr(metric, "resamples", True))


def mean_of(values: Sequence[float]) -> Tensor:
    """Return the statistics of a mean: [examples 2], a value and a one each. Its score is their ratio."""
    column = torch.tensor(values, dtype=torch.double)
    return torch.stack([column, torch.ones_like(column)], 1)


def ratio(total: Tensor) -> Tensor:
    """Return means from sums of [value, count]. The count is 0 only if the value is 0 too."""
    return total[..., 0] / total[..., 1].clamp(min=1)


def signed(kind: str, **parts: object) -> str:
    """Return the signature of a metric of this kind with these settings.

    >>> signed("distinct", n=2).rpartition("|")[0]
    'distinct|n:2'
    """
    settings = [f"{key}:{value}" for key, value in parts.items()]
    return "|".join([kind, *settings, f"version:{beamsplit.__version__}"])


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def check_name(what: str, name: object) -> None:
    """Raise if this cannot stand for a function in a signature. A function cannot tell which one it is."""
    if not isinstance(name, str) or not name or "|" in name:
        raise ArgumentError(
            f"name must say in a few words, without a bar, what {what} is, not {checks.short_repr(name)}"
        )


def lists_of(metric: _Named, examples: Sequence[Example]) -> Iterator[tuple[str, ...]]:
    """Yield the texts of each example. Raise if one has none, by which nothing can be measured."""
    for row, example in enumerate(examples):
        if not example.hypotheses:
            raise ArgumentError(
                f"examples[{row}] has no hypotheses: {metric.name} needs one or more, so leave this input out"
            )
        yield example.hypotheses
