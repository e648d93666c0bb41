"""The softened terms, against tables worked by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import Cumulative, DiverseBeamSearch, Diversity, Earlier, Embedding, Hamming, NGram, decode
from beamsplit.diversity import Similarity, SoftTerm
from beamsplit.testing import MarkovModel, reference_search
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


def soft(of: SoftTerm) -> Embedding:
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


# Precision


def similarity(term: Embedding, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Compare two n-grams."""
    return term.similarity(*([torch.tensor([token]) for token in ngram] for ngram in (ours, theirs))).item()


def exact_similarity(vectors: Tensor, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Compare two n-grams without rounding but for the square root."""
    if ours == theirs:
        return 1.0
    table = [[Fraction(x) for x in row] for row in vectors.tolist()]
    u, v = ([sum(each) for each in zip(*(table[i] for i in ngram), strict=True)] for ngram in (ours, theirs))
    dot, squares = sum(map(Fraction.__mul__, u, v)), sum(x * x for x in u) * sum(x * x for x in v)
    # The square of the cosine is a fraction below 1, which a float can hold.
    return math.sqrt(dot * dot / squares) if dot > 0 else 0.0


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("longer", [1e5, 1e15, 1e30])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_one_long_vector_does_not_blur_the_others(n: int, longer: float, kind: torch.dtype) -> None:
    vectors = torch.randn(8, 5, generator=torch.Generator().manual_seed(n), dtype=kind)
    vectors[7] *= longer
    term = Embedding(vectors=vectors)
    tokens = torch.randint(8, (60, 2, n), generator=torch.Generator().manual_seed(1)).tolist()
    for ours, theirs in tokens:
        expected = exact_similarity(vectors, ours, theirs)
        assert similarity(term, ours, theirs) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("length", [5e-324, 1e-300, 1e-40, 1.0, 1e38, 1.7e308])
def test_vectors_of_any_length_have_a_direction(length: float) -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], dtype=torch.double)
    term = Embedding(vectors=vectors * torch.tensor([[1.0], [length], [1.0]], dtype=torch.double))
    assert similarity(term, [0], [1]) == pytest.approx(math.sqrt(0.5), abs=1e-7)
    assert similarity(term, [2], [1]) == 0


# The first three add up to exactly zero. They would not, were they rounded one by one to a coarser grid.
CANCELLING = torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).double()
CANCELLING[2] = -(CANCELLING[0] + CANCELLING[1])


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
@pytest.mark.parametrize("ngram", list(itertools.permutations([0, 1, 2])))
def test_an_ngram_whose_vectors_cancel_resembles_only_itself(ngram: tuple[int, ...], scale: float) -> None:
    vectors = CANCELLING * torch.tensor([[1.0], [1.0], [1.0], [scale], [scale]])
    term = Embedding(vectors=vectors)
    for other in itertools.product(range(5), repeat=3):
        expected = 1.0 if other == ngram else 0.0
        assert similarity(term, ngram, other) == similarity(term, other, ngram) == expected


def test_vectors_that_nearly_cancel_have_their_true_direction() -> None:
    # EAST and nearly WEST, each a little to the NORTH: together due NORTH, (0, 2e-7).
    vectors = torch.tensor([[1.0, 1e-7], [-1.0, 1e-7], [0.0, 1.0], [1.0, 0.0]])
    term = Embedding(vectors=vectors, of=NGram(n=2))
    # Said: NORTH NORTH, and EAST EAST.
    paid = price(term, [1, 3], [0], holding([[2, 2], [3, 3]]))
    assert paid == pytest.approx([1.0, 1.0], abs=CLOSE)


def test_a_short_vector_is_not_lost_between_long_ones_that_cancel() -> None:
    # 1e20 + 1 - 1e20 is 1, though float64 has no number for 1e20 + 1.
    vectors = torch.tensor([[1e20, 0.0], [0.0, 1.0], [-1e20, 0.0], [1.0, 0.0]], dtype=torch.double)
    vectors[1, 0] = 1.0
    term = Embedding(vectors=vectors)
    for ngram in itertools.permutations([0, 1, 2]):  # (1, 1)
        assert similarity(term, ngram, [3, 3, 3]) == pytest.approx(math.sqrt(0.5), abs=CLOSE)


def test_the_order_of_tokens_does_not_change_a_bit() -> None:
    vectors = torch.randn(8, 33, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    term = Embedding(vectors=vectors * torch.logspace(-9, 9, 8, dtype=torch.double).unsqueeze(1))
    found = {similarity(term, ngram, [3, 5, 1]) for ngram in itertools.permutations([0, 4, 7])}
    assert len(found) == 1


def test_tokens_with_one_direction_are_exactly_alike() -> None:
    row = torch.randn(1, 300, generator=torch.Generator().manual_seed(0))
    term = Embedding(vectors=torch.cat([row, row, row * 3, row * 1e-9]))
    assert [similarity(term, [0], [other]) for other in range(4)] == [1.0] * 4


# What vectors may be


@pytest.mark.parametrize(
    "vectors",
    [
        VECTORS.numpy(),
        VECTORS.double().numpy(),
        VECTORS.tolist(),
        VECTORS.requires_grad_(False),
        torch.nn.Parameter(VECTORS.clone()),
    ],
    ids=["float32", "float64", "lists", "tensor", "parameter"],
)
def test_vectors_may_be_whatever_makes_a_tensor(vectors: Any) -> None:
    earlier = holding([[EAST, LONG]])
    paid = price(Embedding(vectors=vectors, of=NGram(n=2)), range(7), [NORTH], earlier)
    assert paid == price(soft(NGram(n=2)), range(7), [NORTH], earlier)


def test_arrays_may_be_half_precision_or_read_only() -> None:
    array = np.array([[1.0, 0.0], [3.0, 4.0]], dtype=np.float16)
    array.flags.writeable = False
    assert similarity(Embedding(vectors=array), [0], [1]) == pytest.approx(0.6, abs=CLOSE)


@pytest.mark.parametrize("given", [VECTORS.clone(), VECTORS.numpy().copy()], ids=["tensor", "array"])
def test_vectors_that_change_later_do_not_change_a_term(given: Any) -> None:
    term = Embedding(vectors=given, of=NGram(n=2))
    earlier = holding([[EAST, LONG]])
    before = price(term, range(7), [NORTH], earlier)
    given[:] = 1.0
    assert price(term, range(7), [NORTH], earlier) == before


# A term of one's own


class Ending:
    """A token pays for every earlier sequence that ended in it."""

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        return (tokens.unsqueeze(-1) == self._last(earlier)).sum(-1)

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        return similarity([tokens], [self._last(earlier).squeeze(1)]).sum(-1)

    def _last(self, earlier: Earlier) -> Tensor:
        return earlier.sequences[:, None, None, :, -1]


def test_a_term_of_ones_own_can_be_softened() -> None:
    # Ends: NORTH, EAST, and one without.    LONG: 0.8 + 0.6    WEST: 0    NORTH: 1 + 0
    earlier = holding([[LONG, NORTH], [NORTH, EAST], [LONG, -1]])
    paid = price(soft(Ending()), [LONG, WEST, NORTH], [EAST], earlier)
    assert paid == pytest.approx([1.4, 0, 1], abs=CLOSE)


def test_a_softened_term_without_a_least_may_cost_nothing() -> None:
    least = soft(Ending()).least(torch.zeros(1, 2, 3, dtype=torch.long), holding([[LONG, NORTH, EAST]]))
    assert least.tolist() == [[0, 0]]


def test_a_search_with_a_softened_term_of_ones_own_is_the_reference_search() -> None:
    model = MarkovModel(torch.randn(7, 7, generator=torch.Generator().manual_seed(2)))
    strength, term = 0.6, soft(Ending())

    def search(diversity: Diversity) -> list[list[tuple[int, ...]]]:
        strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=strength, diversity=diversity)
        (found,) = decode(model, [0], strategy, max_length=4, list_width=1)
        return [[h.tokens for h in group] for group in found.groups]

    (expected,) = reference_search(
        model, [0], groups=3, beams=2, strength=[strength] * 3, diversity=term, max_length=4, end=None
    )
    by_score = [[h.tokens for h in sorted(group, key=lambda h: -h.score)] for group in expected]
    assert search(term) == by_score
    assert search(Ending()) != by_score
