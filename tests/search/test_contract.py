"""What a model may offer beside its three verbs: other answers, room, advance, waiting, going back."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DecodeOptions,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSiblings,
    Diversity,
    DivMBest,
    Embedding,
    FunctionModel,
    Guided,
    Hamming,
    Hypotheses,
    LengthNormalised,
    LogProbs,
    ModelError,
    NGram,
    Plan,
    PrefixModel,
    Room,
    Sampling,
    Shortlist,
    Step,
    StochasticBeamSearch,
    Strategy,
    decode,
    decode_async,
    record,
    steps,
    steps_async,
)
from beamsplit.search.asks import LAST, Abilities, Advance, Search, Start, Widen
from beamsplit.search.loop import lockstep
from beamsplit.search.rules import Maximise
from beamsplit.testing import MarkovModel, PrefixHashModel, rescore


def lists_of(tokens: Any, log_prob: Any, rest: Any = None) -> Shortlist:
    """Candidate lists of arrays or plain lists."""
    return Shortlist(tokens, log_prob, rest)


VOCABULARY = 12
END = 3


class Lists:
    """A model that answers with the best `width` tokens of each row, as a serving engine does."""

    def __init__(self, model: PrefixHashModel, width: int) -> None:
        self._model = model
        self._width = width

    def start(self, inputs: Any) -> tuple[Shortlist, Any]:
        logits, state = self._model.start(inputs)
        return self._listed(logits, self._width), state

    def step(self, tokens: Tensor, state: Any) -> tuple[Shortlist, Any]:
        logits, state = self._model.step(tokens, state)
        return self._listed(logits, self._width), state

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self._model.join(states)

    @staticmethod
    def _listed(logits: Tensor, width: int) -> Shortlist:
        log_prob, tokens = torch.log_softmax(logits, -1).topk(min(width, logits.shape[1]))
        return Shortlist(tokens, log_prob)  # best first, as engines list them


class WideningLists(Lists):
    """One that can be asked for more."""

    asked = 0

    def widen(self, state: Any, rows: Tensor, width: int) -> Shortlist:
        self.asked += 1
        logits = self._model._logits(state[rows])
        lists = self._listed(logits, width)
        if width >= logits.shape[1]:
            return Shortlist(lists.tokens, lists.log_prob, rest=torch.full((len(rows),), -torch.inf))
        return lists


VECTORS = torch.randn(VOCABULARY, 4, generator=torch.Generator().manual_seed(0))
TERMS: dict[str, Diversity] = {
    "hamming": Hamming(),
    "cumulative": Cumulative(temperature=2.0),
    "ngram": NGram(n=2),
    "embedding": Embedding(vectors=VECTORS),
}
DETERMINISTIC: dict[str, Strategy] = {
    "beam": BeamSearch(beams=3),
    "siblings": DiverseSiblings(beams=3, rate=0.7),
    "divmbest": DivMBest(runs=3, beams=2, strength=1.0),
    **{
        f"{name} {schedule}": DiverseBeamSearch(
            groups=3, beams_per_group=2, strength=0.8, diversity=term, schedule=schedule
        )
        for name, term in TERMS.items()
        for schedule in ("lockstep", "staggered")
    },
}


# Candidate lists


@pytest.mark.parametrize("name", DETERMINISTIC)
@pytest.mark.parametrize("option", ["none", "min_length", "unique", "scorer"])
def test_every_deterministic_strategy_works_on_lists(name: str, option: str) -> None:
    """Asked for more where need be, it finds what it finds on the whole vocabulary, to the last bit."""
    values: dict[str, Any] = {"min_length": 3, "unique": True, "scorer": LengthNormalised()}
    options = {option: values[option]} if option in values else {}
    for seed in range(3):
        model = PrefixHashModel(VOCABULARY, seed=seed)
        limits = {"max_length": 5, "end": END, **options}
        listed = WideningLists(model, 2)
        found = decode(listed, [1, 2], DETERMINISTIC[name], **limits)
        assert found == decode(model, [1, 2], DETERMINISTIC[name], **limits)
        assert listed.asked > 0
        assert all(h.certified for hypotheses in found for h in hypotheses)


@pytest.mark.parametrize("groups", [1, 4, 19])
def test_with_the_hamming_term_one_candidate_more_than_beams_is_enough(groups: int) -> None:
    """B + e candidates of a beam (e end tokens) make every step certain: a cap of 20 allows 19 beams."""
    model = PrefixHashModel(60, seed=groups)
    strategy = DiverseBeamSearch(groups=groups, beams_per_group=1, strength=3.0)
    found = decode(Lists(model, groups + 1), [0, 1, 2], strategy, max_length=8, end=END)
    assert found == decode(model, [0, 1, 2], strategy, max_length=8, end=END)
    assert all(h.certified for hypotheses in found for h in hypotheses)


def test_a_model_is_told_how_many_candidates_make_it_certain() -> None:
    strategy = DiverseBeamSearch(groups=19, beams_per_group=1)
    search = lockstep(strategy.plan(), DecodeOptions(max_length=8, end=END), Abilities())
    start = next(search)
    assert isinstance(start, Start)
    assert start.room == Room(beams=19, length=8, candidates=21)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("strategy", ["beam", "hamming lockstep", "hamming staggered", "siblings"])
@pytest.mark.filterwarnings("ignore:the model's lists")
def test_what_is_certified_is_what_an_exact_search_does(strategy: str, seed: int) -> None:
    """Lists of two or three are often too short. As long as steps are certified they must be exact."""
    model = PrefixHashModel(VOCABULARY, seed=seed)
    limits: dict[str, Any] = {"max_length": 5, "end": END}
    exact = list(steps(model, [seed], DETERMINISTIC[strategy], **limits))
    listed = list(steps(Lists(model, 2 + seed % 2), [seed], DETERMINISTIC[strategy], **limits))
    certified = True
    for ours, theirs in zip(listed, exact, strict=False):
        certified = certified and bool(ours.certified.all())
        if certified:
            assert ours.hypotheses == theirs.hypotheses
    (found,), (right,) = listed[-1].hypotheses, exact[-1].hypotheses
    reached = {h.tokens[: i + 1] for h in right for i in range(len(h.tokens))}
    for hypothesis in found:
        if hypothesis.certified:  # then the exact search went through it too, wherever it ended
            assert hypothesis.tokens in reached or not certified


def test_lists_that_are_too_short_are_said_to_be_once() -> None:
    model = Lists(PrefixHashModel(VOCABULARY, seed=5), 1)
    with pytest.warns(
        UserWarning, match="lists of 1 candidates are too short to be certain of step 0"
    ) as caught:
        (found,) = decode(model, [0], BeamSearch(beams=3), max_length=6)
    assert len(caught) == 1
    assert not any(h.certified for h in found)
    assert '"certified": false' in found.to_json()


def test_doubt_about_a_group_is_doubt_about_those_that_avoid_it() -> None:
    """Group 0 picks the same whatever the rest is; group 1 needs a second candidate that is not listed."""
    table = torch.full((4, 4), -9.0)
    table[:, 1] = 0.0
    table[:, 2] = -1.0
    log_prob = torch.log_softmax(table, -1)

    class One(MarkovModel):
        def start(self, inputs: Any) -> tuple[Any, None]:
            return self._one(super().start(inputs)[0]), None

        def step(self, tokens: Tensor, state: None) -> tuple[Any, None]:
            return self._one(super().step(tokens, state)[0]), None

        def _one(self, logits: Tensor) -> Shortlist:
            return Shortlist(torch.ones(len(logits), 1, dtype=torch.long), log_prob[: len(logits), 1:2])

    strategy = DiverseBeamSearch(groups=3, beams_per_group=1, strength=5.0)
    with pytest.warns(UserWarning, match="too short"):
        (step,) = steps(One(table), [0], strategy, max_length=1)
    assert step.selections[0].certified.tolist() == [[False, False, False]]  # its bound ties with its pick
    with pytest.warns(UserWarning, match="too short"):
        (free,) = steps(One(table), [0], DiverseBeamSearch(groups=3, strength=0.0), max_length=1)
    assert free.hypotheses[0].best.tokens == (1,)


def test_log_probabilities_in_lists_are_never_normalised_again() -> None:
    """A list holds a part of the distribution: made to sum to one again, -10.92 would become -5.74."""
    tokens = torch.tensor([[4, 9]])
    log_prob = torch.tensor([[-5.18, -5.74]])
    model = FunctionModel(
        lambda said, state: (Shortlist(tokens.expand(len(said), 2), log_prob.expand(len(said), 2)), state),
        start=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (found,) = decode(model, torch.zeros(1, 1), BeamSearch(beams=2), max_length=2)
    assert found.best.log_prob == pytest.approx(-10.36)
    assert found[1].log_prob == pytest.approx(-10.92)


def test_lists_may_be_guided() -> None:
    """The search follows the gain; log_prob stays the model's."""
    tokens, log_prob = torch.tensor([[1, 2]]), torch.tensor([[-0.5, -1.0]])
    answer = Shortlist(tokens, log_prob, rest=torch.tensor([-9.0]), gain=torch.tensor([[-0.5, -0.1]]))
    model = FunctionModel(lambda said, state: (answer, state), start=0)
    (found,) = decode(model, torch.zeros(1, 1), BeamSearch(beams=1), max_length=1)
    assert found.best.tokens == (2,)
    assert found.best.log_prob == pytest.approx(-1.0)
    assert found.best.score == pytest.approx(-0.1)


