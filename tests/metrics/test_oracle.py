"""The best of lists, of a metric whose scores are what the texts say."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError
from beamsplit.metrics.base import Example, Metric, measure
from beamsplit.metrics.oracle import ExpectedBest, Oracle, Top1, mbr_order, oracles


@dataclass
class Number:
    """A text's score is the number that it says."""

    name: str = "number"
    signature: str = "number|version:1"
    calls: list[int] = field(default_factory=list)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        self.calls.append(len(examples))
        return [[float(text) for text in example.hypotheses] for example in examples]


def lists(*scores: Sequence[float]) -> list[Example]:
    return [Example(tuple(map(str, each))) for each in scores]


TABLE = lists([2, 7, 1, 9], [4, 3, 5, 0])


def random_lists(seed: int) -> list[Example]:
    drawn = random.Random(seed)
    return lists(*([drawn.random() for _ in range(drawn.randint(1, 9))] for _ in range(5)))


@pytest.mark.parametrize(("k", "value"), [(1, 3), (2, 5.5), (3, 6), (4, 7), (20, 7)])
def test_by_hand(k: int, value: float) -> None:
    score = measure(Oracle(Number(), k), TABLE)
    assert (score.value, score.name, score.signature) == (
        value,
        f"oracle_number@{k}",
        f"oracle|k:{k}|number|version:1",
    )


def test_top1() -> None:
    score = measure(Top1(Number()), TABLE)
    assert (score.name, score.value) == ("top1_number", 3)
    oracle = measure(Oracle(Number(), 1), TABLE)
    assert score.signature == oracle.signature
    assert torch.equal(score.statistics, oracle.statistics)


