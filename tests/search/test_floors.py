"""Lists of the tokens that may score best, where all tokens cost something: as exact as lists of all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import DiverseBeamSearch, Embedding, NGram, decode
from beamsplit.diversity import comparing
from beamsplit.search import floors, picking
from beamsplit.search.floors import Priced
from beamsplit.search.rows import Rows
from beamsplit.search.shortlist import Scores
from beamsplit.search.state import Beams
from beamsplit.testing import PrefixHashModel, reference_search

VOCABULARY = 2000


def alike(vocabulary: int = VOCABULARY, dimensions: int = 12) -> Tensor:
    """Vectors that all have much in common, as those of language models do."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(vocabulary, dimensions, generator=generator) + 0.7


TERM = Embedding(vectors=alike())


def sequences(found: Any) -> list[list[tuple[Any, ...]]]:
    return [sorted((h.tokens, h.log_prob, h.score) for h in group) for each in found for group in each.groups]


def count_priced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []

    class Counting(Priced):
        def shortlist(self, width: int) -> Any:
            made.append(width)
            return super().shortlist(width)

    monkeypatch.setattr(picking, "Priced", Counting)
    return made


@pytest.mark.parametrize("strength", [1.0, 4.0])
@pytest.mark.parametrize("options", [{}, {"no_repeat_ngram": 2}, {"end": [3, 9], "min_length": 2}], ids=str)
def test_they_change_no_result(
    strength: float, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_priced(monkeypatch)
    model = PrefixHashModel(VOCABULARY, seed=2, scale=2.0)
    strategy = DiverseBeamSearch(groups=5, beams_per_group=2, strength=strength, diversity=TERM)
    found = decode(model, [0, 1, 2], strategy, max_length=5, **options)
    assert made, "some lists were made by floors"
    assert sum(made) / len(made) < VOCABULARY / 3, "and these were short"
    monkeypatch.setattr(Embedding, "floors", lambda *_: None)
    made.clear()
    assert sequences(decode(model, [0, 1, 2], strategy, max_length=5, **options)) == sequences(found)
    assert not made


def test_they_are_the_reference_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_priced(monkeypatch)
    model = PrefixHashModel(VOCABULARY, seed=4, scale=2.0)
    strategy = DiverseBeamSearch(groups=4, beams_per_group=2, strength=3.0, diversity=TERM)
    found = decode(model, [0, 1], strategy, max_length=3, end=7)
    expected = reference_search(
        model, [0, 1], groups=4, beams=2, strength=(3.0,) * 4, diversity=TERM, max_length=3, end=7
    )
    assert made
    assert sequences(found) == [
        sorted((h.tokens, h.log_prob, h.score) for h in group) for each in expected for group in each
    ]
    assert all(h.certified for each in found for h in each)


def test_lists_that_are_still_too_short_are_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floors that say nothing are right, too: then lists grow until they hold every token."""
    model = PrefixHashModel(VOCABULARY, seed=2, scale=2.0)
    strategy = DiverseBeamSearch(groups=4, beams_per_group=2, strength=4.0, diversity=TERM)
    found = decode(model, [0, 1], strategy, max_length=3)
    made = count_priced(monkeypatch)
    known = Embedding.floors

    def nothing(self: Embedding, said: Tensor, seen: Tensor) -> Tensor | None:
        told = known(self, said, seen)
        return None if told is None else torch.zeros_like(told)

    monkeypatch.setattr(Embedding, "floors", nothing)
    assert sequences(decode(model, [0, 1], strategy, max_length=3)) == sequences(found)
    assert max(made) >= 4 * floors.LONG


def test_lists_stay_short_where_floors_tell_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not twice as long in each step, as where lists of the likeliest are too short."""
    widths: list[int] = []
    pick_from = picking._pick_from

    def noting(frontier: Any, lists: Any, *rest: Any) -> Any:
        widths.append(lists.tokens.shape[-1])
        return pick_from(frontier, lists, *rest)

    monkeypatch.setattr(picking, "_pick_from", noting)
    strategy = DiverseBeamSearch(groups=8, strength=3.0, diversity=TERM)
    decode(PrefixHashModel(VOCABULARY, seed=2, scale=2.0), [0], strategy, max_length=12)
    assert max(widths) <= 4 * floors.LONG


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [1.0, 1e-3, 100.0])
def test_floors_are_below_what_tokens_pay_and_close(dtype: torch.dtype, length: float) -> None:
    vectors = (alike(500, 64) * length).to(dtype)
    vectors[7] = 0  # like nothing
    term = Embedding(vectors=vectors)
    tokens = torch.arange(500).expand(2, 1, 500)
    pairs: Any = term.pairs(tokens, torch.zeros(2, 1, 0, dtype=torch.long))
    slots = torch.randint(500, (2, 6), generator=torch.Generator().manual_seed(0))
    seen = torch.tensor([[False], [True], [True], [False], [True], [True]]).expand(2, 6, 1)
    paid, least = pairs.totals(slots, seen), pairs.floors(slots, seen)
    assert paid.shape == least.shape == (2, 1, 500)
    assert bool((least <= paid).all())
    unclipped = (paid > 0.5) & (paid - paid.floor() > 0)
    assert bool((least > paid - 0.5)[unclipped].float().mean() > 0.9)


