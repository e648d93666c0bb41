"""Corners of the search that the broad laws seldom reach. Each test fails if one small piece is wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    BeamSearch,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    FunctionModel,
    Guided,
    LengthNormalised,
    ModelError,
    PrefixModel,
    Recording,
    Sampling,
    Strategy,
    decode,
    record,
)
from beamsplit.testing import MarkovModel, PrefixHashModel, rescore
from search.cases import every_schedule

INF, NAN = math.inf, math.nan


# Sequences that no earlier group has found


def _ended(recording: Recording) -> list[tuple[int, int, tuple[int, ...]]]:
    """The group, the time and the tokens of everything that ended."""
    spelled: list[tuple[int, ...]] = []
    for branch in recording.branches:
        before = () if branch.parent < 0 else spelled[branch.parent]
        spelled.append((*before, branch.token))
    return [
        (branch.group, branch.time, tokens)
        for branch, tokens in zip(recording.branches, spelled, strict=True)
        if branch.fate == "ended"
    ]


def _time_of_first_new(recording: Recording, group: int) -> int | None:
    """When a group first holds a sequence that the groups before it do not hold by then."""
    ended = _ended(recording)
    for time in sorted({when for _, when, _ in ended}):
        so_far = [(g, tokens) for g, when, tokens in ended if when <= time]
        taken = {tokens for g, tokens in so_far if g < group}
        if any(g == group and tokens not in taken for g, tokens in so_far):
            return time
    return None


@every_schedule
@pytest.mark.parametrize("seed", range(8))
def test_with_unique_a_group_goes_on_until_it_has_something_new(seed: int, schedule: Any) -> None:
    """One beam a group, and a scorer by which a group is done once it has one hypothesis that counts."""
    strategy = DiverseBeamSearch(groups=4, strength=[0.0, 0.3, 0.0, 0.3], schedule=schedule)
    model = PrefixHashModel(6, seed=seed)
    scorer = LengthNormalised(stop="first")
    recordings = record(
        model, range(6), strategy, max_length=9, end=[0, 1], unique=True, scorer=scorer, list_width=6
    )
    for recording, group in itertools.product(recordings, range(4)):
        last = max(branch.time for branch in recording.branches if branch.group == group)
        new = _time_of_first_new(recording, group)
        assert last == (8 if new is None else new)


def test_some_groups_have_to_look_past_what_several_earlier_groups_found() -> None:
    """The test above would be empty if they did not."""
    strategy = DiverseBeamSearch(groups=4, strength=[0.0, 0.3, 0.0, 0.3])
    scorer = LengthNormalised(stop="first")
    repeated = 0
    for seed in range(8):
        model = PrefixHashModel(6, seed=seed)
        for recording in record(
            model, range(6), strategy, max_length=9, end=[0, 1], unique=True, scorer=scorer
        ):
            by_group = {g: {tokens for h, _, tokens in _ended(recording) if h == g} for g in range(4)}
            repeated += any(by_group[g] & by_group[h] for h in (2, 3) for g in range(h - 1))
    assert repeated > 10


@pytest.mark.parametrize("seed", range(12))
def test_staggered_is_lockstep_when_groups_of_several_look_for_new_sequences(seed: int) -> None:
    lockstep, staggered = (
        decode(
            PrefixHashModel(6, seed=seed),
            range(5),
            DiverseBeamSearch(groups=4, beams_per_group=2, strength=0.2, schedule=schedule),
            max_length=8,
            end=[0, 1],
            unique=True,
            scorer=LengthNormalised(stop="first"),
        )
        for schedule in ("lockstep", "staggered")
    )
    assert staggered == lockstep


def test_places_that_a_group_leaves_empty_go_to_the_likeliest_that_are_left() -> None:
    """Three groups of one beam. What comes first parts them, and the third runs into a dead end."""
    end, a, b, c, d, x, y = range(7)
    after = {
        (): {a: 0.5, b: 0.3, c: 0.2},
        (a,): {d: 1.0},
        (b,): {d: 1.0},
        (c,): {end: 1.0},  # too early
        (a, d): {x: 0.9, y: 0.1},
        (b, d): {x: 0.6, y: 0.4},
    }

    def logits(prefix: Tensor) -> Tensor:
        rows = torch.zeros(len(prefix), 7)
        for row, tokens in zip(rows, prefix[:, 1:].tolist(), strict=True):
            for token, prob in after[tuple(tokens)].items():
                row[token] = prob
        return rows.log()

    (found,) = decode(
        PrefixModel(logits),
        torch.zeros(1, 1, dtype=torch.long),
        DiverseBeamSearch(groups=3, strength=2.0),
        max_length=3,
        min_length=3,
        end=end,
        unique=True,
    )
    # The first group's best is adx .45, the second's, which pays for x, bdy .12. Left are ady .05, of the
    # first group, and bdx .18, of the second.
    assert [(h.tokens, h.group) for h in found] == [((a, d, x), 0), ((b, d, x), 1), ((b, d, y), 1)]
    assert [math.exp(h.log_prob) for h in found] == pytest.approx([0.45, 0.18, 0.12])


# Models that work in place


class _InPlace:
    """A model of prefixes that keeps its state in one block of memory and writes the next state there."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self._model = PrefixHashModel(vocabulary, seed=seed)
        self.select, self.join = self._model.select, self._model.join

    def start(self, inputs: Any) -> tuple[Tensor, Tensor]:
        return self._model.start(inputs)

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        logits, after = self._model.step(tokens, state)
        return logits, state.copy_(after)


