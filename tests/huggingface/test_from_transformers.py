"""Models of transformers for `decode` and `steps`: whatever goes in, text comes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, Speech2TextFeatureExtractor

from beamsplit import (
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Hypotheses,
    ModelError,
    Sampling,
    StochasticBeamSearch,
    Strategy,
    decode,
    steps,
)
from beamsplit.huggingface import from_transformers
from beamsplit.huggingface.scoring import AsIn455, GenerationScorer
from huggingface.calls import ours, outputs
from huggingface.models import EOS, OLD, build, case, tokenizer

GROUPS = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.7)
STRATEGIES: dict[str, Strategy] = {
    "beam": BeamSearch(beams=3),
    "diverse": GROUPS,
    "siblings": DiverseSiblings(beams=3, rate=0.5),
    "divmbest": DivMBest(runs=2, beams=2),
    "sampling": Sampling(samples=3, top_k=5),
    "diverse-sampling": DiverseSampling(groups=2, samples_per_group=2),
    "stochastic": StochasticBeamSearch(beams=3),
    "arithmetic": ArithmeticSampling(samples=3),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
TEXTS = ["agce", "ifbebh", "m"]


def _tokens(found: Sequence[Hypotheses]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in each] for each in found]


# Text


@every_strategy
@pytest.mark.parametrize("special", [{"pad_token": "<pad>"}, {}], ids=["padding", "no padding"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_texts_get_together_what_they_get_alone(
    name: str, special: dict[str, str], strategy: Strategy
) -> None:
    door = from_transformers(build(name), tokenizer(**special))
    together = decode(door, TEXTS, strategy, max_length=6, seed=[7, 8, 9])
    alone = [
        decode(door, [text], strategy, max_length=6, seed=[7 + place])[0] for place, text in enumerate(TEXTS)
    ]
    assert _tokens(together) == _tokens(alone)


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_texts_for_an_encoder_get_together_what_they_get_alone(name: str) -> None:
    door = from_transformers(build(name), tokenizer(pad_token="<pad>"))
    together = decode(door, TEXTS, GROUPS, max_length=6)
    assert _tokens(together) == [_tokens(decode(door, text, GROUPS, max_length=6))[0] for text in TEXTS]


@every_strategy
def test_outputs_end_or_are_as_long_as_they_may_be(strategy: Strategy) -> None:
    door = from_transformers(build("gpt2"), tokenizer(pad_token="<pad>"))
    found = [h for each in decode(door, TEXTS, strategy, max_length=6) for h in each]
    assert all(len(h.tokens) == 6 or h.tokens[-1] == EOS for h in found)
    assert all(h.finished == (h.tokens[-1] == EOS) for h in found)


def test_outputs_come_with_their_text() -> None:
    words = tokenizer(pad_token="<pad>")
    found = decode(from_transformers(build("llama"), words), TEXTS, GROUPS, max_length=6)
    for hypothesis in (h for each in found for h in each):
        assert hypothesis.text == words.decode(hypothesis.tokens, skip_special_tokens=True)
    assert any(h.tokens[-1] == EOS for each in found for h in each)


def test_steps_come_with_the_text_so_far() -> None:
    door = from_transformers(build("llama"), tokenizer(pad_token="<pad>"))
    turns = steps(door, ["agce"], BeamSearch(beams=1), max_length=4)
    shown = [str(turn.hypotheses[0].best.text) for turn in turns]
    assert [len(text) for text in shown] == [1, 2, 3, 4]
    assert all(shown[-1].startswith(text) for text in shown)


def test_one_text_is_a_batch_of_one() -> None:
    door = from_transformers(build("llama"), tokenizer(pad_token="<pad>"))
    assert decode(door, "agce", GROUPS, max_length=6) == decode(door, ["agce"], GROUPS, max_length=6)


def test_no_text_is_a_batch_of_none() -> None:
    assert decode(from_transformers(build("llama"), tokenizer()), [], GROUPS, max_length=6) == []


def test_padding_of_the_tokenizer_goes_unused_for_prompts() -> None:
    """Output goes on where the prompt ends, whichever side a tokenizer pads."""
    left, right = (
        decode(
            from_transformers(build("llama"), tokenizer(pad_token="<pad>", padding_side=side)),
            TEXTS,
            GROUPS,
            max_length=6,
        )
        for side in ("left", "right")
    )
    assert left == right


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
@pytest.mark.parametrize("as_tensors", [False, True])
def test_more_groups_may_be_asked_for(name: str, as_tensors: bool) -> None:
    words = tokenizer(pad_token="<pad>", padding_side="right" if name in ("t5", "bart") else "left")
    door = from_transformers(build(name), words)
    inputs = words(TEXTS, padding=True, return_tensors="pt") if as_tensors else TEXTS
    found = decode(door, inputs, GROUPS, max_length=6, resumable=True).more(door)
    many = decode(door, inputs, GROUPS.extended(1), max_length=6)
    assert _tokens(found) == _tokens(many)
    assert [each.texts for each in found] == [each.texts for each in many]


# Tensors


def test_tensors_of_a_tokenizer_are_as_good_as_text() -> None:
    words = tokenizer(pad_token="<pad>", padding_side="left")
    encoded = words(TEXTS, padding=True, return_tensors="pt")
    expected = decode(from_transformers(build("llama"), words), TEXTS, GROUPS, max_length=6)
    assert decode(from_transformers(build("llama"), words), encoded, GROUPS, max_length=6) == expected
    plain = decode(from_transformers(build("llama")), dict(encoded), GROUPS, max_length=6)
    assert _tokens(plain) == _tokens(expected)
    assert plain[0].texts == (None,) * 4


def test_a_tensor_of_prompts_is_as_good_as_text() -> None:
    door = from_transformers(build("llama"), tokenizer(pad_token="<pad>"))
    ids = torch.tensor([[4, 10, 6, 8]])
    assert decode(door, ids, GROUPS, max_length=6) == decode(door, "agce", GROUPS, max_length=6)


@pytest.mark.parametrize("name", ["captioner", "llava", "speech_to_text", *([] if OLD else ["qwen2_vl"])])
def test_pictures_and_sound_may_be_tensors(name: str) -> None:
    found = decode(from_transformers(build(name)), case(name).inputs, GROUPS, max_length=6)
    for place, each in enumerate(found):
        for hypothesis in each:
            rescored = case(name).rescore(place, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(rescored, abs=1e-4)


# Pictures and sound


class Looks:
    """A processor of pictures: brightness in place of colours."""

    def __call__(self, images: Sequence[Any], return_tensors: str, **_: Any) -> dict[str, Tensor]:
        assert return_tensors == "pt"
        return {"pixel_values": torch.stack([torch.as_tensor(np.asarray(each)) for each in images])}

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return str(tokenizer().decode(tokens, skip_special_tokens=skip_special_tokens))


class Listens:
    """A processor of sound."""

    def __init__(self) -> None:
        self.feature_extractor = Speech2TextFeatureExtractor(feature_size=8, num_mel_bins=8)

    def __call__(self, audio: Sequence[Any], sampling_rate: int, return_tensors: str) -> Any:
        settings = {"sampling_rate": sampling_rate, "return_tensors": return_tensors}
        return self.feature_extractor(list(audio), padding=True, **settings)


class Picture:
    """As PIL has them."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def convert(self, mode: str) -> Picture:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


