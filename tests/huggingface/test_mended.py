"""Faults that were found by trying every kind of model and setting, and that are not to come back."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
    Speech2TextFeatureExtractor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    WhisperFeatureExtractor,
    WhisperProcessor,
    WhisperTokenizerFast,
)

from beamsplit import ArgumentError, DiverseBeamSearch, ModelError, decode
from beamsplit.huggingface import diverse_beam_search, from_transformers, late_branching
from huggingface import models
from huggingface.calls import GROUPS, assert_same, ours, outputs, own
from huggingface.models import EOS, OLD, PAD, VOCABULARY, Case, build, case, tokenizer
from huggingface.test_processors import PROCESSORS

STRATEGY = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.7)


@pytest.mark.parametrize("name", ["gpt2", "bart"])
@pytest.mark.parametrize("settings", PROCESSORS.values(), ids=PROCESSORS.keys())
def test_groups_of_one_stop_where_transformers_stops(name: str, settings: dict[str, Any]) -> None:
    assert_same(ours(case(name), **settings), own(case(name), **settings))


@pytest.mark.parametrize("seed", [4, 23])
def test_groups_of_one_stop_where_transformers_stops_by_default(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models._SEEDS, "bart", seed)
    build.cache_clear()
    try:
        assert_same(ours(case("bart")), own(case("bart")))
    finally:
        build.cache_clear()


@pytest.mark.skipif(not OLD, reason="the model passes its positions on in 5")
def test_qwen_is_refused_where_it_keeps_positions_in_the_model() -> None:
    with pytest.raises(ModelError, match="keeps offsets of positions in its modules"):
        ours(case("qwen2_vl"), **GROUPS)


@pytest.mark.parametrize(
    "name", ["llava", pytest.param("qwen2_vl", marks=pytest.mark.skipif(OLD, reason="refused"))]
)
def test_a_config_that_asks_for_beams_leaves_pictures_alone(name: str) -> None:
    config = copy.deepcopy(case(name).model.generation_config)
    config.update(num_beams=4)
    found = ours(case(name), **GROUPS, generation_config=config, num_beams=None)
    assert_same(found, ours(case(name), **GROUPS))


@pytest.mark.skipif(OLD, reason="refused there")
def test_qwen_goes_on_when_an_input_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models._SEEDS, "qwen2_vl", 8)
    build.cache_clear()
    try:
        batch = case("qwen2_vl")
        together = outputs(batch, ours(batch, **GROUPS))
        for place in range(3):
            single = Case("qwen2_vl", batch.alone(place))
            assert outputs(single, ours(single, **GROUPS)) == together[4 * place : 4 * place + 4]
    finally:
        build.cache_clear()


def test_whisper_can_be_decoded() -> None:
    found = decode(from_transformers(build("whisper")), case("whisper").inputs, STRATEGY, max_length=6)
    for place, each in enumerate(found):
        for h in each:
            assert h.log_prob == pytest.approx(case("whisper").rescore(place, h.tokens), abs=1e-4)


def test_whisper_can_be_decoded_from_sound() -> None:
    words = WhisperTokenizerFast(
        tokenizer_object=tokenizer()._tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>"
    )
    processor = WhisperProcessor(WhisperFeatureExtractor(feature_size=8, chunk_length=1), words)
    sound = np.random.default_rng(0).normal(size=16000).astype(np.float32)
    found = decode(from_transformers(build("whisper"), processor), [sound], STRATEGY, max_length=6)
    assert found[0].best.text is not None


def test_blip_can_be_decoded() -> None:
    found = decode(from_transformers(build("blip")), case("blip").inputs, STRATEGY, max_length=6)
    for place, each in enumerate(found):
        for h in each:
            assert h.log_prob == pytest.approx(case("blip").rescore(place, h.tokens), abs=1e-4)


def test_an_end_that_is_given_is_the_end() -> None:
    door = from_transformers(build("gpt2"), eos_token_id=15)
    found = decode(door, case("gpt2").inputs, STRATEGY, max_length=6)
    assert door.end == [15]
    assert all(15 not in h.tokens[:-1] for each in found for h in each)


@pytest.mark.parametrize("special", [{"pad_token": "<pad>"}, {}], ids=["padding", "no padding"])
def test_texts_in_a_dictionary_are_padded_as_texts_in_a_list(special: dict[str, str]) -> None:
    door = from_transformers(build("llama"), tokenizer(**special))
    texts = ["agce", "i"]
    listed = decode(door, texts, STRATEGY, max_length=6)
    assert decode(door, {"text": texts}, STRATEGY, max_length=6) == listed


def test_one_text_in_a_dictionary_is_one_text() -> None:
    """And not one a letter."""
    door = from_transformers(build("llama"), tokenizer())
    assert len(decode(door, {"text": "agce"}, STRATEGY, max_length=6)) == 1


def test_pictures_are_seen_where_there_is_no_padding_token() -> None:
    class Sees:
        tokenizer = models.tokenizer()

        def __call__(self, text: list[str], images: Any, **_: Any) -> dict[str, torch.Tensor]:
            self.seen = images
            return {**case("llava").alone(0), "pixel_values": torch.as_tensor(images)}

    processor = Sees()
    pictures = case("llava").inputs["pixel_values"][:1]
    decode(
        from_transformers(build("llava"), processor),
        {"text": "<image> what is it?", "images": pictures.numpy()},
        STRATEGY,
        max_length=3,
    )
    assert processor.seen is not None


def test_an_encoder_is_padded_behind_the_text() -> None:
    door = from_transformers(build("bart"), tokenizer())
    together = decode(door, ["agce", "i"], STRATEGY, max_length=6)
    alone = decode(door, ["i"], STRATEGY, max_length=6)
    assert [h.tokens for h in together[1]] == [h.tokens for h in alone[0]]


def test_sound_may_go_through_a_feature_extractor() -> None:
    extractor = Speech2TextFeatureExtractor(feature_size=8, num_mel_bins=8)
    sound = np.random.default_rng(0).normal(size=4000).astype(np.float32)
    assert decode(from_transformers(build("speech_to_text"), extractor), [sound], STRATEGY, max_length=4)


@pytest.mark.parametrize(
    "warper", [TemperatureLogitsWarper(0.5), TopKLogitsWarper(3)], ids=lambda w: type(w).__name__
)
def test_a_users_own_warper_has_its_say(warper: Any) -> None:
    settings = {"logits_processor": LogitsProcessorList([warper]), "length_penalty": 0.0}
    assert_same(ours(case("gpt2"), **settings), own(case("gpt2"), **settings))


def test_a_users_own_warper_has_its_say_in_sampling_too() -> None:
    cold = {"logits_processor": LogitsProcessorList([TemperatureLogitsWarper(1e-4)])}
    found = ours(case("gpt2"), num_beam_groups=2, diversity_penalty=0.0, **cold, do_sample=True)
    greedy = outputs(case("gpt2"), ours(case("gpt2"), num_beams=1, num_return_sequences=1))
    assert outputs(case("gpt2"), found) == [each for each in greedy for _ in range(4)]


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.3}], ids=str
)
def test_what_the_strategy_sees_to_is_done_once(settings: dict[str, Any]) -> None:
    """So `log_probs` and scores are the model's own, not those of the distribution that is drawn from."""
    found = ours(case("gpt2"), **GROUPS, **settings, do_sample=True, length_penalty=0.0)
    assert found.sequences_scores.tolist() == pytest.approx(found.log_probs.tolist())