def test_lists_of_different_length_have_empty_places() -> None:
    tokens = torch.tensor([[7, -1], [5, 6]])
    log_prob = torch.tensor([[-0.1, -torch.inf], [-0.4, -0.3]])
    answer = Shortlist(tokens, log_prob, rest=torch.full((2,), -torch.inf))
    model = FunctionModel(lambda said, state: (answer, state), start=0)
    found = decode(model, torch.zeros(2, 1), BeamSearch(beams=2), max_length=1)
    assert [[h.tokens for h in each] for each in found] == [[(7,)], [(6,), (5,)]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Shortlist(torch.ones(1, 2), torch.zeros(1, 2)), "tokens are torch.float32 of shape [1, 2]"),
        (
            Shortlist(torch.tensor([[1, 2]]), torch.zeros(1, 3)),
            "log_prob of torch.float32 [1, 3] for tokens of [1, 2]",
        ),
        (Shortlist(torch.tensor([[1, 2]]), torch.tensor([[0.5, -1.0]])), "they must be normalised"),
        (Shortlist(torch.tensor([[1, 2]]), torch.tensor([[torch.nan, -1.0]])), "they must be normalised"),
        (Shortlist(torch.tensor([[1, 1]]), torch.tensor([[-1.0, -1.0]])), "token 1 twice in row 0"),
        (
            Shortlist(torch.tensor([[1]]), torch.tensor([[-1.0]]), rest=torch.zeros(2)),
            "rest of [2] for 1 rows",
        ),
        (Shortlist(torch.tensor([[1], [2]]), torch.zeros(2, 1)), "logits for 2 rows when 1 were asked for"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_list_that_is_none_is_refused(answer: Shortlist, message: str) -> None:
    model = FunctionModel(
        lambda said, state: (answer, state),
        start=lambda inputs: (lists_of([[1]], [[-0.5]], [-9.0]), torch.zeros(1)),
    )
    with pytest.raises(ModelError) as caught:
        decode(model, [0], BeamSearch(beams=1), max_length=3)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "strategy",
    [
        StochasticBeamSearch(beams=2),
        ArithmeticSampling(samples=2),
        DiverseArithmeticSampling(groups=2, samples_per_group=1),
    ],
    ids=str,
)
def test_such_sampling_needs_the_whole_vocabulary(strategy: Strategy) -> None:
    with pytest.raises(ArgumentError, match="sampling needs the whole vocabulary"):
        decode(Lists(PrefixHashModel(9), 4), [0], strategy, max_length=3)


def test_a_model_keeps_to_one_kind_of_answer() -> None:
    lists = Lists(PrefixHashModel(9), 4)
    model = FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 9), state), start=lists.start)
    with pytest.raises(ModelError, match="a Shortlist in some steps and with logits in others"):
        decode(model, [0], BeamSearch(beams=1), max_length=3)


def test_an_anti_language_model_needs_whole_vocabularies() -> None:
    lists = Lists(PrefixHashModel(9), 4)
    with pytest.raises(ModelError, match="compares whole vocabularies"):
        decode(
            AntiLanguageModel(PrefixHashModel(9), lists, strength=0.1), [0], BeamSearch(beams=1), max_length=2
        )


def test_widen_must_return_lists() -> None:
    class Wrong(WideningLists):
        def widen(self, state: Any, rows: Tensor, width: int) -> Any:
            return torch.zeros(len(rows), width)

    with pytest.raises(ModelError, match="widen must return a Shortlist, not a Tensor"):
        decode(Wrong(PrefixHashModel(9), 1), [0], BeamSearch(beams=3), max_length=2)


def test_only_rows_in_doubt_are_asked_for_more() -> None:
    """Of two inputs the second is sure of itself, so that one row alone is in doubt."""
    sure, unsure = torch.tensor([0.0, -50.0, -51.0]), torch.tensor([0.0, -0.1, -0.2])
    rows_asked: list[list[int]] = []

    class Asked(MarkovModel):
        def start(self, inputs: Any) -> tuple[Any, None]:
            log_prob = torch.log_softmax(torch.stack([unsure, sure]), -1)
            return lists_of([[0], [0]], log_prob[:, :1], rest=log_prob[:, 1]), None

        def widen(self, state: None, rows: Tensor, width: int) -> Shortlist:
            rows_asked.append(rows.tolist())
            log_prob = torch.log_softmax(unsure, -1)[None]
            return lists_of([[0, 1, 2]], log_prob, rest=[-torch.inf])

    strategy = DiverseBeamSearch(groups=2, strength=0.3)
    found = decode(Asked(torch.zeros(3, 3)), [0, 1], strategy, max_length=1)
    assert rows_asked == [[0]]
    assert [h.tokens for h in found[0]] == [(0,), (1,)]
    assert [h.tokens for h in found[1]] == [(0,), (0,)]