@pytest.mark.parametrize("kind", [Oracle, ExpectedBest])
def test_short_lists(kind: Any) -> None:
    metric = kind(Number(), 3)
    score = measure(metric, lists([1, 2, 3, 4], [8], [5, 6, 7], [1, 0]))
    assert score.statistics[1].tolist() == [8, 1, 1]  # the best of what there is
    assert metric.short(score.statistics.sum(0)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_laws(seed: int) -> None:
    examples = random_lists(seed)
    found = [score.statistics[:, 0] for score in oracles(Number(), range(1, 11), examples)]
    assert all((later >= sooner).all() for sooner, later in itertools.pairwise(found))
    assert found[-1].tolist() == [max(map(float, example.hypotheses)) for example in examples]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_order_after_k_does_not_matter_nor_that_before(k: int) -> None:
    drawn, examples = random.Random(k), random_lists(k)
    mixed = []
    for example in examples:
        first, rest = list(example.hypotheses[:k]), list(example.hypotheses[k:])
        drawn.shuffle(first)
        drawn.shuffle(rest)
        mixed.append(Example((*first, *rest)))
    metric = Oracle(Number(), k)
    assert torch.equal(metric.statistics(mixed), metric.statistics(examples))


def test_parts_and_bootstraps_come_from_rows() -> None:
    metric = Oracle(Number(), 2)
    rows = metric.statistics(TABLE)
    totals = torch.stack([rows[0], rows.sum(0), 2 * rows[1]])
    assert metric.score(totals).tolist() == [7, 5.5, 4]


def test_several_look_once() -> None:
    number = Number()
    found = oracles(number, (1, 2, 4), TABLE)
    assert number.calls == [2]
    for score, k in zip(found, (1, 2, 4), strict=True):
        alone = measure(Oracle(Number(), k), TABLE)
        assert (score.name, score.value, score.signature) == (alone.name, alone.value, alone.signature)
        assert torch.equal(score.statistics, alone.statistics)


# The expected best


@pytest.mark.parametrize(("k", "value"), [(1, 2), (2, (2 + 3 + 3) / 3), (3, 3), (9, 3)])
def test_expected_best_by_hand(k: int, value: float) -> None:
    score = measure(ExpectedBest(Number(), k), lists([3, 1, 2]))
    assert score.value == pytest.approx(value)
    assert score.name == f"expected_best_number@{k}"
    assert score.signature == f"expected-best|k:{k}|draw:without-replacement|number|version:1"


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_expected_best_is_the_mean_over_all_draws(k: int) -> None:
    values = [3.0, 1.5, 1.5, -2.0, 7.0]
    draws = [max(draw) for draw in itertools.combinations(values, k)]
    assert measure(ExpectedBest(Number(), k), lists(values)).value == pytest.approx(sum(draws) / len(draws))


# Minimum Bayes risk


class Near:
    """Texts are numbers; the nearer to the reference the better, 0 at best."""

    name, signature = "near", "near"

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return [
            [-abs(float(text or -9) - float(each.references[0])) for text in each.hypotheses]
            for each in examples
        ]


def test_mbr_by_hand() -> None:
    # Distances added up: from 0, 11; from 1, 10; from 10, 19.
    [found] = mbr_order([Example(("10", "0", "1"), ("5",))], Near())
    assert found == Example(("1", "0", "10"), ("5",))
    # 10 has 8 times the probability of the others: from 10, 19 of 10; from 1, 73; from 0, 81.
    log_probs = (math.log(0.8), math.log(0.1), math.log(0.1))
    [found] = mbr_order([Example(("10", "0", "1"), (), log_probs)], Near())
    assert found == Example(("10", "1", "0"), (), (log_probs[0], log_probs[2], log_probs[1]))


def test_mbr_of_equals_and_of_nothing() -> None:
    examples = [Example(("1", "3"), (), (-900.0, -900.0)), Example(()), Example(("", " "))]
    assert mbr_order(examples, Near()) == examples
    assert mbr_order([Example(("", "3", "2"))], Near())[0].hypotheses == ("3", "2", "")


# Mistakes


def refusal(metric: Metric, examples: list[Example]) -> str:
    with pytest.raises(ArgumentError) as caught:
        measure(metric, examples)
    return str(caught.value)


@pytest.mark.parametrize("kind", [Oracle, ExpectedBest])
@pytest.mark.parametrize("k", [0, -1, 1.5, None])
def test_a_k_that_is_none(kind: Any, k: Any) -> None:
    with pytest.raises(ArgumentError, match=f"k must be a whole number of at least 1, not {k}"):
        kind(Number(), k)
    with pytest.raises(ArgumentError, match="k must be"):
        oracles(Number(), [1, k], TABLE)


def test_no_examples() -> None:
    assert (
        refusal(Oracle(Number(), 5), [])
        == "there are no examples to measure oracle_number@5 on: give one at least"
    )
    with pytest.raises(
        ArgumentError, match="there are no examples to measure oracle_number@5 on: give one at least"
    ):
        oracles(Number(), [5], [])


@pytest.mark.parametrize("metric", [Oracle(Number(), 2), Top1(Number()), ExpectedBest(Number(), 2)])
def test_an_empty_list(metric: Metric) -> None:
    message = "example 1 has no hypotheses: give one at least"
    assert refusal(metric, [*TABLE[:1], Example(()), *TABLE]) == message


def test_a_metric_that_breaks_its_word() -> None:
    class Short(Number):
        def scores(self, examples: Sequence[Example]) -> list[list[float]]:
            return [scores[1:] for scores in super().scores(examples)]

    assert refusal(Oracle(Short(), 2), TABLE) == (
        "number gave 3 scores for the 4 hypotheses of example 0: give one each"
    )
    assert refusal(Oracle(Number(), 2), lists([1, 2], [1, math.nan])) == (
        "number gave NaN for example 1: a score must be a number"
    )


def test_mbr_with_too_few_probabilities() -> None:
    with pytest.raises(ArgumentError) as caught:
        mbr_order([Example(("1", "2"), (), (-1.0,))], Near())
    assert str(caught.value) == "there are 1 log_probs for 2 hypotheses: give one each, or none"
