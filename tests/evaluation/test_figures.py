"""From scores to figures: of all inputs and of parts, with intervals where there can be any."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from beamsplit.evaluation.figures import by_part, figures, signatures
from beamsplit.evaluation.scoring import Measured
from beamsplit.metrics import DistinctN, Example, MeanLength, Metric, UniqueFraction, measure, resamples

# Words: 1, 2, 3, 4, of one text each.
SHORT = [Example(("a " * words,)) for words in (1, 2, 3, 4)]
# Twice as many.
LONG = [Example(("a " * 2 * words,)) for words in (1, 2, 3, 4)]
EVERY = range(4)


class Own:
    """A metric of one's own that says nothing of resampling."""

    name = signature = "own"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return torch.ones(len(examples), 1)

    def score(self, total: Tensor) -> Tensor:
        return total[..., 0]


def of(metric: Metric, *runs: Sequence[Example], **others: Sequence[Example]) -> Measured:
    """The scores of a first method, once for each seed, and of others."""
    scores = {"first": [measure(metric, examples) for examples in runs]}
    return Measured(metric, scores | {name: [measure(metric, examples)] for name, examples in others.items()})


LENGTH = of(MeanLength(), SHORT, second=LONG)
CORPUS = of(DistinctN(of="corpus"), SHORT, second=LONG)


def test_a_figure_is_of_the_inputs_asked_for() -> None:
    for rows, mean in ((EVERY, 2.5), ([0, 3], 2.5), ([2], 3.0), ([0, 1, 2], 2.0)):
        found = figures([LENGTH], rows, 20)["length"]
        assert found["first"]["value"] == mean
        assert found["second"]["value"] == 2 * mean
        assert found["second"]["against_first"]["difference"] == mean


def test_the_first_is_compared_with_nothing() -> None:
    found = figures([LENGTH], EVERY, 200)["length"]
    assert set(found["first"]) == {"value", "low", "high"}
    assert set(found["second"]) == {"value", "low", "high", "against_first"}
    assert 1 <= found["first"]["low"] < 2.5 < found["first"]["high"] <= 4
    against = found["second"]["against_first"]
    assert 1 <= against["low"] < 2.5 < against["high"] <= 4  # it is the first's mean again


def test_a_corpus_figure_has_no_interval() -> None:
    found = figures([CORPUS], EVERY, 20)["corpus_distinct_1"]
    assert found == {"first": {"value": 1 / 10}, "second": {"value": 1 / 20}}


def test_a_metric_of_ones_own_has_intervals() -> None:
    assert resamples(Own())
    assert not resamples(DistinctN(of="corpus"))
    assert set(figures([of(Own(), SHORT)], EVERY, 20)["own"]["first"]) == {"value", "low", "high"}


def test_parts_are_of_their_inputs_and_without_corpus_figures() -> None:
    found = by_part([LENGTH, CORPUS], {"easy": [0, 1], "none": [], "hard": [3]}, 20)
    assert list(found) == ["easy", "hard"]
    assert [part["items"] for part in found.values()] == [2, 1]
    assert {name for part in found.values() for name in part["figures"]} == {"length"}
    values = [part["figures"]["length"]["second"]["value"] for part in found.values()]
    assert values == [3.0, 8.0]


def test_seeds_are_averaged() -> None:
    alike, different = Example(("a", "a")), Example(("a", "b"))
    runs = ([alike, alike], [alike, different], [different, different])
    found = figures([of(UniqueFraction(), *runs, one=runs[0])], range(2), 20)["unique"]
    assert found["first"]["by_seed"] == [0.5, 0.75, 1.0]
    assert found["first"]["value"] == 0.75
    assert found["one"]["value"] == 0.5
    assert "by_seed" not in found["one"]


def test_seeds_of_a_part_are_of_that_part() -> None:
    alike, different = Example(("a", "a")), Example(("a", "b"))
    runs = ([alike, different], [alike, alike])
    found = by_part([of(UniqueFraction(), *runs)], {"easy": [1]}, 20)["easy"]["figures"]["unique"]["first"]
    assert found["by_seed"] == [1.0, 0.5]
    assert found["value"] == 0.75


def test_signatures_are_by_metric() -> None:
    assert signatures([LENGTH, CORPUS]) == {
        "length": MeanLength().signature,
        "corpus_distinct_1": DistinctN(of="corpus").signature,
    }


def test_as_many_draws_as_asked_for() -> None:
    # No draw strays from the others by 2.5, and p is (0 + 1) / (draws + 1).
    for draws in (7, 20):
        against = figures([LENGTH], EVERY, draws)["length"]["second"]["against_first"]
        assert against["p"] == 1 / (draws + 1)