# Log-probabilities of the whole vocabulary


def test_log_probabilities_are_taken_as_they_are() -> None:
    model = PrefixHashModel(VOCABULARY, seed=1)

    class Normalised(PrefixHashModel):
        def _logits(self, state: Tensor) -> Any:
            return LogProbs(torch.log_softmax(super()._logits(state), -1))

    for strategy in (*DETERMINISTIC.values(), Sampling(samples=3), ArithmeticSampling(samples=3)):
        same = decode(Normalised(VOCABULARY, seed=1), [1, 2], strategy, max_length=4, end=END, min_length=2)
        assert same == decode(model, [1, 2], strategy, max_length=4, end=END, min_length=2)


def test_a_part_of_a_distribution_is_not_made_whole() -> None:
    """Tokens that are ruled out leave less than 1 to the others, and that is what they keep."""
    values = torch.tensor([[-5.18, -torch.inf, -5.74]])
    kept = values.clone()
    model = FunctionModel(lambda tokens, state: (LogProbs(values.expand(len(tokens), 3)), state), start=0)
    (found,) = decode(model, torch.zeros(1, 1), BeamSearch(beams=2), max_length=2, end=0, min_length=2)
    assert found.best.log_prob == pytest.approx(-10.92)
    assert torch.equal(values, kept)  # which the search has not written to


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([[0.5, -1.0]], "a log-probability of 0.5, which is above 0"),
        ([[-1.0, torch.nan]], "NaN at token 1"),
        ([[-torch.inf, -torch.inf]], "-inf for every token"),
    ],
)
def test_what_is_no_log_probability_is_found_out(values: list[list[float]], problem: str) -> None:
    model = FunctionModel(lambda tokens, state: (LogProbs(torch.tensor(values)), state), start=0)
    with pytest.raises(ModelError) as caught:
        decode(model, torch.zeros(1, 1), BeamSearch(beams=2), max_length=1, end=0, min_length=1)
    assert problem in str(caught.value)


# Room, advance, fixed rows


class Advancing:
    """A model that moves rows and steps in one, and has no other way to go on."""

    fixed_rows = False

    def __init__(self, model: PrefixHashModel) -> None:
        self._model = model
        self.rows: list[int] = []
        self.rooms: list[Room] = []

    def start(self, inputs: Any) -> Any:
        raise AssertionError("it is told about its room")

    def start_with_room(self, inputs: Any, room: Room) -> Any:
        self.rooms.append(room)
        return self._model.start(inputs)

    def step(self, tokens: Tensor, state: Any) -> Any:
        raise AssertionError("it advances")

    def select(self, state: Any, rows: Tensor) -> Any:
        raise AssertionError("it advances")

    def advance(self, state: Any, parents: Tensor | None, tokens: Tensor) -> Any:
        self.rows.append(len(tokens))
        moved = state.clone() if parents is None else state[parents]
        state.fill_(-1)  # what it is given it may use up
        return self._model.step(tokens, moved)


class FixedRows(Advancing):
    """One that wants as many rows at every step, and answers nonsense for those that are dead."""

    fixed_rows = True

    def advance(self, state: Any, parents: Tensor | None, tokens: Tensor) -> Any:
        logits, state = super().advance(state, parents, tokens)
        return logits.masked_fill((tokens == 0).unsqueeze(1), torch.nan), state  # 0 is what dead rows say


class Without0(PrefixHashModel):
    """One that never says 0, so that nonsense for 0 is nonsense for dead rows alone."""

    def _logits(self, state: Tensor) -> Tensor:
        logits = super()._logits(state)
        logits[:, 0] = -torch.inf
        return logits


@pytest.mark.parametrize("kind", [Advancing, FixedRows])
@pytest.mark.parametrize("name", [name for name in DETERMINISTIC if "staggered" not in name])
def test_a_model_may_advance(kind: type[Advancing], name: str) -> None:

    plain = Without0(VOCABULARY, seed=4, scale=6.0)
    model = kind(plain)
    found = decode(model, [1, 2, 3], DETERMINISTIC[name], max_length=6, end=[END, 5])
    assert found == decode(plain, [1, 2, 3], DETERMINISTIC[name], max_length=6, end=[END, 5])
    plan = DETERMINISTIC[name].plan()
    beams = plan.groups * plan.beams_per_group
    assert {(room.beams, room.length) for room in model.rooms} == {(beams, 6)}
    if kind is FixedRows:
        assert set(model.rows) == {3 * beams}
    else:
        assert min(model.rows) < 3 * beams  # inputs and beams that are done leave


def test_fixed_rows_need_advance() -> None:
    class Half(PrefixHashModel):
        fixed_rows = True

    with pytest.raises(ArgumentError, match=r"Half.fixed_rows is True, which needs a method advance"):
        decode(Half(9), [0], BeamSearch(beams=2), max_length=2)


# Waiting


