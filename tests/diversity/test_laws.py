"""The laws that short lists rest on: a penalty depends on the candidate alone, to the last bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from beamsplit import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram
from beamsplit.diversity import Similarity, SoftTerm, comparing, embedding

VOCABULARY = 12
RANDOM_VECTORS = torch.randn(VOCABULARY, 16, generator=torch.Generator().manual_seed(5))

# Lengths from 1e-5 to 1e5, a token without a vector, two opposites, and three that add up to zero.
UNEVEN_VECTORS = RANDOM_VECTORS * torch.logspace(-5, 5, VOCABULARY).unsqueeze(1)
UNEVEN_VECTORS[0] = 0.0
UNEVEN_VECTORS[3] = -UNEVEN_VECTORS[2]
UNEVEN_VECTORS[4:6] = RANDOM_VECTORS[4:6].bfloat16()
UNEVEN_VECTORS[6] = -UNEVEN_VECTORS[4] - UNEVEN_VECTORS[5]

OWN_TERMS = (Hamming(), Cumulative(temperature=0.7), NGram(n=1), NGram(n=2), NGram(n=3))
HARD_TERMS: list[Diversity] = list(OWN_TERMS)
SOFT_TERMS = [
    Embedding(vectors=vectors, of=of) for vectors in (RANDOM_VECTORS, UNEVEN_VECTORS) for of in OWN_TERMS
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


class Counting:
    """A term that notes how many candidates it is asked about."""

    def __init__(self, term: SoftTerm) -> None:
        self.term = term
        self.asked: list[int] = []

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        self.asked.append(tokens.shape[2])
        return self.term.soft_penalty(tokens, prefix, earlier, similarity)


@pytest.mark.parametrize("term", HARD_TERMS, ids=str)
@pytest.mark.parametrize("width", [1, 300, 700])
def test_a_whole_vocabulary_costs_what_its_parts_cost(term: Diversity, width: int) -> None:
    """Terms may count by a table where lists are long. Some places of lists are empty: -1."""
    generator = torch.Generator().manual_seed(4)
    prefix, held = (torch.randint(700, (3, n, 6), generator=generator) % 40 for n in (4, 9))
    held[:, 2, 3:] = -1
    vocabulary = torch.arange(-1, 700).expand(3, 4, -1)
    earlier = Earlier.of(held, time=5)
    whole = term.penalty(vocabulary, prefix[..., :5], earlier)
    parts = [
        term.penalty(tokens, prefix[..., :5], earlier) for tokens in torch.split(vocabulary, width, dim=-1)
    ]
    assert torch.equal(torch.cat(parts, dim=-1), whole)
    assert bool((whole > 0).any())


@pytest.mark.parametrize("term", SOFT_TERMS)
# One token, five, all but one; of n-grams fewer. There are 12 beams, and 7 earlier ones for each.
@pytest.mark.parametrize("some", [1, 12 * 7 * 5, 12 * 7 * 11])
def test_some_tokens_at_a_time_cost_the_same_bits(
    term: Embedding, some: int, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting(term.of)
    monkeypatch.setattr(comparing, "AT_ONCE", some)
    paid = situation.price(Embedding(vectors=term.vectors, of=counting))
    monkeypatch.undo()
    assert torch.equal(paid, situation.price(term))
    none, *asked = counting.asked
    assert none == 0
    assert sum(asked) == VOCABULARY
    assert len(asked) > 1


@pytest.mark.parametrize("term", SOFT_TERMS)
@pytest.mark.parametrize("some", [1, 12 * 16, 12 * 16 * 5])
def test_some_vectors_at_a_time_cost_the_same_bits(
    term: Embedding, some: int, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = situation.price(term)
    monkeypatch.setattr(embedding, "_IN_CACHE", some)
    assert torch.equal(situation.price(Embedding(vectors=term.vectors, of=term.of)), whole)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dimensions", [1, 2, 7, 64, 1001])
def test_a_pair_of_ngrams_alone_has_the_same_similarity(n: int, dimensions: int) -> None:
    """So many dimensions that torch would add them up in other portions, were the sums not exact."""
    generator = torch.Generator().manual_seed(dimensions)
    vectors = torch.randn(40, dimensions, generator=generator, dtype=torch.double).exp()
    term = Embedding(vectors=vectors)
    ours, theirs = (torch.randint(40, (n, 30), generator=generator) for _ in range(2))
    together = term.similarity(ours.unbind(), theirs.unbind())
    for i, j in torch.randint(30, (60, 2), generator=generator).tolist():
        alone = term.similarity(ours[:, i : i + 1].unbind(), theirs[:, j : j + 1].unbind())
        assert alone.item() == together[i, j].item()
    few = term.similarity(ours[:, 3:10].unbind(), theirs[:, 5:].unbind())
    assert torch.equal(few, together[3:10, 5:])


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


SCATTERED = torch.randn(12, 5, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize(
    "term",
    [
        Cumulative(temperature=3.0),
        Embedding(vectors=SCATTERED, of=Hamming()),
        Embedding(vectors=SCATTERED, of=Cumulative(temperature=3.0)),
        Embedding(vectors=SCATTERED, of=NGram(n=2)),
        *SOFT_TERMS,
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


@pytest.mark.parametrize("vectors", [RANDOM_VECTORS, UNEVEN_VECTORS])
def test_a_token_that_is_like_no_other_pays_the_least(vectors: Tensor, situation: Situation) -> None:
    with_blank = torch.cat([vectors, torch.zeros(1, 16)])
    term = Embedding(vectors=with_blank, of=Cumulative(temperature=3.0))
    earlier = Earlier.of(situation.beams, time=5)
    blank = torch.full((3, 4, 1), VOCABULARY)
    least = term.least(situation.prefix, earlier)
    assert bool((least > 0).any())
    assert torch.equal(term.penalty(blank, situation.prefix, earlier).squeeze(2), least)