def test_totals_are_the_sums_of_what_pairs_pay() -> None:
    tokens = torch.randint(VOCABULARY, (2, 6, 5), generator=torch.Generator().manual_seed(1))
    slots = torch.tensor([[0, 7, 7, 21], [3, 3, 12, 29]])
    seen = torch.rand(2, 4, 3, generator=torch.Generator().manual_seed(2)) < 0.6
    pairs: Any = TERM.pairs(tokens, torch.zeros(2, 6, 0, dtype=torch.long))
    each = pairs.of(slots).view(2, 4, 3, 10)  # three groups of two beams
    expected = (each * seen.unsqueeze(3)).sum(1)
    assert torch.equal(pairs.totals(slots, seen), expected)
    one_by_one = comparing.OneByOne(TERM, [tokens.flatten(1)])
    assert torch.equal(one_by_one.totals(slots, seen), expected)


@pytest.mark.parametrize(
    "term",
    [
        Embedding(vectors=torch.full((30, 3), 1e-30)),  # which float32 cannot square
        Embedding(vectors=torch.full((30, 3), 1e30)),
        Embedding(vectors=alike(30, 3), of=NGram(n=2)),
    ],
    ids=["short", "long", "bigrams"],
)
def test_where_floors_are_not_known_lists_are_of_the_likeliest(term: Embedding) -> None:
    tokens = torch.arange(30).expand(1, 1, 30)
    pairs: Any = term.pairs(tokens, torch.zeros(1, 1, 3, dtype=torch.long))
    if hasattr(pairs, "floors"):
        assert pairs.floors(torch.tensor([[3]]), torch.ones(1, 1, 1, dtype=torch.bool)) is None
    else:
        assert isinstance(term.of, NGram)


def test_products_in_half_precision_bound_nothing() -> None:
    said, seen = torch.tensor([[3]]), torch.ones(1, 1, 1, dtype=torch.bool)
    assert TERM.floors(said, seen) is not None
    try:
        torch.set_float32_matmul_precision("medium")
        assert TERM.floors(said, seen) is None
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_best_of_what_is_not_listed_by_hand() -> None:
    gain = torch.tensor([[-1.0, -2.0, -3.0, -4.0], [-5.0, -1.0, -1.0, -9.0]])
    scores = Scores(gain, gain, gain)
    beams = Beams.roots(torch.tensor([[[0.0, -1.0]]]))
    rows = Rows(torch.tensor([[[0, 1]]]), 2)
    costs = torch.tensor([[[4.0, 0.0, 0.0, 0.5]]])
    last = {"picked": torch.tensor([[[1, 2]]]), "worst": torch.tensor([[-3.5]])}
    priced = Priced(scores, beams, rows, costs, **last)
    # Beam 0: -5, -2, -3, -4.5. Beam 1: -10, -2, -2, -10.5.
    assert priced.bound(torch.tensor([[[[1, 2], [1, 3]]]])).tolist() == [[[-4.5, -2.0]]]
    assert priced.bound(torch.tensor([[[[0, 1], [1, 2]]]])).tolist() == [[[-3.0, -10.0]]]
    assert priced.bound(torch.tensor([[[[-1, 1], [1, 2]]]])).tolist() == [[[-3.0, -10.0]]]  # an empty place
    assert priced.shortlist(2).tokens.tolist() == [[[[1, 2], [1, 2]]]]
    assert priced.shortlist(3).log_prob.tolist() == [[[[-2.0, -3.0, -4.0], [-5.0, -1.0, -1.0]]]]


def test_what_cannot_come_up_to_the_worst_pick_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "_FEW", 1)
    gain = torch.tensor([[-1.0, -2.0, -3.0, -4.0]])
    last = {"picked": torch.tensor([[[0]]]), "worst": torch.tensor([[-2.0]])}
    beams, rows = Beams.roots(torch.zeros(1, 1, 1)), Rows(torch.zeros(1, 1, 1, dtype=torch.long), 1)
    priced = Priced(Scores(gain, gain, gain), beams, rows, torch.zeros(1, 1, 4), **last)
    found = priced.shortlist(3)
    assert found.tokens.tolist() == [[[[-1, 0, 1]]]]
    assert found.gain.tolist() == [[[[-torch.inf, -1.0, -2.0]]]]
