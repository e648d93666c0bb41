"""A search that runs ahead finds what one step after another finds, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DiverseSampling,
    DivMBest,
    Embedding,
    Guided,
    Hamming,
    LengthNormalised,
    LogProbs,
    ModelError,
    NGram,
    Sampling,
    StochasticBeamSearch,
    decode,
    steps,
)
from beamsplit.huggingface.scoring import AsIn455, GenerationScorer
from beamsplit.recording import record
from beamsplit.search import capturing
from beamsplit.search.ahead import loop
from beamsplit.search.ahead.runner import Runner
from beamsplit.search.ahead.states import StateStep
from beamsplit.search.ahead.stepping import Stepping
from beamsplit.search.plan import Strategy
from beamsplit.testing import MarkovModel, PrefixHashModel

INPUTS = [3, 1, 4, 1, 5]
SCORERS = [
    None,
    LengthNormalised(alpha=0.7),
    LengthNormalised(alpha=1.0, stop="first"),
    GenerationScorer(),
    GenerationScorer(length_penalty=0.6, early_stopping=True, stopping=AsIn455()),
    GenerationScorer(early_stopping="never", stopping=AsIn455()),
]
STRATEGIES: list[Strategy] = [
    BeamSearch(beams=1),
    BeamSearch(beams=4),
    DiverseBeamSearch(groups=4, strength=0.9),
    DiverseBeamSearch(groups=3, beams_per_group=2, strength=(0.0, 0.4, 2.5)),
    DiverseBeamSearch(groups=5, strength=0.0),
]


@pytest.fixture(autouse=True, params=["called", "recorded"])
def without_graphs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin step by step. Ahead, steps are called again, or recorded and done again as a graph would."""
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "0")
    if request.param == "recorded":
        request.getfixturevalue("recordings")


def both_ways(
    monkeypatch: pytest.MonkeyPatch, model: Any, strategy: Strategy, **options: Any
) -> tuple[Any, Any]:
    """What is found one step after another, and what is found by running ahead."""
    apart = decode(model, INPUTS, strategy, **options)
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    return apart, decode(model, INPUTS, strategy, **options)


def counted(monkeypatch: pytest.MonkeyPatch, verb: str, of: Any = Runner) -> list[Any]:
    """A list that grows whenever a runner, or something else, is told this."""
    calls: list[Any] = []
    method = getattr(of, verb)

    def noted(self: Any, *args: Any) -> Any:
        calls.append(self)
        return method(self, *args)

    monkeypatch.setattr(of, verb, noted)
    return calls


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("levels", [None, 4])
def test_running_ahead_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy, scorer: Any, levels: int | None
) -> None:
    model = PrefixHashModel(30, seed=7, levels=levels)
    apart, ahead = both_ways(monkeypatch, model, strategy, max_length=9, end=[2, 11], scorer=scorer)
    assert ahead == apart


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_an_end(monkeypatch: pytest.MonkeyPatch, strategy: Strategy) -> None:
    apart, ahead = both_ways(monkeypatch, PrefixHashModel(50), strategy, max_length=6, end=None)
    assert ahead == apart


@pytest.mark.parametrize("end", [None, 2, [2, 11, 40]], ids=str)
@pytest.mark.parametrize(
    ("groups", "beams", "strength"), [(1, 256, 0.0), (1, 20, 0.0), (3, 40, 0.0), (4, 36, 0.8), (12, 6, 2.0)]
)
def test_wide_groups(
    monkeypatch: pytest.MonkeyPatch, groups: int, beams: int, strength: float, end: Any
) -> None:
    """More beams in a group than a kernel lets pick one after another."""
    launched = counted(monkeypatch, "launch")
    strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=strength)
    model = PrefixHashModel(300, seed=3, levels=None if end is None else 40)
    apart, ahead = both_ways(monkeypatch, model, strategy, max_length=4, end=end)
    assert ahead == apart
    assert launched


