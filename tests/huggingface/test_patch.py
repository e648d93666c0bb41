"""`install` and `uninstall`: calls that ask for groups get them, and no other call notices."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessorList, TextStreamer, pipeline
from transformers.generation.stopping_criteria import StopStringCriteria
from transformers.generation.utils import GenerationMixin
from transformers.pipelines import PIPELINE_REGISTRY

from beamsplit import ArgumentError
from beamsplit.huggingface import diverse_beam_search, install, uninstall
from huggingface.calls import GROUPS, assert_same, ours, outputs, own
from huggingface.models import WORDS, Case, case, tokenizer

GENERATE = GenerationMixin.generate
RETURNED = {"num_return_sequences": 4, "max_new_tokens": 10}


def _config(**settings: Any) -> GenerationConfig:
    """A config that asks for groups, whichever settings the version of transformers knows."""
    config = copy.deepcopy(case("gpt2").model.generation_config)
    for name, value in {"num_beams": 4, **GROUPS, **settings}.items():
        setattr(config, name, value)
    return config


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["gpt2", "bart", "captioner", "llava"])
def test_generate_takes_groups_again(name: str) -> None:
    assert_same(own(case(name), **GROUPS), ours(case(name), **GROUPS))


@pytest.mark.usefixtures("installed")
def test_whisper_takes_groups_too() -> None:
    settings = {**GROUPS, "num_return_sequences": 1, "suppress_tokens": [3]}
    assert_same(own(case("whisper"), **settings), ours(case("whisper"), **settings))


@pytest.mark.usefixtures("installed")
def test_settings_of_groups_may_be_given_too() -> None:
    settings = {"diversity": "ngram", "unique": True, "return_per_group": 2}
    assert_same(own(case("gpt2"), **GROUPS, **settings), ours(case("gpt2"), **GROUPS, **settings))


@pytest.mark.usefixtures("installed")
def test_a_config_may_ask_for_groups() -> None:
    tried = case("gpt2")
    expected = ours(tried, **GROUPS).sequences.tolist()
    named = tried.model.generate(**tried.inputs, generation_config=_config(**RETURNED))
    placed = tried.model.generate(
        tried.inputs["input_ids"], _config(**RETURNED), attention_mask=tried.inputs["attention_mask"]
    )
    assert named.tolist() == expected
    assert placed.tolist() == expected


@pytest.mark.usefixtures("installed")
def test_the_models_own_config_may_ask_for_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = case("gpt2")
    monkeypatch.setattr(tried.model, "generation_config", _config())
    found = tried.model.generate(**tried.inputs, **RETURNED)
    monkeypatch.undo()
    assert found.tolist() == ours(tried, **GROUPS).sequences.tolist()


@pytest.mark.usefixtures("installed")
def test_a_call_may_ask_for_one_group_where_the_config_asks_for_more() -> None:
    tried = case("gpt2")
    found = tried.model.generate(**tried.inputs, generation_config=_config(**RETURNED), num_beam_groups=1)
    assert found.tolist() == ours(tried).sequences.tolist()


@pytest.mark.usefixtures("installed")
def test_other_calls_go_where_they_went(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("nobody asked for groups")

    monkeypatch.setattr("beamsplit.huggingface.patch.diverse_beam_search", fail)
    calls: list[dict[str, Any]] = [
        {"num_beams": 1, "num_return_sequences": 1},
        {"num_beams": 4},
        {"num_beams": 4, "num_beam_groups": 1},
    ]
    found = [own(case("gpt2"), **settings).sequences.tolist() for settings in calls]
    uninstall()
    calls[-1].pop("num_beam_groups")
    assert found == [own(case("gpt2"), **settings).sequences.tolist() for settings in calls]


@pytest.mark.usefixtures("installed")
def test_another_decoding_loop_is_left_alone() -> None:
    found = own(case("gpt2"), **GROUPS, custom_generate=lambda *_, **__: "another")
    assert found == "another"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("trust", [True, False])
def test_trust_in_remote_code_makes_no_difference(trust: bool) -> None:
    assert_same(own(case("gpt2"), **GROUPS, trust_remote_code=trust), ours(case("gpt2"), **GROUPS))


@pytest.mark.usefixtures("installed")
def test_strings_may_end_beams() -> None:
    plain = ours(case("llama"), **GROUPS)
    said = next(tokens for tokens in outputs(case("llama"), plain) if len(tokens) > 4)
    string, words = f"{WORDS[said[1]]}{WORDS[said[2]]}", tokenizer(pad_token="<pad>")
    found = own(case("llama"), **GROUPS, stop_strings=[string], tokenizer=words)
    assert_same(found, ours(case("llama"), **GROUPS, stopping_criteria=[StopStringCriteria(words, [string])]))
    assert outputs(case("llama"), found) != outputs(case("llama"), plain)


@pytest.mark.usefixtures("installed")
def test_a_streamer_is_refused() -> None:
    with pytest.raises(ArgumentError, match="streamer does not reach a search in groups: give on_step="):
        own(case("gpt2"), **GROUPS, streamer=TextStreamer(tokenizer()))


# Coming and going


def test_it_goes_as_it_came() -> None:
    install()
    assert GenerationMixin.generate is not GENERATE
    uninstall()
    assert GenerationMixin.generate is GENERATE


def test_twice_is_once() -> None:
    install()
    install()
    uninstall()
    assert GenerationMixin.generate is GENERATE
    uninstall()
    assert GenerationMixin.generate is GENERATE


def test_generate_keeps_its_name_and_its_signature() -> None:
    install()
    assert GenerationMixin.generate.__name__ == "generate"
    assert GenerationMixin.generate.__doc__ == GENERATE.__doc__
    uninstall()


def test_a_patch_that_came_later_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    with monkeypatch.context() as patched:
        patched.setattr(GenerationMixin, "generate", lambda *_: "theirs")
        with pytest.raises(ArgumentError, match="generate has been replaced again since install"):
            uninstall()
        assert GenerationMixin.generate(None) == "theirs"
    uninstall()
    assert GenerationMixin.generate is GENERATE


def test_one_beam_is_greedy_search_whatever_the_models_config_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = case("gpt2").model.generation_config
    expected = own(case("gpt2"), num_beams=1, num_return_sequences=1).sequences
    monkeypatch.setattr(config, "num_beams", 4)
    monkeypatch.setattr(config, "num_beam_groups", 2)
    install()
    try:
        found = own(case("gpt2"), num_beams=1, num_return_sequences=1, num_beam_groups=None)
    finally:
        uninstall()
    assert torch.equal(found.sequences, expected)


def test_arguments_may_be_given_by_place() -> None:
    install()
    try:
        ids, config = torch.tensor([[4, 5]]), GenerationConfig(max_new_tokens=3, num_beams=2, pad_token_id=3)
        processors = LogitsProcessorList()
        by_place = case("gpt2").model.generate(
            ids, config, processors, num_beam_groups=2, diversity_penalty=1.0
        )
        with pytest.raises(ArgumentError, match="synced_gpus does not reach a search in groups"):
            case("gpt2").model.generate(
                ids, config, num_beam_groups=2, diversity_penalty=1.0, synced_gpus=True
            )
    finally:
        uninstall()
    given = {"generation_config": config, "num_beam_groups": 2, "diversity_penalty": 1.0}
    expected = case("gpt2").model.generate(ids, **given, custom_generate=diverse_beam_search)
    assert torch.equal(by_place, expected)


# Pipelines


def _texts(tried: Case, found: Any) -> list[str]:
    words = tokenizer(pad_token="<pad>")
    return [words.decode(tokens, skip_special_tokens=True) for tokens in outputs(tried, found)]


@pytest.mark.usefixtures("installed")
def test_text_is_generated_in_groups() -> None:
    words = tokenizer(pad_token="<pad>", padding_side="left")
    write = pipeline("text-generation", model=case("gpt2").model, tokenizer=words)
    inputs = Case("gpt2", dict(words(["ag", "iqbc"], padding=True, return_tensors="pt")))
    settings = {"num_beams": 4, **GROUPS, **RETURNED, "do_sample": False}
    found = write(["ag", "iqbc"], **settings, return_full_text=False, batch_size=2)
    said = [each["generated_text"] for texts in found for each in texts]
    assert said == _texts(inputs, ours(inputs, **GROUPS))


@pytest.mark.usefixtures("installed")
@pytest.mark.skipif(
    "text2text-generation" not in PIPELINE_REGISTRY.get_supported_tasks(), reason="not in this version"
)
@pytest.mark.parametrize("task", ["text2text-generation", "summarization", "translation"])
def test_text_is_rewritten_in_groups(task: str) -> None:
    rewrite = pipeline(task, model=case("bart").model, tokenizer=tokenizer(pad_token="<pad>"))
    inputs = Case("bart", dict(tokenizer(pad_token="<pad>")(["agce"], return_tensors="pt")))
    found = rewrite("agce", num_beams=4, **GROUPS, **RETURNED)
    said = [text for each in found for text in each.values()]
    assert said == _texts(inputs, ours(inputs, **GROUPS))
