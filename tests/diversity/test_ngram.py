"""The n-gram term, against tables worked by hand."""

from __future__ import annotations

import pytest
import torch

from beamsplit import Earlier, NGram
from diversity.worked import holding, price


def test_unigrams_are_counted_wherever_they_stand() -> None:
    # 1 stands in 1 2 and in 2 1; 2 stands in both; 3 nowhere.
    assert price(NGram(n=1), [1, 2, 3], [9], holding([[1, 2], [2, 1]])) == [2, 2, 0]


def test_bigrams_are_counted_wherever_they_stand() -> None:
    # After ... 5, token 6 completes 5 6: first in 5 6 7, last in 7 5 6. 5 7 stands nowhere.
    earlier = holding([[5, 6, 7], [7, 5, 6], [6, 5, 5]])
    assert price(NGram(n=2), [5, 6, 7], [8, 5], earlier) == [1, 2, 0]


def test_a_bigram_counts_as_often_as_it_occurs_in_one_sequence() -> None:
    # 5 6 5 6: twice 5 6. 5 5 5: twice 5 5, overlapping.
    assert price(NGram(n=2), [5, 6], [1, 2, 5], holding([[5, 6, 5, 6]])) == [0, 2]
    assert price(NGram(n=2), [5, 6], [1, 5], holding([[5, 5, 5]])) == [2, 0]


def test_trigrams_need_all_three_tokens() -> None:
    # After 4 5, token 6 completes 4 5 6, which the first holds. The second has 5 6 alone.
    earlier = holding([[4, 5, 6, 9], [9, 8, 5, 6]])
    assert price(NGram(n=3), [6, 9], [0, 4, 5], earlier) == [1, 0]


@pytest.mark.parametrize(("n", "prefix"), [(2, []), (3, []), (3, [5])])
def test_a_prefix_too_short_for_an_ngram_pays_nothing(n: int, prefix: list[int]) -> None:
    earlier = holding([[5, 6, 7, 5, 6]])
    assert price(NGram(n=n), [5, 6, 7], prefix, earlier) == [0, 0, 0]


def test_sequences_too_short_for_an_ngram_cost_nothing() -> None:
    # DivMBest may have kept one token only, when the beam has three.
    kept = Earlier.of(torch.tensor([[[5]]]), time=2)
    assert price(NGram(n=2), [5, 6], [5, 5], kept) == [0, 0]


def test_hypotheses_that_ended_before_still_count() -> None:
    # No beam holds 5 6 any more, the hypothesis 5 6 0 does.
    earlier = holding([[1, 2, 3, 4]], finished=[[5, 6, 0]])
    assert price(NGram(n=2), [6, 0], [1, 2, 5], earlier) == [1, 0]
    assert price(NGram(n=3), [0, 6], [1, 5, 6], earlier) == [1, 0]
    assert price(NGram(n=1), [0, 4, 7], [1, 5, 6], earlier) == [1, 1, 0]


def test_an_ngram_never_ends_in_the_padding() -> None:
    # 5 stands last in the shorter one: what follows is nothing, not a token.
    earlier = holding([[1, 2, 3]], finished=[[5]])
    assert price(NGram(n=2), list(range(7)), [1, 5], earlier) == [0] * 7
