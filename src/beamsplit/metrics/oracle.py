"""The best of a list: how good an output is to be had, if one knew which to take.

`Oracle` takes the best of the first k, as the paper does; `Top1` is what comes without knowing.
`ExpectedBest` does not depend on the order of the list; `mbr_order` is an order that needs no references.
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

__all__ = ["ExpectedBest", "Oracle", "Top1", "mbr_order", "oracles"]


@dataclass(frozen=True)
class _BestOf:
    """The mean over examples of some best of `k`. Of a list that is shorter, of what there is."""

    metric: TextMetric
    k: int

    def __post_init__(self) -> None:
        checks.at_least("k", self.k, 1)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        """[examples 3]: the best, a one, and whether the list is short."""
        return _of_each(self.metric, self.k, examples, self._best)

    def score(self, total: Tensor) -> Tensor:
        return total[..., 0] / total[..., 1]

    def short(self, total: Tensor) -> Tensor:
        """How many lists have fewer than k, from sums of rows [... 3]."""
        return total[..., 2]

    def _best(self, scores: list[float]) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Oracle(_BestOf):
    """The mean over examples of the best score among the first `k` of the list.

    Of a list that is shorter, the best of what there is; `short` says how many of these there are.
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
    """The mean score of the first of each list: `Oracle` of one."""

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
    """The mean over examples of the best score to be expected when `k` of the list are drawn at random.

    Drawn without putting back, so that for k = 1 it is the mean of the list and for all of it the best.
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
    """`Oracle` for several k, for which texts are looked at once."""
    known = metric.scores(examples) if examples else []
    looked = _Looked(metric.name, metric.signature, known)
    return [measure(Oracle(looked, k), examples) for k in ks]


@dataclass(frozen=True)
class _Looked:
    """A metric that knows its scores already."""

    name: str
    signature: str
    known: list[list[float]]

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return self.known


def _of_each(
    metric: TextMetric, k: int, examples: Sequence[Example], value: Callable[[list[float]], float]
) -> Tensor:
    for place, example in enumerate(examples):
        if not example.hypotheses:
            raise ArgumentError(f"example {place} has no hypotheses: there is no best of none")
    lists = metric.scores(examples)
    _check_scores(metric, lists, examples)
    short = torch.tensor([float(len(scores) < k) for scores in lists], dtype=torch.double)
    return torch.cat([mean_of([value(scores) for scores in lists]), short.unsqueeze(1)], 1)


def _check_scores(metric: TextMetric, lists: list[list[float]], examples: Sequence[Example]) -> None:
    """Of a metric of one's own; NaN would be the best or not, depending on its place."""
    for place, (scores, example) in enumerate(zip(lists, examples, strict=True)):
        if len(scores) != len(example.hypotheses):
            count = len(example.hypotheses)
            raise ArgumentError(
                f"{metric.name} gave {len(scores)} scores for the {count} hypotheses of example {place}: "
                "give one each"
            )
        if any(map(math.isnan, scores)):
            raise ArgumentError(f"{metric.name} gave NaN for example {place}: a score must be a number")


def _expected_best(scores: Sequence[float], k: int) -> float:
    """The one in place i, from the worst, is the best of those draws whose others are the i before it.

    >>> _expected_best([3.0, 1.0, 2.0], 2)  # of 2 and 1, 3 and 1, 3 and 2
    2.6666666666666665
    """
    k = min(k, len(scores))
    draws = math.comb(len(scores), k)
    return sum(score * (math.comb(place, k - 1) / draws) for place, score in enumerate(sorted(scores)))


def mbr_order(examples: Sequence[Example], utility: TextMetric) -> list[Example]:
    """Each list from most to least expected utility, by minimum Bayes risk: no references are asked.

    What a hypothesis is worth is its score with each of the list as reference, itself too, weighted by their
    probabilities, or all alike where there are no log-probabilities. `utility` should look at one text and
    one reference, as BLEU and chrF do: what CIDEr-D would count as rare means nothing here.
    """
    rounds = [Example(each.hypotheses, (text,)) for each in examples for text in _sayings(each)]
    tables = iter(utility.scores(rounds) if rounds else [])
    return [_reordered(each, [next(tables) for _ in _sayings(each)]) for each in examples]


def _sayings(example: Example) -> list[str]:
    """What can be a reference: not an empty text."""
    return [text for text in example.hypotheses if text.strip()]


def _reordered(example: Example, table: list[list[float]]) -> Example:
    """`table` has a row for each saying, with the scores of all hypotheses beside it."""
    texts = example.hypotheses
    weights = [weight for text, weight in zip(texts, _weights(example), strict=True) if text.strip()]
    worth = [
        sum(weight * row[place] for weight, row in zip(weights, table, strict=True))
        for place in range(len(texts))
    ]
    order = sorted(range(len(texts)), key=lambda place: -worth[place])  # equals stay in their order
    return replace(
        example,
        hypotheses=tuple(texts[place] for place in order),
        log_probs=tuple(example.log_probs[place] for place in order) if example.log_probs else (),
    )


def _weights(example: Example) -> list[float]:
    """In proportion to the probabilities; they need not add up to one."""
    if not example.log_probs:
        return [1.0] * len(example.hypotheses)
    given, needed = len(example.log_probs), len(example.hypotheses)
    if given != needed:
        raise ArgumentError(f"there are {given} log_probs for {needed} hypotheses: give one each, or none")
    most = max(example.log_probs)
    return [math.exp(log_prob - most) for log_prob in example.log_probs]
