"""Bootstrap intervals and comparisons of scores, over inputs.

A draw takes as many inputs as there are, with replacement, and the score is computed anew. That is a product
of counts and statistics, for many draws at once; no text is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Metric, Score, resamples

__all__ = ["Comparison", "Interval", "compare", "comparison_of", "drawn_scores", "interval", "interval_of"]

_AT_ONCE = 2**22  # counts held at once: 32 MB
_KEPT = 2**24  # counts kept for the next score: 128 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval that a score lies in, in all but a few draws."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second score minus the first, its interval, and its p-value."""

    difference: float
    low: float
    high: float
    p: float


def interval(
    score: Score, metric: Metric, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the percentile bootstrap interval of a score. For a single input it has no width."""
    return interval_of(drawn_scores(score, metric, draws, seed), level)


def compare(
    first: Score, second: Score, metric: Metric, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Comparison:
    """Compare two scores by the paired bootstrap (Koehn 2004): each draw takes the same inputs for both.

    `p` is computed as in sacreBLEU, which counts the draws whose absolute difference exceeds the mean draw's
    by more than the difference that was found. Here "by as much" counts too, so that a set compared
    with itself has p = 1 and not the least possible. This p is about half of a two-sided test's. For a
    two-sided test, look whether the interval contains 0.
    """
    _check_pair(first, second)
    _check_metric(first, metric)
    before, after = (drawn_scores(each, metric, draws, seed) for each in (first, second))
    return comparison_of(first, second, before, after, level)


def drawn_scores(score: Score, metric: Metric, draws: int, seed: int = 0) -> Tensor:
    """Return the score of each draw: [draws]. An interval and several comparisons can be made of it."""
    _check_metric(score, metric)
    rows = score.statistics
    return torch.cat([metric.score(some @ rows) for some in _kept_counts(len(rows), draws, seed)])


def interval_of(drawn: Tensor, level: float = 0.95) -> Interval:
    """Return the interval of a score, given the scores of draws."""
    return _middle(drawn, level)


def comparison_of(
    first: Score, second: Score, before: Tensor, after: Tensor, level: float = 0.95
) -> Comparison:
    """Compare two scores, given those of draws of the same inputs."""
    _check_pair(first, second)
    differences = after - before
    found = second.value - first.value
    middle = _middle(differences, level)
    return Comparison(found, middle.low, middle.high, _p(differences, found))


def _kept_counts(examples: int, draws: int, seed: int) -> Iterable[Tensor]:
    """Return `_counts`, which are the same for all metrics and methods, and kept unless they are too many."""
    return (
        _counts(examples, draws, seed) if examples * draws > _KEPT else _known_counts(examples, draws, seed)
    )


@lru_cache(2)
def _known_counts(examples: int, draws: int, seed: int) -> list[Tensor]:
    return list(_counts(examples, draws, seed))


def _counts(examples: int, draws: int, seed: int) -> Iterator[Tensor]:
    """Yield how often each draw has each example, for some draws at a time: [some examples]."""
    checks.at_least("draws", draws, 1)
    generator = torch.Generator().manual_seed(checks.at_least("seed", seed, 0))
    most = max(1, _AT_ONCE // examples)
    for start in range(0, draws, most):
        some = min(most, draws - start)
        drawn = torch.randint(examples, (some, examples), generator=generator)
        cells = drawn + examples * torch.arange(some).unsqueeze(1)
        yield cells.flatten().bincount(minlength=some * examples).view(some, examples).double()


def _middle(scores: Tensor, level: float) -> Interval:
    tail = (1 - checks.fraction("level", level)) / 2
    low, high = scores.quantile(torch.tensor([tail, 1 - tail], dtype=torch.double)).tolist()
    return Interval(low, high)


def _p(differences: Tensor, found: float) -> float:
    """Return (c + 1) / (draws + 1); c counts the draws above their mean by at least the difference found."""
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
            "measure both on the same inputs, in the same order"
        )


def _check_metric(score: Score, metric: Metric) -> None:
    if score.signature != metric.signature:
        raise ArgumentError(
            f"the score is {score.signature} and the metric {metric.signature}: "
            "give the metric that measured it"
        )
    if not resamples(metric):
        raise ArgumentError(
            f"{metric.name} is counted over all inputs together, so a bootstrap over inputs does not fit it: "
            "take a metric that is a mean over inputs"
        )