class Remote:
    """A model behind a network: its verbs are coroutines."""

    end = END

    def __init__(self, model: Any) -> None:
        self._model = model

    async def start(self, inputs: Any) -> Any:
        await asyncio.sleep(0)
        return self._model.start(inputs)

    async def step(self, tokens: Tensor, state: Any) -> Any:
        await asyncio.sleep(0)
        return self._model.step(tokens, state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self._model.join(states)

    async def widen(self, state: Any, rows: Tensor, width: int) -> Shortlist:
        await asyncio.sleep(0)
        lists: Shortlist = self._model.widen(state, rows, width)
        return lists


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_awaited_answers_give_the_same(name: str) -> None:
    model = PrefixHashModel(VOCABULARY, seed=2)
    expected = decode(model, [1, 2], DETERMINISTIC[name], max_length=4, end=END)
    assert asyncio.run(decode_async(Remote(model), [1, 2], DETERMINISTIC[name], max_length=4)) == expected
    listed = Remote(WideningLists(model, 2))
    assert asyncio.run(decode_async(listed, [1, 2], DETERMINISTIC[name], max_length=4)) == expected
    assert asyncio.run(decode_async(model, [1, 2], DETERMINISTIC[name], max_length=4, end=END)) == expected


def test_two_searches_may_wait_side_by_side() -> None:
    model, strategy = PrefixHashModel(VOCABULARY, seed=2), BeamSearch(beams=2)

    async def both() -> list[list[Hypotheses]]:
        searches = (decode_async(Remote(model), [i], strategy, max_length=4) for i in (1, 2))
        return list(await asyncio.gather(*searches))

    assert asyncio.run(both()) == [decode(model, [i], strategy, max_length=4, end=END) for i in (1, 2)]


def test_steps_can_be_awaited() -> None:
    model, strategy = PrefixHashModel(VOCABULARY, seed=2), BeamSearch(beams=2)

    async def all_steps() -> list[Step]:
        return [step async for step in steps_async(Remote(model), [1, 2], strategy, max_length=4)]

    async def no_inputs() -> list[Hypotheses]:
        return await decode_async(Remote(model), [], strategy, max_length=4)

    awaited = asyncio.run(all_steps())
    plain = list(steps(model, [1, 2], strategy, max_length=4, end=END))
    assert [step.hypotheses for step in awaited] == [step.hypotheses for step in plain]
    assert asyncio.run(no_inputs()) == []


def test_decode_does_not_wait() -> None:
    with pytest.raises(ArgumentError, match="Remote answers asynchronously: use decode_async or steps_async"):
        decode(Remote(PrefixHashModel(9)), [0], BeamSearch(beams=1), max_length=2)  # type: ignore[arg-type]


# A search without I/O


def test_a_search_can_be_driven_by_hand() -> None:
    """It asks for answers and is sent them; no model is in sight."""
    search = lockstep(BeamSearch(beams=2).plan(), DecodeOptions(max_length=2, end=None), Abilities())
    assert isinstance(next(search), Start)
    first = search.send(torch.tensor([[0.5, 0.3, 0.2]]).log())
    assert isinstance(first, Step)
    assert [h.tokens for h in first.hypotheses[0]] == [(0,), (1,)]
    ask = next(search)
    assert isinstance(ask, Advance)
    assert ask.tokens.tolist() == [0, 1]
    assert ask.parents is not None
    assert ask.parents.tolist() == [0, 0]
    # After 0 comes 2; after 1 comes anything.
    last = search.send(torch.tensor([[0.1, 0.1, 0.8], [0.4, 0.3, 0.3]]).log())
    assert isinstance(last, Step)
    assert [h.tokens for h in last.hypotheses[0]] == [(0, 2), (1, 0)]
    with pytest.raises(StopIteration):
        next(search)


def test_a_search_asks_for_longer_lists() -> None:
    search = lockstep(
        BeamSearch(beams=2).plan(), DecodeOptions(max_length=1, end=None), Abilities(widens=True)
    )
    next(search)
    ask = search.send(lists_of([[4]], [[-0.5]]))
    assert isinstance(ask, Widen)
    assert (ask.rows.tolist(), ask.width) == ([0], 4)
    step = search.send(lists_of([[4, 1]], [[-0.5, -1.5]], rest=[-2.0]))
    assert isinstance(step, Step)
    assert [h.tokens for h in step.hypotheses[0]] == [(4,), (1,)]
    assert bool(step.certified.all())


# Going back


@dataclass(frozen=True)
class SecondThoughts:
    """Greedy search to the end; then from its first step again, by the second best token there."""

    kept_per_group = 1

    def plan(self) -> Plan:
        return Plan(groups=1, beams_per_group=1, rule=Maximise())

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        answer = yield Start(Room(beams=2, length=options.max_length, candidates=2), keeps="all")
        first, second = answer[0].topk(2).indices.tolist()
        sequences = []
        for begin in (first, second):
            tokens = [begin]
            source = 0  # the first answer, whose state the model has long left the second time
            while len(tokens) < options.max_length:
                last = torch.tensor(tokens[-1:])
                answer = yield Advance(last, torch.tensor([0]), sources=(source,))
                tokens.append(int(answer[0].argmax()))
                source = LAST
            sequences.append(tuple(tokens))
        self.found.append(sequences)  # type: ignore[attr-defined]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_search_may_return_to_an_earlier_step(in_place: bool) -> None:
    plain = PrefixHashModel(VOCABULARY, seed=3)

    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        logits, new = plain.step(tokens, state[:, 0])
        if in_place:  # a model may write to the state that it is given: `select` has copied it
            state[:, 0] = new
            return logits, state
        return logits, new.unsqueeze(1)

    def start(inputs: Any) -> tuple[Tensor, Tensor]:
        logits, state = plain.start(inputs)
        return logits, state.unsqueeze(1)

    found: list[Any] = []
    strategy = SecondThoughts()
    object.__setattr__(strategy, "found", found)
    model = FunctionModel(step, start=start, keeps_earlier_steps=True)
    decode(model, [1], strategy, max_length=4)
    logits, state = plain.start([1])
    expected = []
    for token in logits[0].topk(2).indices.tolist():
        tokens, at = [token], state
        while len(tokens) < 4:
            after, at = plain.step(torch.tensor(tokens[-1:]), at)
            tokens.append(int(after[0].argmax()))
        expected.append(tuple(tokens))
    assert found == [expected]


def test_rows_of_several_earlier_steps_can_be_put_together() -> None:
    model = FunctionModel(
        lambda tokens, state: (state + tokens.unsqueeze(1), state + tokens.unsqueeze(1)),
        start=0,
        keeps_earlier_steps=True,
    )
    answers: list[Tensor] = []

    class Mixed:
        kept_per_group = 1

        def plan(self) -> Plan:
            return Plan(groups=1, beams_per_group=1, rule=Maximise())

        def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
            answers.append((yield Start(Room(beams=1, length=9, candidates=1), keeps="all")))
            answers.append((yield Advance(torch.tensor([10]), torch.tensor([0]))))
            # Row 0 of the first answer, and row 0 of the second, which comes below it.
            answers.append((yield Advance(torch.tensor([5, 5]), torch.tensor([1, 0]), sources=(0, 1))))

    decode(model, torch.zeros(1, 1), Mixed(), max_length=3)
    assert [answer.flatten().tolist() for answer in answers] == [[0.0], [10.0], [15.0, 5.0]]


def test_going_back_needs_a_model_that_keeps_its_steps() -> None:
    with pytest.raises(ArgumentError, match="needs a model with keeps_earlier_steps = True"):
        decode(
            FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 5), state), start=0),
            torch.zeros(1, 1).long(),
            SecondThoughts(),
            max_length=2,
        )


# Arrays


def test_a_model_may_be_written_in_numpy() -> None:
    table = np.random.default_rng(0).normal(size=(6, 6))

    def step(tokens: Any, state: Any) -> Any:
        tokens = np.asarray(tokens)
        count = state["count"] + 1
        return table[tokens] + np.sin(count), {"count": count, "name": "a counter"}

    model = FunctionModel(step, start=0)
    strategy = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.5)
    found = decode(model, {"count": np.zeros((2, 1)), "name": "a counter"}, strategy, max_length=4, end=2)
    tensor = torch.from_numpy(table)

    def torch_step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return tensor[tokens] + torch.sin(state + 1), state + 1

    double = decode(
        FunctionModel(torch_step, start=0),
        torch.zeros(2, 1, dtype=torch.double),
        strategy,
        max_length=4,
        end=2,
    )
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in double]
    assert found[0].best.log_prob == pytest.approx(double[0].best.log_prob, abs=1e-12)
    staggered = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.5, schedule="staggered")
    assert (
        decode(model, {"count": np.zeros((2, 1)), "name": "a counter"}, staggered, max_length=4, end=2)
        == found
    )


