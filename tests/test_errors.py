"""Every mistake gets one line that names the thing, its value and the way out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import beamsplit
from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    BeamsplitError,
    Cumulative,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Embedding,
    FunctionModel,
    Guided,
    Hamming,
    Hypotheses,
    LengthNormalised,
    ModelError,
    NGram,
    PrefixModel,
    Sampling,
    StochasticBeamSearch,
    TermError,
    decode,
    steps,
)
from beamsplit.testing import MarkovModel

UNIFORM = MarkovModel(torch.zeros(4, 4))
NAN, INF = math.nan, math.inf


def complaint(kind: type[BeamsplitError], do: Callable[[], object]) -> str:
    """The message of the error that this raises."""
    with pytest.raises(BeamsplitError) as caught:
        do()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError)
    assert "\n" not in message
    assert message.strip()
    return message


def expect(kind: type[BeamsplitError], pattern: str, do: Callable[[], object]) -> None:
    message = complaint(kind, do)
    assert re.search(pattern, message), f"{message!r} does not match {pattern!r}"


def search(
    model: Any = UNIFORM, inputs: Any = (0,), strategy: Any = None, **options: Any
) -> list[Hypotheses]:
    options.setdefault("max_length", 3)
    return decode(model, inputs, strategy or BeamSearch(beams=2), **options)


# Counts

COUNTS = [
    (BeamSearch, {"beams": 2}, "beams"),
    (DiverseBeamSearch, {"groups": 2}, "groups"),
    (DiverseBeamSearch, {"groups": 2, "beams_per_group": 2}, "beams_per_group"),
    (DiverseSampling, {"groups": 2}, "groups"),
    (DiverseSampling, {"groups": 2, "samples_per_group": 2}, "samples_per_group"),
    (ArithmeticSampling, {"samples": 2}, "samples"),
    (ArithmeticSampling, {"samples": 2, "top_k": 2}, "top_k"),
    (DiverseArithmeticSampling, {"groups": 2, "samples_per_group": 2}, "groups"),
    (DiverseArithmeticSampling, {"groups": 2, "samples_per_group": 2}, "samples_per_group"),
    (DiverseSiblings, {"beams": 2, "rate": 1.0}, "beams"),
    (DivMBest, {"runs": 2, "beams": 2}, "runs"),
    (DivMBest, {"runs": 2, "beams": 2}, "beams"),
    (Sampling, {"samples": 2}, "samples"),
    (Sampling, {"samples": 2, "top_k": 2}, "top_k"),
    (StochasticBeamSearch, {"beams": 2}, "beams"),
    (NGram, {"n": 2}, "n"),
]


@pytest.mark.parametrize("value", [0, -1, True, False, 2.0, 2.5, NAN, "2", [2]])
@pytest.mark.parametrize(("make", "settings", "name"), COUNTS)
def test_counts_are_whole_numbers_from_one(
    make: Callable[..., object], settings: dict[str, Any], name: str, value: Any
) -> None:
    make(**settings)
    expect(
        ArgumentError,
        rf"^{name} must be a whole number of at least 1, not {re.escape(repr(value))}",
        lambda: make(**{**settings, name: value}),
    )


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [
        ("max_length", 0, 1),
        ("max_length", -3, 1),
        ("max_length", 2.0, 1),
        ("max_length", True, 1),
        ("min_length", -1, 0),
        ("min_length", 1.5, 0),
        ("list_width", 0, 1),
        ("return_per_group", 0, 1),
        ("return_per_group", True, 1),
    ],
)
def test_limits_are_whole_numbers(option: str, value: Any, least: int) -> None:
    expect(
        ArgumentError,
        rf"^{option} must be a whole number of at least {least}, not {re.escape(repr(value))}",
        lambda: search(**{option: value}),
    )


def test_min_length_must_fit_into_max_length() -> None:
    expect(ArgumentError, r"min_length=5 .*max_length=3", lambda: search(min_length=5, max_length=3))
    assert search(min_length=3, max_length=3)


# Strengths and other numbers

NUMBERS = [
    (DiverseBeamSearch, {"groups": 2}, "strength"),
    (DiverseSampling, {"groups": 2}, "strength"),
    (DiverseArithmeticSampling, {"groups": 2, "samples_per_group": 2}, "strength"),
    (DivMBest, {"runs": 2, "beams": 2}, "strength"),
    (DiverseSiblings, {"beams": 2}, "rate"),
    (LengthNormalised, {}, "alpha"),
]


@pytest.mark.parametrize("value", [-0.5, NAN, INF, -INF, True, "1", None])
@pytest.mark.parametrize(("make", "settings", "name"), NUMBERS)
def test_strengths_are_finite_and_not_negative(
    make: Callable[..., object], settings: dict[str, Any], name: str, value: Any
) -> None:
    make(**settings, **{name: 0.0})
    expect(
        ArgumentError,
        rf"^{name} must be a finite number of 0 or more, not {re.escape(repr(value))}",
        lambda: make(**settings, **{name: value}),
    )


def test_anti_language_models_check_their_strength_and_reach() -> None:
    expect(
        ArgumentError,
        "^strength must be a finite number of 0 or more, not -1",
        lambda: AntiLanguageModel(UNIFORM, UNIFORM, strength=-1),
    )
    expect(
        ArgumentError,
        "^first must be a whole number of at least 0, not -1",
        lambda: AntiLanguageModel(UNIFORM, UNIFORM, strength=1, first=-1),
    )


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (DiverseBeamSearch, {"groups": 3}),
        (DiverseSampling, {"groups": 3}),
        (DiverseArithmeticSampling, {"groups": 3, "samples_per_group": 2}),
        (DivMBest, {"runs": 3, "beams": 1}),
    ],
)
@pytest.mark.parametrize("strengths", [[], [0.5], [0.5] * 4])
def test_strengths_are_one_a_group(
    make: Callable[..., object], settings: dict[str, Any], strengths: list[float]
) -> None:
    make(**settings, strength=[0.5] * 3)
    pattern = rf"^strength has {len(strengths)} values? for 3 groups: .*one number, or 3"
    expect(ArgumentError, pattern, lambda: make(**settings, strength=strengths))


@pytest.mark.parametrize("value", [-1.0, NAN, INF, "1"])
def test_a_bad_strength_of_a_group_is_pointed_out(value: Any) -> None:
    pattern = rf"^strength\[2\] must be a finite number of 0 or more, not {re.escape(repr(value))}"
    expect(ArgumentError, pattern, lambda: DiverseBeamSearch(groups=3, strength=[0.5, 0.5, value]))


SAMPLERS: dict[Any, dict[str, int]] = {
    Sampling: {"samples": 1},
    DiverseSampling: {"groups": 1},
    ArithmeticSampling: {"samples": 1},
    DiverseArithmeticSampling: {"groups": 1, "samples_per_group": 1},
}


@pytest.mark.parametrize("value", [0, 0.0, -1.0, NAN, INF, True, "1", None])
@pytest.mark.parametrize("make", SAMPLERS)
def test_a_sampling_temperature_is_above_zero_and_greedy_is_elsewhere(
    make: Callable[..., object], value: Any
) -> None:
    count = SAMPLERS[make]
    pattern = (
        rf"^temperature must be a finite number above 0, not {re.escape(repr(value))}.*BeamSearch\(beams=1\)"
    )
    expect(ArgumentError, pattern, lambda: make(**count, temperature=value))


@pytest.mark.parametrize("value", [0, -1.0, NAN, INF])
def test_a_cumulative_temperature_is_above_zero(value: float) -> None:
    pattern = rf"^temperature must be a finite number above 0, not {re.escape(repr(value))}$"
    expect(ArgumentError, pattern, lambda: Cumulative(temperature=value))


@pytest.mark.parametrize("value", [0.0, -0.1, 1.01, NAN, INF, True, "1"])
@pytest.mark.parametrize("name", ["top_p", "min_p"])
@pytest.mark.parametrize("make", SAMPLERS)
def test_shares_of_probability_lie_between_zero_and_one(
    make: Callable[..., object], name: str, value: Any
) -> None:
    count = SAMPLERS[make]
    make(**count, **{name: 1.0})
    pattern = rf"^{name} must be above 0 and at most 1, not {re.escape(repr(value))}"
    expect(ArgumentError, pattern, lambda: make(**count, **{name: value}))


@pytest.mark.parametrize("value", ["last", "", None, True])
def test_a_scorer_stops_in_one_of_two_ways(value: Any) -> None:
    pattern = rf"^stop must be 'exact' or 'first', not {re.escape(repr(value))}"
    expect(ArgumentError, pattern, lambda: LengthNormalised(stop=value))


# Schedules


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (DiverseBeamSearch, {"groups": 2}),
        (DiverseSampling, {"groups": 2}),
        (DiverseArithmeticSampling, {"groups": 2, "samples_per_group": 1}),
    ],
)
@pytest.mark.parametrize("value", ["parallel", "", None, True])
def test_there_are_two_schedules(make: Callable[..., object], settings: dict[str, int], value: Any) -> None:
    pattern = rf"^schedule must be 'lockstep' or 'staggered', not {re.escape(repr(value))}"
    expect(ArgumentError, pattern, lambda: make(**settings, schedule=value))


STAGGERED = DiverseBeamSearch(groups=2, schedule="staggered")


def prefix_model() -> PrefixModel:
    return PrefixModel(lambda tokens: torch.zeros(len(tokens), 4))


def test_staggered_needs_a_model_that_joins() -> None:
    pattern = r"staggered.*join.*PrefixModel.*lockstep"
    prompt = torch.zeros(1, 1, dtype=torch.long)
    expect(ArgumentError, pattern, lambda: search(prefix_model(), prompt, STAGGERED))


def test_staggered_says_which_of_two_models_does_not_join() -> None:
    class Inner(PrefixModel):
        pass

    model = AntiLanguageModel(Inner(lambda tokens: torch.zeros(len(tokens), 4)), prefix_model(), strength=1.0)
    prompt = torch.zeros(1, 1, dtype=torch.long)
    expect(ArgumentError, r"staggered.*join.*Inner.*lockstep", lambda: search(model, prompt, STAGGERED))


def test_staggered_does_not_do_with_a_state_that_grows() -> None:
    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(tokens), 4), torch.cat([state, tokens[:, None]], dim=1)

    growing = FunctionModel(step, start=0)
    inputs = torch.zeros(1, 1, dtype=torch.long)
    # After two tokens against after one (the begin-of-sequence token counts).
    pattern = r"staggered.*\(2,\) and \(3,\).*lockstep"
    expect(ModelError, pattern, lambda: search(growing, inputs, STAGGERED))
    assert search(growing, inputs, DiverseBeamSearch(groups=2))


# Models that break the contract


class Answering:
    """A model that says what it is told to: `first` at the start, `later` for so many rows afterwards."""

    def __init__(self, first: Any, later: Callable[[int], Any] | None = None) -> None:
        self.first = first
        self.later = later or (lambda rows: torch.zeros(rows, 4))

    def start(self, inputs: Any) -> tuple[Any, None]:
        return self.first, None

    def step(self, tokens: Tensor, state: None) -> tuple[Any, None]:
        return self.later(len(tokens)), None

    def select(self, state: None, rows: Tensor) -> None:
        return None


def with_value(value: float, rows: int = 1, row: int = 0) -> Tensor:
    logits = torch.zeros(rows, 4)
    logits[row, 2] = value
    return logits


FINE = torch.zeros(1, 4)
STRATEGIES = [
    BeamSearch(beams=2),
    DiverseBeamSearch(groups=2),
    DivMBest(runs=2, beams=2),
    DiverseSiblings(beams=2, rate=1.0),
    Sampling(samples=2),
    Sampling(samples=2, temperature=0.7, top_k=2, top_p=0.9, min_p=0.1),
    DiverseSampling(groups=2),
    ArithmeticSampling(samples=2),
    DiverseArithmeticSampling(groups=2, samples_per_group=1, top_p=0.9),
    StochasticBeamSearch(beams=2),
]


def name_of(strategy: object) -> str:
    return type(strategy).__name__


BROKEN = [
    pytest.param(with_value(NAN), r"logits have NaN at token 2 \(row 0 of 1\)", id="nan"),
    pytest.param(with_value(INF), r"logits have \+inf at token 2 \(row 0 of 1\)", id="inf"),
    pytest.param(torch.full((1, 4), -INF), r"logits have -inf for every token.*\(row 0 of 1\)", id="-inf"),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
@pytest.mark.parametrize(("logits", "pattern"), BROKEN)
def test_logits_without_a_distribution(strategy: Any, logits: Tensor, pattern: str) -> None:
    expect(ModelError, pattern, lambda: search(Answering(logits), [0], strategy))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_logits_that_go_wrong_later_on(strategy: Any) -> None:
    model = Answering(FINE, lambda rows: with_value(NAN, rows))
    expect(ModelError, r"NaN at token 2 \(row 0 of \d\)", lambda: search(model, [0], strategy))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_the_row_that_went_wrong_is_the_models(strategy: Any) -> None:
    # The second of two inputs; a row that samples share must not be counted once a sample.
    model = Answering(with_value(NAN, rows=2, row=1))
    expect(ModelError, r"NaN at token 2 \(row 1 of 2\)", lambda: search(model, [0, 0], strategy))


def test_some_logits_may_be_minus_infinity() -> None:
    assert len(search(Answering(with_value(-INF)), [0], BeamSearch(beams=3), max_length=1)[0]) == 3


@pytest.mark.parametrize(
    ("logits", "pattern"),
    [
        pytest.param(torch.zeros(4), r"float32 logits of shape \[4\].*\[rows vocabulary\]", id="1d"),
        pytest.param(torch.zeros(1, 1, 4), r"logits of shape \[1, 1, 4\].*\[rows vocabulary\]", id="3d"),
        pytest.param(torch.zeros(1, 4, dtype=torch.long), r"int64 logits.*floating-point", id="int"),
        pytest.param(torch.zeros(1, 4, dtype=torch.bool), r"bool logits.*floating-point", id="bool"),
    ],
)
def test_logits_are_floats_by_row_and_token(logits: Tensor, pattern: str) -> None:
    expect(ModelError, pattern, lambda: search(Answering(logits)))
    expect(ModelError, pattern, lambda: search(Answering(FINE, lambda _: logits)))


def test_the_vocabulary_may_not_change() -> None:
    model = Answering(FINE, lambda rows: torch.zeros(rows, 5))
    expect(ModelError, r"over 5 tokens after 4.*vocabulary must not change", lambda: search(model))


@pytest.mark.parametrize("difference", [-1, 1])
def test_step_answers_a_row_a_token(difference: int) -> None:
    model = Answering(FINE, lambda rows: torch.zeros(rows + difference, 4))
    pattern = rf"logits for {2 + difference} rows when 2 were asked for.*one for each token"
    expect(ModelError, pattern, lambda: search(model))


def test_select_answers_a_row_an_index() -> None:
    class Stubborn:
        """Logits come from the state, and select leaves the state as it is."""

        def start(self, inputs: Sequence[int]) -> tuple[Tensor, Tensor]:
            return torch.zeros(len(inputs), 4), torch.zeros(len(inputs), 4)

        def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            return state, state

        def select(self, state: Tensor, rows: Tensor) -> Tensor:
            return state

    pattern = r"logits for 1 rows? when 2 were asked for.*select must return one row for each index"
    expect(ModelError, pattern, lambda: search(Stubborn(), [0]))


@pytest.mark.parametrize("strategy", [BeamSearch(beams=2), Sampling(samples=2)], ids=repr)
@pytest.mark.parametrize("value", [NAN, INF])
def test_guidance_is_finite_or_minus_infinity(strategy: Any, value: float) -> None:
    model = Answering(
        Guided(FINE, with_value(value)), lambda rows: Guided(torch.zeros(rows, 4), torch.zeros(rows, 4))
    )
    expect(
        ModelError, r"guidance that is NaN or infinite \(row 0 of 1\)", lambda: search(model, [0], strategy)
    )


def test_guidance_may_rule_out_tokens() -> None:
    model = Answering(Guided(FINE, with_value(-INF)))
    found = search(model, [0], BeamSearch(beams=4), max_length=1)[0]
    assert {h.tokens for h in found} == {(0,), (1,), (3,)}


def test_guidance_is_shaped_like_the_logits() -> None:
    model = Answering(Guided(FINE, torch.zeros(1, 3)))
    expect(ModelError, r"guidance is \[1, 3\] for logits of \[1, 4\]", lambda: search(model))


def test_an_anti_language_model_shares_the_vocabulary() -> None:
    model = AntiLanguageModel(UNIFORM, MarkovModel(torch.zeros(5, 5)), strength=1.0)
    pattern = r"language model.*\[1, 5\].*\[1, 4\].*one vocabulary"
    expect(ModelError, pattern, lambda: search(model, [0]))


def test_guidance_does_not_go_with_stochastic_beam_search() -> None:
    model = AntiLanguageModel(UNIFORM, UNIFORM, strength=1.0)
    strategy = StochasticBeamSearch(beams=2)
    expect(ArgumentError, r"StochasticBeamSearch.*guidance.*Sampling", lambda: search(model, [0], strategy))


# Function models


def test_the_batch_is_the_first_axis_of_a_state() -> None:
    # As an LSTM has it: [layers batch hidden].
    model = FunctionModel(
        lambda tokens, _: (torch.zeros(len(tokens), 4), torch.zeros(1, len(tokens), 5)), start=0
    )
    pattern = r"state tensor of shape \[1, 2, 5\] for 2 rows: the batch must be the first axis.*transpose"
    expect(ModelError, pattern, lambda: search(model, torch.zeros(2, 1)))


def test_the_batch_is_the_first_axis_of_the_first_state_too() -> None:
    def start(inputs: Sequence[int]) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(inputs), 4), torch.zeros(1, len(inputs), 5)

    model = FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 4), state), start=start)
    pattern = r"state tensor of shape \[1, 2, 5\] for 2 rows: the batch must be the first axis"
    expect(ModelError, pattern, lambda: search(model, [0, 0]))


def test_a_function_model_needs_inputs_that_can_be_counted() -> None:
    model = FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 4), state), start=0)
    pattern = r"batch size.*type int.*start=function"
    expect(ModelError, pattern, lambda: search(model, 3))


# Ends


@pytest.mark.parametrize(("end", "named"), [(4, 4), (-1, -1), ([1, 9], 9)])
def test_an_end_is_a_token(end: Any, named: int) -> None:
    pattern = rf"^end={named} is no token of the model.*0 to 3"
    expect(ArgumentError, pattern, lambda: search(end=end))


@pytest.mark.parametrize("end", [2.0, "2", [1, "2"], [1.5]])
def test_an_end_is_a_whole_number(end: Any) -> None:
    expect(ArgumentError, r"^end\b.*", lambda: search(end=end))


# Vectors


@pytest.mark.parametrize(
    ("vectors", "pattern"),
    [
        pytest.param(
            torch.zeros(4), r"^vectors must be a float tensor \[vocabulary dimensions\].*\[4\]", id="1d"
        ),
        pytest.param(torch.zeros(4, 2, 2), r"^vectors must be a float tensor.*\[4, 2, 2\]", id="3d"),
        pytest.param(
            torch.zeros(4, 2, dtype=torch.long), r"^vectors must be a float tensor.*int64", id="int"
        ),
        pytest.param(torch.full((4, 2), NAN), "^vectors must be finite", id="nan"),
        pytest.param(torch.full((4, 2), -INF), "^vectors must be finite", id="inf"),
        pytest.param(torch.zeros(0, 2), r"^vectors\b.*\[0, 2\]", id="empty"),
        pytest.param([[1.0, 0.0], [1.0]], r"^vectors must be a float tensor.*\[1\.0\]\]: ", id="ragged"),
        pytest.param([[1, 0]], r"^vectors must be a float tensor.*int64 \[1, 2\]", id="int list"),
        pytest.param(np.ones((4, 2), dtype=int), r"^vectors must be a float tensor.*int64", id="int array"),
        pytest.param(np.array([["a"]]), r"^vectors must be a float tensor.*'a'", id="words"),
        pytest.param("glove", r"^vectors must be a float tensor.*'glove'", id="name"),
        pytest.param(None, r"^vectors must be a float tensor.*None", id="None"),
    ],
)
def test_word_vectors_are_a_finite_table(vectors: Any, pattern: str) -> None:
    expect(ArgumentError, pattern, lambda: Embedding(vectors=vectors))


@pytest.mark.parametrize("size", [3, 5])
def test_word_vectors_cover_the_vocabulary(size: int) -> None:
    term = Embedding(vectors=torch.ones(size, 2))
    pattern = rf"Embedding knows {size} tokens.*vocabulary has 4.*one row for each token"
    expect(ArgumentError, pattern, lambda: search(strategy=DiverseBeamSearch(groups=2, diversity=term)))


@pytest.mark.parametrize(
    "of",
    [Hamming, None, "hamming", Embedding(vectors=torch.ones(4, 2)), torch.ones(2, 2)],
    ids=["class", "None", "name", "embedding", "tensor"],
)
def test_only_a_hard_term_can_be_softened(of: Any) -> None:
    pattern = r"^of must be Hamming\(\), Cumulative\(\.\.\.\) or NGram\(\.\.\.\), not .*soft_penalty"
    expect(ArgumentError, pattern, lambda: Embedding(vectors=torch.ones(4, 2), of=of))


# Terms

WITH_A_TERM: list[Callable[[Any], object]] = [
    lambda term: DiverseBeamSearch(groups=2, diversity=term),
    lambda term: DiverseSampling(groups=2, diversity=term),
    lambda term: DiverseArithmeticSampling(groups=2, samples_per_group=1, diversity=term),
    lambda term: DivMBest(runs=2, beams=2, diversity=term),
]


@pytest.mark.parametrize("make", WITH_A_TERM)
@pytest.mark.parametrize(
    "value",
    [None, "hamming", 0.5, len, torch.ones(3, 3)],
    ids=["None", "name", "number", "function", "tensor"],
)
def test_a_term_has_a_method_penalty(make: Callable[[Any], object], value: Any) -> None:
    pattern = r"^diversity must be a term .*penalty\(tokens, prefix, earlier\).*, not "
    expect(ArgumentError, pattern, lambda: make(value))


@pytest.mark.parametrize("make", WITH_A_TERM)
@pytest.mark.parametrize("kind", [Hamming, Cumulative, NGram])
def test_a_term_is_an_instance_not_a_class(make: Callable[[Any], object], kind: type) -> None:
    expect(ArgumentError, rf"^diversity must be a term.*: write {kind.__name__}\(\)", lambda: make(kind))


class Charging:
    """A term that returns whatever a function makes of the candidates."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self.function = function

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: object) -> Any:
        return self.function(tokens)


