"""`no_repeat_ngram`: no output has an n-gram twice, and the search is otherwise the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Guided,
    Hypotheses,
    NGram,
    PrefixModel,
    Sampling,
    Shortlist,
    StochasticBeamSearch,
    Strategy,
    decode,
)
from beamsplit.ngrams import ngrams
from beamsplit.search.repeats import complete_again
from search.cases import made_up_model, normal

VOCABULARY, END = 12, 0
WEIGHTS = normal(3, VOCABULARY, VOCABULARY) * 2


def logits(prefix: Tensor) -> Tensor:
    """Depend on the last two tokens, so that it loops."""
    return WEIGHTS[prefix[:, -1]] + 0.5 * WEIGHTS[prefix[:, -2]]


def guided(n: int) -> Callable[[Tensor], Guided]:
    """Return the same, with what repeats an n-gram ruled out the slow way: token by token."""

    def answer(prefix: Tensor) -> Guided:
        guidance = torch.zeros(len(prefix), VOCABULARY)
        for row, tokens in enumerate(prefix.tolist()):
            said = tokens[2:]  # the prompt does not count
            for token in range(VOCABULARY):
                grams = ngrams([*map(str, said), str(token)], n)
                if grams and grams[-1] in grams[:-1]:
                    guidance[row, token] = -torch.inf
        return Guided(logits(prefix), guidance, bounded=True)

    return answer


STRATEGIES = (
    BeamSearch(beams=4),
    DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7),
    DiverseBeamSearch(groups=4, strength=1.0, diversity=NGram(n=2)),
    DiverseSiblings(beams=3, rate=0.4),
    DivMBest(runs=2, beams=2, strength=0.5),
    Sampling(samples=4, top_p=0.8),
    Sampling(samples=3, top_k=2),
    DiverseSampling(groups=3, strength=1.0, temperature=0.7),
    ArithmeticSampling(samples=4, top_p=0.8),
    DiverseArithmeticSampling(groups=2, samples_per_group=2, strength=1.0, temperature=0.7),
)
PROMPTS = torch.tensor([[1, 2], [3, 4], [5, 5]])


def plain(lists: list[Hypotheses]) -> list[list[tuple[Any, ...]]]:
    return [[(h.tokens, h.log_prob, h.group, h.finished) for h in each] for each in lists]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_it_is_the_search_of_a_model_that_never_repeats(strategy: Strategy, n: int) -> None:
    options: dict[str, Any] = {"max_length": 11, "end": END, "seed": 4}
    found = decode(PrefixModel(logits), PROMPTS, strategy, no_repeat_ngram=n, **options)
    expected = decode(PrefixModel(guided(n)), PROMPTS, strategy, **options)
    assert plain(found) == plain(expected)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_no_output_has_an_ngram_twice(strategy: Strategy) -> None:
    without, with_limit = (
        decode(PrefixModel(logits), PROMPTS, strategy, max_length=30, no_repeat_ngram=n) for n in (None, 2)
    )
    assert any(repeats(h.tokens) for found in without for h in found)
    assert not any(repeats(h.tokens) for found in with_limit for h in found)
    assert all(found for found in with_limit)


def repeats(tokens: tuple[int, ...]) -> bool:
    pairs = ngrams([*map(str, tokens)], 2)
    return len(set(pairs)) < len(pairs)


def test_it_works_on_lists_of_a_model() -> None:
    def lists(prefix: Tensor) -> Shortlist:
        log_prob, tokens = torch.log_softmax(logits(prefix), dim=-1).topk(10)
        return Shortlist(tokens, log_prob)

    strategy = DiverseBeamSearch(groups=3, strength=0.5)
    options: dict[str, Any] = {"max_length": 12, "end": END, "no_repeat_ngram": 2}
    whole = decode(PrefixModel(logits), PROMPTS, strategy, **options)
    short = decode(PrefixModel(lists), PROMPTS, strategy, **options)
    assert [[h.tokens for h in each] for each in short] == [[h.tokens for h in each] for each in whole]
    assert all(h.certified for each in short for h in each)


def test_staggered_groups_repeat_nothing_either() -> None:
    model, inputs = made_up_model("markov", 9, 5), torch.arange(3)
    lockstep, staggered = (
        decode(
            model,
            inputs,
            DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.5, schedule=schedule),
            max_length=15,
            end=END,
            no_repeat_ngram=2,
        )
        for schedule in ("lockstep", "staggered")
    )
    assert plain(lockstep) == plain(staggered)


def test_a_hand_worked_table() -> None:
    prefix = torch.tensor([[1, 2, 1, 2, 3, 1], [4, 4, 4, 4, 4, 4]])
    tokens = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4]])
    assert complete_again(tokens, prefix, 2).tolist() == [
        [False, True, False, False],  # after 1 came 2, twice
        [False, False, False, True],
    ]
    assert complete_again(tokens, prefix, 3).tolist() == [
        [False, False, False, False],  # 3 1 is new
        [False, False, False, True],
    ]
    assert complete_again(tokens, prefix, 1).tolist() == [
        [True, True, True, False],
        [False, False, False, True],
    ]
    assert not complete_again(tokens, prefix, 7).any()  # longer than the prefix


def test_what_samples_exactly_refuses_it() -> None:
    with pytest.raises(ArgumentError, match="no_repeat_ngram=3 would change"):
        decode(PrefixModel(logits), PROMPTS, StochasticBeamSearch(beams=2), max_length=5, no_repeat_ngram=3)
    with pytest.raises(ArgumentError, match="no_repeat_ngram"):
        decode(PrefixModel(logits), PROMPTS, BeamSearch(beams=2), max_length=5, no_repeat_ngram=0)
