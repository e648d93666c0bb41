"""The option model_temperature: a model at another temperature, whose log-probabilities stay its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    BeamSearch,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Guided,
    Hypotheses,
    LengthNormalised,
    LogProbs,
    NGram,
    Sampling,
    Shortlist,
    StochasticBeamSearch,
    Strategy,
    decode,
    decode_async,
    record,
    steps,
)
from beamsplit.errors import ArgumentError, ModelError
from beamsplit.search.softening import soften_answer
from beamsplit.testing import MarkovModel, PrefixHashModel, rescore

INPUTS = [3, 1, 4, 1, 5]
STRATEGIES: dict[str, Strategy] = {
    "beam": BeamSearch(beams=4),
    "diverse": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7),
    "greedy groups": DiverseBeamSearch(groups=4, strength=0.7),
    "staggered": DiverseBeamSearch(groups=3, strength=0.7, diversity=NGram(n=2), schedule="staggered"),
    "siblings": DiverseSiblings(beams=4, rate=0.3),
    "divmbest": DivMBest(runs=3, beams=2),
    "sampling": Sampling(samples=4, temperature=0.8, top_k=6),
    "diverse sampling": DiverseSampling(groups=3, strength=0.7),
}
every_strategy = pytest.mark.parametrize("name", STRATEGIES)


class Divided(PrefixHashModel):
    """The same model with its logits divided."""

    def __init__(self, temperature: float, vocabulary: int, **settings: Any) -> None:
        super().__init__(vocabulary, **settings)
        self._temperature = temperature

    def _logits(self, state: Tensor) -> Tensor:
        return super()._logits(state) / self._temperature


class Answering(PrefixHashModel):
    """The same model with its answers changed."""

    def __init__(self, change: Callable[[Tensor], Any], vocabulary: int, **settings: Any) -> None:
        super().__init__(vocabulary, **settings)
        self._change = change

    def start(self, inputs: Sequence[int] | Tensor) -> Any:
        logits, state = super().start(inputs)
        return self._change(logits), state

    def step(self, tokens: Tensor, state: Tensor) -> Any:
        logits, state = super().step(tokens, state)
        return self._change(logits), state


def search(model: Any, strategy: Strategy, **options: Any) -> list[Hypotheses]:
    return decode(model, INPUTS, strategy, **{"max_length": 6, "end": 0, **options})


def in_groups(found: Sequence[Hypotheses]) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Return the tokens of all groups, each in the order of its own score."""
    return [[(h.group, h.tokens) for group in each.groups for h in group] for each in found]


# Laws