@pytest.mark.parametrize("width", [None, 9])
def test_lists_of_wide_groups_are_long_enough(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    """One beam may well have all the survivors. A user's width is kept to."""
    careful = counted(monkeypatch, "_step_carefully", of=loop._Follower)
    # One token is as likely as all others together, and only after it is everything as likely as before.
    table = torch.randn(300, 300, generator=torch.Generator().manual_seed(0)) * 0.1
    table[:, 7] = 9.0
    table[7, 7] = 0.0
    options = {"max_length": 5, "end": None, "list_width": width}
    apart, ahead = both_ways(monkeypatch, MarkovModel(table), BeamSearch(beams=50), **options)
    assert ahead == apart
    assert (len(careful) == 1) is (width is None)


def test_a_model_without_state(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = MarkovModel(torch.randn(12, 12))
    launched = counted(monkeypatch, "launch")
    apart, ahead = both_ways(
        monkeypatch, model, DiverseBeamSearch(groups=3, strength=1.0), max_length=8, end=0
    )
    assert ahead == apart
    assert launched


@pytest.mark.parametrize("width", [1, 2, 3])
def test_lists_that_are_too_short_are_made_longer(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    strategy = DiverseBeamSearch(groups=4, beams_per_group=2, strength=3.0)
    options = {"max_length": 7, "end": 2, "list_width": width}
    apart, ahead = both_ways(monkeypatch, PrefixHashModel(40), strategy, **options)
    assert ahead == apart


@pytest.mark.parametrize("wrong", [torch.inf, -torch.inf])
def test_the_search_corrects_a_gpu_that_stops_groups_at_other_steps(
    monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    class Wrong(LengthNormalised):
        capturable = True

        def bound(self, total: Tensor, length: Any, max_length: int) -> Tensor:
            if isinstance(length, Tensor):
                return torch.full_like(total, wrong)
            return super().bound(total, length, max_length)

    corrections = counted(monkeypatch, "set")
    strategy = DiverseBeamSearch(groups=4, strength=0.9)
    apart, ahead = both_ways(
        monkeypatch, PrefixHashModel(8, seed=2), strategy, max_length=20, end=[2, 5], scorer=Wrong()
    )
    assert ahead == apart
    assert len(corrections) > 1


def test_what_is_recorded_of_the_steps_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every branch of every beam, and what became of it."""
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.9)
    options: dict[str, Any] = {"max_length": 8, "end": [2, 5]}
    apart = record(PrefixHashModel(20), INPUTS, strategy, **options)
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    assert record(PrefixHashModel(20), INPUTS, strategy, **options) == apart


def test_every_step_tells_what_there_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.9)

    def told() -> list[Any]:
        found = steps(PrefixHashModel(20), INPUTS, strategy, max_length=8, end=2)
        return [(step.number, step.hypotheses) for step in found]

    apart = told()
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    assert told() == apart


def test_it_does_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = counted(monkeypatch, "launch")
    _, found = both_ways(
        monkeypatch, PrefixHashModel(50), DiverseBeamSearch(groups=3, strength=0.5), max_length=6, end=None
    )
    assert len(launched) == 5
    assert len(found) == len(INPUTS)


def groups_with(term: Any, beams: int = 1) -> DiverseBeamSearch:
    return DiverseBeamSearch(groups=3, beams_per_group=beams, strength=0.8, diversity=term)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (groups_with(Cumulative()), {}),
        (groups_with(Cumulative(), 2), {}),
        (groups_with(NGram(n=2), 2), {}),
        (groups_with(Embedding(vectors=torch.eye(20)[:, :5] + 1.0)), {}),
        (groups_with(Hamming(), 2), {"no_repeat_ngram": 2}),
        (groups_with(Hamming()), {"min_length": 4}),
        (groups_with(Hamming(), 2), {"unique": True}),
        (groups_with(Hamming()), {"stop": lambda inputs, tokens: tokens[:, -1] == 5}),
        (Sampling(samples=3, top_p=0.9), {"seed": 3}),
        (DiverseSampling(groups=3, samples_per_group=2, strength=0.5), {"seed": 3}),
        (ArithmeticSampling(samples=3), {"seed": 3}),
        (StochasticBeamSearch(beams=3), {"seed": 3}),
        (DivMBest(runs=3, beams=2, strength=0.7), {}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, dict) else type(each).__name__,
)
@pytest.mark.parametrize("end", [2, [2, 5, 7], None], ids=str)
def test_for_other_searches_the_step_of_the_model_is_captured(
    monkeypatch: pytest.MonkeyPatch, strategy: Strategy, options: dict[str, Any], end: Any
) -> None:
    """These look at each answer before they go on. Inputs that are done keep their rows."""
    if not isinstance(strategy, DivMBest):  # whose first run has nothing to avoid
        monkeypatch.setattr("beamsplit.search.loop.run_ahead", None)
    asked = counted(monkeypatch, "answer", of=Stepping)
    apart, again = both_ways(monkeypatch, PrefixHashModel(20), strategy, max_length=7, end=end, **options)
    assert again == apart
    assert asked


def test_what_changes_the_answers_of_a_model_leaves_it_uncaptured(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = counted(monkeypatch, "run", of=StateStep)
    options = {"max_length": 7, "end": 2, "model_temperature": 2.0}
    apart, again = both_ways(monkeypatch, PrefixHashModel(20), BeamSearch(beams=2), **options)
    assert again == apart
    assert not fixed


def test_an_heir_of_a_scorer_is_not_run_on_a_gpu_unless_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Heir(LengthNormalised):
        def bound(self, total: Tensor, length: int, max_length: int) -> Tensor:
            assert isinstance(length, int)
            return super().bound(total, length, max_length)

    options = {"max_length": 7, "end": 2, "scorer": Heir()}
    apart, again = both_ways(monkeypatch, PrefixHashModel(20), BeamSearch(beams=2), **options)
    assert again == apart


@pytest.mark.parametrize("length", [3, 9])
def test_a_step_that_is_not_certain_is_taken_again_with_care(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """And lists are longer from then on: another runner, which goes on from the right beams.

    If that is late, there is room for the steps of its capture all the same.
    """
    careful = counted(monkeypatch, "_step_carefully", of=loop._Follower)
    launched = counted(monkeypatch, "launch")
    # All beams want the same tokens, and 12 groups take more than the 8 that are listed.
    model = MarkovModel(torch.randn(60, generator=torch.Generator().manual_seed(0)).expand(60, 60))
    strategy = DiverseBeamSearch(groups=12, strength=5.0)
    apart, ahead = both_ways(monkeypatch, model, strategy, max_length=length, end=None)
    assert ahead == apart
    assert len(careful) == 2  # the first step always is
    assert len({id(runner) for runner in launched}) == 2


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_short_searches(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """A capture takes steps of its own before the first: these find room even in the shortest."""
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=3.0)
    for width in (1, None):
        options = {"max_length": length, "end": 2, "list_width": width}
        apart, ahead = both_ways(monkeypatch, PrefixHashModel(40), strategy, **options)
        assert ahead == apart


@pytest.mark.parametrize("scorer", [None, LengthNormalised(alpha=0.7)])
def test_groups_and_inputs_finish_at_different_times(monkeypatch: pytest.MonkeyPatch, scorer: Any) -> None:
    """The GPU stops them itself: it is told nothing but where to begin."""
    told = counted(monkeypatch, "set")
    strategy = DiverseBeamSearch(groups=4, strength=0.9)
    options = {"max_length": 20, "end": [2, 5], "scorer": scorer}
    apart, ahead = both_ways(monkeypatch, PrefixHashModel(8, seed=2), strategy, **options)
    assert ahead == apart
    assert len(told) == 1
    lengths = [[len(h.tokens) for h in found] for found in ahead]
    assert len({max(each) for each in lengths}) > 1
    assert any(len(set(each)) > 1 for each in lengths)


@pytest.mark.parametrize("time", [1, 3])
def test_what_is_no_number_is_told_at_the_step_in_which_it_comes(
    monkeypatch: pytest.MonkeyPatch, time: int
) -> None:
    class Broken(PrefixHashModel):
        def step(self, tokens: Tensor, state: Any) -> Any:
            logits, state = super().step(tokens, state)
            return logits.masked_fill((state == self.wrong).unsqueeze(1), torch.nan), state

        wrong: Tensor | int = 0

    model = Broken(20, seed=3)
    _, state = model.start(INPUTS)
    (found,) = decode(model, INPUTS[:1], BeamSearch(beams=1), max_length=time, end=None)
    state = model.select(state, torch.tensor([0]))
    for token in found[0].tokens:
        _, state = model.step(torch.tensor([token]), state)
    model.wrong = state
    for graphs in ("0", "1"):
        monkeypatch.setenv("BEAMSPLIT_GRAPHS", graphs)
        with pytest.raises(ModelError, match="NaN at token 0"):
            decode(model, INPUTS[:1], BeamSearch(beams=1), max_length=6, end=None)


class Remembering:
    """Has a state with what never changes, what is moved, and what it counts itself."""

    capturable = True

    def __init__(self) -> None:
        self.table = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))

    def start(self, inputs: list[int]) -> Any:
        seen = torch.tensor(inputs)
        state = {"input": seen, "sum": torch.zeros(len(inputs), 16), "steps": torch.zeros(len(inputs), 1)}
        return self.table[seen], state

    def step(self, tokens: Tensor, state: Any) -> Any:
        total = state["sum"] * 0.9 + self.table[tokens]
        logits = total + self.table[state["input"]] + state["steps"].sin()
        return logits, {"input": state["input"], "sum": total, "steps": state["steps"] + 1}

    def select(self, state: Any, rows: Tensor) -> Any:
        return {name: values[rows] for name, values in state.items()}


def test_states_of_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = counted(monkeypatch, "launch")
    for strategy in STRATEGIES:
        apart, ahead = both_ways(monkeypatch, Remembering(), strategy, max_length=12, end=3)
        monkeypatch.setenv("BEAMSPLIT_GRAPHS", "0")
        for one, other in zip(ahead, apart, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], abs=1e-5)
    assert launched


def test_a_model_may_write_into_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    class Writing(MarkovModel):
        def step(self, tokens: Tensor, state: Any) -> Any:
            logits = super().step(tokens, state)[0].clone()
            tokens.fill_(99)
            return logits, state

    model = Writing(torch.randn(12, 12, generator=torch.Generator().manual_seed(1)))
    apart, ahead = both_ways(monkeypatch, model, BeamSearch(beams=3), max_length=8, end=0)
    assert ahead == apart


def test_a_state_that_changes_without_being_a_tensor_goes_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counting(MarkovModel):
        def step(self, tokens: Tensor, state: Any) -> Any:
            return super().step(tokens, None)[0], self.after(state)

        after: Any

    launched = counted(monkeypatch, "launch")
    for after in (lambda state: (state or 0) + 1, lambda state: [state]):
        model = Counting(torch.eye(12))
        model.after = after
        apart, ahead = both_ways(monkeypatch, model, BeamSearch(beams=2), max_length=8, end=0)
        assert ahead == apart
    assert not launched


def test_log_probabilities_and_guided_logits_go_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answering(PrefixHashModel):
        def _logits(self, state: Tensor) -> Any:
            return self.answer(super()._logits(state).log_softmax(-1))

        answer: Any

    monkeypatch.setattr("beamsplit.search.loop.run_ahead", None)
    for answer in (LogProbs, lambda logits: Guided(logits, torch.zeros_like(logits))):
        model = Answering(20)
        model.answer = answer
        apart, again = both_ways(monkeypatch, model, BeamSearch(beams=2), max_length=5, end=0)
        assert again == apart


def test_gpus_run_ahead_unless_told_otherwise_and_processors_when_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for device, values in (("cpu", {"1"}), ("cuda", {None, "1"}), ("meta", set())):
        for value in (None, "0", "1"):
            monkeypatch.delenv("BEAMSPLIT_GRAPHS", raising=False)
            if value is not None:
                monkeypatch.setenv("BEAMSPLIT_GRAPHS", value)
            assert capturing.are_wanted(torch.device(device)) is (value in values)
