"""Batches: what an input gets depends on the seed and on its number, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    Sampling,
    StochasticBeamSearch,
    Strategy,
    decode,
)
from beamsplit.jobs.batches import decode_in_batches, map_or_errors, try_in_batches
from beamsplit.testing import PrefixHashModel

SAMPLED: dict[str, Strategy] = {
    "sampling": Sampling(samples=3, temperature=1.5),
    "nucleus": Sampling(samples=3, top_p=0.8),
    "diverse sampling": DiverseSampling(groups=2, samples_per_group=2),
    "stochastic": StochasticBeamSearch(beams=3),
    "arithmetic": ArithmeticSampling(samples=3, temperature=1.5),
    "diverse arithmetic": DiverseArithmeticSampling(groups=2, samples_per_group=2),
}
SEARCHED: dict[str, Strategy] = {
    "beam search": BeamSearch(beams=3),
    "diverse": DiverseBeamSearch(groups=3, strength=0.7),
}
every_sampling = pytest.mark.parametrize("strategy", SAMPLED.values(), ids=SAMPLED)
every_strategy = pytest.mark.parametrize(
    "strategy", [*SAMPLED.values(), *SEARCHED.values()], ids=[*SAMPLED, *SEARCHED]
)


class Texts:
    """A model of texts; "no" is one that it refuses."""

    end = 0

    def __init__(self) -> None:
        self.model = PrefixHashModel(vocabulary=7)
        self.started: list[list[str]] = []

    def start(self, inputs: Sequence[str]) -> Any:
        self.started.append(list(inputs))
        if "no" in inputs:
            raise ArgumentError(f"text {list(inputs).index('no')} is refused")
        return self.model.start([len(text) for text in inputs])

    def step(self, tokens: Tensor, state: Any) -> Any:
        return self.model.step(tokens, state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return self.model.select(state, rows)


TEXTS = ["a long text", "a", "the longest text", "b", "some text", "ab", "a long text"]


# The law


@every_strategy
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100])
def test_batches_do_not_count(strategy: Strategy, size: int) -> None:
    options: Any = {"max_length": 5, "seed": 7}
    expected = decode(Texts(), TEXTS, strategy, **options)
    assert decode_in_batches(Texts(), TEXTS, strategy, batch_size=size, **options) == expected


@every_sampling
def test_equal_inputs_get_samples_of_their_own(strategy: Strategy) -> None:
    found = decode_in_batches(Texts(), TEXTS, strategy, batch_size=2, max_length=5, seed=7)
    assert found[0] != found[6]  # of the same text
    other = decode_in_batches(Texts(), TEXTS, strategy, batch_size=2, max_length=5, seed=8)
    assert found != other


@every_sampling
@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(len(TEXTS))), size=st.integers(1, 8), seed=st.integers(-(2**70), 2**70))
def test_an_input_takes_its_number_along(strategy: Strategy, order: list[int], size: int, seed: int) -> None:
    numbers = [index * 1000 for index in range(len(TEXTS))]
    options: Any = {"max_length": 3, "seed": seed}
    whole = decode(Texts(), TEXTS, strategy, numbers=numbers, **options)
    shuffled = decode_in_batches(
        Texts(),
        [TEXTS[index] for index in order],
        strategy,
        batch_size=size,
        numbers=[numbers[index] for index in order],
        **options,
    )
    assert shuffled == [whole[index] for index in order]


@every_sampling
def test_seeds_of_their_own(strategy: Strategy) -> None:
    seeds = [3, 1, 4, 1, 5, 9, 2]
    expected = decode(Texts(), TEXTS, strategy, max_length=4, seed=seeds)
    for given_seeds in (seeds, iter(seeds), np.array(seeds), torch.tensor(seeds)):
        found = decode_in_batches(
            Texts(),
            TEXTS,
            strategy,
            batch_size=3,
            max_length=4,
            seed=given_seeds,  # type: ignore[arg-type]
        )
        assert found == expected


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array, tuple])
def test_inputs_may_be_a_list_or_a_tensor(kind: Any) -> None:
    inputs, model, strategy = [5, 3, 8, 1], PrefixHashModel(vocabulary=7), Sampling(samples=2)
    expected = decode(model, inputs, strategy, max_length=4, seed=7)
    found = decode_in_batches(model, kind(inputs), strategy, batch_size=3, max_length=4, seed=7)
    assert found == expected


def test_a_rule_of_stopping_is_told_of_inputs_by_their_places_among_all() -> None:
    def stop(inputs: Tensor, tokens: Tensor) -> Tensor:
        return tokens.shape[1] > inputs  # input i ends after i + 1 tokens

    options: Any = {"max_length": 9, "end": None, "stop": stop}
    expected = decode(Texts(), TEXTS, BeamSearch(beams=1), **options)
    assert [len(found.best.tokens) for found in expected] == [1, 2, 3, 4, 5, 6, 7]
    assert decode_in_batches(Texts(), TEXTS, BeamSearch(beams=1), batch_size=2, **options) == expected


# The batches


def test_texts_of_like_length_go_together() -> None:
    model = Texts()
    decode_in_batches(model, TEXTS, BeamSearch(beams=1), batch_size=3, max_length=2)
    assert model.started == [
        ["a", "b", "ab"],
        ["some text", "a long text", "a long text"],
        ["the longest text"],
    ]


def test_each_batch_is_told_of() -> None:
    told: dict[int, Any] = {}
    sizes = []

    def on_batch(indices: Sequence[int], lists: Sequence[Any]) -> None:
        assert not told.keys() & set(indices)
        told.update(zip(indices, lists, strict=True))
        sizes.append(len(indices))

    found = decode_in_batches(
        Texts(), TEXTS, BeamSearch(beams=2), batch_size=3, max_length=2, on_batch=on_batch
    )
    assert [told[index] for index in range(7)] == found
    assert sizes == [3, 3, 1]


def test_no_inputs() -> None:
    assert decode_in_batches(Texts(), [], BeamSearch(beams=2), max_length=2) == []
    assert try_in_batches(Texts(), [], BeamSearch(beams=2), max_length=2) == []
    with pytest.raises(ArgumentError, match=r"^max_length must be"):
        decode_in_batches(Texts(), [], BeamSearch(beams=2), max_length=0)


@pytest.mark.parametrize(
    ("inputs", "options", "line"),
    [
        (TEXTS, {"batch_size": 0}, "batch_size must be a whole number of at least 1, not 0"),
        (TEXTS, {"seed": [1, 2]}, "seed has 2 values for 7 inputs: give one number, or one an input"),
        (TEXTS, {"numbers": [1, 2]}, "numbers has 2 values for 7 inputs: give one an input"),
        ("a text", {}, "inputs must be a list or a tensor, not 'a text'"),
        ({"input_ids": []}, {}, "inputs must be a list or a tensor, not {'input_ids': []}"),
        (TEXTS, {"max_lenght": 3}, "there is no option 'max_lenght': did you mean 'max_length'?"),
    ],
)
def test_mistakes_are_found_before_anything_is_decoded(inputs: Any, options: Any, line: str) -> None:
    model = Texts()
    with pytest.raises(ArgumentError) as caught:
        decode_in_batches(model, inputs, Sampling(samples=2), **{"max_length": 3, **options})
    assert str(caught.value) == line
    assert model.started == []


# Inputs that are refused


@every_strategy
@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_a_bad_input_costs_no_other_its_result(strategy: Strategy, size: int) -> None:
    texts = ["a long text", "no", "a", "some text", "no", "ab"]
    expected = decode(Texts(), [text.replace("no", "") for text in texts], strategy, max_length=4, seed=7)
    found = try_in_batches(Texts(), texts, strategy, batch_size=size, max_length=4, seed=7)
    for text, ours, theirs in zip(texts, found, expected, strict=True):
        if text == "no":
            assert isinstance(ours, ArgumentError)
            assert str(ours) == "text 0 is refused"
        else:
            assert ours == theirs


def test_only_the_batch_that_is_refused_is_decoded_one_by_one() -> None:
    model = Texts()
    texts = ["no", "a", "some text", "long text"]
    try_in_batches(model, texts, BeamSearch(beams=1), batch_size=2, max_length=2)
    assert model.started == [["a", "no"], ["a"], ["no"], ["some text", "long text"]]


def test_other_errors_are_not_caught() -> None:
    def fails(_: Sequence[int]) -> list[int]:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        map_or_errors(fails, [1, 2])