def constant(value: float) -> Charging:
    return Charging(lambda tokens: torch.full(tokens.shape, value))


WITH_A_BAD_TERM: list[Any] = [
    lambda term: DiverseBeamSearch(groups=2, diversity=term, strength=2.0),
    lambda term: DiverseBeamSearch(groups=2, diversity=term, strength=2.0, schedule="staggered"),
    lambda term: DiverseSampling(groups=2, diversity=term, strength=2.0),
    lambda term: DiverseArithmeticSampling(groups=2, samples_per_group=1, diversity=term, strength=2.0),
    lambda term: DivMBest(runs=2, beams=2, diversity=term, strength=2.0),
]


@pytest.mark.parametrize("make", WITH_A_BAD_TERM)
@pytest.mark.parametrize(("value", "shown"), [(-1.0, "-2"), (NAN, "nan"), (INF, "inf"), (-INF, "-inf")])
def test_penalties_are_finite_and_not_negative(make: Callable[[Any], Any], value: float, shown: str) -> None:
    # What is shown is the penalty times its strength of 2.
    pattern = rf"^Charging\.penalty .* is {shown}: a penalty must be finite and 0 or more"
    expect(TermError, pattern, lambda: search(strategy=make(constant(value))))


def test_one_bad_penalty_is_enough() -> None:
    term = Charging(lambda tokens: torch.where(tokens == 3, -0.25, 1.0))
    strategy = DiverseBeamSearch(groups=2, diversity=term, strength=2.0)
    expect(TermError, r"is -0\.5: a penalty must be finite", lambda: search(strategy=strategy))