def test_every_answer_may_be_made_of_arrays() -> None:
    logits = np.array([[0.0, 1.0, 2.0]], dtype=np.float32)
    logits.flags.writeable = False  # as arrays of other libraries are
    log_prob: Any = np.asarray(torch.log_softmax(torch.tensor(logits), -1))
    guidance: Any = np.zeros_like(logits)
    raw: Any = logits
    answers: list[Any] = [
        logits,
        Guided(raw, guidance, bounded=True),
        LogProbs(log_prob),
        lists_of(np.array([[2, 1, 0]]), log_prob[:, ::-1].copy(), rest=np.array([-np.inf])),
    ]
    found = []
    for answer in answers:
        model = FunctionModel(_always(answer), start=0)
        found.append(
            [h.tokens for h in decode(model, np.zeros((1, 1)), BeamSearch(beams=2), max_length=1)[0]]
        )
    assert found == [[(2,), (1,)]] * 4


def _always(answer: Any) -> Callable[[Any, Any], Any]:
    return lambda tokens, state: (answer, state)


def test_an_array_without_numbers_is_refused() -> None:
    model = FunctionModel(lambda tokens, state: (np.array([["a", "b"]]), state), start=0)
    with pytest.raises(ModelError, match="the model returned an array of <U1"):
        decode(model, np.zeros((1, 1)), BeamSearch(beams=2), max_length=1)


class Foreign:
    """An array of a library that hands over its memory, and does not turn into numpy's, as on a GPU."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("implicit conversion to a numpy array is not allowed")


class ReadOnly:
    """An array of a library that turns into numpy's, which must not be written to, as those of JAX do."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values.copy()
        self._values.flags.writeable = False

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self._values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)  # which numpy refuses

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


def _read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "half": lambda values: values.astype(np.float16),
    "single": lambda values: values.astype(np.float32),
    "double": lambda values: values,
    "read-only": _read_only,
    "by columns": np.asfortranarray,
    "foreign": Foreign,
    "foreign and read-only": ReadOnly,
}
NUMBERS = np.random.default_rng(1).normal(size=(6, 6))
NUMBERS -= np.log(np.exp(NUMBERS).sum(1, keepdims=True))
NO_GUIDANCE = np.zeros((6, 6))
EVERY_TOKEN = np.tile(np.arange(6), (6, 1))


class OfTheLast:
    """A model of one's own: what it answers depends on the last token."""

    def __init__(self, answer: Callable[[np.ndarray], Any]) -> None:
        self._answer = answer

    def start(self, inputs: Any) -> Any:
        return self._answer(np.asarray(inputs)), None

    def step(self, tokens: Tensor, state: Any) -> Any:
        return self._answer(tokens.numpy()), state

    def select(self, state: Any, rows: Tensor) -> Any:
        return state


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_are_taken_wherever_a_model_answers(kind: str) -> None:
    array, strategy = ARRAYS[kind], DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.4)
    as_tensors = OfTheLast(lambda last: torch.from_numpy(NUMBERS[last]))
    expected = decode(as_tensors, [4, 5], strategy, max_length=4, end=0)

    def logits(last: np.ndarray) -> Any:
        return array(NUMBERS[last])

    def lists(last: np.ndarray) -> Any:
        rest = array(np.full(len(last), -np.inf))
        return Shortlist(EVERY_TOKEN[last], array(NUMBERS[last]), rest)

    def no_state(last: np.ndarray) -> Any:
        return logits(last), None

    models: dict[str, Any] = {
        "own": OfTheLast(logits),
        "log-probabilities": OfTheLast(lambda last: LogProbs(logits(last))),
        "guided": OfTheLast(lambda last: Guided(logits(last), array(NO_GUIDANCE[last]), bounded=True)),
        "lists": OfTheLast(lists),
        "function": FunctionModel(
            lambda tokens, state: no_state(tokens.numpy()), start=lambda inputs: no_state(np.asarray(inputs))
        ),
        "against nothing": AntiLanguageModel(OfTheLast(logits), OfTheLast(logits), strength=0.0),
    }
    for name, model in models.items():
        found = decode(model, [4, 5], strategy, max_length=4, end=0)
        assert [[h.tokens for h in each] for each in found] == [
            [h.tokens for h in each] for each in expected
        ], name
    prefixes = PrefixModel(lambda prefix: logits(prefix[:, -1].numpy()))
    found = decode(prefixes, np.array([[4], [5]]), strategy, max_length=4, end=0)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]


def test_what_makes_no_array_is_refused() -> None:
    ragged: Any = [[-1.0, -2.0], [-1.0]]
    pattern = r"the model returned a list that makes no array \(.*\): give every row as many numbers"
    with pytest.raises(ModelError, match=pattern):
        LogProbs(ragged)
    model = OfTheLast(lambda last: Shortlist(np.array([[0, 1]]), np.array([[-1, -2]])))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"a Shortlist with log_prob of torch\.int64"):
        decode(model, [0], BeamSearch(beams=1), max_length=1)


def test_arrays_are_rescored_too() -> None:
    model: Any = OfTheLast(lambda last: NUMBERS[last])
    assert rescore(model, [4], 0, [1, 2]) == pytest.approx(NUMBERS[4, 1] + NUMBERS[1, 2])


# What a model is given is its own


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_model_may_write_into_its_tokens_and_rows(name: str) -> None:
    class Careless(PrefixHashModel):
        def step(self, tokens: Tensor, state: Any) -> Any:
            answer = super().step(tokens.clone(), state)
            tokens += 5
            return answer

        def select(self, state: Any, rows: Tensor) -> Any:
            selected = super().select(state, rows.clone())
            rows += 1000
            return selected

    careful = PrefixHashModel(VOCABULARY, seed=6)
    for beams in (1, 2):
        strategy = BeamSearch(beams=beams) if name == "beam" else DETERMINISTIC[name]
        expected = decode(careful, [1, 2], strategy, max_length=5, end=END)
        assert decode(Careless(VOCABULARY, seed=6), [1, 2], strategy, max_length=5, end=END) == expected


# Inputs and options


def test_inputs_may_be_an_iterator() -> None:
    model, strategy = PrefixHashModel(VOCABULARY, seed=1), DivMBest(runs=3, beams=2, strength=1.0)

    class Reading(PrefixHashModel):
        def start(self, inputs: Any) -> Any:
            return super().start(list(inputs))

    inputs: Iterator[int] = iter([1, 2])
    found = decode(Reading(VOCABULARY, seed=1), inputs, strategy, max_length=3, end=END)
    assert found == decode(model, [1, 2], strategy, max_length=3, end=END)
    assert decode(model, iter([]), strategy, max_length=3) == []


