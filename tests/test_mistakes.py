"""What people pass by mistake, or from other libraries: it works, or one line says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from beamsplit import (
    ArgumentError,
    BeamSearch,
    BeamsplitError,
    DiverseBeamSearch,
    DiverseSampling,
    DivMBest,
    FunctionModel,
    Guided,
    LengthNormalised,
    ModelError,
    Sampling,
    decode,
    steps,
)
from beamsplit.testing import MarkovModel, PrefixHashModel

MODEL = PrefixHashModel(9, seed=4)
WEIGHTS = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)) * 2
WORDS = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))


def expect(pattern: str, kind: type[BeamsplitError], do: Callable[[], object]) -> None:
    with pytest.raises(kind, match=pattern) as caught:
        do()
    assert "\n" not in str(caught.value)


def run(model: Any = MODEL, inputs: Any = (0, 1), strategy: Any = None, **options: Any) -> Any:
    given = {"max_length": 4, "end": 0, **options}
    return decode(model, inputs, BeamSearch(beams=3) if strategy is None else strategy, **given)


# Numbers of other kinds


@pytest.mark.parametrize("end", [[1, 2], (1, 2), {1, 2}, torch.tensor([1, 2]), np.array([1, 2]), range(1, 3)])
def test_end_ids_may_come_in_any_collection(end: Any) -> None:
    assert run(end=end) == run(end=[1, 2])


def test_end_ids_may_come_from_an_iterator() -> None:
    assert run(end=(token for token in [1, 2])) == run(end=[1, 2])


@pytest.mark.parametrize("end", [torch.tensor(1), np.int64(1), np.array(1)])
def test_an_end_id_may_be_any_whole_number(end: Any) -> None:
    assert run(end=end) == run(end=1)


@pytest.mark.parametrize("seed", [torch.tensor([5, 6]), np.array([5, 6]), iter([5, 6])])
def test_seeds_may_come_in_any_collection(seed: Any) -> None:
    sampling = Sampling(samples=3)
    assert run(strategy=sampling, seed=seed) == run(strategy=sampling, seed=[5, 6])


@pytest.mark.parametrize(
    "strength", [np.float32(0.5), torch.tensor(0.5), [0.5] * 3, np.full(3, 0.5), torch.full((3,), 0.5)]
)
@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_counts_and_strengths_may_be_numpy_s_or_torch_s(strength: Any, schedule: Any) -> None:
    strategy = DiverseBeamSearch(
        groups=np.int64(3),  # type: ignore[arg-type]
        beams_per_group=np.uint8(2),  # type: ignore[arg-type]
        strength=strength,
        schedule=schedule,
    )
    plain = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.5, schedule=schedule)
    assert run(strategy=strategy, end=[0, 1, 2]) == run(strategy=plain, end=[0, 1, 2])


def test_small_numpy_counts_do_not_overflow() -> None:
    assert len(run(strategy=BeamSearch(beams=np.int8(100)), end=[0, 1, 2])[0]) == 100  # type: ignore[arg-type]


def test_a_strategy_keeps_strengths_of_its_own() -> None:
    given = [0.0, 0.5]
    strategy = DiverseBeamSearch(groups=2, strength=given)
    given.append(9.0)
    assert strategy.strength == (0.0, 0.5)
    assert hash(strategy) == hash(DiverseBeamSearch(groups=2, strength=[0.0, 0.5]))


# Things of the wrong kind


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        (nn.GRU(2, 2), r"start, step and select.*FunctionModel"),
        (lambda tokens: tokens, r"start, step and select.*FunctionModel"),
        (None, r"model must have the methods start, step and select, and None has not$"),
        (PrefixHashModel, r"start, step and select"),
    ],
)
def test_a_model_is_a_step_model(model: Any, pattern: str) -> None:
    expect(pattern, ArgumentError, lambda: run(model))


@pytest.mark.parametrize("scorer", [LengthNormalised, "mean", 0.6])
def test_a_scorer_is_a_scorer(scorer: Any) -> None:
    expect(r"scorer must be one such as LengthNormalised", ArgumentError, lambda: run(scorer=scorer))


def test_unique_is_yes_or_no() -> None:
    expect(r"unique must be True or False, not 'no'", ArgumentError, lambda: run(unique="no"))


@pytest.mark.parametrize(
    ("returned", "pattern"),
    [
        (torch.zeros(2, 9), r"step must return \(logits, state\).*not a Tensor"),
        (None, r"step must return \(logits, state\).*not a NoneType"),
        ((torch.zeros(2, 9), 1, 2), r"step must return \(logits, state\).*not a tuple of 3"),
        (([[0.0] * 9] * 2, ()), r"step must return \(logits, state\).*not \(list, ...\)"),
    ],
)
def test_step_returns_a_pair(returned: Any, pattern: str) -> None:
    model = FunctionModel(lambda tokens, state: returned, start=0)
    expect(pattern, ModelError, lambda: run(model, torch.zeros(2, 1)))


@pytest.mark.parametrize("start", [0.5, True, None, "<s>"])
def test_a_begin_token_is_a_whole_number_or_a_function(start: Any) -> None:
    expect(
        r"start must be a whole number",
        ArgumentError,
        lambda: FunctionModel(lambda t, s: (t, s), start=start),
    )


# States that cannot be told row by row


@pytest.mark.parametrize("inputs", [{"a": [1, 2, 3]}, ("ab", "cd"), "abc", (1, 2)])
def test_the_batch_size_is_not_guessed(inputs: Any) -> None:
    model = FunctionModel(lambda tokens, state: (WEIGHTS[tokens % 4], state), start=0)
    expect(r"cannot tell the batch size", ModelError, lambda: run(model, inputs))


@dataclass
class Opaque:
    hidden: Tensor


@pytest.mark.parametrize("wrap", [Opaque, lambda hidden: iter(hidden)])
def test_a_state_whose_rows_cannot_be_selected_is_refused(wrap: Callable[[Tensor], Any]) -> None:
    model = FunctionModel(lambda tokens, state: (WORDS[tokens] @ WEIGHTS, wrap(WORDS[tokens])), start=0)
    pattern = r"step returned a \w+ in the state, whose rows cannot be selected"
    expect(pattern, ModelError, lambda: run(model, torch.zeros(2, 4)))


@pytest.mark.parametrize("zero", [0, torch.tensor(0)])
def test_a_counter_in_the_state_cannot_be_staggered(zero: Any) -> None:
    def step(tokens: Tensor, state: Any) -> Any:
        hidden, count = state
        hidden = torch.tanh(hidden + WORDS[tokens] + 0.3 * count)
        return hidden @ WEIGHTS, (hidden, count + 1)

    model = FunctionModel(step, start=0)
    inputs = (torch.zeros(2, 4), zero)
    assert len(run(model, inputs, DiverseBeamSearch(groups=3))) == 2
    staggered = DiverseBeamSearch(groups=3, schedule="staggered")
    expect(r"a counter\?.*lockstep", ModelError, lambda: run(model, inputs, staggered))


def test_a_shape_error_inside_step_comes_with_a_hint() -> None:
    network = nn.GRU(4, 4, num_layers=2)

    def step(tokens: Tensor, state: Tensor) -> Any:
        outputs, state = network(WORDS[tokens].unsqueeze(0), state)
        return outputs[0] @ WEIGHTS, state

    with pytest.raises(RuntimeError) as caught:
        run(FunctionModel(step, start=0), torch.zeros(2, 3, 4))
    assert "the batch must be the first axis" in caught.value.__notes__[0]


# Models that change their mind


class Fickle(MarkovModel):
    """Guidance in later steps only."""

    def step(self, tokens: Tensor, state: None) -> Any:
        logits, _ = super().step(tokens, state)
        return Guided(logits, torch.zeros_like(logits)), None


def test_guidance_comes_in_every_step_or_in_none() -> None:
    expect(r"guidance in some steps and none in others", ModelError, lambda: run(Fickle(torch.zeros(9, 9))))


class OneBuffer(PrefixHashModel):
    """Answers in the same memory every time, as captured CUDA graphs do."""

    def _logits(self, state: Tensor) -> Tensor:
        buffer: Tensor = self.__dict__.setdefault("buffer", torch.empty(64, self.vocabulary))
        buffer[: len(state)] = super()._logits(state)
        return buffer[: len(state)]


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_a_model_may_use_the_memory_of_its_logits_again(schedule: Any) -> None:
    strategy = DiverseSampling(groups=3, samples_per_group=2, schedule=schedule)
    assert run(OneBuffer(9, seed=4), [0, 1], strategy) == run(MODEL, [0, 1], strategy)


def test_steps_of_later_runs_go_on_counting() -> None:
    numbers = [step.number for step in steps(MODEL, [0], DivMBest(runs=3, beams=2), max_length=3)]
    assert numbers == list(range(9))