def test_a_model_that_keeps_its_state_to_itself_is_refused() -> None:
    config = RecurrentGemmaConfig(
        vocab_size=24,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        lru_width=16,
        attention_window_size=8,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=1,
    )
    model = RecurrentGemmaForCausalLM(config).eval()
    with pytest.raises(ModelError, match="RecurrentGemmaForCausalLM keeps recurrent states in its modules"):
        model.generate(
            torch.tensor([[4, 5]]), num_beams=2, max_new_tokens=3, custom_generate=diverse_beam_search
        )


def test_samples_that_repeat_are_not_blamed_on_processors() -> None:
    with pytest.warns(UserWarning, match="hypotheses that differ where 4 were asked for"):
        ours(case("gpt2"), **GROUPS, do_sample=True, top_k=1, unique=True)


def test_one_warning_tells_of_all_inputs_with_too_few_outputs() -> None:
    two = case("gpt2")
    batch = two.inputs["input_ids"].shape[0]
    assert batch > 1
    with pytest.warns(UserWarning, match="asked for") as told:
        found = ours(two, **GROUPS, do_sample=True, top_k=1, unique=True)
    said = [str(each.message) for each in told if "asked for" in str(each.message)]
    assert len(said) == 1
    assert f"were asked for ({batch} of {batch} inputs have too few): " in said[0]
    assert len(found.sequences) == 4 * batch
    assert (found.groups == -1).sum() == (found.sequences_scores == -torch.inf).sum() >= batch


def test_late_branching_tells_of_too_few_outputs_and_fills_up() -> None:
    """Of one token there are as many outputs as tokens."""
    one = case("gpt2")
    batch, most = one.inputs["input_ids"].shape[0], VOCABULARY + 4
    settings = {"num_return_sequences": most, "max_new_tokens": 1, "return_dict_in_generate": True}
    with pytest.warns(UserWarning, match=rf"hypotheses that differ where {most} were asked for \("):
        found = one.model.generate(**one.inputs, custom_generate=late_branching, **settings)
    assert len(found.sequences) == most * batch
    empty = found.sequences_scores == -torch.inf
    assert empty.sum() >= 4 * batch
    assert bool((found.groups[empty] == -1).all())


def test_more_groups_than_beams_names_two_ways_out_or_one() -> None:
    with pytest.raises(ArgumentError) as caught:
        ours(case("gpt2"), num_beams=2, num_beam_groups=4, num_return_sequences=1)
    assert "4 or 4" not in str(caught.value)


@pytest.mark.parametrize("penalty", [-0.5, [0.5, 0.5, 0.5]])
def test_the_setting_is_called_what_the_user_called_it(penalty: Any) -> None:
    with pytest.raises(ArgumentError, match="diversity_penalty"):
        ours(case("gpt2"), num_beam_groups=2, diversity_penalty=penalty)