def test_a_promise_that_ends_is_noticed() -> None:
    """Totals are bounded at first; later a token adds 9, and its group must not have stopped before."""
    end, long = 0, 1
    table = torch.log_softmax(torch.tensor([[0.0, -1.0], [0.0, -1.0]]), -1)

    def step(tokens: Tensor, state: Tensor) -> tuple[Guided, Tensor]:
        age = state + 1
        guidance = torch.zeros(len(tokens), 2)
        guidance[:, end] = torch.where(age[:, 0] == 3, 9.0, 0.0)
        return Guided(table[tokens], guidance, bounded=False), age

    def start(inputs: list[int]) -> tuple[Guided, Tensor]:
        rows = len(inputs)
        return Guided(table[:rows], torch.zeros(rows, 2), bounded=True), torch.zeros(rows, 1)

    (found,) = decode(FunctionModel(step, start=start), [0], BeamSearch(beams=2), max_length=4, end=end)
    assert found.groups[0][0].tokens == (long, long, long, end)


def test_a_stop_rule_keeps_to_the_least_length() -> None:
    model = PrefixHashModel(VOCABULARY, seed=2)

    def at_once(inputs: Tensor, tokens: Tensor) -> Tensor:
        return torch.ones(len(inputs), dtype=torch.bool) & (tokens.shape[1] > 0)

    for least in (0, 1, 2, 4):
        found = decode(
            model, [0, 1], BeamSearch(beams=3), max_length=6, min_length=least, stop=at_once, end=None
        )
        assert {len(h.tokens) for each in found for h in each} == {max(least, 1)}


@pytest.mark.parametrize(
    ("strength", "message"),
    [
        (
            1e39,
            "strength=1e+39 is more than float32 holds, which is what scores are kept in: give a smaller one",
        ),
        (3e38, "strength=3e+38 times a penalty of 2 is more than float32 holds: give a smaller strength"),
    ],
)
def test_a_strength_that_overflows_is_blamed_itself(strength: float, message: str) -> None:
    strategy = DiverseBeamSearch(groups=3, strength=strength)
    model = MarkovModel(torch.tensor([[0.0, -torch.inf], [0.0, -torch.inf]]))
    with pytest.raises(ArgumentError) as caught:
        decode(model, [0], strategy, max_length=2)
    assert str(caught.value) == message


def test_equal_scores_in_a_group_keep_the_order_of_the_search() -> None:
    """Guidance makes the two totals alike; the lower token comes first, though the other is likelier."""
    model = FunctionModel(
        lambda tokens, state: (
            Guided(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([[0.75, 0.25]]).log()),
            state,
        ),
        start=0,
    )
    (found,) = decode(model, torch.zeros(1, 1), BeamSearch(beams=2), max_length=1)
    assert [h.score for h in found.groups[0]] == [found[0].score] * 2
    assert [h.tokens for h in found.groups[0]] == [(0,), (1,)]
    assert [h.tokens for h in found] == [(1,), (0,)]  # the whole list is by log-probability
    (kept,) = decode(model, torch.zeros(1, 1), DivMBest(runs=1, beams=2), max_length=1)
    assert [h.tokens for h in kept] == [(0,)]
    assert [h.tokens for h in found.with_text(str).groups[0]] == [(0,), (1,)]
    assert [h.tokens for h in found.distinct().groups[0]] == [(0,), (1,)]


def test_siblings_of_the_root_are_not_ranked() -> None:
    """Worked by hand. After 0 comes 0 or 1, after 1 too. Ranks at the root would cancel those after it."""
    first = torch.tensor([0.55, 0.45]).log()
    then = torch.tensor([0.6, 0.4]).log()
    model = FunctionModel(
        lambda tokens, state: (then.expand(len(tokens), 2), state),
        start=lambda inputs: (first.expand(1, 2), torch.zeros(1, 1)),
    )
    (found,) = decode(model, [0], DiverseSiblings(beams=2, rate=1.0), max_length=2)
    assert [h.tokens for h in found.groups[0]] == [(0, 0), (1, 0)]  # each beam's best child
    total = float(first[0] + then[0])
    assert found.groups[0][0].score == pytest.approx(total - 1.0)
    # With the root's rank, (1, 0) pays 2 + 1 and (0, 1) pays 1 + 2: no sibling is discouraged.
    (ranked,) = decode(model, [0], DiverseSiblings(beams=2, rate=1.0, rank_root=True), max_length=2)
    scores = {h.tokens: h.score - h.log_prob for h in ranked}
    assert scores[(1, 0)] == pytest.approx(-3.0)


def test_a_recording_puts_lists_together_once() -> None:
    """Not once for each input: with many inputs that would take most of the time."""
    model = PrefixHashModel(VOCABULARY, seed=1)
    calls = 0

    class Counted(PrefixHashModel):
        def to_text(self, tokens: tuple[int, ...]) -> str:
            nonlocal calls
            calls += 1
            return ""

    recordings = record(model, list(range(40)), BeamSearch(beams=2), max_length=3)
    assert [r.hypotheses for r in recordings] == decode(
        model, list(range(40)), BeamSearch(beams=2), max_length=3
    )
    record(Counted(VOCABULARY, seed=1), list(range(40)), BeamSearch(beams=2), max_length=3)
    # Each branch and hypothesis has its text; putting all lists together for each input is 3,200 more.
    assert calls < 1000


def test_options_are_written_once() -> None:
    import inspect

    names = list(DecodeOptions.__dataclass_fields__)
    for function in (decode, steps, decode_async, steps_async, record):
        parameters = inspect.signature(function).parameters
        assert [name for name in names if name in parameters] == names, function
    from beamsplit.options import OptionArguments

    assert list(OptionArguments.__annotations__) == names


def test_a_slip_in_an_option_is_pointed_out() -> None:
    with pytest.raises(ArgumentError, match=r"there is no option 'max_lenght': did you mean 'max_length'\?"):
        decode(PrefixHashModel(5), [0], BeamSearch(beams=1), max_lenght=3)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match="max_length is missing"):
        decode(PrefixHashModel(5), [0], BeamSearch(beams=1))


def test_numbers_count_together_with_the_seed() -> None:
    model, strategy = PrefixHashModel(VOCABULARY, seed=1), Sampling(samples=4)
    inputs = [5, 6, 7, 8]
    together = decode(model, inputs, strategy, max_length=4, seed=7)
    for start in range(4):
        part = decode(model, inputs[start:], strategy, max_length=4, seed=7, numbers=range(start, 4))
        assert part == together[start:]
    assert decode(model, inputs, strategy, max_length=4, seed=7, numbers=[3, 2, 1, 0]) != together
    with pytest.raises(ArgumentError, match="numbers has 2 values for 4 inputs: give one an input"):
        decode(model, inputs, strategy, max_length=4, seed=7, numbers=[0, 1])


# Corners of certificates