@every_schedule
@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("kind", [DiverseBeamSearch, DiverseSampling, DiverseArithmeticSampling])
def test_a_model_may_write_its_next_state_over_the_last(
    kind: Callable[..., Strategy], beams: int, schedule: Any
) -> None:
    per_group = "beams_per_group" if kind is DiverseBeamSearch else "samples_per_group"
    strategy = kind(groups=4, strength=0.5, schedule=schedule, **{per_group: beams})
    for seed in range(4):
        found, expected = (
            decode(model, [3, 1, 2], strategy, max_length=6, end=0)
            for model in (_InPlace(9, seed), PrefixHashModel(9, seed=seed))
        )
        assert found == expected


@pytest.mark.parametrize(
    "strategy",
    [BeamSearch(beams=1), BeamSearch(beams=2), Sampling(samples=1), DivMBest(runs=3, beams=1)],
    ids=repr,
)
def test_inputs_that_are_the_first_state_stay_as_they_were(strategy: Strategy) -> None:
    """Even if the model writes over its state: the caller still has the inputs, and so has the next run."""
    generator = torch.Generator().manual_seed(1)
    table, inputs = torch.randn(9, 9, generator=generator), torch.randn(3, 9, generator=generator)
    before = inputs.clone()

    def in_place(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state.add_(table[tokens])
        return state * 2, state

    def pure(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return in_place(tokens, state.clone())

    found, expected = (
        decode(FunctionModel(step, start=lambda given: (given * 2, given)), inputs, strategy, max_length=5)
        for step in (in_place, pure)
    )
    assert found == expected
    assert torch.equal(inputs, before)


# Ends that come too early


@every_schedule
@pytest.mark.parametrize("list_width", [None, 1, 12])
@pytest.mark.parametrize("first", [1, 2, None])
def test_a_guided_search_ends_no_sooner_than_min_length_says(
    first: int | None, list_width: int | None, schedule: Any
) -> None:
    """The language model holds ends to be very unlikely, so that guidance rewards them above all else."""
    ends = [0, 5]
    seldom_ends = torch.zeros(12, 12)
    seldom_ends[:, ends] = -9.0
    plain = PrefixHashModel(12, seed=4)
    model = AntiLanguageModel(plain, MarkovModel(seldom_ends), strength=2.0, first=first)
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.5, schedule=schedule)
    inputs = [1, 2, 3]
    for least in range(1, 7):
        found = decode(
            model, inputs, strategy, max_length=6, min_length=least, end=ends, list_width=list_width
        )
        for place, each in enumerate(found):
            assert len(each) == 6
            for h in each:
                assert len(h.tokens) >= least
                assert h.log_prob == pytest.approx(rescore(plain, inputs, place, h.tokens), abs=1e-4)
    # Where an early end is allowed, it is what the guidance leads to.
    best = decode(model, inputs, strategy, max_length=6, end=ends)
    assert first is None or all(each.groups[0][0].tokens[:first][-1] in ends for each in best)


# Ties at the end of a list


@pytest.mark.parametrize("rate", [0.1, 0.7])
@pytest.mark.parametrize("beams", [1, 3])
def test_siblings_that_tie_with_the_last_one_listed_are_not_forgotten(beams: int, rate: float) -> None:
    """Hundreds of tokens share a few values, and of equal siblings the lower token comes first."""
    strategy = DiverseSiblings(beams=beams, rate=rate)
    for seed in range(4):
        model = PrefixHashModel(300, seed=seed, levels=3)
        whole, *short = (
            decode(model, range(3), strategy, max_length=4, end=0, list_width=width)
            for width in (300, 1, 2, 5, 20, None)
        )
        assert all(found == whole for found in short)


def test_of_siblings_that_tie_the_lower_token_survives() -> None:
    """All tokens are as likely as all others, so that the first beam goes on with 0, whatever is listed."""
    model = MarkovModel(torch.zeros(300, 300))
    for width in (1, 2, 7, None):
        (found,) = decode(model, [7], DiverseSiblings(beams=1, rate=0.5), max_length=4, list_width=width)
        assert found.best.tokens == (0, 0, 0, 0)


# The nucleus


@pytest.mark.parametrize(
    ("top_p", "drawn"),
    [(0.25, {0}), (0.5, {0}), (0.51, {0, 1}), (0.75, {0, 1}), (0.76, {0, 1, 2}), (0.875, {0, 1, 2})],
)
def test_a_nucleus_that_holds_its_share_exactly_takes_in_no_more(top_p: float, drawn: set[int]) -> None:
    """Halves, which are exact in binary: 1/2, 1/4, 1/8, 1/16 and 1/16."""
    prob = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625], dtype=torch.double)
    model = MarkovModel(prob.log().expand(5, 5))
    found = decode(model, range(5), Sampling(samples=40, top_p=top_p), max_length=3)
    assert {token for each in found for h in each for token in h.tokens} == drawn


