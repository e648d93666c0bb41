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
from huggingface.calls import GROUPS, assert_same, ours, outputs
from huggingface.models import EOS, PAD, build, case, tokenizer


class Mask(LogitsProcessor):  # type: ignore[misc]
    """Leaves nothing, or nothing but these."""

    def __init__(self, *kept: int) -> None:
        self._kept = list(kept)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        masked = torch.full_like(scores, -torch.inf)
        masked[:, self._kept] = scores[:, self._kept]
        return masked


class Nonsense(LogitsProcessor):  # type: ignore[misc]
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return scores * torch.nan


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
        {**GROUPS, "return_per_group": 1, "num_return_sequences": 3},
        "return_per_group=1 makes 2 sequences an input, and num_return_sequences=3 asks for another number",
    ),
    "more of a group than beams": (
        {**GROUPS, "return_per_group": 3, "num_return_sequences": None},
        "return_per_group=3, but DiverseBeamSearch keeps 2 a group: ask for no more",
    ),
    "an unknown term": (
        {**GROUPS, "diversity": "bigram"},
        "diversity is 'bigram', and there is no such term: did you mean 'ngram'?",
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
        "input 0 has no hypotheses that logits processors and constraints allow: relax them",
    ),
    "groups without a penalty": (
        {"num_beam_groups": 2},
        "num_beam_groups=2 without a diversity_penalty makes groups that all find the same: give one",
    ),
    "a penalty for length that is no number": (
        {"length_penalty": "1"},
        "length_penalty must be a finite number, not '1'",
    ),
    "something that is not called at each step": (
        {"on_step": "print"},
        "on_step must be a function of a step, not 'print'",
    ),
    "a number of sequences that is no number": (
        {**GROUPS, "return_per_group": 2, "num_return_sequences": "4"},
        "num_return_sequences must be a whole number of at least 1, not '4'",
    ),
    "another kind of search": (
        {"penalty_alpha": 0.6},
        "penalty_alpha is for another kind of search, and has no effect on this one: leave it out",
    ),
    "another way to sample": (
        {**GROUPS, "do_sample": True, "typical_p": 0.5},
        "typical_p cannot be used for sampling here: use top_k, top_p or min_p",
    ),
    "a processor that returns nonsense": (
        {"logits_processor": [Nonsense()]},
        "guidance that is NaN or infinite (row 0 of 3): mend what guides it (a logits processor?)",
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


def test_an_input_that_has_too_few_gets_empty_sequences_and_a_warning() -> None:
    with pytest.warns(UserWarning, match="has 2 hypotheses that logits processors") as warned:
        found = ours(case("gpt2"), **GROUPS, logits_processor=[Mask(EOS)])
    assert len(warned) == 1  # for all three inputs
    assert found.sequences_scores.isinf().tolist() == [False, False, True, True] * 3
    assert found.groups.tolist() == [0, 1, -1, -1] * 3
    assert outputs(case("gpt2"), found.sequences[:2]) == [(EOS,), (EOS,)]
    assert bool((found.sequences[2, -1] == PAD).all())


def test_a_search_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    ours(case("gpt2"), **GROUPS)
    assert torch.equal(torch.get_rng_state(), before)


def test_ends_that_are_no_tokens_are_no_ends() -> None:
    assert_same(ours(case("gpt2"), eos_token_id=[EOS, -1]), ours(case("gpt2"), eos_token_id=EOS))


def test_scores_are_exact_however_strong_the_penalty() -> None:
    many = {"num_beams": 40, "num_beam_groups": 40, "num_return_sequences": 40}  # of 24 words: some must pay
    found = ours(case("gpt2"), **many, diversity_penalty=1e6, length_penalty=0.0)
    assert found.sequences_scores.tolist() == pytest.approx(found.log_probs.tolist())


@pytest.mark.parametrize("name", ["num_beams", "max_new_tokens", "do_sample", "cache_implementation"])
def test_settings_of_the_search_are_refused_where_they_mean_nothing(name: str) -> None:
    settings: dict[str, Any] = {name: 2}
    with pytest.raises(ArgumentError, match=f"{name} is not for from_transformers: the search and its"):
        from_transformers(build("gpt2"), **settings)


def test_what_is_no_processor_is_refused() -> None:
    with pytest.raises(ArgumentError, match="processor must be a tokenizer or processor, not 'gpt2'"):
        from_transformers(build("gpt2"), "gpt2")
    with pytest.raises(ArgumentError, match="a tokenizer takes texts, not 5: give a text or a list of"):
        decode(from_transformers(build("gpt2"), tokenizer()), [5], BeamSearch(beams=2), max_length=4)


def test_a_class_is_no_model() -> None:
    with pytest.raises(ArgumentError, match="can generate, not the class GPT2Model: load it with"):
        from_transformers(GPT2Model)


@pytest.mark.parametrize("model", [GPT2Model, "gpt2", None])
def test_what_cannot_generate_is_refused(model: Any) -> None:
    made = model(case("gpt2").model.config) if callable(model) else model
    with pytest.raises(ArgumentError, match="model must be one of transformers that can generate, not '"):
        from_transformers(made)


@pytest.mark.parametrize("inputs", [["agce"], "agce", {"text": ["agce"]}], ids=str)
def test_text_is_refused_where_nothing_can_read_it(inputs: Any) -> None:
    with pytest.raises(ArgumentError, match="must be turned into tensors first: give from_transformers the"):
        decode(from_transformers(build("gpt2")), inputs, BeamSearch(beams=2), max_length=4)
