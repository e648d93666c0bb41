"""What cannot be done is refused in one line that says why."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Model, LogitsProcessor, XLNetConfig, XLNetLMHeadModel

from beamsplit import ArgumentError, BeamSearch, BeamsplitError, ModelError, TermError, decode
from beamsplit.huggingface import diverse_beam_search, from_transformers
from huggingface.calls import GROUPS, ours
from huggingface.models import EOS, build, case


class Mask(LogitsProcessor):  # type: ignore[misc]
    """Leaves nothing, or nothing but these."""

    def __init__(self, *kept: int) -> None:
        self._kept = list(kept)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        masked = torch.full_like(scores, -torch.inf)
        masked[:, self._kept] = scores[:, self._kept]
        return masked


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "beams that do not divide": (
        {"num_beams": 5, "num_beam_groups": 2},
        "num_beams=5 does not divide into num_beam_groups=2: ask for num_beams=4 or 6, or for other groups",
    ),
    "more groups than beams": (
        {"num_beams": 2, "num_beam_groups": 4, "num_return_sequences": 1},
        "num_beams=2 does not divide into num_beam_groups=4",
    ),
    "no beams": ({"num_beams": 0}, "num_beams must be a whole number of at least 1, not 0"),
    "half a group": ({"num_beam_groups": 1.5}, "num_beam_groups must be a whole number of at least 1"),
    "more sequences than beams": (
        {"num_return_sequences": 5},
        "num_return_sequences=5 is more than num_beams=4: ask for no more than beams",
    ),
    "two numbers of sequences": (
        {"num_beam_groups": 2, "return_per_group": 1, "num_return_sequences": 3},
        "return_per_group=1 makes 2 sequences an input, and num_return_sequences=3 asks for another number",
    ),
    "more of a group than beams": (
        {"num_beam_groups": 2, "return_per_group": 3, "num_return_sequences": None},
        "return_per_group=3, but DiverseBeamSearch keeps 2 a group: ask for no more",
    ),
    "an unknown term": (
        {"num_beam_groups": 2, "diversity": "bigram"},
        "diversity must be one of hamming, cumulative, ngram, embedding, or a term such as NGram(n=3), not",
    ),
    "a negative strength": (
        {"num_beam_groups": 2, "diversity_penalty": -0.5},
        "must be a finite number of 0 or more, not -0.5",
    ),
    "too many strengths": (
        {"num_beam_groups": 2, "diversity_penalty": [0.5, 0.5, 0.5]},
        "has 3 values for 2 groups: give one number, or 2",
    ),
    "an unknown way to stop": (
        {"early_stopping": "sometimes"},
        "early_stopping must be True, False or 'never', not 'sometimes'",
    ),
    "no cache": ({"use_cache": False}, "the model returned no cache, and without one every step would read"),
    "a cache of fixed size": ({"cache_implementation": "static"}, "the model's cache is made of Static"),
    "guidance with a cache of its own": (
        {"guidance_scale": 1.5},
        "UnbatchedClassifierFreeGuidanceLogitsProcessor keeps a state for each row",
    ),
    "a constraint that allows nothing": (
        {"prefix_allowed_tokens_fn": lambda *_: []},
        "prefix_allowed_tokens_fn allows no token for input 0 after [3, 3, 3, 4, 11, 9]: let it allow",
    ),
    "a processor that allows nothing": (
        {"logits_processor": [Mask()]},
        "input 0 has 0 hypotheses where 4 were asked for: logits processors or constraints rule out the rest",
    ),
    "a processor that allows too little": (
        {"logits_processor": [Mask(EOS)]},
        "input 0 has 1 hypotheses where 4 were asked for: logits processors or constraints rule out the rest",
    ),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BeamsplitError, match=re.escape(message)) as caught:
        ours(case("gpt2"), **settings)
    assert "\n" not in str(caught.value)


def test_a_term_that_rewards_is_refused() -> None:
    class Rewards:
        def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Any) -> Tensor:
            return -torch.ones_like(tokens)

    with pytest.raises(TermError, match=r"Rewards.penalty times its strength is -0.7: a penalty must be"):
        ours(case("gpt2"), **GROUPS, diversity=Rewards())


def test_a_cache_without_rows_is_refused() -> None:
    config = XLNetConfig(vocab_size=24, d_model=16, n_layer=1, n_head=2, d_inner=32)
    with pytest.raises(ModelError, match="the model's cache is a tuple, whose rows cannot be told apart"):
        XLNetLMHeadModel(config).eval().generate(
            torch.tensor([[5, 6]]), custom_generate=diverse_beam_search, num_beams=2, max_new_tokens=3
        )


@pytest.mark.parametrize("model", [GPT2Model, "gpt2", None])
def test_what_cannot_generate_is_refused(model: Any) -> None:
    made = model(case("gpt2").model.config) if callable(model) else model
    with pytest.raises(ArgumentError, match="model must be one of transformers that can generate, not '"):
        from_transformers(made)


@pytest.mark.parametrize("inputs", [["agce"], "agce", {"text": ["agce"]}], ids=str)
def test_text_is_refused_where_nothing_can_read_it(inputs: Any) -> None:
    with pytest.raises(ArgumentError, match="must be turned into tensors first: give from_transformers the"):
        decode(from_transformers(build("gpt2")), inputs, BeamSearch(beams=2), max_length=4)