# Guidance without a value


class _Misguided:
    """A model over 60 tokens whose guidance is 0, but for one value at one step."""

    def __init__(self, value: float, row: int, token: int, at: int) -> None:
        self._value, self._row, self._token, self._at = value, row, token, at

    def start(self, inputs: Sequence[int]) -> tuple[Guided, Tensor]:
        return self._answer(torch.zeros(len(inputs)))

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Guided, Tensor]:
        return self._answer(state + 1)

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    def _answer(self, age: Tensor) -> tuple[Guided, Tensor]:
        logits = -torch.arange(60.0).expand(len(age), 60)
        guidance = torch.zeros(len(age), 60)
        if int(age[0]) == self._at:
            guidance[self._row, self._token] = self._value
        return Guided(logits, guidance), age


SPOTS = list(itertools.product([0, 1], [0, 30, 59], [0, 3]))  # row, token, time


@pytest.mark.parametrize("list_width", [None, 1])
@pytest.mark.parametrize(("row", "token", "at"), SPOTS)
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("strategy", [BeamSearch(beams=2), Sampling(samples=2)], ids=repr)
def test_guidance_is_looked_at_whole_however_short_lists_are(
    strategy: Strategy, value: float, row: int, token: int, at: int, list_width: int | None
) -> None:
    model = _Misguided(value, row, token, at)
    with pytest.raises(ModelError, match=rf"guidance that is NaN or infinite \(row {row} of"):
        decode(model, [0, 0], strategy, max_length=4, list_width=list_width)


@pytest.mark.parametrize(("row", "token", "at"), SPOTS)
def test_guidance_may_rule_out_any_token(row: int, token: int, at: int) -> None:
    model = _Misguided(-INF, row, token, at)
    found = decode(model, [0, 0], BeamSearch(beams=2), max_length=4)
    assert all(math.isfinite(h.score) for each in found for h in each)
    assert all(len(each) == 2 for each in found)


# Equals


@pytest.mark.parametrize("length", range(1, 50, 7))
def test_equals_of_many_groups_come_in_the_order_of_the_groups(length: int) -> None:
    """A power of 50 lengths at once may be rounded differently in different places."""
    strategy, scorer = DiverseBeamSearch(groups=50, strength=0.0), LengthNormalised(alpha=0.7)
    (found,) = decode(PrefixHashModel(9), [0], strategy, max_length=length, end=None, scorer=scorer)
    assert len({h.tokens for h in found}) == 1
    assert [h.group for h in found] == list(range(50))
