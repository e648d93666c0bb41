"""The diversity terms, against tables worked by hand, and the laws that short lists rest on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from beamsplit import (
    Cumulative,
    DiverseBeamSearch,
    Diversity,
    Earlier,
    Embedding,
    Hamming,
    NGram,
    diversity,
    steps,
)
from beamsplit.testing import MarkovModel

HALVING = 1 / math.log(2)  # a temperature at which exp(-d / temperature) is 2 ** -d
CLOSE = 1e-5  # fractions lie on a grid of 2 ** -24, word vectors on one of 2 ** -20


def table(rows: Sequence[Sequence[int]]) -> Tensor:
    """[1 rows length], -1 after the end of those that are shorter."""
    width = max((len(row) for row in rows), default=0)
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(1, len(rows), width)


def holding(beams: Sequence[Sequence[int]], finished: Sequence[Sequence[int]] = ()) -> Earlier:
    """Earlier groups with these beams, their token at this step last, and these hypotheses from before."""
    held = table(beams)
    return Earlier(held[..., -1], lambda: held, lambda: table([*beams, *finished]))


def price(term: Diversity, candidates: Sequence[int], prefix: Sequence[int], earlier: Earlier) -> list[float]:
    """What one beam of one search pays for each candidate."""
    tokens = torch.tensor(candidates).view(1, 1, -1)
    said = torch.tensor(prefix, dtype=torch.long).view(1, 1, -1)
    return [float(cost) for cost in term.penalty(tokens, said, earlier)[0, 0]]


# Earlier


FINISHED = torch.tensor([[[4, 5, 6], [7, -1, -1]]])


def test_finished_sequences_say_at_a_time_what_stands_there() -> None:
    assert Earlier.of(FINISHED, time=0).tokens.tolist() == [[4, 7]]
    assert Earlier.of(FINISHED, time=1).tokens.tolist() == [[5, -1]]
    assert Earlier.of(FINISHED, time=2).tokens.tolist() == [[6, -1]]


def test_finished_sequences_say_nothing_beyond_their_length() -> None:
    beyond = Earlier.of(FINISHED, time=4)
    assert beyond.tokens.tolist() == [[-1, -1]]
    assert beyond.beams.tolist() == [[[4, 5, 6, -1, -1], [7, -1, -1, -1, -1]]]


def test_beams_reach_to_this_step_and_sequences_to_the_end() -> None:
    seen = Earlier.of(FINISHED, time=1)
    assert seen.beams.tolist() == [[[4, 5], [7, -1]]]
    assert seen.sequences.tolist() == FINISHED.tolist()


def test_full_sequences_are_made_once_and_only_if_asked_for() -> None:
    calls: list[str] = []

    def made(name: str) -> Callable[[], Tensor]:
        def make() -> Tensor:
            calls.append(name)
            return FINISHED

        return make

    earlier = Earlier(FINISHED[..., 0], made("beams"), made("sequences"))
    Hamming().penalty(torch.tensor([[[4]]]), torch.empty(1, 1, 0, dtype=torch.long), earlier)
    assert calls == []
    assert earlier.beams is earlier.beams
    assert earlier.sequences is earlier.sequences
    assert calls == ["beams", "sequences"]


# Hamming


def test_hamming_counts_earlier_beams_that_say_the_same_now() -> None:
    # Now: 7, 7, 3. What they said before (5, 5, 5) does not matter.
    earlier = holding([[5, 7], [5, 7], [5, 3]])
    assert price(Hamming(), [3, 5, 7], [5], earlier) == [1, 0, 2]


def test_hamming_ignores_beams_that_ended() -> None:
    # The second beam ended a step ago: its -1 is nobody's token, not even token 0's.
    earlier = holding([[5, 7], [0, -1]])
    assert price(Hamming(), [0, 5, 7], [5], earlier) == [0, 0, 1]


def test_hamming_tells_searches_and_beams_apart() -> None:
    # Two searches of two beams: the first hears 1 and 1, the second 2 and nothing.
    says = torch.tensor([[1, 1], [2, -1]])
    tokens = torch.tensor([[[1, 2], [2, 3]], [[1, 2], [2, 3]]])
    nothing_yet = torch.empty(2, 2, 0, dtype=torch.long)
    answer = Hamming().penalty(tokens, nothing_yet, Earlier.of(says.unsqueeze(-1), time=0))
    assert answer.tolist() == [[[2, 0], [0, 0]], [[0, 1], [1, 0]]]


# Cumulative

# The beam has said 1 2. Positions at which the earlier beams have differed from it so far:
#   1 2 (then 6): 0      1 3 (then 6): 1      4 5 (then 7): 2
# With this step's position, where a candidate differs from what is said or does not:
#   candidate 6:  0  1  3
#   candidate 7:  1  2  2
#   candidate 9:  1  2  3
DRIFTED = [[1, 2, 6], [1, 3, 6], [4, 5, 7]]
DISTANCES = {6: (0, 1, 3), 7: (1, 2, 2), 9: (1, 2, 3)}


def test_cumulative_halves_with_each_difference() -> None:
    # 6: 1 + 1/2 + 1/8    7: 1/2 + 1/4 + 1/4    9: 1/2 + 1/4 + 1/8
    paid = price(Cumulative(temperature=HALVING), [6, 7, 9], [1, 2], holding(DRIFTED))
    assert paid == pytest.approx([1.625, 1.0, 0.875], abs=CLOSE)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0, 2.0, 10.0])
def test_cumulative_decays_with_temperature(temperature: float) -> None:
    expected = [sum(math.exp(-d / temperature) for d in apart) for apart in DISTANCES.values()]
    paid = price(Cumulative(temperature=temperature), list(DISTANCES), [1, 2], holding(DRIFTED))
    assert paid == pytest.approx(expected, abs=CLOSE)


def test_cumulative_has_temperature_one_by_default() -> None:
    # One beam, apart at both positions so far, and now: exp(-3); or the same token now: exp(-2).
    paid = price(Cumulative(), [6, 7], [1, 2], holding([[3, 4, 7]]))
    assert paid == pytest.approx([math.exp(-3), math.exp(-2)], abs=CLOSE)


def test_cumulative_ignores_beams_that_ended() -> None:
    # 1 2 ended: though it agreed with the beam all along, it says nothing now.
    paid = price(Cumulative(temperature=HALVING), [6, 7, 9], [1, 2], holding([*DRIFTED, [1, 2]]))
    assert paid == pytest.approx([1.625, 1.0, 0.875], abs=CLOSE)
    assert price(Cumulative(), [6, 7], [1, 2], holding([[1, 2, -1]])) == [0, 0]


def test_cumulative_at_the_first_step_knows_same_and_other_only() -> None:
    # Two beams say 3, one says 4. 3: 1 + 1 + 1/2    4: 1/2 + 1/2 + 1    5: 1/2 each
    paid = price(Cumulative(temperature=HALVING), [3, 4, 5], [], holding([[3], [3], [4]]))
    assert paid == pytest.approx([2.5, 2.0, 1.5], abs=CLOSE)


# n-grams


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


def test_bigrams_are_the_default() -> None:
    assert NGram() == NGram(n=2)


# Embedding

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


# Laws

VOCABULARY = 12
RANDOM_VECTORS = torch.randn(VOCABULARY, 16, generator=torch.Generator().manual_seed(5))

HARD_TERMS: list[Diversity] = [Hamming(), Cumulative(temperature=0.7), NGram(n=1), NGram(n=2), NGram(n=3)]
SOFT_TERMS: list[Diversity] = [
    Embedding(vectors=RANDOM_VECTORS, of=of)
    for of in (Hamming(), Cumulative(temperature=0.7), NGram(n=1), NGram(n=2), NGram(n=3))
]
TERMS = [pytest.param(term, id=str(i)) for i, term in enumerate([*HARD_TERMS, *SOFT_TERMS])]


class Situation:
    """Random searches in which some earlier beams have ended: 3 searches, 4 beams, 7 earlier, time 5."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)

        def draw(*shape: int) -> Tensor:
            return torch.randint(VOCABULARY, shape, generator=generator)

        self.tokens = torch.arange(VOCABULARY).expand(3, 4, -1)
        self.prefix = draw(3, 4, 5)
        self.beams = draw(3, 7, 6)
        self.beams[:, 2, 3:] = -1
        self.beams[1, 5, 5:] = -1

    def price(
        self,
        term: Diversity,
        *,
        searches: slice = slice(None),
        beams: slice = slice(None),
        tokens: slice = slice(None),
        earlier: Tensor | None = None,
    ) -> Tensor:
        held = self.beams if earlier is None else earlier
        return term.penalty(
            self.tokens[searches, beams, tokens],
            self.prefix[searches, beams],
            Earlier.of(held[searches], time=5),
        )