def test_pictures_go_through_the_processor() -> None:
    door = from_transformers(build("captioner"), Looks())
    pictures = list(case("captioner").inputs["pixel_values"].numpy())
    expected = decode(from_transformers(build("captioner")), case("captioner").inputs, GROUPS, max_length=6)
    found = decode(door, pictures, GROUPS, max_length=6)
    assert _tokens(found) == _tokens(expected)
    assert found[0].best.text is not None
    of_pil = [Picture(each) for each in pictures]
    for same in (of_pil, {"images": pictures}):
        assert decode(door, same, GROUPS, max_length=6) == found
    assert _tokens(decode(door, pictures[0], GROUPS, max_length=6)) == _tokens(found[:1])


def test_sound_goes_through_the_processor_at_its_rate() -> None:
    noise = np.random.default_rng(0).normal(size=(2, 6400)).astype(np.float32)
    sounds = [noise[0], noise[1, :4000]]
    door = from_transformers(build("speech_to_text"), Listens())
    together = decode(door, sounds, GROUPS, max_length=6)
    assert _tokens(together) == [_tokens(decode(door, [each], GROUPS, max_length=6))[0] for each in sounds]
    assert together[0] != together[1]


# Settings


@pytest.mark.parametrize(
    "settings", [{}, {"repetition_penalty": 1.5}, {"suppress_tokens": [6, 9, 12]}], ids=str
)
@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_decode_finds_what_generate_finds(name: str, settings: dict[str, Any]) -> None:
    scorer = GenerationScorer(length_penalty=0.5, stopping=AsIn455())
    door = from_transformers(build(name), **settings)
    found = decode(door, case(name).inputs, GROUPS, max_length=10, scorer=scorer)
    groups = {"num_beam_groups": 2, "diversity_penalty": 0.7, "return_per_group": 2}
    expected = ours(case(name), **groups, **settings, length_penalty=0.5)
    assert [h.tokens for each in found for g in each.groups for h in g] == outputs(case(name), expected)
    log_probs = [h.log_prob for each in found for g in each.groups for h in g]
    assert log_probs == pytest.approx(expected.log_probs.tolist(), abs=1e-4)


