"""What is returned: the outputs of transformers, filled in so that its own tools can read them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor
from transformers.generation.utils import GenerateBeamDecoderOnlyOutput, GenerateBeamEncoderDecoderOutput

from beamsplit import ArgumentError
from beamsplit.huggingface import DiverseBeamDecoderOnlyOutput, DiverseBeamEncoderDecoderOutput
from huggingface.calls import GROUPS, ours, outputs
from huggingface.models import EOS, PAD, case

PROCESSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "processed": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "min_new_tokens": 2},
}
with_and_without_processors = pytest.mark.parametrize("settings", PROCESSED.values(), ids=PROCESSED.keys())
either_kind = pytest.mark.parametrize("name", ["gpt2", "bart"])


def _transitions(name: str, found: Any) -> torch.Tensor:
    model = case(name).model
    scores: torch.Tensor = model.compute_transition_scores(found.sequences, found.scores, found.beam_indices)
    return scores


def _lengths(name: str, found: Any) -> torch.Tensor:
    return torch.tensor([len(tokens) for tokens in outputs(case(name), found)])


def test_a_decoder_returns_the_output_of_its_kind() -> None:
    found = ours(case("gpt2"), **GROUPS)
    assert isinstance(found, GenerateBeamDecoderOnlyOutput)
    assert type(found) is DiverseBeamDecoderOnlyOutput


def test_an_encoder_decoder_returns_the_output_of_its_kind() -> None:
    found = ours(case("bart"), **GROUPS)
    assert isinstance(found, GenerateBeamEncoderDecoderOutput)
    assert type(found) is DiverseBeamEncoderDecoderOutput


@either_kind
def test_without_a_dictionary_there_are_the_sequences_alone(name: str) -> None:
    found = ours(case(name), return_dict_in_generate=False, **GROUPS)
    assert found.tolist() == ours(case(name), **GROUPS).sequences.tolist()


@either_kind
def test_the_inputs_of_these_tests_end_at_different_times(name: str) -> None:
    lengths = _lengths(name, ours(case(name), **GROUPS)).view(3, 4)
    assert len(set(lengths.amax(1).tolist())) > 1


@either_kind
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_transition_scores_add_up_to_log_probs(name: str, groups: int) -> None:
    found = ours(case(name), num_beam_groups=groups, diversity_penalty=0.7)
    assert _transitions(name, found).sum(1).tolist() == pytest.approx(found.log_probs.tolist(), abs=1e-4)


@either_kind
@with_and_without_processors
@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
def test_transition_scores_add_up_to_the_score_before_the_length_penalty(
    name: str, settings: dict[str, Any], length_penalty: float
) -> None:
    found = ours(case(name), **GROUPS, **settings, length_penalty=length_penalty)
    normalised = _transitions(name, found).sum(1) / _lengths(name, found) ** length_penalty
    assert found.sequences_scores.tolist() == pytest.approx(normalised.tolist(), abs=1e-4)


def test_transition_scores_are_zero_after_the_end_and_nowhere_else() -> None:
    found = ours(case("gpt2"), **GROUPS)
    spoken = (_transitions("gpt2", found) < 0).sum(1)
    assert spoken.tolist() == _lengths("gpt2", found).tolist()
    assert int(spoken.amin()) < int(spoken.amax())


def test_scores_are_the_processed_log_probabilities_and_log_probs_are_not() -> None:
    """Token by token for the input that is not padded, since the processor sees padding too."""
    tried = case("gpt2")
    found = ours(tried, **GROUPS, repetition_penalty=1.5, length_penalty=0.0)
    process = RepetitionPenaltyLogitsProcessor(1.5)
    prompt = tried.inputs["input_ids"][1].tolist()
    for row in range(4, 8):
        tokens = outputs(tried, found)[row]
        total = 0.0
        for time, log_prob in enumerate(tried.log_prob(1, tokens)):
            before = torch.tensor([[*prompt, *tokens[:time]]])
            total += float(process(before, log_prob.unsqueeze(0))[0, tokens[time]])
        assert float(found.sequences_scores[row]) == pytest.approx(total, abs=1e-4)
        assert float(found.log_probs[row]) == pytest.approx(tried.rescore(1, tokens), abs=1e-4)


@either_kind
def test_logits_are_what_the_model_said_to_each_beam(name: str) -> None:
    found = ours(case(name), **GROUPS, output_logits=True, repetition_penalty=1.5)
    beams, said = found.beam_indices, outputs(case(name), found)
    for row, tokens in enumerate(said):
        log_prob = [
            float(found.logits[at][beams[row, at]].log_softmax(-1)[token]) for at, token in enumerate(tokens)
        ]
        assert sum(log_prob) == pytest.approx(float(found.log_probs[row]), abs=1e-4)


def test_scores_and_logits_come_only_when_asked_for() -> None:
    found = ours(case("gpt2"), **GROUPS, output_scores=False)
    assert found.scores is None
    assert found.logits is None
    assert found.sequences_scores is not None


def test_beams_of_a_group_stand_side_by_side() -> None:
    found = ours(case("gpt2"), **GROUPS)
    owner = torch.arange(12) // 4
    first = owner * 4 + found.groups * 2
    places = found.beam_indices - first.unsqueeze(1)
    assert set(places[found.beam_indices >= 0].tolist()) == {0, 1}


def test_prompts_come_first_and_padding_last() -> None:
    tried = case("gpt2")
    found = ours(tried, **GROUPS).sequences
    assert found[:, : tried.start].tolist() == tried.inputs["input_ids"].repeat_interleave(4, 0).tolist()
    for row, tokens in zip(found[:, tried.start :].tolist(), outputs(tried, found), strict=True):
        assert set(row[len(tokens) :]) <= {PAD}
    assert any(row[-1] == PAD for row in found.tolist())


def test_without_a_padding_token_the_end_fills_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = case("gpt2")
    monkeypatch.setattr(tried.model.generation_config, "pad_token_id", None)
    found = ours(tried, **GROUPS).sequences[:, tried.start :]
    assert any(row[-2:] == [EOS, EOS] for row in found.tolist())


@pytest.mark.parametrize("name", ["output_attentions", "output_hidden_states"])
def test_what_would_need_every_row_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name}=True is not possible here, since beams that are done"):
        ours(case("gpt2"), **GROUPS, **{name: True})