@pytest.fixture(scope="module")
def situation() -> Situation:
    return Situation()


@pytest.mark.parametrize("term", TERMS)
def test_penalties_are_finite_and_not_negative_and_some_are_not_zero(
    term: Diversity, situation: Situation
) -> None:
    paid = situation.price(term)
    assert paid.shape == situation.tokens.shape
    assert bool((paid >= 0).all())
    assert bool(paid.isfinite().all())
    assert bool((paid > 0).any())


@pytest.mark.parametrize("term", TERMS)
def test_a_candidate_alone_costs_the_same_bits(term: Diversity, situation: Situation) -> None:
    together = situation.price(term)
    for token in range(VOCABULARY):
        alone = situation.price(term, tokens=slice(token, token + 1))
        assert torch.equal(alone, together[..., token : token + 1])


@pytest.mark.parametrize("term", SOFT_TERMS, ids=lambda term: str(term.of))
@pytest.mark.parametrize(
    "some", [1, 12 * 16 * 5, 12 * 16 * 11]
)  # one token, five, all but one; of n-grams fewer
def test_some_tokens_at_a_time_cost_the_same_bits(
    term: Embedding, some: int, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = situation.price(term)
    asked: list[int] = []
    price = Embedding._penalty

    def counted(self: Embedding, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        asked.append(tokens.shape[2])
        return price(self, tokens, prefix, earlier)

    monkeypatch.setattr(diversity, "_AT_ONCE", some)
    monkeypatch.setattr(Embedding, "_penalty", counted)
    assert torch.equal(situation.price(term), whole)
    assert sum(asked) == VOCABULARY
    assert len(asked) > 1


@pytest.mark.parametrize("term", TERMS)
def test_a_beam_of_a_search_alone_costs_the_same_bits(term: Diversity, situation: Situation) -> None:
    together = situation.price(term)
    for search in range(3):
        for beam in range(4):
            here, this = slice(search, search + 1), slice(beam, beam + 1)
            assert torch.equal(situation.price(term, searches=here, beams=this), together[here, this])


@pytest.mark.parametrize("term", TERMS)
def test_silent_earlier_beams_do_not_change_a_bit(term: Diversity, situation: Situation) -> None:
    silent = torch.full((3, 9, 6), -1)
    more = torch.cat([situation.beams[:, :4], silent, situation.beams[:, 4:]], dim=1)
    assert torch.equal(situation.price(term, earlier=more), situation.price(term))


@pytest.mark.parametrize("term", TERMS)
def test_the_order_of_earlier_beams_does_not_change_a_bit(term: Diversity, situation: Situation) -> None:
    # Sums of fractions are taken where addition is exact.
    assert torch.equal(situation.price(term, earlier=situation.beams.flip(1)), situation.price(term))


@pytest.mark.parametrize("term", TERMS)
def test_no_earlier_beams_cost_nothing(term: Diversity, situation: Situation) -> None:
    assert bool((situation.price(term, earlier=situation.beams[:, :0]) == 0).all())


@pytest.mark.parametrize("term", [Hamming(), Cumulative(temperature=0.7)])
def test_these_terms_charge_extra_for_tokens_just_said_alone(
    term: Hamming | Cumulative, situation: Situation
) -> None:
    paid = situation.price(term)
    just_said = (situation.tokens.unsqueeze(-1) == situation.beams[:, None, None, :, -1]).any(-1)
    for search, beam in [(s, b) for s in range(3) for b in range(4)]:
        rest = paid[search, beam][~just_said[search, beam]]
        assert bool((rest == rest[0]).all())
        assert bool((paid[search, beam][just_said[search, beam]] > rest[0]).all())


@pytest.mark.parametrize("of", [Hamming(), Cumulative(temperature=0.7), NGram(n=1), NGram(n=2)])
def test_vectors_at_right_angles_give_back_the_exact_term(
    of: Hamming | Cumulative | NGram, situation: Situation
) -> None:
    # With a direction for each word, the cosine is 1 for the same word and 0 for others. An n-gram's sum
    # forgets the order, and shares half with a bigram that shares a word, so it can only be more.
    exact, softened = (
        situation.price(of),
        situation.price(Embedding(vectors=torch.eye(VOCABULARY), of=of)),
    )
    if of == NGram(n=2):
        assert bool((softened >= exact).all())
    else:
        assert torch.allclose(softened, exact.double(), atol=1e-6)


def test_an_embedding_knows_its_vocabulary() -> None:
    assert soft(Hamming()).vocabulary == 7


# What any token pays


def test_the_least_is_what_a_token_pays_that_nobody_says() -> None:
    earlier = holding([[4, 5, 6], [4, 9, 8], [3, 9, -1]])
    term = Cumulative(temperature=HALVING)
    prefix = torch.tensor([[[4, 5]]])
    # Beside the first, 0 places apart and then 1; beside the second, 1 and then 2; the third has ended.
    assert term.least(prefix, earlier).tolist() == [[pytest.approx(1 / 2 + 1 / 4, abs=CLOSE)]]
    assert price(term, [7], [4, 5], earlier) == term.least(prefix, earlier)[0].tolist()


SCATTERED = torch.randn(12, 5, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(
    "term",
    [
        Cumulative(temperature=3.0),
        Embedding(vectors=SCATTERED, of=Hamming()),
        Embedding(vectors=SCATTERED, of=Cumulative(temperature=3.0)),
        Embedding(vectors=SCATTERED, of=NGram(n=2)),
    ],
)
def test_no_token_pays_less_than_the_least(term: Cumulative | Embedding) -> None:
    generator = torch.Generator().manual_seed(5)
    held = torch.randint(12, (3, 6, 4), generator=generator)
    earlier = Earlier(held[..., -1], lambda: held, lambda: held)
    prefix = torch.randint(12, (3, 2, 3), generator=generator)
    everything = torch.arange(12).expand(3, 2, 12)
    least = term.least(prefix, earlier).unsqueeze(2)
    assert bool((term.penalty(everything, prefix, earlier) >= least).all())


def test_lists_stay_short_where_every_token_pays_much() -> None:
    model = MarkovModel(torch.randn(2000, 2000, generator=torch.Generator().manual_seed(0)).log_softmax(1))
    strategy = DiverseBeamSearch(groups=10, strength=2.0, diversity=Cumulative(temperature=10.0))
    widths = [step.selections[0].width for step in steps(model, [0, 1], strategy, max_length=6)]
    assert max(widths) < 500