@every_strategy
@pytest.mark.parametrize("temperature", [0.5, 1.7, 4.0])
def test_it_is_the_model_with_divided_logits(name: str, temperature: float) -> None:
    """The same outputs and scores, and log-probabilities of the model itself."""
    model = PrefixHashModel(11, seed=8)
    softened = search(model, STRATEGIES[name], model_temperature=temperature)
    divided = search(Divided(temperature, 11, seed=8), STRATEGIES[name])
    assert in_groups(softened) == in_groups(divided)
    for index, (found, expected) in enumerate(zip(softened, divided, strict=True)):
        scores = [[h.score for group in each.groups for h in group] for each in (found, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
        for hypothesis in found:
            own = rescore(model, INPUTS, index, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(own, abs=1e-4)


@every_strategy
@pytest.mark.parametrize("same", [1, 1.0])
def test_temperature_one_changes_nothing(name: str, same: float) -> None:
    model = PrefixHashModel(11, seed=8)
    plain, asked = search(model, STRATEGIES[name]), search(model, STRATEGIES[name], model_temperature=same)
    assert [list(each) for each in plain] == [list(each) for each in asked]


def test_temperature_one_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamsplit.search.softening.soften_answer", None)
    assert search(PrefixHashModel(11), BeamSearch(beams=2), model_temperature=1.0)


def test_a_law_of_greedy_groups() -> None:
    """For groups of one beam, temperature T and strength s are the model itself at strength s T.

    Such a group compares extensions of one beam alone, and log p / T - s n orders them as log p - s T n.
    """
    model = PrefixHashModel(11, seed=8)
    for strength, temperature in ((0.3, 2.0), (1.0, 0.5), (0.2, 3.0)):
        soft = DiverseBeamSearch(groups=5, strength=strength)
        strong = DiverseBeamSearch(groups=5, strength=strength * temperature)
        found, expected = search(model, soft, model_temperature=temperature), search(model, strong)
        assert in_groups(found) == in_groups(expected)
        assert [h.log_prob for each in found for h in each] == pytest.approx(
            [h.log_prob for each in expected for h in each]
        )


def test_scores_worked_by_hand() -> None:
    """At temperature 2 a distribution goes by square roots: 0.64 and 0.36 become 8/14 and 6/14."""
    model = MarkovModel(torch.tensor([[0.64, 0.36], [0.64, 0.36]]).log())
    (found,) = decode(model, [0], BeamSearch(beams=2), max_length=1, end=None, model_temperature=2.0)
    assert [h.tokens for h in found] == [(0,), (1,)]
    assert [h.score for h in found] == pytest.approx([torch.tensor(p).log().item() for p in (8 / 14, 6 / 14)])
    assert [h.log_prob for h in found] == pytest.approx([torch.tensor(p).log().item() for p in (0.64, 0.36)])


def test_beams_at_a_low_temperature_are_the_greedy_search() -> None:
    model = PrefixHashModel(11, seed=8)
    greedy = [each.best.tokens for each in search(model, BeamSearch(beams=1))]
    for cold in (0.01, 1e-30, 1e-300):
        found = search(model, BeamSearch(beams=3), model_temperature=cold)
        assert [each.groups[0][0].tokens for each in found] == greedy


def test_at_a_high_temperature_all_tokens_are_alike() -> None:
    def rule_out(logits: Tensor) -> Tensor:
        return logits.index_fill(1, torch.tensor([2]), -torch.inf)

    for hot in (1e9, 1e300):
        found = search(Answering(rule_out, 11), BeamSearch(beams=3), end=None, model_temperature=hot)
        even = 6 * -torch.tensor(10.0).log().item()
        assert [h.score for each in found for h in each] == pytest.approx([even] * 15)


# Models


@pytest.mark.parametrize(
    "change",
    [
        lambda logits: LogProbs(logits.log_softmax(1)),
        lambda logits: logits.half(),
        lambda logits: logits.numpy(),
    ],
    ids=["log-probabilities", "half precision", "numpy"],
)
def test_other_answers(change: Callable[[Tensor], Any]) -> None:
    found = search(Answering(change, 11, seed=8), BeamSearch(beams=4), model_temperature=1.7)
    expected = search(PrefixHashModel(11, seed=8), BeamSearch(beams=4), model_temperature=1.7)
    scores = [[h.score for each in lists for h in each] for lists in (found, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)


def test_tokens_that_are_ruled_out_stay_so() -> None:
    def rule_out(logits: Tensor) -> Tensor:
        return logits.index_fill(1, torch.tensor([2, 7]), -torch.inf)

    found = search(Answering(rule_out, 11, seed=8), BeamSearch(beams=4), model_temperature=3.0)
    assert {token for each in found for h in each for token in h.tokens} == {0, 1, 3, 4, 5, 6, 8, 9, 10}


def test_guidance_is_kept_as_it_is() -> None:
    model, other = PrefixHashModel(11, seed=8), PrefixHashModel(11, seed=9)
    guided = AntiLanguageModel(model, other, strength=0.4)
    divided = AntiLanguageModel(Divided(1.7, 11, seed=8), other, strength=0.4)
    found = search(guided, BeamSearch(beams=4), model_temperature=1.7)
    assert in_groups(found) == in_groups(search(divided, BeamSearch(beams=4)))


def test_totals_cannot_rise_unless_those_of_the_model_can() -> None:
    logits = torch.randn(2, 5)
    assert soften_answer(logits, 2.0).bounded
    for bounded in (True, False):
        assert soften_answer(Guided(logits, torch.zeros(2, 5), bounded), 2.0).bounded is bounded


def test_a_length_scorer_ranks_softened_scores() -> None:
    model, scorer = PrefixHashModel(11, seed=8), LengthNormalised(alpha=1.0)
    found = search(model, BeamSearch(beams=4), model_temperature=1.7, scorer=scorer)
    divided = search(Divided(1.7, 11, seed=8), BeamSearch(beams=4), scorer=scorer)
    assert in_groups(found) == in_groups(divided)


# Entrances


def test_every_way_to_decode() -> None:
    model, strategy = PrefixHashModel(11, seed=8), DiverseBeamSearch(groups=3, strength=0.3)
    options: Any = {"max_length": 6, "end": 0, "model_temperature": 2.0}
    expected = [list(each) for each in decode(model, INPUTS, strategy, **options)]
    *_, last = steps(model, INPUTS, strategy, **options)
    recorded = [each.hypotheses for each in record(model, INPUTS, strategy, **options)]
    awaited = asyncio.run(decode_async(model, INPUTS, strategy, **options))
    for found in (last.hypotheses, recorded, awaited):
        assert [list(each) for each in found] == expected
    assert expected != [list(each) for each in decode(model, INPUTS, strategy, max_length=6, end=0)]


# What is refused


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "warm", True, None])
def test_no_temperature(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^model_temperature must be a finite number above 0, not "):
        search(PrefixHashModel(11), BeamSearch(beams=2), model_temperature=value)


def test_a_model_of_candidate_lists() -> None:
    def listed(logits: Tensor) -> Shortlist:
        log_prob, tokens = logits.log_softmax(1).topk(5)
        return Shortlist(tokens, log_prob)

    with pytest.raises(ArgumentError) as caught:
        search(Answering(listed, 11), BeamSearch(beams=2), model_temperature=2.0)
    assert str(caught.value) == (
        "model_temperature=2 needs the whole vocabulary, and the model answers with candidate lists: leave "
        "it out, or set the temperature where the model runs"
    )


def test_stochastic_beam_search() -> None:
    with pytest.raises(ArgumentError) as caught:
        search(PrefixHashModel(11), StochasticBeamSearch(beams=2), model_temperature=2.0)
    assert str(caught.value) == (
        "StochasticBeamSearch samples from the model's own distribution, which model_temperature=2 would "
        "change: leave it out, or use Sampling"
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda logits: logits[0], "logits"),
        (lambda logits: logits.index_fill(1, torch.tensor([3]), torch.nan), "NaN at token 3"),
        (lambda logits: torch.full_like(logits, -torch.inf), "-inf for every token"),
    ],
    ids=["one row", "NaN", "nothing"],
)
def test_bad_logits_are_reported_as_ever(change: Callable[[Tensor], Tensor], problem: str) -> None:
    messages = []
    for options in ({}, {"model_temperature": 2.0}):
        with pytest.raises(ModelError, match=problem) as caught:
            search(Answering(change, 11), BeamSearch(beams=2), **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
