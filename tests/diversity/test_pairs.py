"""What candidates pay for each other: by hand, and as parts of whole penalties, to the last bit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import Cumulative, Earlier, Embedding, Hamming, NGram
from beamsplit.diversity import Pairs, comparing
from beamsplit.diversity.term import Comparison
from diversity.test_laws import RANDOM_VECTORS, SOFT_TERMS, UNEVEN_VECTORS, VOCABULARY
from diversity.worked import HALVING

OWN_TERMS = [Cumulative(temperature=0.7), NGram(n=1), NGram(n=2), NGram(n=3)]
TERMS: list[Any] = [*OWN_TERMS, *SOFT_TERMS]
every_term = pytest.mark.parametrize("term", TERMS, ids=range(len(TERMS)))


def pairs_of(term: Any, tokens: Tensor, prefix: Tensor) -> Pairs:
    pairs: Pairs = term.pairs(tokens, prefix)
    return pairs


# By hand. Two beams, which have said 4 5 and 4 6; their lists are 5 7 and 5 8, in slots 0 to 3.
TOKENS = torch.tensor([[[5, 7], [5, 8]]])
PREFIX = torch.tensor([[[4, 5], [4, 6]]])


def prices(term: Any, slot: int) -> list[float]:
    """What the four candidates pay for that in one slot."""
    paid = pairs_of(term, TOKENS, PREFIX).of(torch.tensor([[slot]]))
    assert paid.shape == (1, 1, 2, 2)
    return [float(each) for each in paid.flatten()]


def test_cumulative_pays_by_how_far_beams_are_apart() -> None:
    # For 5 after 4 5: that beam itself is 0 apart, and 1 with another token; the other 1, and 2.
    assert prices(Cumulative(temperature=HALVING), 0) == [1.0, 0.5, 0.5, 0.25]
    least = pairs_of(Cumulative(temperature=HALVING), TOKENS, PREFIX).least(torch.tensor([[0, 3]]))
    assert least is not None
    assert least.tolist() == [[[0.5, 0.25], [0.25, 0.5]]]


def test_bigrams_pay_for_what_the_beam_has_had_and_for_what_it_completes() -> None:
    # 4 5 5 holds 4 5 and 5 5: the first beam's 5 completes 5 5. After 4 6 nothing begins as 6 does.
    assert prices(NGram(n=2), 0) == [1, 0, 0, 0]
    # 4 6 5 holds 4 6 and 6 5.
    assert prices(NGram(n=2), 2) == [0, 0, 1, 0]


def test_single_tokens_pay_wherever_they_stand() -> None:
    # 4 5 7 holds a 5 and a 7.
    assert prices(NGram(n=1), 1) == [1, 1, 1, 0]


def test_before_an_ngram_can_be_complete_nothing_costs_anything() -> None:
    assert prices(NGram(n=4), 0) == [0, 0, 0, 0]
    assert prices(Embedding(vectors=torch.eye(9), of=NGram(n=4)), 0) == [0, 0, 0, 0]


def test_a_term_that_cannot_tell_pairs_cannot_when_it_is_softened() -> None:
    class Nothing:
        def soft_penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Any) -> Tensor:
            return torch.zeros_like(tokens)

    assert Embedding(vectors=torch.eye(9), of=Nothing()).pairs(TOKENS, PREFIX) is None


# Parts of the whole


class Situation:
    """Two searches of 4 beams with 7 candidates each, of which some are empty, at time 5."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(6)
        self.prefix = (
            torch.randint(VOCABULARY, (2, 4, 5), generator=generator) % 4
        )  # so that much is said twice
        order = torch.rand(2, 4, VOCABULARY, generator=generator).argsort(-1)
        self.tokens = order[..., :7].sort(-1).values
        self.tokens[0, 1, 0] = -1

    def spell(self, slots: Tensor) -> Tensor:
        """What these candidates make of their beams: [batch e time+1]."""
        beams = self.prefix.gather(1, (slots // 7).unsqueeze(2).expand(*slots.shape, 5))
        return torch.cat([beams, self.tokens.flatten(1).gather(1, slots).unsqueeze(2)], 2)

    def equal(self, ours: Tensor, theirs: Tensor) -> bool:
        """Tell whether penalties are the same, to the last bit, where there is a candidate."""
        listed = self.tokens >= 0
        return torch.equal(ours[listed], theirs[listed])


SLOTS = torch.tensor([[0, 9, 9, 20, 27], [3, 8, 15, 16, 2]])  # of which none is empty


@every_term
def test_a_penalty_is_the_sum_over_pairs(term: Any) -> None:
    case = Situation()
    pairs = pairs_of(term, case.tokens, case.prefix)
    held = case.spell(SLOTS)
    earlier = Earlier(held[..., -1], lambda: held, lambda: held)
    whole = term.penalty(case.tokens, case.prefix, earlier)
    assert bool((whole > 0).any())
    assert case.equal(pairs.of(SLOTS).sum(1).to(whole.dtype), whole)
    one_by_one = [pairs.of(SLOTS[:, e : e + 1]) for e in range(SLOTS.shape[1])]
    assert torch.equal(torch.cat(one_by_one, 1), pairs.of(SLOTS))


@every_term
def test_what_else_is_held_is_paid_for_besides(term: Any) -> None:
    case = Situation()
    held, finished = case.spell(SLOTS), torch.tensor([1, 2, 0, 3, 1, -1]).expand(2, 2, 6)
    both = torch.cat([held, finished], 1)
    none = held[:, :0]
    pairs = pairs_of(term, case.tokens, case.prefix)
    whole = term.penalty(case.tokens, case.prefix, Earlier(held[..., -1], lambda: held, lambda: both))
    rest = term.penalty(case.tokens, case.prefix, Earlier(none[..., -1], lambda: none, lambda: finished))
    assert case.equal(pairs.of(SLOTS).sum(1) + rest, whole)
    assert pairs.counts_finished or not bool(rest.any())


@pytest.mark.parametrize(
    "term",
    [
        Cumulative(temperature=3.0),
        *(Embedding(vectors=v, of=Cumulative()) for v in (RANDOM_VECTORS, UNEVEN_VECTORS)),
    ],
)
def test_the_least_is_the_sum_over_pairs(term: Any) -> None:
    case = Situation()
    held = case.spell(SLOTS)
    least = pairs_of(term, case.tokens, case.prefix).least(SLOTS)
    assert least is not None
    whole = term.least(case.prefix, Earlier(held[..., -1], lambda: held, lambda: held))
    assert torch.equal(least.sum(1), whole)


# Comparisons


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("vectors", [RANDOM_VECTORS, UNEVEN_VECTORS])
@pytest.mark.parametrize("room", [1, 300, 2**25])
def test_both_ways_to_compare_find_the_same_bits(
    n: int, vectors: Tensor, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    term = Embedding(vectors=vectors)
    generator = torch.Generator().manual_seed(n)
    draw = functools.partial(torch.randint, -1, VOCABULARY, generator=generator)
    ours: Sequence[Tensor] = [draw((2, 9)) for _ in range(n)]
    theirs: Sequence[Tensor] = [draw((2, 3, 4)) for _ in range(n)]
    slots = torch.tensor([[0, 4, 4], [8, 1, 2]])
    plain: Comparison = comparing.OneByOne(term, ours)
    expected = plain.among(slots), plain.sums(theirs)
    monkeypatch.setattr(comparing, "AT_ONCE", room)
    for way in (comparing.OneByOne(term, ours), comparing.ByKind(term, ours, vectors.shape[1])):
        assert torch.equal(way.among(slots[:, :1]), expected[0][:, :1])
        assert torch.equal(way.among(slots), expected[0])
        assert torch.equal(way.sums(theirs), expected[1])
    alike = term.similarity([each.unsqueeze(1) for each in ours], theirs)  # [2 3 9 4]
    assert torch.equal(expected[1], alike.sum(-1))


def test_each_kind_is_compared_once() -> None:
    asked: list[int] = []

    class Counting(Embedding):
        def directions(self, ngrams: Sequence[Tensor]) -> Any:
            asked.append(ngrams[0].numel())
            return super().directions(ngrams)

    tokens = torch.tensor([[7, 3, 3, 7, 5], [3, 3, 5, 5, 7]])
    compared = comparing.ByKind(Counting(vectors=RANDOM_VECTORS), [tokens], 16)
    assert asked == [3]  # 3, 5 and 7
    compared.among(torch.tensor([[0, 1], [0, 1]]))
    assert asked == [3, 2]  # 7 and 3
    compared.among(torch.tensor([[3, 4], [1, 4]]))
    assert asked == [3, 2, 1]  # 5 is new


def test_a_gpu_is_not_waited_for_unless_there_is_much_to_compare() -> None:
    term, tokens = Embedding(vectors=RANDOM_VECTORS), torch.zeros(1, 40, dtype=torch.long)
    assert isinstance(comparing.compare(term, [tokens], 16), comparing.ByKind)
    assert isinstance(comparing.compare(term, [tokens.to("meta")], 16), comparing.OneByOne)
    assert isinstance(comparing.compare(term, [tokens], comparing.AT_ONCE), comparing.ByKind)


def test_a_whole_vocabulary_of_ngrams_is_left_to_the_penalty() -> None:
    assert NGram(n=1).pairs(torch.zeros(1, 1, 300, dtype=torch.long), PREFIX[:, :1]) is None
    assert not hasattr(Hamming(), "pairs")  # whose penalties are as quick