def test_settings_of_the_models_own_config_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    given = from_transformers(build("gpt2"), suppress_tokens=[6, 9, 12])
    expected = decode(given, case("gpt2").inputs, GROUPS, max_length=6)
    monkeypatch.setattr(build("gpt2").generation_config, "suppress_tokens", [6, 9, 12])
    monkeypatch.setattr(build("gpt2").generation_config, "num_beams", 5)
    assert decode(from_transformers(build("gpt2")), case("gpt2").inputs, GROUPS, max_length=6) == expected


def test_the_model_names_its_end() -> None:
    assert from_transformers(build("gpt2")).end == [EOS]


def test_several_ends_of_the_config_are_all_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build("gpt2").generation_config, "eos_token_id", [EOS, 6, 9])
    found = decode(from_transformers(build("gpt2")), case("gpt2").inputs, GROUPS, max_length=6)
    assert {h.tokens[-1] for each in found for h in each if h.finished} > {6}
    assert all(not {EOS, 6, 9} & set(h.tokens[:-1]) for each in found for h in each)


def test_limits_of_the_config_are_not_those_of_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build("llama").generation_config, "max_new_tokens", 2)
    found = decode(from_transformers(build("llama")), case("llama").inputs, GROUPS, max_length=9)
    assert max(len(h.tokens) for each in found for h in each) == 9


def test_staggered_groups_are_refused_where_rows_of_different_lengths_do_not_fit_together() -> None:
    staggered = DiverseBeamSearch(groups=2, schedule="staggered")
    with pytest.raises(ArgumentError, match="needs a model with a join method, and Transformers"):
        decode(from_transformers(build("bart")), case("bart").inputs, staggered, max_length=6)


def test_a_sample_without_replacement_takes_no_processors() -> None:
    door = from_transformers(build("gpt2"), repetition_penalty=1.5)
    with pytest.raises(ArgumentError, match="samples from the model's own distribution"):
        decode(door, case("gpt2").inputs, StochasticBeamSearch(beams=2), max_length=6)


def test_a_model_and_a_tokenizer_from_files_say_the_same(tmp_path: Path) -> None:
    words = tokenizer(pad_token="<pad>")
    build("llama").save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    loaded = from_transformers(
        AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    )
    expected = decode(from_transformers(build("llama"), words), TEXTS, GROUPS, max_length=6)
    assert decode(loaded, TEXTS, GROUPS, max_length=6) == expected


def test_a_model_without_positions_for_a_long_output_says_so() -> None:
    """GPT-2 has a vector for each position; there are no more, however long the output may be."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tiny = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=1)).eval()
    prompt = {"input_ids": torch.tensor([[1, 2, 3]])}
    model = from_transformers(tiny)
    with pytest.raises(ModelError) as refused:
        decode(model, prompt, BeamSearch(beams=2), max_length=20, end=None)
    assert str(refused.value) == (
        "GPT2LMHeadModel has 8 positions, and prompt and output have 9 tokens: "
        "give a smaller max_length or shorter prompts"
    )
    assert len(decode(model, prompt, BeamSearch(beams=2), max_length=6, end=None)[0]) == 2