@pytest.mark.parametrize("make", WITH_A_BAD_TERM)
@pytest.mark.parametrize(
    ("function", "got"),
    [
        pytest.param(lambda _: torch.zeros(3), r"\[3\]", id="short"),
        pytest.param(
            lambda tokens: torch.zeros(tokens.shape[:-1]), r"\[\d, \d\]", id="no axis for candidates"
        ),
        pytest.param(lambda _: torch.zeros(()), r"\[\]", id="number"),
        pytest.param(lambda tokens: tokens.transpose(0, 2).double(), r"\[4, \d, \d\]", id="transposed"),
        pytest.param(lambda _: 0.0, "float", id="float"),
        pytest.param(lambda _: None, "NoneType", id="nothing"),
        pytest.param(lambda tokens: tokens.tolist(), "list", id="list"),
    ],
)
def test_penalties_are_one_a_candidate(
    make: Callable[[Any], Any], function: Callable[[Tensor], Any], got: str
) -> None:
    pattern = rf"^Charging\.penalty returned {got} for candidates of shape \[\d, \d, 4\]: .*each candidate"
    expect(TermError, pattern, lambda: search(strategy=make(Charging(function))))


# Results and seeds


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        (BeamSearch(beams=2), 2),
        (DiverseBeamSearch(groups=4, beams_per_group=2), 2),
        (Sampling(samples=3), 3),
        (DivMBest(runs=4, beams=4), 1),
    ],
    ids=repr,
)
def test_no_more_can_be_returned_than_a_group_keeps(strategy: Any, kept: int) -> None:
    name = type(strategy).__name__
    pattern = rf"^return_per_group={kept + 1}, but {name} keeps {kept} a group"
    expect(ArgumentError, pattern, lambda: search(strategy=strategy, return_per_group=kept + 1))
    assert search(strategy=strategy, return_per_group=kept)


