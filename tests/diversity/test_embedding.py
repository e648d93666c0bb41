"""The softened terms, against tables worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from beamsplit import Cumulative, Earlier, Embedding, Hamming, NGram
from diversity.worked import CLOSE, HALVING, holding, price

VECTORS = torch.tensor(
    [
        [1.0, 0.0],  # EAST
        [0.0, 1.0],  # NORTH: cosine with EAST 0
        [3.0, 4.0],  # LONG, of length 5: 0.6 with EAST, 0.8 with NORTH
        [-1.0, 0.0],  # WEST: -1 with EAST, clipped to 0
        [0.0, 0.0],  # BLANK: no vector
        [0.5, math.sqrt(0.75)],  # SIXTY degrees: 0.5 with EAST
        [2.0, 0.0],  # EASTER: a direction shared with EAST, so 1
    ]
)
EAST, NORTH, LONG, WEST, BLANK, SIXTY, EASTER = range(7)


def soft(of: Hamming | Cumulative | NGram) -> Embedding:
    return Embedding(vectors=VECTORS, of=of)


@pytest.mark.parametrize(
    ("said", "paid"),
    [
        (EAST, [1, 0, 0.6, 0, 0, 0.5, 1]),
        # LONG and SIXTY with NORTH: 4/5 and the height of SIXTY.
        (NORTH, [0, 1, 0.8, 0, 0, math.sqrt(0.75), 0]),
        # LONG with SIXTY: (3 * 0.5 + 4 * sqrt(0.75)) / 5; WEST has -0.6, so 0.
        (LONG, [0.6, 0.8, 1, 0, 0, (1.5 + 4 * math.sqrt(0.75)) / 5, 0.6]),
        (WEST, [0, 0, 0, 1, 0, 0, 0]),
        # A token without a vector resembles only itself.
        (BLANK, [0, 0, 0, 0, 1, 0, 0]),
    ],
)
def test_soft_hamming_is_the_clipped_cosine(said: int, paid: list[float]) -> None:
    assert price(soft(Hamming()), range(7), [BLANK], holding([[NORTH, said]])) == pytest.approx(
        paid, abs=CLOSE
    )


def test_soft_hamming_adds_up_and_ignores_beams_that_ended() -> None:
    # EAST and NORTH speak, the third ended: LONG pays 0.6 + 0.8, EAST 1 + 0, NORTH 0 + 1.
    earlier = holding([[EAST], [NORTH], [-1]])
    assert price(soft(Hamming()), [LONG, EAST, NORTH], [], earlier) == pytest.approx([1.4, 1, 1], abs=CLOSE)


def test_hamming_is_what_is_softened_by_default() -> None:
    assert Embedding(vectors=VECTORS).of == Hamming()


def test_soft_cumulative_measures_differences_by_cosine() -> None:
    # The beam said EAST where the earlier one said LONG: 1 - 0.6 = 0.4 apart. Now it says NORTH:
    #   NORTH: 0.4 + 0          LONG: 0.4 + (1 - 0.8)     EAST, BLANK: 0.4 + 1
    paid = price(
        soft(Cumulative(temperature=HALVING)), [NORTH, LONG, EAST, BLANK], [EAST], holding([[LONG, NORTH]])
    )
    assert paid == pytest.approx([2**-0.4, 2**-0.6, 2**-1.4, 2**-1.4], abs=CLOSE)


def test_soft_cumulative_clips_opposites() -> None:
    # EAST against WEST is 1 apart, not 2: twice that is 2 apart.
    paid = price(soft(Cumulative(temperature=HALVING)), [EAST], [EAST], holding([[WEST, WEST]]))
    assert paid == pytest.approx([2**-2], abs=CLOSE)


def test_soft_cumulative_takes_a_blank_for_itself() -> None:
    # BLANK against BLANK is 0 apart, against EAST 1.
    term = soft(Cumulative(temperature=HALVING))
    assert price(term, [BLANK], [BLANK], holding([[BLANK, BLANK]])) == pytest.approx([1], abs=CLOSE)
    assert price(term, [BLANK], [BLANK], holding([[EAST, BLANK]])) == pytest.approx([0.5], abs=CLOSE)


def test_soft_cumulative_ignores_beams_that_ended() -> None:
    assert price(soft(Cumulative()), [EAST, WEST], [EAST], holding([[EAST, -1]])) == [0, 0]


def test_soft_unigrams_add_up_over_everything_said() -> None:
    # Said: EAST, NORTH, and before that LONG in a finished hypothesis.
    #   EAST: 1 + 0 + 0.6    NORTH: 0 + 1 + 0.8    LONG: 0.6 + 0.8 + 1    WEST: 0
    earlier = holding([[EAST, NORTH]], finished=[[LONG]])
    paid = price(soft(NGram(n=1)), [EAST, NORTH, LONG, WEST], [BLANK], earlier)
    assert paid == pytest.approx([1.6, 1.8, 2.4, 0], abs=CLOSE)


def test_a_bigrams_vector_is_the_sum_of_its_words() -> None:
    # The beam said EAST (1, 0). With NORTH its bigram is (1, 1), with EAST (2, 0), with LONG (4, 4).
    # Said: NORTH EAST, which is (1, 1) as well: the order of words does not matter.
    #   NORTH: 1    EAST: 2 / (2 sqrt 2)    LONG: 8 / (sqrt 32 sqrt 2) = 1
    paid = price(soft(NGram(n=2)), [NORTH, EAST, LONG], [EAST], holding([[NORTH, EAST]]))
    assert paid == pytest.approx([1, math.sqrt(0.5), 1], abs=CLOSE)


def test_a_bigram_that_cancels_out_resembles_only_itself() -> None:
    # EAST WEST sums to nothing. Said: EAST WEST and NORTH NORTH.
    #   WEST: 1 (the same bigram) + 0    NORTH, (1, 1): 0 + 1 / sqrt 2
    earlier = holding([[EAST, WEST], [NORTH, NORTH]])
    paid = price(soft(NGram(n=2)), [WEST, NORTH], [EAST], earlier)
    assert paid == pytest.approx([1, math.sqrt(0.5)], abs=CLOSE)


def test_a_trigrams_vector_is_the_sum_of_its_words() -> None:
    # The beam said EAST NORTH (1, 1). Said: EAST NORTH NORTH, (1, 2), of length sqrt 5.
    #   NORTH: the same, 1    EAST (2, 1): 4 / 5    WEST (0, 1): 2 / sqrt 5    BLANK (1, 1): 3 / sqrt 10
    earlier = holding([[EAST, NORTH, NORTH]])
    paid = price(soft(NGram(n=3)), [NORTH, EAST, WEST, BLANK], [EAST, NORTH], earlier)
    assert paid == pytest.approx([1, 0.8, 2 / math.sqrt(5), 3 / math.sqrt(10)], abs=CLOSE)


@pytest.mark.parametrize(("n", "prefix"), [(2, []), (3, [EAST])])
def test_a_prefix_too_short_for_a_soft_ngram_pays_nothing(n: int, prefix: list[int]) -> None:
    assert price(soft(NGram(n=n)), [EAST, NORTH], prefix, holding([[EAST, EAST, EAST]])) == [0, 0]


def test_soft_ngrams_that_are_not_complete_do_not_count() -> None:
    # EAST ended alone: EAST and padding is no bigram. Sequences shorter than n hold none.
    assert price(soft(NGram(n=2)), [EAST], [EAST], holding([[-1, -1]], finished=[[EAST]])) == [0]
    assert price(soft(NGram(n=3)), [EAST], [EAST, EAST], Earlier.of(torch.tensor([[[EAST]]]), 2)) == [0]


def test_the_length_of_word_vectors_does_not_matter() -> None:
    # Cosines know directions only, so vectors a thousand times as long cost the same bits.
    longer = Embedding(vectors=VECTORS * 1024)
    earlier = holding([[EAST], [LONG]])
    assert price(longer, range(7), [], earlier) == price(soft(Hamming()), range(7), [], earlier)


def test_vectors_may_be_half_precision_and_need_no_gradient() -> None:
    half = Embedding(vectors=VECTORS.bfloat16().requires_grad_())
    paid = half.penalty(
        torch.tensor([[[LONG]]]), torch.empty(1, 1, 0, dtype=torch.long), holding([[EAST], [NORTH]])
    )
    assert not paid.requires_grad
    assert paid.item() == pytest.approx(1.4, abs=CLOSE)


def test_an_embedding_knows_its_vocabulary() -> None:
    assert soft(Hamming()).vocabulary == 7
