"""Oracle metrics: the score of the best text of a list, chosen with knowledge of the references.

`Oracle` takes the best of the first k, as the paper does. `Top1` takes the first. `ExpectedBest` does not
depend on the order of the list. `mbr_order` orders a list without references.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Example, Score, TextMetric, mean_of, measure

__all__ = ["ExpectedBest", "Oracle", "Precomputed", "Top1", "mbr_order", "oracles"]


@dataclass(frozen=True)
class _BestOf:
    """The mean over examples of a best score of `k`. A list that is shorter counts as it is."""

    metric: TextMetric
    k: int

    def __post_init__(self) -> None:
        checks.at_least("k", self.k, 1)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        """Return [examples 3]: the best score, a one, and a one if the list is shorter than k."""
        return _statistics(self.metric, self.k, examples, self._best)

    def score(self, total: Tensor) -> Tensor:
        return total[..., 0] / total[..., 1]

    def short(self, total: Tensor) -> Tensor:
        """Return the number of lists that are shorter than k, from sums of rows: [... 3] -> [...]."""
        return total[..., 2]

    def _best(self, scores: list[float]) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Oracle(_BestOf):
    """The mean over examples of the best score among the first `k` of the list.

    A list that is shorter counts with its best; `short` tells how many of these there are.
    """

    @property
    def name(self) -> str:
        return f"oracle_{self.metric.name}@{self.k}"

    @property
    def signature(self) -> str:
        return f"oracle|k:{self.k}|{self.metric.signature}"

    def _best(self, scores: list[float]) -> float:
        return max(scores[: self.k])


@dataclass(frozen=True)
class Top1:
    """The mean score of the first text of each list: `Oracle` with k = 1."""

    metric: TextMetric

    @property
    def name(self) -> str:
        return f"top1_{self.metric.name}"

    @property
    def signature(self) -> str:
        return Oracle(self.metric, 1).signature

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return Oracle(self.metric, 1).statistics(examples)

    def score(self, total: Tensor) -> Tensor:
        return Oracle(self.metric, 1).score(total)


@dataclass(frozen=True)
class ExpectedBest(_BestOf):
    """The mean over examples of the expected best score of `k` texts drawn from the list at random.

    They are drawn without replacement: with k = 1 it is the mean of the list, with all of it the best.
    """

    @property
    def name(self) -> str:
        return f"expected_best_{self.metric.name}@{self.k}"

    @property
    def signature(self) -> str:
        return f"expected-best|k:{self.k}|draw:without-replacement|{self.metric.signature}"

    def _best(self, scores: list[float]) -> float:
        return _expected_best(scores, self.k)


def oracles(metric: TextMetric, ks: Sequence[int], examples: Sequence[Example]) -> list[Score]:
    """Return `Oracle` for several k. Each text is scored only once."""
    known = metric.scores(examples) if examples else []
    scored = Precomputed(metric.name, metric.signature, known)
    return [measure(Oracle(scored, k), examples) for k in ks]


@dataclass(frozen=True)
class Precomputed:
    """A metric whose scores are known already."""

    name: str
    signature: str
    known: list[list[float]]

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return self.known


def _statistics(
    metric: TextMetric, k: int, examples: Sequence[Example], value: Callable[[list[float]], float]
) -> Tensor:
    for index, example in enumerate(examples):
        if not example.hypotheses:
            raise ArgumentError(f"example {index} has no hypotheses: give one at least")
    lists = metric.scores(examples)
    _check_scores(metric, lists, examples)
    short = torch.tensor([float(len(scores) < k) for scores in lists], dtype=torch.double)
    return torch.cat([mean_of([value(scores) for scores in lists]), short.unsqueeze(1)], 1)


def _check_scores(metric: TextMetric, lists: list[list[float]], examples: Sequence[Example]) -> None:
    """Raise if a metric gave a wrong number of scores, or NaN, which may or may not compare as the best."""
    for index, (scores, example) in enumerate(zip(lists, examples, strict=True)):
        if len(scores) != len(example.hypotheses):
            count = len(example.hypotheses)
            raise ArgumentError(
                f"{metric.name} gave {len(scores)} scores for the {count} hypotheses of example {index}: "
                "give one each"
            )
        if any(map(math.isnan, scores)):
            raise ArgumentError(f"{metric.name} gave NaN for example {index}: a score must be a number")


def _expected_best(scores: Sequence[float], k: int) -> float:
    """Return the expected best of k scores, drawn without replacement.

    Sorted from the worst, number i is the best of the draws that take the others from the i before.

    >>> _expected_best([3.0, 1.0, 2.0], 2)  # of 2 and 1, 3 and 1, 3 and 2
    2.6666666666666665
    """
    k = min(k, len(scores))
    draws = math.comb(len(scores), k)
    return sum(score * (math.comb(i, k - 1) / draws) for i, score in enumerate(sorted(scores)))


def mbr_order(examples: Sequence[Example], utility: TextMetric) -> list[Example]:
    """Order each list by expected utility, highest first (minimum Bayes risk). References are not used.

    The expected utility of a hypothesis is its mean score with each text of the list, itself too, as the
    reference. The mean is weighted by the texts' probabilities; without log-probabilities all weigh the same.
    `utility` should compare one text with one reference, as BLEU and chrF do. CIDEr-D does not fit: it counts
    how rare an n-gram is over all examples.
    """
    rounds = [Example(each.hypotheses, (text,)) for each in examples for text in _not_empty(each)]
    tables = iter(utility.scores(rounds) if rounds else [])
    return [_reordered(each, [next(tables) for _ in _not_empty(each)]) for each in examples]


def _not_empty(example: Example) -> list[str]:
    """Return the texts that can be a reference: those that are not empty."""
    return [text for text in example.hypotheses if text.strip()]


def _reordered(example: Example, table: list[list[float]]) -> Example:
    """Sort an example. `table` has a row for each reference, with the scores of all hypotheses."""
    texts = example.hypotheses
    weights = [weight for text, weight in zip(texts, _weights(example), strict=True) if text.strip()]
    utility = [
        sum(weight * row[i] for weight, row in zip(weights, table, strict=True)) for i in range(len(texts))
    ]
    order = sorted(range(len(texts)), key=lambda i: -utility[i])  # equals stay in their order
    return replace(
        example,
        hypotheses=tuple(texts[i] for i in order),
        log_probs=tuple(example.log_probs[i] for i in order) if example.log_probs else (),
    )


def _weights(example: Example) -> list[float]:
    """Return weights in proportion to the probabilities. They need not add up to one."""
    if not example.log_probs:
        return [1.0] * len(example.hypotheses)
    given, needed = len(example.log_probs), len(example.hypotheses)
    if given != needed:
        raise ArgumentError(f"there are {given} log_probs for {needed} hypotheses: give one each, or none")
    most = max(example.log_probs)
    return [math.exp(log_prob - most) for log_prob in example.log_probs]
