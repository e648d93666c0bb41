"""Going on with more groups: what is found is what a search with all groups from the beginning finds."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    FunctionModel,
    Hamming,
    LengthNormalised,
    NGram,
    Results,
    Room,
    Sampling,
    Shortlist,
    StepModel,
    StochasticBeamSearch,
    Strategy,
    decode,
    decode_async,
    groups,
    groups_async,
)
from beamsplit.testing import PrefixHashModel
from search.cases import TERMS, every_schedule, every_term, law, made_up_model
from search.test_contract import FixedRows, Lists, Remote, WideningLists, Without0

VOCABULARY = 11
INPUTS = [3, 1, 4]

kinds = st.sampled_from(["smooth", "ties", "markov"])
seeds = st.integers(0, 10_000)
strengths = st.sampled_from([0.1, 0.5, 2.0, 30.0])
counts = st.integers(1, 3)
options_of = st.fixed_dictionaries(
    {
        "max_length": st.sampled_from([1, 4, 7]),
        "end": st.sampled_from([None, 0, [0, 1], [2, 5, 7]]),
        "min_length": st.integers(0, 1),
        "no_repeat_ngram": st.sampled_from([None, 2]),
        "scorer": st.sampled_from([None, LengthNormalised(alpha=0.7)]),
        "list_width": st.sampled_from([None, 2]),
    }
)


def _both_ways(
    model: StepModel, make: Callable[[int], Strategy], before: int, more: Sequence[int], **options: Any
) -> tuple[Results, Results]:
    """Return what is found with some groups and then more, and with all of them from the beginning."""
    options = {"max_length": 4, "end": 0, **options}
    found = decode(model, INPUTS, make(before), resumable=True, **options)
    for count in more:
        found = found.more(model, count)
    return found, decode(model, INPUTS, make(before + sum(more)), **options)


# The law, for every strategy that has it


@every_term
@every_schedule
@settings(law, max_examples=8)
@given(
    kind=kinds,
    seed=seeds,
    before=counts,
    more=counts,
    beams=counts,
    strength=strengths,
    options=options_of,
)
def test_groups_that_are_added_are_those_of_a_larger_search(
    term: str,
    schedule: Any,
    kind: str,
    seed: int,
    before: int,
    more: int,
    beams: int,
    strength: float,
    options: dict[str, Any],
) -> None:
    def make(count: int) -> Strategy:
        diversity = TERMS[term](VOCABULARY)
        return DiverseBeamSearch(
            groups=count, beams_per_group=beams, strength=strength, diversity=diversity, schedule=schedule
        )

    model = made_up_model(kind, VOCABULARY, seed)
    found, expected = _both_ways(model, make, before, [more], **options)
    assert found == expected
    assert [each.groups for each in found] == [each.groups for each in expected]


@every_term
@every_schedule
@settings(law, max_examples=4)
@given(kind=kinds, seed=seeds, more=counts, samples=counts, strength=strengths, options=options_of)
def test_groups_of_samples_that_are_added_are_those_of_a_larger_search(
    term: str,
    schedule: Any,
    kind: str,
    seed: int,
    more: int,
    samples: int,
    strength: float,
    options: dict[str, Any],
) -> None:
    def make(count: int) -> Strategy:
        diversity = TERMS[term](VOCABULARY)
        return DiverseSampling(
            groups=count, samples_per_group=samples, strength=strength, diversity=diversity, schedule=schedule
        )

    model = made_up_model(kind, VOCABULARY, seed)
    found, expected = _both_ways(model, make, 2, [more], seed=seed, **options)
    assert found == expected


@every_term
@settings(law, max_examples=4)
@given(kind=kinds, seed=seeds, more=counts, unique=st.booleans(), strength=strengths, options=options_of)
def test_runs_that_are_added_are_those_of_a_larger_search(
    term: str, kind: str, seed: int, more: int, unique: bool, strength: float, options: dict[str, Any]
) -> None:
    def make(count: int) -> Strategy:
        return DivMBest(runs=count, beams=2, strength=strength, diversity=TERMS[term](VOCABULARY))

    model = made_up_model(kind, VOCABULARY, seed)
    found, expected = _both_ways(model, make, 2, [more], unique=unique, **options)
    assert found == expected


CONTINUED: dict[str, Callable[[int], Strategy]] = {
    "diverse": lambda count: DiverseBeamSearch(groups=count, beams_per_group=2, diversity=NGram(n=2)),
    "greedy": lambda count: DiverseBeamSearch(groups=count, strength=3.0, diversity=Cumulative()),
    "sampling": lambda count: DiverseSampling(groups=count, samples_per_group=2, strength=2.0),
    "divmbest": lambda count: DivMBest(runs=count, beams=2, strength=2.0, diversity=Hamming()),
}
every_continued = pytest.mark.parametrize("name", CONTINUED)


@every_continued
@settings(law, max_examples=6)
@given(kind=kinds, seed=seeds, more=st.lists(counts, min_size=2, max_size=3), options=options_of)
def test_more_twice_is_more_at_once(
    name: str, kind: str, seed: int, more: list[int], options: dict[str, Any]
) -> None:
    model = made_up_model(kind, VOCABULARY, seed)
    found, expected = _both_ways(model, CONTINUED[name], 1, more, **options)
    assert found == expected


@every_continued
@settings(law, max_examples=4)
@given(seed=seeds)
def test_what_each_group_returns_may_be_limited(name: str, seed: int) -> None:
    model = PrefixHashModel(VOCABULARY, seed=seed)
    found, expected = _both_ways(model, CONTINUED[name], 2, [1, 2], return_per_group=1)
    assert found == expected
    assert {len(each) for each in found} == {5}


@pytest.mark.parametrize("seed", range(5))
def test_inputs_keep_their_seeds_and_numbers(seed: int) -> None:
    model, make = PrefixHashModel(VOCABULARY, seed=seed), CONTINUED["sampling"]
    for options in ({"numbers": [7, 7, 9]}, {"seed": [seed, 4, 5]}):
        found, expected = _both_ways(model, make, 2, [2], **options)
        assert found == expected


@every_continued
def test_outputs_may_end_by_a_rule(name: str) -> None:
    def stop(inputs: Tensor, tokens: Tensor) -> Tensor:
        return tokens.sum(1) > 14 + inputs

    for seed in range(5):
        model = PrefixHashModel(VOCABULARY, seed=seed)
        found, expected = _both_ways(model, CONTINUED[name], 2, [1, 1], stop=stop, max_length=6)
        assert found == expected


@every_continued
@pytest.mark.parametrize("first", [1, 2])
def test_groups_come_one_after_another(name: str, first: int) -> None:
    model = PrefixHashModel(VOCABULARY, seed=5)
    expected = decode(model, INPUTS, CONTINUED[name](5), max_length=5, end=0)
    found = groups(model, iter(INPUTS), CONTINUED[name](first), max_length=5, end=0)
    for group, lists in enumerate(itertools.islice(found, 5)):
        assert [list(each) for each in lists] == [[h for h in each if h.group == group] for each in expected]


# Models of all kinds


@pytest.mark.parametrize("name", ["diverse", "greedy", "divmbest"])
@pytest.mark.parametrize("seed", range(5))
def test_candidate_lists_are_gone_on_with(name: str, seed: int) -> None:
    """Doubt about earlier groups is doubt about those that are added; longer lists take it away."""
    plain = PrefixHashModel(VOCABULARY, seed=seed)
    found, expected = _both_ways(WideningLists(plain, 3), CONTINUED[name], 2, [1, 2], max_length=6)
    assert found == expected == _both_ways(plain, CONTINUED[name], 2, [1, 2], max_length=6)[0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model's lists")
        found, expected = _both_ways(Lists(plain, 3), CONTINUED[name], 2, [1, 2], max_length=6)
    assert found == expected
    assert not all(h.certified for each in found for h in each)


def _sure_of_all_but_0() -> StepModel:
    """Return a model that begins with 0 or 1; after 0 its lists are too short to be certain, else whole."""

    def answer(first: int, rest: Tensor) -> Shortlist:
        tokens, log_prob = torch.tensor([first, first + 1]), torch.tensor([-0.6, -0.8])
        return Shortlist(tokens.expand(len(rest), 2), log_prob.expand(len(rest), 2), rest)

    def start(inputs: list[int]) -> tuple[Shortlist, Tensor]:
        return answer(0, torch.full((len(inputs),), -torch.inf)), torch.zeros(len(inputs), 1)

    def step(tokens: Tensor, state: Tensor) -> tuple[Shortlist, Tensor]:
        return answer(5, torch.where(tokens == 0, -0.1, -torch.inf)), state

    return FunctionModel(step, start=start)


@pytest.mark.parametrize("strategy", [DiverseBeamSearch, DivMBest])
def test_doubt_about_groups_is_doubt_about_those_that_are_added(strategy: Any) -> None:
    """Group 0 says 0, and the others 1, of which they would be certain by themselves."""
    model = _sure_of_all_but_0()
    few, many = (
        DiverseBeamSearch(groups=count, strength=2.0)
        if strategy is DiverseBeamSearch
        else DivMBest(runs=count, beams=1, strength=2.0, diversity=Hamming())
        for count in (1, 2)
    )
    with pytest.warns(UserWarning, match="too short"):
        found = decode(model, [0, 0], few, max_length=3, resumable=True)
    with pytest.warns(UserWarning, match="too short"):
        expected = decode(model, [0, 0], many, max_length=3)
    more = found.more(model)  # without a warning: its own lists are long enough
    assert more == expected
    assert [group[0].tokens[0] for group in more[1].groups] == [0, 1]
    assert [h.certified for h in more[1]] == [False, False]


def test_a_model_has_the_room_and_the_candidates_of_the_larger_search() -> None:
    rooms: list[Room] = []

    class Roomy(Lists):
        def start_with_room(self, inputs: Any, room: Room) -> Any:
            rooms.append(room)
            self._width = room.candidates
            return self.start(inputs)

    model = Roomy(PrefixHashModel(31), 1)
    found, expected = _both_ways(model, lambda count: DiverseBeamSearch(groups=count), 3, [2])
    assert found == expected
    assert all(h.certified for each in found for h in each)
    assert [(room.beams, room.candidates) for room in rooms] == [(3, 5), (2, 7), (5, 7)]


@pytest.mark.parametrize("name", ["diverse", "greedy", "divmbest"])
@pytest.mark.parametrize("seed", range(3))
def test_models_with_fixed_rows_are_gone_on_with(name: str, seed: int) -> None:
    model = FixedRows(Without0(VOCABULARY, seed=seed, scale=6.0))
    found, expected = _both_ways(model, CONTINUED[name], 2, [1, 2], max_length=6, end=[3, 5])
    assert found == expected


@every_continued
@pytest.mark.parametrize("seed", range(3))
def test_guided_models_are_gone_on_with(name: str, seed: int) -> None:
    plain, other = PrefixHashModel(VOCABULARY, seed=seed), PrefixHashModel(VOCABULARY, seed=77)
    model = AntiLanguageModel(plain, other, strength=0.4, first=3)
    found, expected = _both_ways(model, CONTINUED[name], 2, [1, 2], max_length=6)
    assert found == expected


def test_texts_are_those_of_the_larger_search() -> None:
    class Speaking(PrefixHashModel):
        end = 0

        def to_text(self, tokens: tuple[int, ...]) -> str:
            return "".join("abcdefghijk"[token] for token in tokens)

    model = Speaking(VOCABULARY)
    found, expected = _both_ways(model, CONTINUED["diverse"], 1, [1], end="model")
    assert found == expected
    assert None not in found[0].texts


class Counting(PrefixHashModel):
    """Counts the rows that it is asked for after the first token."""

    rows = 0

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.rows += len(tokens)
        return super().step(tokens, state)


@every_continued
def test_the_model_sees_rows_of_new_groups_alone(name: str) -> None:
    """Without ends, a group has as many rows at every step as it has beams."""
    model = Counting(VOCABULARY)
    beams = CONTINUED[name](1).plan().beams_per_group
    found = decode(model, INPUTS, CONTINUED[name](3), max_length=5, end=None, resumable=True)
    for more in (1, 2):
        model.rows = 0
        found = found.more(model, more)
        assert model.rows == len(INPUTS) * more * beams * 4
    model.rows = 0
    for _ in itertools.islice(groups(model, INPUTS, CONTINUED[name](1), max_length=5, end=None), 4):
        pass
    assert model.rows == len(INPUTS) * 4 * beams * 4


# Strengths


@pytest.mark.parametrize("kind", [DiverseBeamSearch, DiverseSampling])
def test_groups_that_are_added_may_have_strengths_of_their_own(kind: Any) -> None:
    model = PrefixHashModel(VOCABULARY, seed=3)
    options: dict[str, Any] = {"max_length": 5, "end": 0, "resumable": True}

    def search(*strength: float) -> Results:
        return decode(model, INPUTS, kind(groups=len(strength), strength=strength), **options)

    assert search(0.0, 0.5).more(model, strength=3.0) == search(0.0, 0.5, 3.0)
    assert search(0.0, 0.0).more(model, 2, strength=(3.0, 0.1)) == search(0.0, 0.0, 3.0, 0.1)
    plain = decode(model, INPUTS, kind(groups=2, strength=0.5), **options)
    assert plain.more(model, strength=3.0).more(model, strength=9.0) == search(0.5, 0.5, 3.0, 9.0)


def test_runs_that_are_added_may_have_strengths_of_their_own() -> None:
    model = PrefixHashModel(VOCABULARY, seed=3)
    two, three = (DivMBest(runs=n, beams=2, strength=(0.0, 0.5, 4.0)[:n]) for n in (2, 3))
    found = decode(model, INPUTS, two, max_length=5, end=0, resumable=True)
    assert found.more(model, strength=4.0) == decode(model, INPUTS, three, max_length=5, end=0)


def test_a_strength_must_be_known() -> None:
    model, strategy = PrefixHashModel(VOCABULARY), DiverseBeamSearch(groups=2, strength=(0.0, 0.5))
    found = decode(model, INPUTS, strategy, max_length=3, resumable=True)
    unknown = (
        r"strength has a value for each of 2 groups and none for the next: .* more\(model, strength=0.5\)"
    )
    with pytest.raises(ArgumentError, match=unknown):
        found.more(model)
    with pytest.raises(ArgumentError, match=unknown):
        groups(model, INPUTS, strategy, max_length=3)
    with pytest.raises(ArgumentError, match="strength has 3 values for 2 more groups: give one number, or 2"):
        found.more(model, 2, strength=[1, 2, 3])
    with pytest.raises(ArgumentError, match=r"strength must be a finite number of 0 or more, not -1"):
        found.more(model, strength=-1)


# What the lists carry


@every_continued
def test_lists_can_be_stored_and_gone_on_with_elsewhere(name: str) -> None:
    model = PrefixHashModel(VOCABULARY, seed=2)
    options: dict[str, Any] = {"max_length": 20, "end": 0, "scorer": LengthNormalised()}
    found = decode(model, INPUTS, CONTINUED[name](2), resumable=True, **options)
    read = pickle.loads(pickle.dumps(found))
    assert read == found
    assert read.more(model) == found.more(model) == decode(model, INPUTS, CONTINUED[name](3), **options)
    assert pickle.loads(pickle.dumps(read.more(model))).more(model) == found.more(model, 2)


def test_what_is_carried_is_small_and_not_carried_unless_asked() -> None:
    """21 bytes for each beam and step, and a bit for each group."""
    model = PrefixHashModel(VOCABULARY)
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2)
    plain, found = (
        decode(model, range(20), strategy, max_length=50, end=None, resumable=resumable)
        for resumable in (False, True)
    )
    extra = len(pickle.dumps(found)) - len(pickle.dumps(plain))
    assert 0 < extra < 22 * 20 * 6 * 50 + 10_000
    assert found.to_json() == plain.to_json()


def test_lists_may_be_changed_and_gone_on_with_as_they_were() -> None:
    model = PrefixHashModel(VOCABULARY)
    found = decode(model, INPUTS, CONTINUED["diverse"](2), max_length=4, end=0, resumable=True)
    expected = found.more(model)
    found.reverse()
    found.pop()
    assert found.more(model) == expected


def test_no_inputs_have_no_groups() -> None:
    model = PrefixHashModel(VOCABULARY)
    found = decode(model, [], CONTINUED["diverse"](2), max_length=4, resumable=True)
    assert found == found.more(model) == []
    assert list(groups(model, [], CONTINUED["diverse"](2), max_length=4)) == []


# Waiting


@every_continued
def test_more_groups_can_be_awaited(name: str) -> None:
    plain = PrefixHashModel(VOCABULARY, seed=2)
    model: Any = Remote(plain)
    options: dict[str, Any] = {"max_length": 4, "end": 0}
    expected = decode(plain, INPUTS, CONTINUED[name](3), **options)

    async def more() -> Results:
        found = await decode_async(model, INPUTS, CONTINUED[name](1), resumable=True, **options)
        return await found.more_async(model, 2)

    async def each() -> list[Results]:
        found = []
        async for lists in groups_async(model, INPUTS, CONTINUED[name](1), **options):
            found.append(lists)
            if len(found) == 3:
                break
        return found

    async def none() -> list[Results]:
        return [each async for each in groups_async(model, [], CONTINUED[name](1), **options)]

    assert asyncio.run(more()) == expected
    by_group = asyncio.run(each())
    assert [[list(lists[i]) for i in range(3)] for lists in by_group] == [
        [[h for h in found if h.group == group] for found in expected] for group in range(3)
    ]
    assert asyncio.run(none()) == []


def test_more_does_not_wait() -> None:
    plain = PrefixHashModel(VOCABULARY)
    found = decode(plain, INPUTS, CONTINUED["diverse"](1), max_length=4, resumable=True)
    with pytest.raises(ArgumentError, match=r"Remote answers asynchronously: .* groups_async or more_async"):
        found.more(Remote(plain))


# Refusals


@pytest.mark.parametrize(
    "strategy",
    [
        BeamSearch(beams=2),
        Sampling(samples=2),
        DiverseSiblings(beams=2, rate=0.5),
        StochasticBeamSearch(beams=2),
    ],
)
def test_strategies_without_groups_have_no_next_group(strategy: Strategy) -> None:
    message = rf"{type(strategy).__name__} finds its outputs together and has no next group: use Diverse"
    with pytest.raises(ArgumentError, match=message):
        decode(PrefixHashModel(9), [0], strategy, max_length=2, resumable=True)
    with pytest.raises(ArgumentError, match=message):
        groups(PrefixHashModel(9), [0], strategy, max_length=2)


def test_groups_of_samples_without_strength_are_more_samples() -> None:
    """Which is what the refusal advises."""
    model = PrefixHashModel(VOCABULARY)
    each = groups(model, INPUTS, DiverseSampling(groups=1, strength=0.0), max_length=3, seed=5)
    first, second = itertools.islice(each, 2)
    assert first == decode(model, INPUTS, Sampling(samples=1), max_length=3, seed=5)
    assert first != second


def test_unique_groups_depend_on_how_many_there_are() -> None:
    message = r"with unique=True, .* leave unique out, and call distinct\(\) on the lists"
    with pytest.raises(ArgumentError, match=message):
        decode(PrefixHashModel(9), [0], CONTINUED["diverse"](2), max_length=2, unique=True, resumable=True)


def test_unique_groups_do_depend_on_how_many_there_are() -> None:
    """Or else there would be nothing to refuse: pools have more places, and so n-grams to avoid."""
    options: dict[str, Any] = {"max_length": 12, "end": [0, 1], "scorer": LengthNormalised(), "unique": True}
    differ = 0
    for seed in range(60):
        model = PrefixHashModel(5, seed=seed)
        few, many = (
            decode(model, [3], DiverseBeamSearch(groups=count, diversity=NGram(n=1)), **options)[0]
            for count in (2, 4)
        )
        differ += few.groups[1][:1] != many.groups[1][:1]
    assert differ


@pytest.mark.parametrize(
    "lists",
    [
        lambda found: Results.from_json(found.to_json()),
        lambda found: found[:1],
        lambda found: decode(PrefixHashModel(9), [0], DiverseBeamSearch(groups=1), max_length=2),
    ],
    ids=["read", "part", "not resumable"],
)
def test_lists_that_carry_nothing_cannot_be_gone_on_with(lists: Callable[[Results], Results]) -> None:
    model = PrefixHashModel(9)
    found = decode(model, [0], DiverseBeamSearch(groups=1), max_length=2, resumable=True)
    message = r"these lists do not have what it takes to go on, .*: decode with resumable=True"
    with pytest.raises(ArgumentError, match=message):
        lists(found).more(model)
    with pytest.raises(ArgumentError, match=message):
        asyncio.run(lists(found).more_async(model))


def _found(model: StepModel, inputs: list[int]) -> Results:
    return decode(model, inputs, DiverseBeamSearch(groups=2), max_length=4, resumable=True)


@every_continued
def test_another_model_is_recognised(name: str) -> None:
    model, other, small = PrefixHashModel(9), PrefixHashModel(9, seed=1), PrefixHashModel(2)
    found = decode(model, [0], CONTINUED[name](2), max_length=4, resumable=True)
    message = (
        r"PrefixHashModel gives token \d a log-probability of -\S+ as the first for input 0, and it was -"
    )
    with pytest.raises(ArgumentError, match=message):
        found.more(other)
    with pytest.raises(ArgumentError, match="PrefixHashModel gives token"):
        found.more(small)
    with pytest.raises(ArgumentError, match="Lists gives token"):
        found.more(Lists(other, 8))
    found.more(model)


def test_other_inputs_are_recognised() -> None:
    model, inputs = PrefixHashModel(9), [0, 1]
    found = _found(model, inputs)
    inputs[1] = 7
    with pytest.raises(ArgumentError, match=r"for input 1, .* give the model and the inputs that found them"):
        found.more(model)
    inputs.append(8)
    with pytest.raises(ArgumentError, match="these lists were found for 2 inputs, and there are 3 now"):
        found.more(model)
    inputs[:] = [0, 1]
    assert found.more(model) == decode(model, inputs, DiverseBeamSearch(groups=3), max_length=4)


def test_rounding_does_not_make_another_model() -> None:
    class Rounded(PrefixHashModel):
        def _logits(self, state: Tensor) -> Tensor:
            return super()._logits(state).bfloat16().float()

    found = _found(PrefixHashModel(9), [0, 1])
    assert [len(each) for each in found.more(Rounded(9))] == [3, 3]


def test_a_model_is_known_by_its_fingerprint() -> None:
    class Known(PrefixHashModel):
        fingerprint = "a"

    model, other = Known(9), Known(9)
    found = _found(model, [0])
    assert found.more(other) == found.more(model) == found.more(PrefixHashModel(9))
    other.fingerprint = "b"
    with pytest.raises(ArgumentError, match=r"this Known is not the model .* fingerprint is 'b', not 'a'"):
        found.more(other)


def test_slips_are_pointed_out() -> None:
    model: Any = PrefixHashModel(9)
    found = _found(model, [0])
    with pytest.raises(ArgumentError, match="groups must be a whole number of at least 1, not 0"):
        found.more(model, 0)
    with pytest.raises(ArgumentError, match="model must have the methods start, step and select"):
        found.more("en-fr")
    with pytest.raises(ArgumentError, match="resumable must be True or False, not 3"):
        decode(model, [0], DiverseBeamSearch(groups=2), max_length=4, resumable=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="max_length is missing"):
        groups(model, [0], DiverseBeamSearch(groups=2))
