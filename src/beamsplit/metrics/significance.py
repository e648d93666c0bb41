"""How sure a figure is, and whether one is larger than another: the bootstrap over inputs.

Inputs are drawn again, with replacement, as many as there are, and the figure is taken anew. That is a
product of counts and statistics, for many draws at once; no text is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Metric, Score, resamples

__all__ = ["Comparison", "Interval", "compare", "interval"]

_AT_ONCE = 2**22  # counts held at once: 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the figure lies in all but a few draws."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the second has over the first."""

    difference: float
    low: float
    high: float
    p: float


def interval(
    score: Score, metric: Metric, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """The percentile bootstrap interval of a figure. Of a single input it has no width."""
    _check_metric(score, metric)
    rows = score.statistics
    return _middle(torch.cat([metric.score(some @ rows) for some in _counts(len(rows), draws, seed)]), level)


def compare(
    first: Score, second: Score, metric: Metric, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Comparison:
    """How much larger the second figure is, its interval, and how often chance alone would do as much.

    The paired bootstrap (Koehn 2004): each draw takes the same inputs for both. `p` is sacreBLEU's, which
    counts draws whose difference, without its sign, is above the mean draw's by more than the difference that
    was found. Here "by as much" counts too, so that a set beside itself has p = 1, not the least there is.
    Such a p is about half of a two-sided test's; whether the interval leaves out 0 is a two-sided test.
    """
    _check_pair(first, second)
    _check_metric(first, metric)
    before, after = first.statistics, second.statistics
    differences = torch.cat(
        [
            metric.score(some @ after) - metric.score(some @ before)
            for some in _counts(len(before), draws, seed)
        ]
    )
    found = second.value - first.value
    middle = _middle(differences, level)
    return Comparison(found, middle.low, middle.high, _p(differences, found))


def _counts(examples: int, draws: int, seed: int) -> Iterator[Tensor]:
    """How often each draw has each example, a number of draws at a time: [some examples]."""
    checks.at_least("draws", draws, 1)
    generator = torch.Generator().manual_seed(checks.at_least("seed", seed, 0))
    most = max(1, _AT_ONCE // examples)
    for start in range(0, draws, most):
        some = min(most, draws - start)
        drawn = torch.randint(examples, (some, examples), generator=generator)
        places = drawn + examples * torch.arange(some).unsqueeze(1)
        yield places.flatten().bincount(minlength=some * examples).view(some, examples).double()


def _middle(figures: Tensor, level: float) -> Interval:
    tail = (1 - checks.fraction("level", level)) / 2
    low, high = figures.quantile(torch.tensor([tail, 1 - tail], dtype=torch.double)).tolist()
    return Interval(low, high)


def _p(differences: Tensor, found: float) -> float:
    """(c + 1) / (draws + 1), c the draws that stray from their mean by the difference found or more."""
    sizes = differences.abs()
    by_chance = int((sizes - sizes.mean() >= abs(found)).sum())
    return (by_chance + 1) / (len(sizes) + 1)


def _check_pair(first: Score, second: Score) -> None:
    if first.signature != second.signature:
        raise ArgumentError(
            f"the first is {first.signature} and the second {second.signature}: measure both the same way"
        )
    if len(first.statistics) != len(second.statistics):
        raise ArgumentError(
            f"the first has {len(first.statistics)} examples and the second {len(second.statistics)}: "
            "a pair needs the same inputs in the same order"
        )


def _check_metric(score: Score, metric: Metric) -> None:
    if score.signature != metric.signature:
        raise ArgumentError(
            f"the score is {score.signature} and the metric {metric.signature}: give the one it is of"
        )
    if not resamples(metric):
        raise ArgumentError(
            f"{metric.name} has no bootstrap: inputs that are drawn twice bring nothing new; "
            "take a metric that is a mean over inputs"
        )