@pytest.mark.parametrize("seeds", [[], [1], [1, 2, 3]])
def test_seeds_are_one_an_input(seeds: list[int]) -> None:
    pattern = rf"^seed has {len(seeds)} values? for 2 inputs: .*one an input"
    expect(ArgumentError, pattern, lambda: search(inputs=[0, 0], strategy=Sampling(samples=1), seed=seeds))


@pytest.mark.parametrize("seed", [1.5, None, "7", [1.5]])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    expect(ArgumentError, r"^seed\b", lambda: search(strategy=Sampling(samples=1), seed=seed))


def test_a_scorer_does_not_go_with_stochastic_beam_search() -> None:
    pattern = r"^StochasticBeamSearch.*LengthNormalised.*leave scorer out"
    strategy = StochasticBeamSearch(beams=2)
    expect(ArgumentError, pattern, lambda: search(strategy=strategy, scorer=LengthNormalised()))
    assert search(strategy=strategy, scorer=beamsplit.LogProb())


def test_mistakes_show_before_the_first_step_is_asked_for() -> None:
    # `steps` is lazy, its checks of settings are not.
    expect(ArgumentError, "^max_length", lambda: steps(UNIFORM, [0], BeamSearch(beams=1), max_length=0))


def test_mistakes_show_even_if_there_is_nothing_to_decode() -> None:
    expect(ArgumentError, "^max_length", lambda: search(inputs=[], max_length=0))


