"""Models of transformers by folder, hub name and file, with their tokenizers."""

from __future__ import annotations

import copy
import importlib.util
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from beamsplit import ArgumentError, DiverseBeamSearch, Embedding, Hypotheses, decode
from beamsplit.evaluation.decoding import fingerprint
from beamsplit.huggingface import from_transformers, load
from beamsplit.models import storage
from huggingface.models import BOS, EOS, PAD, VOCABULARY, WORDS, build, case, tokenizer

GROUPS = DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.7)
TEXTS = ["agce", "ifbebh", "m"]


def save(name: str, folder: Path, **special: str) -> Path:
    """A folder with a model and its tokenizer."""
    build(name).save_pretrained(folder)
    tokenizer(**special).save_pretrained(folder)
    return folder


def texts(found: Sequence[Hypotheses]) -> list[tuple[str | None, ...]]:
    return [each.texts for each in found]


# What is loaded


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_a_folder_says_what_its_model_says(name: str, tmp_path: Path) -> None:
    model = load(save(name, tmp_path, pad_token="<pad>"), device="cpu")
    assert type(model.module) is type(build(name))
    assert not model.module.training
    assert model.end == [EOS]
    expected = from_transformers(build(name), tokenizer(pad_token="<pad>"))
    assert decode(model, TEXTS, GROUPS, max_length=6) == decode(expected, TEXTS, GROUPS, max_length=6)


@pytest.mark.parametrize("name", ["llama", "bart"])
def test_texts_need_no_padding_token(name: str, tmp_path: Path) -> None:
    model = load(str(save(name, tmp_path)))
    together = decode(model, TEXTS, GROUPS, max_length=6)
    assert texts(together) == [texts(decode(model, text, GROUPS, max_length=6))[0] for text in TEXTS]


def test_weights_keep_their_type_unless_another_is_asked_for(tmp_path: Path) -> None:
    save("gpt2", tmp_path)
    assert load(tmp_path).module.dtype == torch.float32
    assert load(tmp_path, dtype=torch.float64).module.dtype == torch.float64
    copy.deepcopy(build("gpt2")).to(torch.bfloat16).save_pretrained(tmp_path)
    assert load(tmp_path).module.dtype == torch.bfloat16


# Which it is


def change(file: Path, **values: Any) -> None:
    """Other settings in a file of JSON."""
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, **values}), encoding="utf-8")


def swap_letters(folder: Path) -> None:
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    words = content["model"]["vocab"]
    words["a"], words["b"] = words["b"], words["a"]
    file.write_text(json.dumps(content), encoding="utf-8")


CHANGES: dict[str, Callable[[Path], None]] = {
    "letters": swap_letters,
    "end": lambda folder: change(folder / "config.json", eos_token_id=5),
    "end of generation": lambda folder: change(folder / "generation_config.json", eos_token_id=[EOS, 5]),
}


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_the_same_is_known_again_wherever_it_is(name: str, tmp_path: Path) -> None:
    before = load(save(name, tmp_path / "here"))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    again = load(tmp_path / "there")
    assert before.origin == again.origin
    assert fingerprint(before) == fingerprint(again)
    assert fingerprint(before) is not None


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@pytest.mark.parametrize("changed", CHANGES)
def test_the_same_weights_with_other_words_or_ends_are_another_model(
    changed: str, name: str, tmp_path: Path
) -> None:
    before = load(save(name, tmp_path))
    CHANGES[changed](tmp_path)
    after = load(tmp_path)
    weights = [storage.fingerprint(each.module.state_dict().values()) for each in (before, after)]
    assert weights[0] == weights[1]
    assert before.origin != after.origin
    assert fingerprint(before) != fingerprint(after)


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    before = load(save("gpt2", tmp_path))
    other = copy.deepcopy(build("gpt2"))
    with torch.no_grad():
        next(other.parameters()).flatten()[0] += 1
    other.save_pretrained(tmp_path)
    after = load(tmp_path)
    assert before.origin == after.origin
    assert fingerprint(before) != fingerprint(after)


