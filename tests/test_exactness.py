"""Equality to the last bit: with a search too simple to be wrong, and between ways that must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    Cumulative,
    DiverseBeamSearch,
    Diversity,
    Earlier,
    FunctionModel,
    Hypotheses,
    Hypothesis,
    JoinableModel,
    Sampling,
    Strategy,
    decode,
)
from beamsplit.search import noise
from beamsplit.search.shortlist import top_tokens
from beamsplit.testing import PrefixHashModel, reference_search, rescore
from search.cases import TERMS, every_schedule, every_strategy, every_term, law, made_up_model, normal


@dataclass(frozen=True)
class Case:
    """A search to be done both ways; its fields are what a failing test prints."""

    kind: str
    vocabulary: int
    seed: int
    beams: int
    strength: tuple[float, ...]  # a group each
    max_length: int
    end: int | None
    list_width: int | None = None

    @property
    def model(self) -> JoinableModel:
        return made_up_model(self.kind, self.vocabulary, self.seed)


_strength = st.sampled_from([0.0, 0.1, 0.3, 1.0, 7.0, 100.0])
small_cases = st.builds(
    Case,
    kind=st.sampled_from(["smooth", "ties", "markov"]),
    vocabulary=st.integers(3, 12),
    seed=st.integers(0, 10_000),
    beams=st.integers(1, 3),
    strength=st.lists(_strength, min_size=1, max_size=4).map(tuple),
    max_length=st.integers(1, 5),
    end=st.sampled_from([None, 0, 2]),
    list_width=st.sampled_from([None, 1, 2, 4]),
)


def _ranked(group: Sequence[Hypothesis]) -> list[tuple[tuple[int, ...], float, float, bool]]:
    """A group's hypotheses by score; of equals, the likelier first."""
    by_log_prob = sorted(group, key=lambda h: -h.log_prob)
    return [(h.tokens, h.log_prob, h.score, h.finished) for h in sorted(by_log_prob, key=lambda h: -h.score)]


