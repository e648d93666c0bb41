"""Laws: what must hold of every model, whatever its numbers. No expected value here is written down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArithmeticSampling,
    BeamSearch,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Embedding,
    FunctionModel,
    Hamming,
    Hypotheses,
    Hypothesis,
    JoinableModel,
    LengthNormalised,
    NGram,
    Sampling,
    Selection,
    Step,
    StochasticBeamSearch,
    Strategy,
    decode,
    steps,
)
from beamsplit.testing import PrefixHashModel, exhaustive_search, rescore
from search.cases import TERMS, every_term, law, made_up_model, normal

law_of_each = settings(law, max_examples=4)  # of each term or strategy
SMALLEST = 8  # vocabulary: room for six beams that share no token, and for an end or two


@dataclass(frozen=True)
class Case:
    """A made-up model and a batch of inputs for it; its fields are what a failing test prints."""

    kind: str
    vocabulary: int
    seed: int
    inputs: tuple[int, ...]

    @property
    def model(self) -> JoinableModel:
        return made_up_model(self.kind, self.vocabulary, self.seed)


def _cases(kinds: Iterable[str] = ("smooth", "ties", "markov")) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        kind=st.sampled_from(list(kinds)),
        vocabulary=st.integers(SMALLEST, 13),
        seed=st.integers(0, 10_000),
        inputs=st.lists(st.integers(0, SMALLEST - 1), min_size=1, max_size=3).map(tuple),
    )


cases = _cases()
groups_of = st.integers(1, 3)
beams_of = st.integers(1, 2)
strengths = st.sampled_from([0.1, 0.5, 2.0, 30.0])


StrategyMaker: TypeAlias = Callable[[int], Strategy]  # from the size of the vocabulary


def _diverse(term: str, **options: Any) -> StrategyMaker:
    settings_ = {"groups": 3, "beams_per_group": 2, **options}
    return lambda size: DiverseBeamSearch(diversity=TERMS[term](size), **settings_)


DIVERSE: dict[str, StrategyMaker] = {f"diverse-{term}": _diverse(term) for term in TERMS}
MAXIMISING: dict[str, StrategyMaker] = {
    **DIVERSE,
    "beam": lambda _: BeamSearch(beams=3),
    "greedy": lambda _: BeamSearch(beams=1),
    "greedy-groups": _diverse("hamming", groups=4, beams_per_group=1, strength=3.0),
    "staggered": _diverse("bigram", schedule="staggered"),
    "siblings": lambda _: DiverseSiblings(beams=3, rate=0.4),
    "divmbest": lambda _: DivMBest(runs=3, beams=3),
    "divmbest-hamming": lambda _: DivMBest(runs=3, beams=2, diversity=Hamming(), strength=2.0),
}
RANDOM: dict[str, StrategyMaker] = {
    "ancestral": lambda _: Sampling(samples=4),
    "truncated": lambda _: Sampling(samples=4, temperature=1.3, top_k=5, top_p=0.9, min_p=0.05),
    "stochastic": lambda _: StochasticBeamSearch(beams=3),
    "diverse-sampling": lambda _: DiverseSampling(groups=3, samples_per_group=2, strength=2.0),
    "diverse-nucleus": lambda _: DiverseSampling(groups=3, strength=2.0, top_p=0.8, diversity=NGram(n=1)),
    "staggered-sampling": lambda _: DiverseSampling(groups=3, samples_per_group=2, schedule="staggered"),
    "arithmetic": lambda _: ArithmeticSampling(samples=4),
    "truncated-arithmetic": lambda _: ArithmeticSampling(samples=4, temperature=1.3, top_k=5, top_p=0.9),
    "diverse-arithmetic": lambda _: DiverseArithmeticSampling(groups=3, samples_per_group=2, strength=2.0),
    "staggered-arithmetic": lambda _: DiverseArithmeticSampling(
        groups=3, samples_per_group=2, diversity=NGram(n=1), schedule="staggered"
    ),
}
EVERY = MAXIMISING | RANDOM

every_strategy = pytest.mark.parametrize("name", EVERY)


def _search(case: Case, strategy: Strategy, **options: Any) -> list[Hypotheses]:
    return decode(case.model, list(case.inputs), strategy, **{"max_length": 4, "end": 0, **options})


def _content(hypotheses: Iterable[Hypothesis]) -> list[tuple[tuple[int, ...], float, float, bool]]:
    """All of it but which group it is from."""
    return [(h.tokens, h.log_prob, h.score, h.finished) for h in hypotheses]


# Groups


@every_term
@law_of_each
@given(case=cases, groups=groups_of, beams=beams_of)
def test_without_strength_every_group_is_a_beam_search(
    term: str, case: Case, groups: int, beams: int
) -> None:
    alone = _search(case, BeamSearch(beams=beams))
    diverse = DiverseBeamSearch(
        groups=groups, beams_per_group=beams, strength=0.0, diversity=TERMS[term](case.vocabulary)
    )
    for found, expected in zip(_search(case, diverse), alone, strict=True):
        assert len(found.groups) == groups
        for group in found.groups:
            assert _content(group) == _content(expected.groups[0])


@every_term
@law_of_each
@given(case=cases, beams=beams_of, strength=strengths)
def test_the_first_group_and_groups_without_strength_are_beam_searches(
    term: str, case: Case, beams: int, strength: float
) -> None:
    """Here the term is asked about all groups, and its answer weighs nothing for the third."""
    alone = _search(case, BeamSearch(beams=beams))
    diverse = DiverseBeamSearch(
        groups=4,
        beams_per_group=beams,
        strength=(strength, strength, 0.0, strength),
        diversity=TERMS[term](case.vocabulary),
    )
    for found, expected in zip(_search(case, diverse), alone, strict=True):
        assert _content(found.groups[0]) == _content(expected.groups[0])
        assert _content(found.groups[2]) == _content(expected.groups[0])


@every_term
@law_of_each
@given(case=cases, beams=beams_of, strength=strengths)
def test_one_group_is_a_beam_search(term: str, case: Case, beams: int, strength: float) -> None:
    diverse = DiverseBeamSearch(
        groups=1, beams_per_group=beams, strength=strength, diversity=TERMS[term](case.vocabulary)
    )
    assert _search(case, diverse) == _search(case, BeamSearch(beams=beams))


@every_term
@law_of_each
@given(case=cases, beams=beams_of, strength=strengths)
def test_groups_do_not_depend_on_later_groups(term: str, case: Case, beams: int, strength: float) -> None:
    few, many = (
        DiverseBeamSearch(
            groups=groups, beams_per_group=beams, strength=strength, diversity=TERMS[term](case.vocabulary)
        )
        for groups in (2, 4)
    )
    for found, expected in zip(_search(case, many), _search(case, few), strict=True):
        assert found.groups[:2] == expected.groups


@pytest.mark.parametrize(
    ("single", "grouped"), [(Sampling, DiverseSampling), (ArithmeticSampling, DiverseArithmeticSampling)]
)
@law
@given(case=cases, seed=st.integers(0, 99))
def test_the_first_group_of_samples_does_not_depend_on_later_ones(
    single: Callable[..., Strategy], grouped: Callable[..., Strategy], case: Case, seed: int
) -> None:
    alone = _search(case, single(samples=2), seed=seed)
    diverse = grouped(groups=3, samples_per_group=2, strength=5.0)
    for found, expected in zip(_search(case, diverse, seed=seed), alone, strict=True):
        assert _content(found.groups[0]) == _content(expected.groups[0])


@law
@given(case=cases, beams=beams_of)
def test_a_huge_hamming_strength_keeps_groups_from_sharing_a_token_at_any_step(
    case: Case, beams: int
) -> None:
    strategy = DiverseBeamSearch(groups=3, beams_per_group=beams, strength=1e4)
    for found in _search(case, strategy, end=None):
        assert len(found.groups) == 3
        for time in range(4):
            said = [{h.tokens[time] for h in group} for group in found.groups]
            assert sum(map(len, said)) == len(set.union(*said))


@law
@given(case=cases)
def test_a_huge_hamming_strength_parts_beams_that_do_not_survive_too(case: Case) -> None:
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=1e4)
    turns = steps(case.model, list(case.inputs), strategy, max_length=4, end=None)
    for turn in turns:
        (move,) = turn.selections
        for groups in move.picks.token[..., :2].tolist():
            said = [set(tokens) for tokens in groups]
            assert sum(map(len, said)) == len(set.union(*said))


# Batches


@pytest.mark.parametrize("name", MAXIMISING)
@law_of_each
@given(case=cases)
def test_a_batch_is_its_inputs_one_by_one(name: str, case: Case) -> None:
    strategy = EVERY[name](case.vocabulary)
    one_by_one = [decode(case.model, [x], strategy, max_length=4, end=0)[0] for x in case.inputs]
    assert _search(case, strategy) == one_by_one


@pytest.mark.parametrize("name", RANDOM)
@law_of_each
@given(case=cases, seed=st.integers(0, 999))
def test_a_batch_is_its_inputs_one_by_one_when_each_has_its_seed(name: str, case: Case, seed: int) -> None:
    strategy = EVERY[name](case.vocabulary)
    seeds = [seed * (1 + place) for place in range(len(case.inputs))]
    one_by_one = [
        decode(case.model, [x], strategy, max_length=4, end=0, seed=[own])[0]
        for x, own in zip(case.inputs, seeds, strict=True)
    ]
    assert _search(case, strategy, seed=seeds) == one_by_one


@pytest.mark.parametrize("name", RANDOM)
@law_of_each
@given(case=cases, seed=st.integers(0, 999))
def test_the_same_seed_gives_the_same_result(name: str, case: Case, seed: int) -> None:
    strategy = EVERY[name](case.vocabulary)
    once = _search(case, strategy, seed=seed)
    assert _search(case, strategy, seed=seed) == once
    # Under one seed for all, an input's place in the batch is what counts, not who comes after it.
    alone = Case(case.kind, case.vocabulary, case.seed, case.inputs[:1])
    assert _search(alone, strategy, seed=seed) == _search(alone, strategy, seed=[seed]) == once[:1]


@pytest.mark.parametrize("name", RANDOM)
def test_inputs_that_are_alike_get_different_results_under_one_seed(name: str) -> None:
    """Nor is what the second gets under one seed what the first gets under the next."""
    case = Case("smooth", 13, seed=1, inputs=(0, 0, 0))
    results = [_search(case, EVERY[name](13), end=None, seed=seed) for seed in (0, 1)]
    assert len({found for each in results for found in each}) == 6


@pytest.mark.parametrize("name", RANDOM)
def test_different_seeds_give_different_results(name: str) -> None:
    case = Case("smooth", 13, seed=1, inputs=(0,))
    results = {_search(case, EVERY[name](13), end=None, seed=seed)[0] for seed in range(8)}
    assert len(results) == 8


@every_strategy
def test_a_strategy_shared_by_threads_gives_what_one_thread_gives(name: str) -> None:
    strategy = EVERY[name](11)
    several = [Case("ties", 11, seed, inputs=(seed % 5, 3)) for seed in range(5)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda case: _search(case, strategy), several))
    assert together == [_search(case, strategy) for case in several]


# Schedules and lists: what may change the speed and nothing else


@dataclass(frozen=True)
class Bounds:
    """Settings that a search treats specially somewhere."""

    end: tuple[int, ...]
    min_length: int
    unique: bool

    @property
    def options(self) -> dict[str, Any]:
        return {"end": list(self.end), "min_length": self.min_length, "unique": self.unique}


bounds = st.builds(
    Bounds,
    end=st.sampled_from([(), (0,), (0, 1), (2, 5, 7)]),
    min_length=st.integers(0, 4),
    unique=st.booleans(),
)


@every_term
@settings(law, max_examples=8)
@given(case=cases, limits=bounds, groups=st.integers(2, 4), beams=beams_of, strength=strengths)
def test_staggered_is_lockstep(
    term: str, case: Case, limits: Bounds, groups: int, beams: int, strength: float
) -> None:
    lockstep, staggered = (
        DiverseBeamSearch(
            groups=groups,
            beams_per_group=beams,
            strength=strength,
            diversity=TERMS[term](case.vocabulary),
            schedule=schedule,
        )
        for schedule in ("lockstep", "staggered")
    )
    assert _search(case, staggered, **limits.options) == _search(case, lockstep, **limits.options)


@pytest.mark.parametrize("kind", [DiverseSampling, DiverseArithmeticSampling])
@every_term
@settings(law, max_examples=8)
@given(case=cases, limits=bounds, groups=st.integers(2, 4), samples=beams_of, strength=strengths)
def test_staggered_is_lockstep_for_samples(
    kind: Callable[..., Strategy],
    term: str,
    case: Case,
    limits: Bounds,
    groups: int,
    samples: int,
    strength: float,
) -> None:
    lockstep, staggered = (
        kind(
            groups=groups,
            samples_per_group=samples,
            strength=strength,
            diversity=TERMS[term](case.vocabulary),
            schedule=schedule,
        )
        for schedule in ("lockstep", "staggered")
    )
    assert _search(case, staggered, **limits.options) == _search(case, lockstep, **limits.options)


@pytest.mark.parametrize("kind", [DiverseSampling, DiverseArithmeticSampling])
@law
@given(case=cases, limits=bounds)
def test_staggered_is_lockstep_when_groups_of_samples_end_early(
    kind: Callable[..., Strategy], case: Case, limits: Bounds
) -> None:
    """Half the vocabulary ends a sequence, so that a group is often done while those behind it go on."""
    options = {**limits.options, "end": list(range(case.vocabulary // 2)), "max_length": 7}
    lockstep, staggered = (
        kind(groups=4, samples_per_group=1, strength=1.0, schedule=schedule)
        for schedule in ("lockstep", "staggered")
    )
    assert _search(case, staggered, **options) == _search(case, lockstep, **options)


@law
@given(case=cases, groups=st.integers(2, 4), least=st.integers(0, 4))
def test_staggered_is_lockstep_with_guidance(case: Case, groups: int, least: int) -> None:
    model = AntiLanguageModel(case.model, PrefixHashModel(case.vocabulary, seed=77), strength=0.4, first=3)
    lockstep, staggered = (
        decode(
            model,
            list(case.inputs),
            DiverseBeamSearch(groups=groups, beams_per_group=2, schedule=schedule),
            max_length=4,
            min_length=least,
            end=0,
        )
        for schedule in ("lockstep", "staggered")
    )
    assert staggered == lockstep


@every_strategy
@settings(law, max_examples=8)
@given(case=cases, limits=bounds)
def test_results_do_not_depend_on_the_width_of_lists(name: str, case: Case, limits: Bounds) -> None:
    strategy = EVERY[name](case.vocabulary)
    whole = _search(case, strategy, list_width=case.vocabulary, **limits.options)
    for width in (1, 2, 5, None):
        assert _search(case, strategy, list_width=width, **limits.options) == whole, f"list_width={width}"


@every_strategy
@settings(law, max_examples=3)
@given(seed=st.integers(0, 999), kind=st.sampled_from(["smooth", "ties"]))
def test_results_do_not_depend_on_the_width_of_lists_over_many_tokens(
    name: str, seed: int, kind: str
) -> None:
    """Long rows are searched by another way than short ones."""
    case = Case(kind, 1501, seed, inputs=(0, 1))
    strategy = EVERY[name](case.vocabulary)
    whole = _search(case, strategy, list_width=case.vocabulary)
    for width in (5, None):
        assert _search(case, strategy, list_width=width) == whole, f"list_width={width}"


@pytest.mark.parametrize("name", MAXIMISING)
@law_of_each
@given(case=cases)
def test_results_do_not_depend_on_the_width_of_lists_with_a_length_scorer(name: str, case: Case) -> None:
    strategy = EVERY[name](case.vocabulary)
    scorer = LengthNormalised(alpha=0.7)
    whole = _search(case, strategy, list_width=case.vocabulary, scorer=scorer)
    for width in (1, None):
        assert _search(case, strategy, list_width=width, scorer=scorer) == whole, f"list_width={width}"


# Truth: what the numbers say is so


@pytest.mark.parametrize(
    "strategy",
    [
        BeamSearch(beams=15),
        DiverseBeamSearch(groups=2, beams_per_group=15, strength=0.7),
        DiverseBeamSearch(groups=2, beams_per_group=15, strength=0.7, schedule="staggered"),
        DiverseSiblings(beams=15, rate=0.3),
        StochasticBeamSearch(beams=15),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
@law
@given(seed=st.integers(0, 999), kind=st.sampled_from(["smooth", "ties"]))
def test_a_beam_as_wide_as_the_space_finds_all_there_is(strategy: Strategy, seed: int, kind: str) -> None:
    """Three tokens, one an end, and three steps: 1 + 2 + 4 * 3 = 15 sequences."""
    case = Case(kind, 3, seed, inputs=(0, 1))
    everything = exhaustive_search(case.model, [0, 1], max_length=3, end=0)
    for found, expected in zip(_search(case, strategy, max_length=3), everything, strict=True):
        for group in found.groups:
            _assert_same_ranking(group, expected)


@law
@given(seed=st.integers(0, 999), kind=st.sampled_from(["smooth", "ties"]))
def test_without_an_end_a_beam_as_wide_as_the_space_finds_all_there_is(seed: int, kind: str) -> None:
    case = Case(kind, 3, seed, inputs=(4,))
    (everything,) = exhaustive_search(case.model, [4], max_length=3)
    (found,) = _search(case, BeamSearch(beams=30), max_length=3, end=None)
    assert len(found) == 27
    _assert_same_ranking(found, everything)


def _assert_same_ranking(found: Iterable[Hypothesis], expected: Iterable[Hypothesis]) -> None:
    """Of sequences that tie, either may come first."""
    by_tokens = {h.tokens: h for h in expected}
    ranked = sorted(found, key=lambda h: -h.log_prob)
    assert sorted(h.tokens for h in ranked) == sorted(by_tokens)
    assert [h.log_prob for h in ranked] == pytest.approx([h.log_prob for h in expected], abs=1e-5)
    for h in ranked:
        assert h.log_prob == pytest.approx(by_tokens[h.tokens].log_prob, abs=1e-5)
        assert h.finished == by_tokens[h.tokens].finished


@pytest.mark.parametrize("name", [name for name in EVERY if name != "stochastic"])
@law_of_each
@given(case=cases)
def test_guidance_leaves_log_prob_alone(name: str, case: Case) -> None:
    model = AntiLanguageModel(case.model, PrefixHashModel(case.vocabulary, seed=99), strength=0.5)
    found = decode(model, list(case.inputs), EVERY[name](case.vocabulary), max_length=4, end=0)
    assert any(found)
    _assert_rescored(case.model, case, found)


def _assert_rescored(model: JoinableModel, case: Case, found: list[Hypotheses]) -> None:
    for place, hypotheses in enumerate(found):
        for h in hypotheses:
            expected = rescore(model, list(case.inputs), place, h.tokens)
            assert h.log_prob == pytest.approx(expected, rel=1e-5, abs=1e-5)


@every_term
@law_of_each
@given(case=cases, strength=strengths)
def test_a_score_is_log_prob_less_penalties(term: str, case: Case, strength: float) -> None:
    strategy = _diverse(term, strength=strength)(case.vocabulary)
    for found in _search(case, strategy):
        assert all(h.score == h.log_prob for h in found.groups[0])
        assert all(h.score <= h.log_prob for h in found)


@pytest.mark.parametrize("name", MAXIMISING)
@law_of_each
@given(seed=st.integers(0, 999), size=st.integers(SMALLEST, 12), ends=st.sampled_from([[], [0], [1, 4]]))
def test_new_names_for_tokens_change_nothing_but_the_names(
    name: str, seed: int, size: int, ends: list[int]
) -> None:
    tables = normal(seed, 4, size, size, dtype=torch.double)
    new = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    old = new.argsort()
    strategy = EVERY[name](size)
    found = decode(_timed_model(tables), torch.tensor([1, 2]), strategy, max_length=4, end=ends)
    renamed = decode(
        _timed_model(tables[:, old][:, :, old]),
        new[[1, 2]],
        _rename(strategy, old),
        max_length=4,
        end=new[ends].tolist(),
    )
    for ours, theirs in zip(found, renamed, strict=True):
        assert [tuple(new[list(h.tokens)].tolist()) for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs])
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs])
        assert [h.group for h in ours] == [h.group for h in theirs]


def _timed_model(tables: Tensor) -> FunctionModel:
    """A Markov model with a table for each time. One table for all would make sequences tie that take
    the same transitions in another order, and ties are broken by name.
    """

    def step(tokens: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
        return tables[time, tokens], time + 1

    return FunctionModel(step, start=lambda inputs: step(inputs, torch.zeros_like(inputs)))


def _rename(strategy: Strategy, old: Tensor) -> Strategy:
    """The same strategy for tokens of which number i was number old[i] before."""
    if isinstance(strategy, DiverseBeamSearch) and isinstance(strategy.diversity, Embedding):
        term = strategy.diversity
        return DiverseBeamSearch(
            groups=strategy.groups,
            beams_per_group=strategy.beams_per_group,
            strength=strategy.strength,
            diversity=Embedding(vectors=term.vectors[old], of=term.of),
        )
    return strategy


# Results: lengths, ends, order, numbers, repetitions


@every_strategy
@law_of_each
@given(case=cases, limits=bounds)
def test_results_are_as_asked_for(name: str, case: Case, limits: Bounds) -> None:
    strategy = EVERY[name](case.vocabulary)
    found = _search(case, strategy, **limits.options)
    for hypotheses in found:
        assert len(hypotheses) > 0
        _assert_lengths_and_ends(hypotheses, limits, max_length=4)
        _assert_in_order(hypotheses)
        sequences = [h.tokens for h in hypotheses]
        assert not limits.unique or len(set(sequences)) == len(sequences)
        # What unique adds may come from any group; without it, no group has more than its beams.
        assert limits.unique or all(
            len(group) <= strategy.plan().beams_per_group for group in hypotheses.groups
        )
    _assert_rescored(case.model, case, found)


def _assert_lengths_and_ends(hypotheses: Hypotheses, limits: Bounds, max_length: int) -> None:
    for h in hypotheses:
        assert limits.min_length <= len(h.tokens) <= max_length
        assert not set(h.tokens[:-1]) & set(limits.end)
        assert h.finished == (h.tokens[-1] in limits.end)
        assert h.finished or len(h.tokens) == max_length


def _assert_in_order(hypotheses: Hypotheses) -> None:
    assert [h.log_prob for h in hypotheses] == sorted((h.log_prob for h in hypotheses), reverse=True)
    for group in hypotheses.groups:
        assert [h.score for h in group] == sorted((h.score for h in group), reverse=True)


@every_term
@law_of_each
@given(
    case=cases,
    limits=bounds,
    beams=beams_of,
    strength=st.sampled_from([0.0, 0.2, 5.0]),
    schedule=st.sampled_from(["lockstep", "staggered"]),
)
def test_unique_fills_the_budget(
    term: str, case: Case, limits: Bounds, beams: int, strength: float, schedule: Any
) -> None:
    """A single beam has more ways to go on than there are places, so enough sequences are in reach."""
    strategy = DiverseBeamSearch(
        groups=2,
        beams_per_group=beams,
        strength=strength,
        diversity=TERMS[term](case.vocabulary),
        schedule=schedule,
    )
    for found in _search(case, strategy, **{**limits.options, "unique": True}):
        assert len(found) == 2 * beams


@law
@given(case=cases, strength=st.sampled_from([0.0, 0.2, 5.0]))
def test_unique_fills_the_budget_of_divmbest(case: Case, strength: float) -> None:
    for found in _search(case, DivMBest(runs=3, beams=3, strength=strength), unique=True):
        assert len(found) == 3
        assert [len(group) for group in found.groups] == [1, 1, 1]


@pytest.mark.parametrize("name", ["beam", "siblings", "stochastic", *DIVERSE])
@law_of_each
@given(case=cases)
def test_a_group_never_holds_a_sequence_twice(name: str, case: Case) -> None:
    for found in _search(case, EVERY[name](case.vocabulary)):
        for group in found.groups:
            assert len({h.tokens for h in group}) == len(group)


# Steps


@every_strategy
@law_of_each
@given(case=cases, limits=bounds)
def test_steps_lead_to_the_result(name: str, case: Case, limits: Bounds) -> None:
    strategy = EVERY[name](case.vocabulary)
    shown, turns = [], []
    for turn in steps(case.model, list(case.inputs), strategy, max_length=4, **limits.options):
        shown.append(turn.hypotheses)
        turns.append(turn)
        _assert_well_formed(case, limits, turn.hypotheses)
    assert shown[-1] == _search(case, strategy, **limits.options)
    # A step shows what it showed when it was taken, however far the search has gone since.
    assert [turn.hypotheses for turn in turns] == shown
    _assert_moves_reach(turns, shown[-1])


def _assert_well_formed(case: Case, limits: Bounds, shown: list[Hypotheses]) -> None:
    assert len(shown) == len(case.inputs)
    for h in (h for hypotheses in shown for h in hypotheses):
        assert 1 <= len(h.tokens) <= 4
        assert all(0 <= token < case.vocabulary for token in h.tokens)
        assert -math.inf < h.log_prob <= 0.0
        assert math.isfinite(h.score)
        assert h.finished == (h.tokens[-1] in limits.end)


def _assert_moves_reach(turns: list[Step], result: list[Hypotheses]) -> None:
    reached: dict[tuple[int, int], set[_Point]] = {}
    for arrival in _replay(turns):
        reached.setdefault((arrival.input, arrival.group), set()).add(arrival.point)
    for place, hypotheses in enumerate(result):
        assert hypotheses
        for h in hypotheses:
            assert _Point(h.tokens, h.log_prob, h.score) in reached[place, h.group]


@pytest.mark.parametrize(
    "name",
    [*DIVERSE, "staggered", "divmbest", "diverse-sampling", "ancestral", "arithmetic", "diverse-arithmetic"],
)
@law_of_each
@given(case=cases)
def test_a_move_costs_what_it_takes_off_the_score(name: str, case: Case) -> None:
    strategy = EVERY[name](case.vocabulary)
    turns = steps(case.model, list(case.inputs), strategy, max_length=4, end=0)
    for place in _replay(turns):
        gain = place.point.log_prob - place.parent.log_prob
        assert place.cost >= 0
        assert place.point.score - place.parent.score == pytest.approx(gain - place.cost, abs=1e-4)


@dataclass(frozen=True)
class _Point:
    """A node of the tree that a search walks."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


