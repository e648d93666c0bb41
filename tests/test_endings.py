"""Ways to end besides an end token: the model's own, a rule, a promise that nothing better can come."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DivMBest,
    Guided,
    LengthNormalised,
    Strategy,
    decode,
    steps,
)
from beamsplit.huggingface.scoring import AsIn455, GenerationScorer
from beamsplit.testing import MarkovModel, PrefixHashModel

STRATEGIES: list[Strategy] = [
    BeamSearch(beams=3),
    DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.5),
    DiverseBeamSearch(groups=3, beams_per_group=1, strength=0.5, schedule="staggered"),
    DiverseSampling(groups=2, samples_per_group=2),
    DiverseArithmeticSampling(groups=2, samples_per_group=2),
    DivMBest(runs=2, beams=2),
]


class Speaker(PrefixHashModel):
    """A model with an end and words of its own."""

    end = 3

    def to_text(self, tokens: tuple[int, ...]) -> str:
        return " ".join("abcdefgh"[token] for token in tokens)


class Guarded:
    """A model whose guidance forbids token 0, and promises that it never adds more than 0 or does not."""

    def __init__(self, bounded: bool) -> None:
        self._model = PrefixHashModel(vocabulary=6, seed=2)
        self._bounded = bounded
        self.calls = 0

    def start(self, inputs: Any) -> tuple[Guided, Any]:
        return self._guided(*self._model.start(inputs))

    def step(self, tokens: Tensor, state: Any) -> tuple[Guided, Any]:
        self.calls += 1
        return self._guided(*self._model.step(tokens, state))

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def _guided(self, logits: Tensor, state: Any) -> tuple[Guided, Any]:
        guidance = torch.zeros_like(logits)
        guidance[:, 0] = -torch.inf
        return Guided(logits, guidance, bounded=self._bounded), state


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_an_end_that_the_model_names_is_the_default(strategy: Strategy) -> None:
    named = decode(Speaker(vocabulary=8), [0, 1], strategy, max_length=6)
    plain = decode(PrefixHashModel(vocabulary=8), [0, 1], strategy, max_length=6, end=3)
    assert [[h.tokens for h in each] for each in named] == [[h.tokens for h in each] for each in plain]
    assert any(h.finished for each in named for h in each)


def test_none_means_no_end_even_if_the_model_names_one() -> None:
    (found,) = decode(Speaker(vocabulary=8), [0], BeamSearch(beams=3), max_length=4, end=None)
    assert [len(h.tokens) for h in found] == [4] * 3


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_model_that_knows_words_gives_text_at_every_step(strategy: Strategy) -> None:
    model = Speaker(vocabulary=8)
    for step in steps(model, [0, 1], strategy, max_length=4):
        for found in step.hypotheses:
            assert all(h.text == model.to_text(h.tokens) for h in found)


def test_a_guided_model_speaks_as_the_model_it_guides() -> None:
    guided = AntiLanguageModel(Speaker(vocabulary=8), PrefixHashModel(vocabulary=8, seed=4), strength=0.2)
    (found,) = decode(guided, [0], BeamSearch(beams=2), max_length=5)
    assert found.best.text == Speaker(vocabulary=8).to_text(found.best.tokens)
    (without,) = decode(guided, [0], BeamSearch(beams=2), max_length=5, end=3)
    assert [h.tokens for h in found] == [h.tokens for h in without]


# A token is as likely after any other.
COIN = MarkovModel(torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log())


def test_outputs_that_the_rule_calls_complete_are_finished() -> None:
    def two_in_a_row(_: Tensor, tokens: Tensor) -> Tensor:
        if tokens.shape[1] < 2:
            return torch.zeros(len(tokens), dtype=torch.bool)
        return tokens[:, -1] == tokens[:, -2]

    (found,) = decode(COIN, [0], BeamSearch(beams=2), max_length=4, stop=two_in_a_row)
    # Step 2: 00 (0.36) ends, 01 and 10 (0.24 each) go on. Step 3: 010 (0.144) goes on, 100 (0.144) ends.
    assert [(h.tokens, h.finished) for h in found] == [((0, 0), True), ((1, 0, 0), True)]
    assert found.best.log_prob == pytest.approx(2 * torch.tensor(0.6).log().item())


def test_the_rule_is_told_which_input_an_output_belongs_to() -> None:
    seen: set[int] = set()

    def input_one_is_complete(inputs: Tensor, _: Tensor) -> Tensor:
        seen.update(inputs.tolist())
        return inputs == 1

    first, second = decode(
        PrefixHashModel(vocabulary=8), [0, 1], BeamSearch(beams=2), max_length=3, stop=input_one_is_complete
    )
    assert [len(h.tokens) for h in first] == [3, 3]
    assert [(len(h.tokens), h.finished) for h in second] == [(1, True)] * 2
    assert seen == {0, 1}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_rule_for_a_token_is_an_end_token(strategy: Strategy) -> None:
    def says_three(_: Tensor, tokens: Tensor) -> Tensor:
        return tokens[:, -1] == 3

    model = PrefixHashModel(vocabulary=8, seed=1)
    by_rule = decode(model, [0, 1, 2], strategy, max_length=6, stop=says_three)
    assert by_rule == decode(model, [0, 1, 2], strategy, max_length=6, end=3)


def test_a_rule_that_answers_for_too_few_is_an_error() -> None:
    with pytest.raises(
        ArgumentError, match=r"stop returned \[1\] for 4 outputs: it must say yes or no to each"
    ):
        decode(COIN, [0], BeamSearch(beams=2), max_length=3, stop=lambda inputs, tokens: torch.zeros(1))
    with pytest.raises(ArgumentError, match="stop must be a function of"):
        decode(COIN, [0], BeamSearch(beams=2), max_length=3, stop=3)  # type: ignore[arg-type]


def test_guidance_that_promises_to_stay_below_zero_lets_groups_stop() -> None:
    promise, none = Guarded(bounded=True), Guarded(bounded=False)
    stopped = decode(promise, [0], BeamSearch(beams=1), max_length=30, end=[1, 2, 3])
    went_on = decode(none, [0], BeamSearch(beams=1), max_length=30, end=[1, 2, 3])
    assert stopped == went_on
    assert promise.calls < none.calls == 29


def test_at_the_last_step_the_unfinished_count_even_if_the_ends_have_filled_the_group() -> None:
    # Token 1 is the end. At the last step the group is filled by 0 1 (-1.43), while 0 0 (-1.02) goes on.
    scorer = LengthNormalised(alpha=0.0, stop="first")
    (found,) = decode(COIN, [0], BeamSearch(beams=2), max_length=2, end=1, scorer=scorer)
    assert [(h.tokens, h.finished) for h in found] == [((1,), True), ((0, 0), False)]
    # In the group beam search that transformers had they did not.
    old = GenerationScorer(length_penalty=0.0, early_stopping=True, stopping=AsIn455())
    (found,) = decode(COIN, [0], BeamSearch(beams=2), max_length=2, end=1, scorer=old)
    assert [(h.tokens, h.finished) for h in found] == [((1,), True), ((0, 1), True)]


def test_lists_stay_short_when_the_rule_ends_everything() -> None:
    model = PrefixHashModel(vocabulary=500)
    everything = steps(
        model, [0], BeamSearch(beams=2), max_length=5, stop=lambda inputs, _: torch.ones_like(inputs)
    )
    (step,) = everything
    assert step.selections[0].width < 500
