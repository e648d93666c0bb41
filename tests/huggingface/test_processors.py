"""Logits processors and stopping criteria do what they do in the beam search of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MaxTimeCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation.logits_process import EncoderRepetitionPenaltyLogitsProcessor
from transformers.generation.stopping_criteria import StopStringCriteria

from beamsplit import Step
from huggingface.calls import GROUPS, assert_same, ours, outputs, own
from huggingface.models import EOS, WORDS, case, tokenizer


class Alternate(LogitsProcessor):  # type: ignore[misc]
    """Says odd numbers rather after even ones, and even ones after odd ones."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        alike = (input_ids[:, -1:] - torch.arange(scores.shape[1])) % 2 == 0
        return scores - 2.0 * alike


class InPlace(LogitsProcessor):  # type: ignore[misc]
    """Writes into what it is given."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        scores[:, 4:14] -= 1.5
        return scores


def _allowed(place: int, sequence: Tensor) -> list[int]:
    """Other words for every input, and no word twice in a row."""
    words = range(4 + 6 * place, 10 + 6 * place)
    return [EOS, *(word for word in words if word != int(sequence[-1]))]


PROCESSORS: dict[str, dict[str, Any]] = {
    "repetition_penalty": {"repetition_penalty": 1.5},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "bad_words_ids": {"bad_words_ids": [[15], [6, 7], [12, 10]]},
    "forced_bos": {"forced_bos_token_id": 9},
    "forced_eos": {"forced_eos_token_id": EOS},
    "min_new_tokens": {"min_new_tokens": 4},
    "min_length": {"min_length": 10},
    "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": _allowed},
    "encoder_no_repeat_ngram_size": {"encoder_no_repeat_ngram_size": 1},
    "sequence_bias": {"sequence_bias": {(EOS,): 1.5, (6, 7): -4.0, (12,): 1.0}},
    "suppress_tokens": {"suppress_tokens": [6, 9, 12, 15]},
    "begin_suppress_tokens": {"begin_suppress_tokens": [6, 9, 12, 15]},
    "exponential_decay_length_penalty": {"exponential_decay_length_penalty": (4, 1.1)},
    "renormalize_logits": {"suppress_tokens": [6, 9, 12, 15], "renormalize_logits": True},
    "own": {"logits_processor": LogitsProcessorList([Alternate()])},
    "in_place": {"logits_processor": LogitsProcessorList([InPlace()])},
    "several": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "suppress_tokens": [9, 15]},
}
every_processor = pytest.mark.parametrize("settings", PROCESSORS.values(), ids=PROCESSORS.keys())
either_kind = pytest.mark.parametrize("name", ["gpt2", "bart"])


@either_kind
@every_processor
def test_processors_work_as_in_the_beam_search_of_transformers(name: str, settings: dict[str, Any]) -> None:
    settings = {**settings, "length_penalty": 0.0}  # so that nothing is won by going on for longer
    assert_same(ours(case(name), **settings), own(case(name), **settings))


@every_processor
def test_every_processor_has_its_say(settings: dict[str, Any]) -> None:
    plain = {name: ours(case(name)).sequences.tolist() for name in ("gpt2", "bart")}
    assert any(ours(case(name), **settings).sequences.tolist() != plain[name] for name in plain)


def test_what_the_model_rules_out_stays_ruled_out() -> None:
    def rule_out(_: Any, __: Any, answer: Any) -> None:
        answer.logits[..., 15] = -torch.inf

    handle = case("gpt2").model.register_forward_hook(rule_out)
    settings = {"repetition_penalty": 1.5, "length_penalty": 0.0}
    found, expected = ours(case("gpt2"), **settings), own(case("gpt2"), **settings)
    handle.remove()
    assert_same(found, expected)
    assert any(15 in tokens for tokens in outputs(case("gpt2"), ours(case("gpt2"), **settings)))


def test_a_constraint_is_asked_about_the_input_that_a_beam_belongs_to() -> None:
    found = ours(case("gpt2"), **GROUPS, prefix_allowed_tokens_fn=_allowed)
    for row, tokens in enumerate(outputs(case("gpt2"), found)):
        place = row // 4
        assert set(tokens) <= {EOS, *range(4 + 6 * place, 10 + 6 * place)}


def test_a_constraint_sees_prompt_and_output() -> None:
    seen: set[tuple[int, ...]] = set()

    def allowed(place: int, sequence: Tensor) -> list[int]:
        seen.add((place, *sequence.tolist()))
        return list(range(4, 24))

    tried = case("gpt2")
    found = ours(tried, **GROUPS, prefix_allowed_tokens_fn=allowed, max_new_tokens=3)
    prompts = tried.inputs["input_ids"].tolist()
    expected = {(place, *prompt) for place, prompt in enumerate(prompts)}
    expected |= {(row // 4, *sequence[:-1].tolist()) for row, sequence in enumerate(found.sequences)}
    assert expected <= seen


def test_ngrams_of_the_encoder_are_those_of_the_input_that_a_beam_belongs_to() -> None:
    found = ours(case("bart"), **GROUPS, encoder_no_repeat_ngram_size=1)
    inputs = case("bart").inputs["input_ids"].tolist()
    for row, tokens in enumerate(outputs(case("bart"), found)):
        assert not set(tokens) & set(inputs[row // 4])


@either_kind
def test_repeating_the_input_is_penalised_in_every_beam(name: str) -> None:
    """Told by the processor itself: beam search in transformers 4.57 applies it to its first rows alone."""
    tried = case(name)
    found = ours(tried, **GROUPS, encoder_repetition_penalty=2.0, length_penalty=0.0)
    for row, tokens in enumerate(outputs(tried, found)):
        inputs = tried.inputs["input_ids"][row // 4 : row // 4 + 1]
        process = EncoderRepetitionPenaltyLogitsProcessor(2.0, inputs.expand(len(tokens), -1))
        log_prob = process(None, tried.log_prob(row // 4, tokens))
        total = float(log_prob[range(len(tokens)), list(tokens)].sum())
        assert float(found.sequences_scores[row]) == pytest.approx(total, abs=1e-4)


# Ways to stop


class EndsAt(StoppingCriteria):  # type: ignore[misc]
    """Ends a sequence at a token, and remembers what it was asked about."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.widths: set[int] = set()

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        self.widths.add(input_ids.shape[1])
        return input_ids[:, -1] == self.token