def listed_once(*answers: Shortlist) -> Any:
    """A model that answers with these lists, one a step."""
    counter = iter(range(len(answers)))
    return FunctionModel(
        lambda tokens, state: (answers[next(counter)], state),
        start=lambda inputs: (answers[next(counter)], torch.zeros(len(inputs), 1)),
    )


def test_an_empty_place_is_no_bound() -> None:
    """Its log-probability is -inf, which would mean that every token is listed."""
    model = listed_once(lists_of([[0, -1]], [[-0.68, -torch.inf]]))
    with pytest.warns(UserWarning, match="too short"):
        (found,) = decode(model, [0], BeamSearch(beams=2), max_length=1)
    assert [(h.tokens, h.certified) for h in found] == [((0,), False)]


def test_a_gap_among_the_picks_is_never_certain() -> None:
    """Two picks are wanted, since one may end; one is listed, and all others are worse: which one follows?"""
    first = lists_of([[0]], [[-0.5]], rest=[-0.9])
    with pytest.warns(UserWarning, match="too short"):
        found = decode(
            listed_once(first), [0], BeamSearch(beams=1), max_length=3, end=0, scorer=LengthNormalised()
        )
    assert not found[0].best.certified


def test_guided_lists_may_raise_totals() -> None:
    """As with `Guided`: a group goes on, since a later token may add more than it takes."""
    everything = [-torch.inf]
    bad, good = lists_of([[0, 1]], [[-0.1, -3.0]], everything), [[-0.1, -3.0]]

    def answer(tokens: Any, state: Any) -> tuple[Shortlist, Any]:
        gain = torch.tensor([[-0.1, 9.0]]).expand(len(tokens), 2)
        log_prob = torch.tensor(good).expand(len(tokens), 2)
        rest = torch.full((len(tokens),), -torch.inf)
        return Shortlist(torch.tensor([[0, 1]]).expand(len(tokens), 2), log_prob, rest, gain), state

    model = FunctionModel(
        answer,
        start=lambda inputs: (
            Shortlist(bad.tokens, bad.log_prob, bad.rest, torch.tensor([[-0.1, -3.0]])),
            torch.zeros(1, 1),
        ),
    )
    (found,) = decode(model, [0], BeamSearch(beams=1), max_length=3, end=0)
    assert found.groups[0][0].score > 0


def test_what_a_list_gains_in_an_empty_place_is_nothing() -> None:
    answer = Shortlist(
        torch.tensor([[4, -1]]),
        torch.tensor([[-1.0, -torch.inf]]),
        torch.tensor([-torch.inf]),
        torch.tensor([[-1.0, 0.0]]),
    )
    (found,) = decode(listed_once(answer), [0], BeamSearch(beams=2), max_length=1)
    assert [h.tokens for h in found] == [(4,)]


def test_a_key_is_the_search_s_own() -> None:
    log_prob = torch.tensor([[-1.0, -2.0]])
    answer = Shortlist(torch.tensor([[0, 1]]), log_prob, torch.tensor([-3.0]), log_prob + 1, log_prob)
    with pytest.raises(ModelError, match="with a key, which is the search's own: leave it out"):
        decode(listed_once(answer), [0], BeamSearch(beams=1), max_length=1)


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_doubt_spreads_to_groups_that_avoid_a_doubtful_one(schedule: Any) -> None:
    """After 0 the list is too short to be certain; after 1 it is whole. Group 0 says 0, group 1 says 1."""
    whole = -torch.inf

    def start(inputs: list[int]) -> tuple[Shortlist, Tensor]:
        rows = len(inputs)
        log_prob = torch.tensor([[-0.6, -0.8]]).expand(rows, 2)
        return Shortlist(
            torch.tensor([[0, 1]]).expand(rows, 2), log_prob, torch.full((rows,), whole)
        ), torch.zeros(rows, 1)

    def step(tokens: Tensor, state: Tensor) -> tuple[Shortlist, Tensor]:
        log_prob = torch.tensor([-0.6, -0.8]).expand(len(tokens), 2)
        rest = torch.where(tokens == 0, -0.1, whole)  # a bound that says nothing
        return Shortlist(torch.tensor([5, 6]).expand(len(tokens), 2), log_prob, rest), state

    strategy = DiverseBeamSearch(groups=2, strength=2.0, schedule=schedule)
    with pytest.warns(UserWarning, match="too short") as caught:
        turns = list(steps(FunctionModel(step, start=start), [0], strategy, max_length=2))
    (found,) = turns[-1].hypotheses
    assert [group[0].tokens[0] for group in found.groups] == [0, 1]
    assert [group[0].certified for group in found.groups] == [False, False]
    assert len(caught) == 1
    last = turns[-1].selections[-1]
    assert not bool(last.certified[0, -1])  # group 1's own list was whole


def test_doubt_passes_from_run_to_run() -> None:
    """Run 0 was not certain of what it kept, and run 1 avoids that."""
    short, whole = (
        lists_of([[0, 1]], [[-0.6, -0.8]], rest=[-0.1]),
        lists_of([[0, 1]], [[-0.6, -0.8]], rest=[-torch.inf]),
    )
    answers = iter([short, whole])
    model = FunctionModel(
        lambda tokens, state: (whole, state),
        start=lambda inputs: (next(answers), torch.zeros(len(inputs), 1)),
    )
    with pytest.warns(UserWarning, match="too short"):
        (found,) = decode(
            model, [0], DivMBest(runs=2, beams=1, strength=1.0, diversity=Hamming()), max_length=1
        )
    assert [h.certified for h in found] == [False, False]


def test_a_longer_list_for_one_row_counts_however_long_others_are() -> None:
    """The search asks row by row, and a cap keeps every list to six: the second row's is not thrown away."""

    class Capped(WideningLists):
        def widen(self, state: Any, rows: Tensor, width: int) -> Shortlist:
            return super().widen(state, rows, min(width, 8))

    for seed in range(6):
        plain = PrefixHashModel(30, seed=seed)
        for schedule in ("lockstep", "staggered"):
            strategy = DiverseBeamSearch(groups=3, beams_per_group=1, strength=2.0, schedule=schedule)
            found = decode(Capped(plain, 2), [1, 2], strategy, max_length=4, end=END)
            assert all(h.certified for each in found for h in each)
            assert found == decode(plain, [1, 2], strategy, max_length=4, end=END)


def test_bounds_are_rounded_as_scores_are() -> None:
    """In float32 the unlisted token is worth as much as the listed one, and has the lower id."""
    log_prob = torch.tensor([[-65.0]])
    answer = Shortlist(torch.tensor([[7]]), log_prob, torch.tensor([-65.000001], dtype=torch.double))
    with pytest.warns(UserWarning, match="too short"):
        (found,) = decode(listed_once(answer), [0], BeamSearch(beams=1), max_length=1)
    assert not found.best.certified


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32])
def test_tokens_may_be_whole_numbers_of_any_kind(kind: Any) -> None:
    answer = lists_of(np.array([[3, 1]], dtype=kind), np.array([[-1.0, -0.5]]), rest=[-np.inf])
    (found,) = decode(listed_once(answer), [0], BeamSearch(beams=2), max_length=1)
    assert [h.tokens for h in found] == [(1,), (3,)]


