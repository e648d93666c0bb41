"""Sampling from candidate lists: the samples of the whole vocabulary, or a word that they may be others."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    DiverseSampling,
    Hypotheses,
    Sampling,
    Shortlist,
    decode,
)
from beamsplit.search import noise
from beamsplit.testing import PrefixHashModel

VOCABULARY = 40
MODEL = PrefixHashModel(VOCABULARY, seed=5)
END = [3]


class Listing:
    """A model that tells only so many candidates, and more when it is asked for them, up to a limit."""

    def __init__(self, width: int, most: int | None = None) -> None:
        self.width, self.most, self.asked = width, most or width, 0

    def start(self, inputs: Any) -> tuple[Shortlist, Any]:
        logits, state = MODEL.start(inputs)
        return self._listed(logits, self.width), (logits, state)

    def step(self, tokens: Tensor, state: Any) -> tuple[Shortlist, Any]:
        logits, state = MODEL.step(tokens, state[1])
        return self._listed(logits, self.width), (logits, state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return state[0][rows], MODEL.select(state[1], rows)

    def widen(self, state: Any, rows: Tensor, width: int) -> Shortlist:
        self.asked += 1
        return self._listed(state[0][rows], min(width, self.most))

    @staticmethod
    def _listed(logits: Tensor, width: int) -> Shortlist:
        log_prob, tokens = torch.log_softmax(logits, -1).topk(width)
        return Shortlist(tokens, log_prob)


def sampled(model: Any, strategy: Any, **options: Any) -> list[Hypotheses]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return decode(model, [1, 2, 3], strategy, max_length=6, end=END, seed=11, **options)


EXACT = [
    Sampling(samples=6, top_k=5),
    Sampling(samples=6, top_k=5, temperature=1.7),
    Sampling(samples=6, top_k=9, top_p=0.8, temperature=0.6),
    Sampling(samples=6, min_p=0.3),
    Sampling(samples=6, top_p=0.4),
    Sampling(samples=6, min_p=0.2, top_p=0.7, temperature=1.3),
    DiverseSampling(groups=4, strength=1.5, top_k=6),
    DiverseSampling(groups=3, samples_per_group=2, strength=2.0, top_p=0.5),
]


@pytest.mark.parametrize("strategy", EXACT, ids=str)
def test_samples_from_lists_are_those_from_the_whole_vocabulary(strategy: Any) -> None:
    found, whole = sampled(Listing(10, VOCABULARY), strategy), sampled(MODEL, strategy)
    for ours, theirs in zip(found, whole, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs])
        assert all(each.certified for each in ours)


@pytest.mark.parametrize("strategy", EXACT, ids=str)
def test_what_is_certified_is_the_same_however_short_the_lists_are(strategy: Any) -> None:
    whole = sampled(MODEL, strategy)
    for width in (2, 4, 7):
        for ours, theirs in zip(sampled(Listing(width), strategy), whole, strict=True):
            expected = {each.tokens for each in theirs}
            assert all(each.tokens in expected for each in ours if each.certified)


def test_a_limit_on_ranks_that_lists_can_hold_asks_for_no_more() -> None:
    model = Listing(8, VOCABULARY)
    sampled(model, Sampling(samples=4, top_k=6))
    assert model.asked == 0


def test_short_lists_are_asked_to_be_longer_where_that_can_help() -> None:
    few, many = Listing(4, VOCABULARY), Listing(4, VOCABULARY)
    assert all(each.certified for found in sampled(few, Sampling(samples=4, top_k=6)) for each in found)
    assert few.asked > 0
    sampled(many, Sampling(samples=4))
    assert many.asked == 0  # every token may be drawn, so no list short of all is enough


def test_samples_of_everything_are_drawn_within_the_lists_and_it_is_said() -> None:
    with pytest.warns(UserWarning, match="drawn within the model's lists of 8 candidates") as said:
        (found,) = decode(Listing(8), [1], Sampling(samples=5), max_length=4, end=END)
    assert len(said) == 1
    assert not any(each.certified for each in found)


def test_ruled_out_tokens_leave_a_nucleus_in_doubt() -> None:
    """The mass of what is left is known only if nothing else was ruled out outside the list."""
    free = sampled(Listing(10), Sampling(samples=6, top_p=0.4))
    bound = sampled(Listing(10), Sampling(samples=6, top_p=0.4), no_repeat_ngram=1)
    assert all(each.certified for found in free for each in found)
    assert not any(each.certified for found in bound for each in found)


@pytest.mark.parametrize(
    ("limits", "expected", "complete"),
    [
        # probabilities .4 .3 .1, and .2 that is not listed, no token of it above .1
        ({"top_k": 2}, [0.4, 0.3, 0], True),
        ({"top_k": 3}, [0.4, 0.3, 0.1], False),  # what is not listed may tie with the third
        ({"top_p": 0.7}, [0.4, 0.3, 0], True),
        ({"top_p": 0.75}, [0.4, 0.3, 0.1], False),
        ({"top_p": 0.9}, [0.4, 0.3, 0.1], False),
        ({"min_p": 0.5}, [0.4, 0.3, 0], True),
        ({"min_p": 0.2}, [0.4, 0.3, 0.1], False),
        ({"top_k": 2, "top_p": 0.5}, [0.4, 0, 0], True),  # .4 of .7 is enough
        ({}, [0.4, 0.3, 0.1], False),
    ],
)
def test_what_may_be_drawn_by_hand(limits: dict[str, Any], expected: list[float], complete: bool) -> None:
    rule = Sampling(samples=1, **limits).plan().rule
    log_prob = torch.tensor([[0.4, 0.3, 0.1]]).log()
    lists = Shortlist(torch.tensor([[0, 1, 2]]), log_prob)
    drawn = rule.perturb_lists(lists, torch.zeros(1, 3), torch.tensor([0.2]))  # type: ignore[attr-defined]
    assert drawn.key.exp().tolist()[0] == pytest.approx(expected)
    assert drawn.rest.tolist() == [-torch.inf if complete else torch.inf]


def test_listed_tokens_have_the_noise_of_the_whole_vocabulary() -> None:
    keys, tokens = torch.tensor([5, -7]), torch.tensor([[0, 8, 3], [9, 1, 1]])
    whole = noise.gumbel(keys, 10, torch.float64)
    assert torch.equal(noise.gumbel_of(keys, tokens, torch.float64), whole.gather(1, tokens))