def test_a_model_that_was_not_loaded_here_may_be_any() -> None:
    made = from_transformers(build("gpt2"), tokenizer())
    assert made.origin is None
    assert fingerprint(made) is None


# GGUF


def write_gguf(path: Path, model: Any) -> None:
    """A Llama as llama.cpp has it: halves of rotated vectors interleaved, two merges in the tokenizer."""
    gguf: Any = pytest.importorskip("gguf")
    config = model.config
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_block_count(config.num_hidden_layers)
    file.add_feed_forward_length(config.intermediate_size)
    file.add_head_count(config.num_attention_heads)
    file.add_head_count_kv(config.num_key_value_heads)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_vocab_size(config.vocab_size)
    file.add_tokenizer_model("gpt2")
    file.add_token_list([*WORDS[:-2], "ab", "cd"])
    file.add_token_merges(["a b", "c d"])
    file.add_token_types([3 if word.startswith("<") else 1 for word in WORDS])
    file.add_bos_token_id(BOS)
    file.add_eos_token_id(EOS)
    file.add_pad_token_id(PAD)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        rotated = next((count for part, count in heads.items() if part in name), None)
        if rotated is not None:
            weight = weight.view(rotated, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        file.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(weight))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def test_a_file_in_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    (tmp_path / "models").mkdir()
    write_gguf(tmp_path / "models" / "tiny.gguf", build("llama"))
    (tmp_path / "tiny.gguf").write_text("of the same name, and nothing to do with it", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    model = load("models/tiny.gguf")
    for name, weight in build("llama").state_dict().items():
        assert torch.equal(model.module.state_dict()[name], weight)
    ids = torch.tensor([[4, 10, 6, 8]])
    (found,), (expected,) = (
        decode(each, ids, GROUPS, max_length=6) for each in (model, from_transformers(build("llama")))
    )
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert model.to_text is not None
    assert model.to_text((4, 10, 6, 22, EOS)) == "agcab"
    assert len(decode(model, TEXTS, GROUPS, max_length=6)) == 3


@pytest.mark.parametrize(
    ("missing", "needed"),
    [
        (["gguf"], "gguf: pip install gguf"),
        (["gguf", "accelerate"], "gguf and accelerate: pip install gguf accelerate"),
    ],
)
def test_gguf_without_its_packages(
    missing: list[str], needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else there)
    path = tmp_path / "tiny.gguf"
    path.touch()
    assert refusal(path) == f"{path} needs {needed}"


# Word vectors


@pytest.mark.parametrize("name", ["gpt2", "t5", "marian", "captioner", "blip", "llava", "whisper"])
def test_a_vector_for_each_token_that_it_may_say(name: str) -> None:
    model = from_transformers(build(name))
    logits, _ = model.start(case(name).inputs)
    assert isinstance(logits, torch.Tensor)
    assert model.word_vectors.shape == (logits.shape[1], 16)
    assert not model.word_vectors.requires_grad


def test_word_vectors_are_for_the_embedding_term(tmp_path: Path) -> None:
    model = load(save("llama", tmp_path))
    assert torch.equal(model.word_vectors, build("llama").get_input_embeddings().weight)
    soft = DiverseBeamSearch(groups=3, strength=2.0, diversity=Embedding(vectors=model.word_vectors))
    assert len({h.text for h in decode(model, "agce", soft, max_length=4)[0]}) > 1


@pytest.mark.parametrize("rows", [VOCABULARY - 3, VOCABULARY + 3])
def test_word_vectors_have_the_rows_of_the_logits(rows: int) -> None:
    module = copy.deepcopy(build("llama"))
    module.lm_head = nn.Linear(16, rows)
    vectors = from_transformers(module).word_vectors
    own = module.get_input_embeddings().weight
    assert len(vectors) == rows
    assert torch.equal(vectors[:VOCABULARY], own[:rows])
    assert not vectors[VOCABULARY:].any()  # a token without a vector resembles only itself


def test_word_vectors_of_another_vocabulary_than_the_sources() -> None:
    config = copy.deepcopy(build("marian").config)
    config.update({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 10})
    config.tie_word_embeddings = False
    module = transformers.MarianMTModel(config)
    vectors = from_transformers(module).word_vectors
    assert torch.equal(vectors, module.get_decoder().get_input_embeddings().weight[:10])
    assert not torch.equal(vectors, module.get_encoder().get_input_embeddings().weight[:10])


# What is refused


def refusal(name: Any, **options: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", "./none", "/no/such/folder", "two words"])
def test_no_folder(name: str) -> None:
    assert refusal(name) == (
        f"there is no folder {name!r}: give one with a model of transformers, a name on the hub, "
        "or a FILE.gguf"
    )


@pytest.mark.parametrize("name", [None, 5, b"gpt2"])
def test_not_by_name(name: Any) -> None:
    assert refusal(name) == f"a model is loaded by its folder, its name or its file, not by {name!r}"


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model"])
def test_the_hub_out_of_reach(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(name).startswith(
        f"{name!r} is no folder, and cannot be loaded from the hub: We couldn't connect to "
    )


def test_files(tmp_path: Path) -> None:
    other, none = tmp_path / "model.safetensors", tmp_path / "none.gguf"
    other.touch()
    assert refusal(other) == f"{other} is a file: give the folder that it is in, or a FILE.gguf"
    assert refusal(none) == f"there is no file {none}"


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} holds no model of transformers: it has no config.json"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "It looks like the config file at "),
        ('{"model_type": "none"}', "The checkpoint you are trying to load has model type `none` but "),
        (
            '{"auto_map": {"AutoConfig": "own.Config"}}',
            "it brings code of its own: load it with trust_remote_code=True, for from_transformers",
        ),
    ],
)
def test_a_broken_config(config: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    assert refusal(tmp_path).startswith(f"{tmp_path} cannot be loaded by transformers: {reason}")


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart", "marian"])
def test_no_tokenizer(name: str, tmp_path: Path) -> None:
    build(name).save_pretrained(tmp_path)
    start = f"{tmp_path} has no tokenizer that can be loaded (tokenizer.save_pretrained puts one there): "
    assert refusal(tmp_path).startswith(start)


@pytest.mark.parametrize(
    ("length", "reason"), [(None, "Error no file named "), (1000, "Error while deserializing header: ")]
)
def test_broken_weights(length: int | None, reason: str, tmp_path: Path) -> None:
    file = save("llama", tmp_path) / "model.safetensors"
    kept = file.read_bytes()[:length]
    file.unlink()
    if length is not None:
        file.write_bytes(kept)
    assert refusal(tmp_path).startswith(f"{tmp_path} cannot be loaded by transformers: {reason}")


def test_weights_that_would_be_random(tmp_path: Path) -> None:
    """A part of a model is no model: transformers would draw the rest."""
    save("llama", tmp_path)
    build("llama").model.save_pretrained(tmp_path)
    assert refusal(tmp_path) == (
        f"{tmp_path} lacks 1 of the weights of LlamaForCausalLM, such as lm_head.weight: "
        "give a model that was trained to write text"
    )


def test_a_model_that_does_not_write(tmp_path: Path) -> None:
    save("llama", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}), encoding="utf-8")
    message = refusal(tmp_path)
    assert message.startswith(
        f"{tmp_path} cannot be loaded by transformers: Unrecognized configuration class "
    )
    assert message.endswith("...")


def test_settings(tmp_path: Path) -> None:
    save("gpt2", tmp_path)
    assert refusal(tmp_path, dtype="half") == "dtype must be one such as torch.bfloat16, not 'half'"
    assert refusal(tmp_path, device="gpu").startswith("device 'gpu' cannot be used: ")
    if not torch.cuda.is_available():
        assert refusal(tmp_path, device="cuda").startswith("device 'cuda' cannot be used: ")
