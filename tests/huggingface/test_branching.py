"""`LateBranching` on models of transformers, whose caches are walked along again in every round."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError, BeamSearch, PrefixModel, decode
from beamsplit.huggingface import from_transformers, late_branching
from beamsplit.strategies.branching import LateBranching
from huggingface.models import EOS, build, tokenizer

PROMPTS = torch.tensor([[4, 10, 6, 8], [12, 9, 5, 5]])


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3"])
def test_a_cache_is_walked_along_again_as_if_it_were_kept(name: str, beams: int) -> None:
    network = build(name)

    def logits(prefix: Tensor) -> Tensor:
        found: Tensor = network(input_ids=prefix).logits[:, -1]
        return found

    strategy = LateBranching(outputs=6, beams=beams, rounds=3)
    walked = decode(from_transformers(network), PROMPTS, strategy, max_length=7, end=EOS)
    kept = decode(PrefixModel(logits), PROMPTS, strategy, max_length=7, end=EOS)
    for ours, theirs in zip(walked, kept, strict=True):
        assert len(ours) == 6
        assert [(h.tokens, h.group) for h in ours] == [(h.tokens, h.group) for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], abs=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "t5", "bart"])
def test_outputs_of_texts_all_differ(name: str) -> None:
    door = from_transformers(build(name), tokenizer(pad_token="<pad>"))
    found = decode(door, ["agce", "ifbebh", "m"], LateBranching(outputs=8, beams=4), max_length=8)
    alone = decode(door, ["agce", "ifbebh", "m"], BeamSearch(beams=4), max_length=8)
    for each, beam in zip(found, alone, strict=True):
        assert len(each) == len({h.text for h in each}) == 8
        assert each.groups[0][0].tokens == beam.best.tokens


def generated(**settings: object) -> Tensor:
    network, mask = build("gpt2"), torch.ones_like(PROMPTS)
    made: Tensor = network.generate(
        PROMPTS, attention_mask=mask, custom_generate=late_branching, max_new_tokens=5, **settings
    )
    return made


def test_generate_returns_as_many_as_it_is_asked_for() -> None:
    assert len(generated()) == 2  # one an input, as of any generate
    assert len(generated(num_beams=6)) == 2
    six = generated(num_return_sequences=6)
    assert len(six) == 12
    assert len({tuple(row.tolist()) for row in six[:6]}) == 6
    assert torch.equal(generated(num_beams=6, num_return_sequences=3)[:3], six[:3])


@pytest.mark.parametrize(("name", "value"), [("num_beam_groups", 2), ("diversity_penalty", 0.5)])
def test_settings_of_groups_are_refused(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=f"{name}={value} is for diverse_beam_search"):
        generated(**{name: value})
