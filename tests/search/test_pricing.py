"""Both ways to penalties give the same searches: with terms that say what pairs pay, and if they do not."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from beamsplit import Cumulative, DiverseBeamSearch, DiverseSampling, Earlier, NGram, decode
from beamsplit.search import pricing
from beamsplit.testing import PrefixHashModel
from search.cases import TERMS, every_schedule


class Plain:
    """A term that has nothing but its penalty."""

    def __init__(self, term: Any) -> None:
        self._term = term

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        paid: Tensor = self._term.penalty(tokens, prefix, earlier)
        return paid


PAIRED = [name for name in TERMS if name != "hamming"]
every_paired_term = pytest.mark.parametrize("term", PAIRED)


def found(term: Any, inputs: int = 3, **settings: Any) -> Any:
    """Groups of a small vocabulary with several ends are done at different times."""
    options = {"max_length": 8, "end": [1, 3]} | settings.pop("options", {})
    strategy = DiverseBeamSearch(
        **{"groups": 4, "beams_per_group": 2, "strength": 0.8} | settings, diversity=term
    )
    return decode(PrefixHashModel(20, seed=3), list(range(inputs)), strategy, **options)


@every_schedule
@every_paired_term
@pytest.mark.parametrize("inputs", [1, 3])
def test_pairs_change_no_result(term: str, schedule: str, inputs: int) -> None:
    made = TERMS[term](20)
    assert found(made, inputs, schedule=schedule) == found(Plain(made), inputs, schedule=schedule)


@every_paired_term
@pytest.mark.parametrize(
    "settings",
    [
        {"strength": (0.0, 2.0, 0.1, 30.0)},
        {"groups": 9, "beams_per_group": 1},
        {"options": {"list_width": 1}},
        {"options": {"list_width": 20}},
        {"options": {"unique": True}},
        {"options": {"no_repeat_ngram": 1}},
        {"options": {"end": None}},
    ],
    ids=str,
)
def test_pairs_change_no_result_of_other_settings(term: str, settings: dict[str, Any]) -> None:
    made = TERMS[term](20)
    assert found(made, **settings) == found(Plain(made), **settings)


@every_paired_term
def test_some_picks_at_a_time_cost_the_same(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TERMS[term](20)
    expected = found(made)
    monkeypatch.setattr(pricing, "_AT_ONCE", 1)
    assert found(made) == expected


@pytest.mark.parametrize("term", [Cumulative(), NGram(n=2)], ids=["cumulative", "bigram"])
def test_samples_and_later_groups_are_the_same_by_pairs(term: Any) -> None:
    model = PrefixHashModel(20, seed=3)

    def sampled(diversity: Any) -> Any:
        strategy = DiverseSampling(groups=3, samples_per_group=2, strength=0.7, diversity=diversity)
        first = decode(model, [0, 1], strategy, max_length=6, end=1, seed=5, resumable=True)
        return first, first.more(model, 2)

    assert sampled(term) == sampled(Plain(term))


def test_a_term_is_asked_for_pairs_once_a_step_however_often_groups_pick() -> None:
    asked: list[tuple[int, ...]] = []

    class Counting(Cumulative):
        def pairs(self, tokens: Tensor, prefix: Tensor) -> Any:
            asked.append(tuple(prefix.shape))
            return super().pairs(tokens, prefix)

        def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
            raise AssertionError("nothing but picks costs anything here")

    found(Counting(), inputs=2, options={"end": None, "max_length": 5, "list_width": 20})
    assert asked == [(2, 8, time) for time in range(5)]


def test_a_subclass_with_a_penalty_of_its_own_is_asked_for_it() -> None:
    class Twice(Cumulative):
        def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
            return 2 * super().penalty(tokens, prefix, earlier)

    assert found(Twice()) == found(Cumulative(), strength=1.6)
    assert found(Twice()) != found(Cumulative())


def test_costs_that_are_too_large_are_found_among_pairs() -> None:
    with pytest.raises(ValueError, match=r"strength=3e\+38 times a penalty of"):
        found(NGram(n=1), strength=3e38, inputs=1, options={"end": None})