def test_an_id_below_0_is_refused() -> None:
    with pytest.raises(ModelError, match="a token below 0"):
        decode(listed_once(lists_of([[-2]], [[-1.0]])), [0], BeamSearch(beams=1), max_length=1)


def test_a_list_without_candidates_is_refused() -> None:
    with pytest.raises(ModelError, match="list at least one candidate of each row"):
        lists_of(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0))


def test_a_term_must_know_the_tokens_that_are_listed() -> None:
    strategy = DiverseBeamSearch(groups=2, diversity=Embedding(vectors=torch.eye(4)))
    with pytest.raises(ArgumentError, match="Embedding knows 4 tokens, and the model lists token 9"):
        decode(listed_once(lists_of([[9]], [[-1.0]], rest=[-torch.inf])), [0], strategy, max_length=1)


def test_fixed_rows_may_answer_nonsense_in_lists_too() -> None:
    class Fixed(FixedRows):
        def start_with_room(self, inputs: Any, room: Room) -> Any:
            logits, state = self._model.start(inputs)
            return Lists._listed(logits, VOCABULARY), state

        def advance(self, state: Any, parents: Tensor | None, tokens: Tensor) -> Any:
            logits, state = Advancing.advance(self, state, parents, tokens)
            lists = Lists._listed(logits, VOCABULARY)
            dead = (tokens == 0).unsqueeze(1)
            return Shortlist(lists.tokens, lists.log_prob.masked_fill(dead, torch.nan), lists.rest), state

    plain = Without0(VOCABULARY, seed=4, scale=6.0)
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = decode(Fixed(plain), [1, 2, 3], strategy, max_length=6, end=[END, 5])
    assert [[h.tokens for h in each] for each in found] == [
        [h.tokens for h in each] for each in decode(plain, [1, 2, 3], strategy, max_length=6, end=[END, 5])
    ]


def test_fixed_rows_are_not_for_the_staggered_schedule() -> None:
    strategy = DiverseBeamSearch(groups=2, schedule="staggered")
    with pytest.raises(ArgumentError, match="FixedRows has fixed_rows = True: use schedule='lockstep'"):
        decode(FixedRows(PrefixHashModel(9)), [0], strategy, max_length=2)


def test_a_state_that_the_search_returns_to_is_not_used_up() -> None:
    """`advance` may overwrite its state, but later groups start from the first one again."""

    class Joining(Advancing):
        def start_with_room(self, inputs: Any, room: Room) -> Any:
            return self._model.start(inputs)

        def select(self, state: Any, rows: Tensor) -> Any:
            return state[rows]

        def join(self, states: Sequence[Any]) -> Any:
            return torch.cat(list(states))

    for seed in range(5):
        plain = PrefixHashModel(VOCABULARY, seed=seed)
        strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.8, schedule="staggered")
        found = decode(Joining(plain), [1, 2], strategy, max_length=5, end=END)
        assert found == decode(plain, [1, 2], strategy, max_length=5, end=END)


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_a_wrong_number_of_rows_is_noticed(schedule: Any) -> None:
    class Short(PrefixHashModel):
        def step(self, tokens: Tensor, state: Any) -> Any:
            logits, state = super().step(tokens, state)
            return logits[:-1], state

    strategy = DiverseBeamSearch(groups=2, beams_per_group=2, schedule=schedule)
    with pytest.raises(ModelError, match=r"rows when .* were asked for"):
        decode(Short(VOCABULARY), [1, 2], strategy, max_length=5)


def test_arrays_may_be_turned_round_or_foreign() -> None:
    """Top k by argsort has strides below 0, and files have bytes in another order."""
    logits = np.array([[0.0, 2.0, 1.0]], dtype=">f4")
    tokens = np.argsort(logits)[:, ::-1]
    log_prob = np.sort(np.asarray(torch.log_softmax(torch.tensor([[0.0, 2.0, 1.0]]), -1)))[:, ::-1]
    (by_logits,) = decode(
        FunctionModel(_always(logits), start=0), np.zeros((1, 1)), BeamSearch(beams=3), max_length=1
    )
    (by_lists,) = decode(
        listed_once(lists_of(tokens, log_prob, [-np.inf])), [0], BeamSearch(beams=3), max_length=1
    )
    assert [h.tokens for h in by_lists] == [h.tokens for h in by_logits] == [(1,), (2,), (0,)]


def test_log_probabilities_above_0_are_found_out_at_once() -> None:
    model = FunctionModel(_always(LogProbs(torch.arange(200.0)[None])), start=0)
    with pytest.raises(ModelError, match="a log-probability of 199, which is above 0"):
        decode(model, torch.zeros(1, 1), BeamSearch(beams=1), max_length=1)


def test_awaited_verbs_run_without_gradients() -> None:
    seen: list[bool] = []

    class Watching(Remote):
        async def step(self, tokens: Tensor, state: Any) -> Any:
            seen.append(torch.is_grad_enabled())
            await asyncio.sleep(0)
            seen.append(torch.is_grad_enabled())
            return self._model.step(tokens, state)

    async def run() -> bool:
        await decode_async(Watching(PrefixHashModel(9)), [0], BeamSearch(beams=2), max_length=3)
        return torch.is_grad_enabled()

    assert asyncio.run(run())  # and leave the caller's as they were
    assert seen == [False] * 4


def test_a_cancelled_search_ends() -> None:
    class Stuck(Remote):
        async def step(self, tokens: Tensor, state: Any) -> Any:
            await asyncio.sleep(3600)

    async def run() -> None:
        await asyncio.wait_for(
            decode_async(Stuck(PrefixHashModel(9)), [0], BeamSearch(beams=2), max_length=3), 0.05
        )

    with pytest.raises(TimeoutError):
        asyncio.run(run())


@pytest.mark.parametrize("name", [*DETERMINISTIC, "sampling", "arithmetic", "stochastic"])
def test_the_default_device_does_not_matter(name: str) -> None:
    others: dict[str, Strategy] = {
        "sampling": Sampling(samples=3, top_p=0.9),
        "arithmetic": ArithmeticSampling(samples=3, top_p=0.9),
        "stochastic": StochasticBeamSearch(beams=3),
    }
    strategy = {**DETERMINISTIC, **others}[name]
    model = MarkovModel(torch.randn(700, 700, generator=torch.Generator().manual_seed(1)))
    if name.startswith("embedding"):
        strategy = replace(strategy, diversity=Embedding(vectors=torch.eye(700)))  # type: ignore[type-var]
    expected = decode(model, [1, 2], strategy, max_length=4, end=END, min_length=2)
    with torch.device("meta"):
        assert decode(model, [1, 2], strategy, max_length=4, end=END, min_length=2) == expected