# JSON

GOOD = '{"tokens": [1], "log_prob": -1.0, "score": -1.0}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{",
        "null",
        "3",
        "{}",
        '""',
        '{"tokens": []}',
        "[3]",
        "[null]",
        '["tokens"]',
        "[[]]",
        "[{}]",
        '[{"tokens": [1]}]',
        '[{"tokens": 1, "log_prob": -1.0, "score": -1.0}]',
        '[{"tokens": "ab", "log_prob": -1.0, "score": -1.0}]',
        '[{"tokens": [1], "log_prob": "high", "score": -1.0}]',
        '[{"tokens": [1], "log_prob": -1.0, "score": -1.0, "colour": "red"}]',
        f"[{GOOD}, 3]",
        f"[{GOOD}",
    ],
)
def test_garbage_is_no_list_of_hypotheses(text: str) -> None:
    expect(ArgumentError, r"^not a JSON list of hypotheses: .*to_json", lambda: Hypotheses.from_json(text))


def test_there_is_no_best_of_nothing() -> None:
    expect(ArgumentError, r"no best hypothesis in an empty list", lambda: Hypotheses().best)


# Nothing to decode


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name_of)
def test_a_batch_may_be_found_to_be_empty_later(strategy: Any) -> None:
    # A dict has a length of its own; only the model knows how many rows there are.
    model = FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 4), state), start=0)
    assert search(model, {"hidden": torch.zeros(0, 3)}, strategy) == []