@pytest.mark.parametrize(("name", "token"), [("gpt2", 6), ("bart", 13)])
def test_a_criterion_ends_beams_as_in_the_beam_search_of_transformers(name: str, token: int) -> None:
    settings = {"stopping_criteria": StoppingCriteriaList([EndsAt(token)]), "length_penalty": 0.0}
    found = ours(case(name), **settings)
    assert_same(found, own(case(name), **settings))
    assert any(tokens[-1] == token for tokens in outputs(case(name), found, (EOS, token)))


def test_a_beam_that_meets_a_criterion_is_finished() -> None:
    steps: list[Step] = []
    ours(case("gpt2"), **GROUPS, stopping_criteria=[EndsAt(6)], on_step=steps.append)
    found = [hypothesis for each in steps[-1].hypotheses for hypothesis in each]
    assert all(h.finished == (h.tokens[-1] in (6, EOS)) for h in found)
    assert all(6 not in h.tokens[:-1] for h in found)
    assert any(h.tokens[-1] == 6 for h in found)


def test_a_criterion_sees_the_prompt() -> None:
    criterion = EndsAt(6)
    ours(case("gpt2"), **GROUPS, stopping_criteria=[criterion], max_new_tokens=3, min_new_tokens=3)
    assert criterion.widths == {7, 8, 9}


def test_a_string_ends_beams_as_in_the_beam_search_of_transformers() -> None:
    """A string of two tokens, the first of which alone ends nothing."""
    plain = next(tokens for tokens in outputs(case("llama"), ours(case("llama"))) if len(tokens) > 4)
    string = f"{WORDS[plain[1]]}{WORDS[plain[2]]}"
    criteria = StoppingCriteriaList([StopStringCriteria(tokenizer(pad_token="<pad>"), string)])
    settings = {"stopping_criteria": criteria, "length_penalty": 0.0}
    found = ours(case("llama"), **settings)
    assert_same(found, own(case("llama"), **settings))
    assert any(set(row[case("llama").start + 3 :].tolist()) == {3} for row in found.sequences)


@pytest.mark.parametrize("settings", [{"max_time": 0.0}, {"stopping_criteria": [MaxTimeCriteria(0.0)]}])
def test_when_time_is_up_every_beam_ends(settings: dict[str, Any]) -> None:
    found = ours(case("gpt2"), **GROUPS, **settings)
    assert found.sequences.shape[1] == case("gpt2").start + 1