_ROOT = _Point((), 0.0, 0.0)


@dataclass(frozen=True)
class _Arrival:
    input: int
    group: int
    parent: _Point
    point: _Point
    cost: float
    beam: int


def _replay(turns: Iterable[Step]) -> Iterator[_Arrival]:
    """Every real pick of a search, found by following parents from move to move."""
    standing: dict[tuple[int, int, int], _Point] = {}  # input, group, beam
    for turn in turns:
        for move in turn.selections:
            arrivals = _arrivals(turn, move, standing)
            standing = {place: point for place, point in standing.items() if place[1] not in move.groups}
            standing |= {(a.input, a.group, a.beam): a.point for a in arrivals if a.beam >= 0}
            yield from arrivals


def _arrivals(turn: Step, move: Selection, standing: dict[tuple[int, int, int], _Point]) -> list[_Arrival]:
    picks = move.picks
    arrivals = []
    for place in map(tuple, (picks.score > -torch.inf).nonzero().tolist()):
        index, group = int(turn.inputs[place[0]]), move.groups[place[1]]
        parent = standing[index, group, int(picks.parent[place])] if move.time else _ROOT
        tokens = (*parent.tokens, int(picks.token[place]))
        point = _Point(tokens, float(picks.log_prob[place]), float(picks.score[place]))
        ended, beam = bool(move.ended[place]), int(move.beam[place])
        assert len(tokens) == move.time + 1
        assert not (ended and beam >= 0)
        arrivals.append(_Arrival(index, group, parent, point, float(picks.cost[place]), beam))
    return arrivals
