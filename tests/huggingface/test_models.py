"""Models of every kind: what the search finds is what the model says, however its cache works."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import ModelError
from beamsplit.huggingface import diverse_beam_search
from huggingface.calls import GROUPS, assert_same, ours, outputs, own
from huggingface.models import OLD, PAD, case

SEARCHABLE = [
    "gpt2",
    "llama",
    "mistral",
    "gemma2",
    "gemma3",
    "t5",
    "bart",
    "marian",
    "captioner",
    "blip",
    "llava",
    *([] if OLD else ["qwen2_vl"]),  # refused in 4.57
    "speech_to_text",
]
RECURRENT = ["qwen3_next", "jamba", "mamba", "lfm2"]  # in part at least

every_model = pytest.mark.parametrize("name", SEARCHABLE)


@functools.cache
def _in_groups(name: str) -> Any:
    return ours(case(name), **GROUPS)


def _assert_rescored(name: str, found: Any) -> None:
    tried = case(name)
    per_input = len(found.sequences) // 3
    rescored = [tried.rescore(n // per_input, tokens) for n, tokens in enumerate(outputs(tried, found))]
    assert found.log_probs.tolist() == pytest.approx(rescored, abs=1e-4)


@every_model
def test_without_groups_it_is_the_beam_search_of_transformers(name: str) -> None:
    assert_same(ours(case(name)), own(case(name)))


@every_model
def test_log_probs_are_those_of_one_call_on_the_whole_sequence(name: str) -> None:
    _assert_rescored(name, _in_groups(name))


@every_model
def test_an_input_gets_in_a_batch_what_it_gets_alone(name: str) -> None:
    batch = case(name)
    together = outputs(batch, _in_groups(name))
    for place in range(3):
        single = type(batch)(name, batch.alone(place))
        found = ours(single, **GROUPS)
        assert outputs(single, found) == together[4 * place : 4 * place + 4]
        expected = _in_groups(name).log_probs[4 * place : 4 * place + 4]
        assert found.log_probs.tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def _refusal(name: str) -> str | None:
    try:
        _in_groups(name)
    except ModelError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_states_follow_the_beams_or_are_refused(name: str) -> None:
    refusal = _refusal(name)
    if refusal is not None:
        assert "whose rows cannot be told apart" in refusal
    else:
        _assert_rescored(name, _in_groups(name))
        assert_same(ours(case(name)), own(case(name)))


def test_outputs_are_longer_than_the_sliding_window() -> None:
    for name in ("mistral", "gemma2", "gemma3"):
        window = case(name).model.config.sliding_window
        assert max(map(len, outputs(case(name), _in_groups(name)))) > window


def test_groups_say_something_else() -> None:
    for name in SEARCHABLE:
        assert set(outputs(case(name), _in_groups(name))) != set(outputs(case(name), ours(case(name))))


# Whisper, whose `generate` is its own


def test_whisper_without_groups_is_the_beam_search_of_transformers() -> None:
    settings = {"num_return_sequences": 1, "suppress_tokens": [PAD]}
    assert_same(ours(case("whisper"), **settings), own(case("whisper"), **settings))


def test_whisper_in_groups_scores_as_one_call_on_the_whole_sequence_does() -> None:
    tried = case("whisper")
    found = ours(tried, num_return_sequences=1, suppress_tokens=[PAD], **GROUPS)
    said = outputs(tried, found)
    rescored = [tried.rescore(place, tokens) / len(tokens) for place, tokens in enumerate(said)]
    assert found.sequences_scores.tolist() == pytest.approx(rescored, abs=1e-4)
    assert said != outputs(tried, ours(tried, num_return_sequences=1, suppress_tokens=[PAD]))


def test_whisper_returns_tokens_as_it_does_without_groups() -> None:
    settings = {"num_return_sequences": 1, "suppress_tokens": [PAD], "return_dict_in_generate": False}
    found = ours(case("whisper"), **settings)
    assert found.tolist() == own(case("whisper"), **settings).tolist()


# Numbers, files


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("settings", [{}, {"repetition_penalty": 1.3}], ids=["plain", "processed"])
def test_it_is_the_beam_search_of_transformers_in_every_precision(
    dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    model = copy.deepcopy(case("llama").model).to(dtype)
    inputs = case("llama").inputs | settings | {"num_beams": 4, "num_return_sequences": 4}
    inputs |= {"max_new_tokens": 8, "return_dict_in_generate": True, "output_scores": True}
    # A prompt that is read apart is rounded differently: test_beam_cache.py says how far it may be off.
    beam_cache = dtype == torch.float32
    found = model.generate(**inputs, custom_generate=diverse_beam_search, beam_cache=beam_cache)
    assert_same(found, model.generate(**inputs))
    assert found.log_probs.dtype == torch.float32


@pytest.mark.parametrize("name", ["gpt2", "bart", "captioner"])
def test_a_model_that_was_saved_and_loaded_says_the_same(name: str, tmp_path: Path) -> None:
    case(name).model.save_pretrained(tmp_path)
    loaded = type(case(name).model).from_pretrained(tmp_path)
    found = loaded.generate(
        **case(name).inputs,
        **GROUPS,
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=10,
        custom_generate=diverse_beam_search,
    )
    assert found.tolist() == _in_groups(name).sequences.tolist()