def _assert_exact(
    case: Case, term: Diversity, schedule: Any, model: JoinableModel, inputs: Sequence[int]
) -> None:
    groups = len(case.strength)
    strategy = DiverseBeamSearch(
        groups=groups,
        beams_per_group=case.beams,
        strength=case.strength,
        diversity=term,
        schedule=schedule,
    )
    found = decode(
        model, inputs, strategy, max_length=case.max_length, end=case.end, list_width=case.list_width
    )
    expected = reference_search(
        model,
        inputs,
        groups=groups,
        beams=case.beams,
        strength=case.strength,
        diversity=term,
        max_length=case.max_length,
        end=case.end,
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert [_ranked(group) for group in ours.groups] == [_ranked(group) for group in theirs]


@every_schedule
@every_term
@law
@given(case=small_cases)
@example(Case("ties", 4, 0, beams=3, strength=(1.0, 1.0, 1.0), max_length=4, end=0))
@example(Case("ties", 9, 1, beams=2, strength=(0.5, 0.3, 0.0, 100.0), max_length=5, end=2, list_width=1))
def test_the_search_is_the_reference_search(term: str, schedule: str, case: Case) -> None:
    _assert_exact(case, TERMS[term](case.vocabulary), schedule, case.model, [0, 1])


@pytest.mark.parametrize("term", ["hamming", "cumulative", "unigram", "bigram", "soft-hamming"])
@pytest.mark.parametrize(
    "case",
    [
        Case("smooth", 1103, 1, beams=2, strength=(1.0,) * 3, max_length=3, end=0),
        # So few levels that hundreds of tokens tie at the end of every list.
        Case("ties", 1103, 2, beams=2, strength=(0.5,) * 3, max_length=3, end=7),
        # So strong that what is penalised falls off every list.
        Case("smooth", 1103, 3, beams=1, strength=(50.0,) * 4, max_length=3, end=None),
    ],
    ids=["smooth", "ties", "strong"],
)
def test_short_lists_of_many_tokens_lose_nothing(term: str, case: Case) -> None:
    _assert_exact(case, TERMS[term](case.vocabulary), "lockstep", case.model, [5])


class _ReachesFar:
    """A term of a user's own that says nothing of its reach and penalises most of what is likely."""

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        return (tokens % 97 != 5).to(torch.float32) * (earlier.tokens >= 0).sum(1)[:, None, None]


def test_a_penalty_on_nearly_every_token_makes_lists_as_long_as_need_be() -> None:
    case = Case("smooth", 1103, 3, beams=2, strength=(30.0,) * 3, max_length=3, end=None)
    _assert_exact(case, _ReachesFar(), "lockstep", case.model, [5])


# Number types


class _Cast:
    """A model that answers in another floating-point type."""

    def __init__(self, model: JoinableModel, dtype: torch.dtype) -> None:
        self._model = model
        self._dtype = dtype

    def start(self, inputs: Any) -> tuple[Tensor, Any]:
        logits, state = self._model.start(inputs)
        assert isinstance(logits, Tensor)
        return logits.to(self._dtype), state

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self._model.step(tokens, state)
        assert isinstance(logits, Tensor)
        return logits.to(self._dtype), state

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self._model.join(states)


@every_strategy
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_normalised_in_single_precision(
    dtype: torch.dtype, strategy: Strategy
) -> None:
    half = _Cast(PrefixHashModel(41, seed=3), dtype)
    single = _Cast(half, torch.float32)
    found = decode(half, [0, 1, 2], strategy, max_length=5, end=0)
    assert found == decode(single, [0, 1, 2], strategy, max_length=5, end=0)
    # Were log-probabilities themselves rounded to half precision, they would all be representable in it.
    assert any(float(torch.tensor(h.log_prob).to(dtype)) != h.log_prob for each in found for h in each)


@every_strategy
def test_double_precision_logits_stay_double(strategy: Strategy) -> None:
    model = _Cast(PrefixHashModel(41, seed=3), torch.double)
    for place, found in enumerate(decode(model, [0, 1], strategy, max_length=5, end=0)):
        for h in found:
            expected = rescore(model, [0, 1], place, h.tokens)
            assert h.log_prob == pytest.approx(expected, rel=1e-13, abs=1e-13)


@every_schedule
@pytest.mark.parametrize("dtype", [torch.double, torch.bfloat16, torch.float16])
def test_the_search_is_the_reference_search_in_every_number_type(dtype: torch.dtype, schedule: str) -> None:
    """Half precision makes tokens tie that a model of single precision would tell apart."""
    case = Case("smooth", 300, 4, beams=2, strength=(0.3,) * 3, max_length=4, end=1)
    _assert_exact(case, Cumulative(), schedule, _Cast(case.model, dtype), [0, 1])


# Rows and lists


@pytest.mark.parametrize("width", [1, 2, 7, 30])
@pytest.mark.parametrize("vocabulary", [30, 31, 63, 64, 65, 127, 128, 449, 1000, 1999, 2048, 4099, 50257])
def test_top_tokens_are_the_top_tokens(vocabulary: int, width: int) -> None:
    for rows in (1, 2, 5):
        _assert_top(normal(vocabulary + rows, rows, vocabulary), width)


def test_top_tokens_may_tie_or_be_impossible() -> None:
    ties = normal(1, 3, 3001).round()
    _assert_top(ties, 9)
    _assert_top(torch.zeros(2, 3001), 9)
    _assert_top(ties.masked_fill(ties < ties.amax(), -torch.inf), 9)
    _assert_top(torch.full((2, 3001), -torch.inf), 9)


def test_no_rows_have_no_top_tokens() -> None:
    assert top_tokens(torch.zeros(0, 50_000), 8).shape == (0, 8)


@pytest.mark.parametrize("place", [0, 1, 93, 2969, 2999, 3000])
def test_top_tokens_are_found_wherever_they_stand(place: int) -> None:
    """The first and the last column, and those few tokens that fill no column."""
    key = normal(2, 1, 3001)
    key[0, place] = 100.0
    assert top_tokens(key, 1).tolist() == [[place]]
    assert place in top_tokens(key, 3)[0].tolist()


def _assert_top(key: Tensor, width: int) -> None:
    tokens = top_tokens(key, width)
    assert tokens.shape == (key.shape[0], width)
    assert all(len(set(row)) == width for row in tokens.tolist())
    values = key.gather(1, tokens).sort(dim=1, descending=True).values
    assert torch.equal(values, key.topk(width).values)


def _first_step(rows: Tensor, strategy: Strategy, seeds: list[int]) -> list[Hypotheses]:
    """What one step makes of these logits, a row an input."""
    model = FunctionModel(
        lambda tokens, state: (rows[: len(tokens)], state), start=lambda inputs: (rows, inputs)
    )
    return decode(model, torch.arange(len(rows)), strategy, max_length=1, seed=seeds)


@pytest.mark.usefixtures("two_threads")
@every_strategy
@pytest.mark.parametrize(
    ("vocabulary", "dtype"),
    [
        *((size, dtype) for size in (5, 33, 1001) for dtype in (torch.float32, torch.double, torch.bfloat16)),
        (40_003, torch.float32),  # long enough for torch to share a row out among threads
    ],
)
def test_a_row_does_not_depend_on_the_rows_beside_it(
    vocabulary: int, dtype: torch.dtype, strategy: Strategy
) -> None:
    rows = normal(vocabulary, 4, vocabulary).to(dtype)
    seeds = [11, 5, 7, 2]
    together = _first_step(rows, strategy, seeds)
    assert together == [_first_step(rows[i : i + 1], strategy, seeds[i : i + 1])[0] for i in range(4)]
    assert together[1:3] == _first_step(rows[1:3], strategy, seeds[1:3])


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Torch shares the sum of one long row out among threads, if it has several."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_nucleus_does_not_depend_on_the_rows_beside_it() -> None:
    """Rows so long that torch sums a single one in other portions than several, and a `top_p` so close to
    the mass of the first token that the last bit decides whether the second is in.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(16):
        rows = torch.randn(1, 70_003, generator=generator)
        rows[:, 0], rows[:, 1] = 11.0, 10.9
        together, alone = _mass_of_first(rows.repeat(3, 1)), _mass_of_first(rows)
        for top_p in {together, alone} if together != alone else ():
            strategy = Sampling(samples=1, top_p=top_p)
            one_by_one = [_first_step(rows, strategy, [seed])[0] for seed in (0, 1, 2)]
            assert _first_step(rows.repeat(3, 1), strategy, [0, 1, 2]) == one_by_one


def _mass_of_first(rows: Tensor) -> float:
    """Of the first row, computed in the company of the others."""
    prob = rows.log_softmax(1).sort(dim=1, descending=True).values.exp()
    prob = prob / prob.sum(1, keepdim=True)
    return float((prob.cumsum(1) - prob)[0, 1])


@pytest.mark.parametrize("size", [1, 3, 8, 33, 1001, 17_003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_noise_of_a_beam_does_not_depend_on_its_neighbours(dtype: torch.dtype, size: int) -> None:
    keys = noise.slot_keys(torch.tensor([3, 4]), range(3), time=2, beams=2)
    together = noise.gumbel(keys.flatten(), size, dtype)
    for row, key in zip(together, keys.flatten(), strict=True):
        assert torch.equal(noise.gumbel(key.view(1), size, dtype)[0], row)
    later_groups = noise.slot_keys(torch.tensor([4]), range(1, 3), time=2, beams=2)
    assert torch.equal(later_groups[0], keys[1, 1:])
