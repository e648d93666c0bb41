"""A cache for beams: the same results as with a cache for each beam, and what it stores and copies."""

from __future__ import annotations

import copy
import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from beamsplit import BeamSearch, DiverseBeamSearch, DiverseSampling, LateBranching, decode
from beamsplit.errors import ArgumentError
from beamsplit.huggingface import (
    attention_names,
    beam_attention,
    carrying,
    diverse_beam_search,
    from_transformers,
    late_branching,
)
from beamsplit.huggingface.attending import Part, attend, merge
from beamsplit.huggingface.beam_cache import BeamCache, CrossCache, Layout
from huggingface.models import EOS, OLD, PAD, VOCABULARY, build, case

_SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": EOS,
}
_FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", {}),
    "mistral": ("MistralForCausalLM", {"sliding_window": 6, "head_dim": 8}),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", {"sliding_window": 6, "head_dim": 8, "attn_logit_softcapping": 2.0}),
    "gemma3": (
        "Gemma3ForCausalLM",
        {"sliding_window": 6, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "phi": ("PhiForCausalLM", {"num_key_value_heads": 4}),
    "smollm3": ("SmolLM3ForCausalLM", {}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 128, "num_key_value_heads": None},
    ),
    "gpt_oss": (
        "GptOssForCausalLM",
        {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 6},
    ),
}
_DECODERS = [name for name in _FAMILIES if name != "gpt_oss"]
_WITH_ENCODER = ["marian", "bart", "whisper", "captioner", "speech_to_text"] + ([] if OLD else ["t5"])


@functools.cache
def family(name: str) -> Any:
    """A small random model."""
    if name not in _FAMILIES:
        return build(name)
    kind, settings = _FAMILIES[name]
    model_class = getattr(transformers, kind)
    known = {key: value for key, value in (_SIZES | settings).items() if value is not None}
    if name == "gpt2":
        for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"):
            known.pop(key)
        known.pop("max_position_embeddings")
    torch.manual_seed(3)
    model = model_class(model_class.config_class(**known)).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.4)
    return model


def prompts(*lengths: int) -> dict[str, Tensor]:
    """Random prompts of these lengths, padded on the left."""
    generator = torch.Generator().manual_seed(len(lengths))
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[-length:] = torch.randint(4, 20, (length,), generator=generator)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


_PROMPTS = {
    "alone": prompts(40),
    "short": prompts(3),
    "together": prompts(36, 36, 36),
    "padded": prompts(12, 40, 3),
}
_STRATEGIES: dict[str, Any] = {
    "beams": BeamSearch(beams=4),
    "groups": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7),
    "branching": LateBranching(outputs=5, beams=3),
    "samples": DiverseSampling(groups=2, samples_per_group=2, strength=0.5),
}


def assert_same_as_ordinary(model: Any, inputs: Any, strategy: Any, **options: Any) -> None:
    """The same tokens, with the same log-probabilities, as with a cache for each beam."""
    options = {"max_length": 24, "seed": 5} | options
    door = from_transformers(model)
    assert carrying.has_beam_cache(door.start(inputs)[1].kwargs)
    found = decode(door, inputs, strategy, **options)
    assert model not in carrying._given_up, "a step fell back"
    expected = decode(from_transformers(model, beam_cache=False), inputs, strategy, **options)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], rel=1e-5, abs=2e-5)


# Results


@pytest.mark.parametrize("strategy", _STRATEGIES)
@pytest.mark.parametrize("prompt", _PROMPTS)
@pytest.mark.parametrize("name", _DECODERS)
def test_results_are_those_of_a_cache_for_each_beam(name: str, prompt: str, strategy: str) -> None:
    assert_same_as_ordinary(family(name), _PROMPTS[prompt], _STRATEGIES[strategy])


@pytest.mark.parametrize("strategy", _STRATEGIES)
@pytest.mark.parametrize("name", _WITH_ENCODER)
def test_results_of_encoder_decoders_are_those_of_a_cache_for_each_beam(name: str, strategy: str) -> None:
    assert_same_as_ordinary(build(name), case(name).inputs, _STRATEGIES[strategy])
    assert_same_as_ordinary(build(name), case(name).alone(1), _STRATEGIES[strategy])


@pytest.mark.parametrize("name", ["llava", *([] if OLD else ["qwen2_vl"])])
def test_results_with_pictures_are_those_of_a_cache_for_each_beam(name: str) -> None:
    assert_same_as_ordinary(build(name), case(name).inputs, _STRATEGIES["groups"])


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_results_are_the_same_whatever_read_the_prompt(name: str, implementation: str) -> None:
    model = copy.deepcopy(family(name))
    model.set_attn_implementation(implementation)
    assert_same_as_ordinary(model, _PROMPTS["padded"], _STRATEGIES["beams"])


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_outputs_longer_than_chunks_and_windows(name: str) -> None:
    for prompt in ("alone", "padded"):
        assert_same_as_ordinary(family(name), _PROMPTS[prompt], _STRATEGIES["beams"], max_length=80, end=None)


def test_inputs_that_finish_leave_the_others_as_they_are() -> None:
    """Of eight inputs, some are done after a few tokens: half of the prompts are dropped, more than once."""
    inputs = prompts(33, 40, 5, 12, 38, 36, 7, 9)

    def stop(numbers: Tensor, tokens: Tensor) -> Tensor:
        return torch.full_like(numbers, tokens.shape[1], dtype=torch.long) >= 2 * (numbers * 3 % 8) + 1

    for name in ("llama", "gemma2"):
        assert_same_as_ordinary(family(name), inputs, _STRATEGIES["groups"], end=None, stop=stop)


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_in_half_precision_lists_are_as_likely_but_for_rounding(name: str, dtype: torch.dtype) -> None:
    """Judged by the same model in float32 on whole sequences: no list is worse than rounding explains."""
    exact, rounded = family(name), copy.deepcopy(family(name)).to(dtype)
    inputs = _PROMPTS["alone"]

    def likelihood(tokens: tuple[int, ...]) -> float:
        ids = torch.cat([inputs["input_ids"], torch.tensor([tokens])], dim=1)
        with torch.no_grad():
            log_prob = exact(input_ids=ids).logits[0, -len(tokens) - 1 : -1].log_softmax(-1)
        return float(log_prob[range(len(tokens)), list(tokens)].sum())

    means = []
    for beam_cache in (True, False):
        door = from_transformers(rounded, beam_cache=beam_cache)
        (found,) = decode(door, inputs, BeamSearch(beams=4), max_length=12, end=None)
        means.append(sum(likelihood(h.tokens) for h in found) / 4)
        rounding = (
            12 * 40 * torch.finfo(dtype).eps
        )  # logits of up to 40, each off by a unit in the last place
        assert [h.log_prob for h in found] == pytest.approx(
            [likelihood(h.tokens) for h in found], abs=rounding
        )
    assert means[0] >= means[1] - rounding


# What is stored, and what is copied


def _states(name: str, inputs: Any) -> tuple[Any, Any]:
    door = from_transformers(family(name))
    return door, door.start(inputs)[1]


def test_select_moves_no_keys() -> None:
    door, state = _states("llama", _PROMPTS["together"])
    state = door.select(state, torch.arange(3).repeat_interleave(4))
    _, state = door.step(torch.arange(4, 16), state)
    before: BeamCache = state.kwargs["past_key_values"]
    where = [layer.keys.data_ptr() for layer in before.layers]
    state = door.select(state, torch.tensor([1, 1, 0, 2, 4, 4, 4, 5, 11, 10, 9, 8]))
    _, state = door.step(torch.arange(4, 16), state)
    after: BeamCache = state.kwargs["past_key_values"]
    assert [layer.keys.data_ptr() for layer in after.layers] == where
    assert after.prompts is before.prompts
    assert after.ancestors.shape == (12, 2)
    assert after.ancestors[:, 0].tolist() == [1, 1, 0, 2, 4, 4, 4, 5, 11, 10, 9, 8]


def test_a_prompt_is_stored_once_an_input() -> None:
    door, state = _states("llama", _PROMPTS["together"])
    state = door.select(state, torch.arange(3).repeat_interleave(20))
    for _ in range(5):
        _, state = door.step(torch.full((60,), 7), state)
    cache: BeamCache = state.kwargs["past_key_values"]
    assert cache.prompts is not None
    heads, size, layers = 2, 4, 2
    prompt = sum(keys.numel() for keys in cache.prompts.keys)
    assert prompt == 3 * 36 * heads * size * layers
    own = sum(layer.keys.numel() for layer in cache.layers)
    assert own == 16 * 60 * heads * size * layers  # a chunk of steps


def test_encoded_inputs_are_stored_once() -> None:
    door = from_transformers(build("marian"))
    state = door.select(door.start(case("marian").inputs)[1], torch.arange(3).repeat_interleave(20))
    cross: CrossCache = state.kwargs["past_key_values"].cross_attention_cache
    assert all(layer.keys.shape[0] == 3 for layer in cross.layers)


def test_prompts_are_dropped_with_their_inputs() -> None:
    door, state = _states("llama", prompts(33, 34, 35, 36))
    state = door.select(state, torch.arange(4).repeat_interleave(2))
    assert len(door.select(state, torch.tensor([0, 1, 2, 4])).kwargs["past_key_values"].prompts) == 4
    assert len(door.select(state, torch.tensor([3, 6])).kwargs["past_key_values"].prompts) == 2


def test_a_state_that_is_left_stays_as_it_is() -> None:
    door, state = _states("llama", _PROMPTS["alone"])
    root = door.select(state, torch.zeros(3, dtype=torch.long))
    first, one = door.step(torch.tensor([5, 6, 7]), root)
    expected, _ = door.step(torch.tensor([8, 9, 10]), door.select(one, torch.tensor([2, 0, 1])))
    for _ in range(20):  # so that the pool grows
        door.step(torch.tensor([11, 12, 13]), door.select(one, torch.tensor([1, 1, 1])))
    again, _ = door.step(torch.tensor([8, 9, 10]), door.select(one, torch.tensor([2, 0, 1])))
    assert torch.equal(expected, again)
    assert torch.equal(door.step(torch.tensor([5, 6, 7]), root)[0], first)


def test_a_state_may_be_stepped_twice_without_a_selection() -> None:
    door, state = _states("llama", _PROMPTS["alone"])
    _, one = door.step(torch.tensor([5, 6, 7]), door.select(state, torch.zeros(3, dtype=torch.long)))
    door.step(torch.tensor([11, 12, 13]), one)
    again, _ = door.step(torch.tensor([8, 9, 10]), one)
    expected, _ = door.step(torch.tensor([8, 9, 10]), door.select(one, torch.arange(3)))
    assert torch.allclose(again, expected, atol=1e-5)


def test_a_search_that_begins_anew_leaves_nothing_behind() -> None:
    for prompt in ("alone", "short"):
        door, state = _states("llama", _PROMPTS[prompt])
        root = door.select(state, torch.zeros(3, dtype=torch.long))
        used = []
        for _ in range(3):
            _, state = door.step(torch.tensor([5, 6, 7]), root)
            used.append(state.kwargs["past_key_values"].pool.used)
        assert len(set(used)) == 1


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3"])
@pytest.mark.parametrize("prompt", ["short", "padded"])
def test_an_ordinary_cache_can_be_made_of_it_at_any_step(name: str, prompt: str) -> None:
    door, state = _states(name, _PROMPTS[prompt])
    inputs = len(_PROMPTS[prompt]["input_ids"])
    state = door.select(state, torch.arange(inputs).repeat_interleave(3)[:-1])
    for _ in range(8):
        rows = len(state.sequences)
        _, state = door.step(torch.arange(4, 4 + rows), door.select(state, torch.arange(rows)))
        cache = state.kwargs["past_key_values"].expanded()
        assert type(cache) is DynamicCache
        kwargs = {**state.kwargs, "past_key_values": cache}
        plain, _ = door.step(torch.full((rows,), 9), type(state)(**_fields(state) | {"kwargs": kwargs}))
        carried, _ = door.step(torch.full((rows,), 9), state)
        assert torch.allclose(plain, carried, atol=1e-4)


def _fields(state: Any) -> dict[str, Any]:
    return {name: getattr(state, name) for name in type(state).__slots__}


# Rows and inputs


@pytest.mark.parametrize(
    "owner", [[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2], [2, 0, 2, 0, 1, 2], [1, 1], [0, 0, 2, 2], [1, 0]]
)
def test_rows_find_their_way_to_inputs_and_back(owner: list[int]) -> None:
    layout = Layout.of(torch.tensor(owner), 3)
    values = torch.arange(2 * len(owner) * 2 * 5.0).view(2, len(owner), 2, 5)
    blocks = layout.to_inputs(values)
    assert torch.equal(layout.to_rows(blocks, 2), values)
    assert blocks.shape[1] == 3
    for row, number in enumerate(owner):
        assert (blocks[:, number] == values[:, row, :1]).all(-1).any()
    for number, row in enumerate(layout.first().tolist()):
        assert number not in owner or owner[row] == number


# Attention in parts


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("cut", [1, 4, 6])
def test_two_parts_together_are_attention_over_all_keys(cut: int, softcap: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 8, generator=generator) for n in (5, 7, 7))
    bias = torch.zeros(1, 3, 1, 7)
    bias[0, 1, 0, :2] = torch.finfo(torch.float32).min  # with a cut of 1, a part has nothing to see
    scores = query @ key.transpose(2, 3) * 0.3
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    expected = (scores + bias).softmax(-1) @ value

    def part(keys: slice) -> Part:
        return attend(query, key[:, :, keys], value[:, :, keys], 0.3, softcap, bias[..., keys])

    assert torch.allclose(merge(part(slice(cut)), part(slice(cut, None))), expected, atol=1e-6)


# Falling back


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "beamsplit.huggingface"]


def _assert_falls_back(model: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    inputs = _PROMPTS["padded"]
    with caplog.at_level(logging.INFO, logger="beamsplit.huggingface"):
        found = decode(from_transformers(model), inputs, BeamSearch(beams=3), max_length=6)
        decode(from_transformers(model), inputs, BeamSearch(beams=3), max_length=6)
    (line,) = _logged(caplog)
    assert line == f"{type(model).__name__} keeps a cache for each beam, with the prompt in it: {reason}"
    expected = decode(from_transformers(model, beam_cache=False), inputs, BeamSearch(beams=3), max_length=6)
    assert [[(h.tokens, h.log_prob) for h in each] for each in found] == [
        [(h.tokens, h.log_prob) for h in each] for each in expected
    ]


def test_attention_sinks_fall_back(caplog: pytest.LogCaptureFixture) -> None:
    _assert_falls_back(copy.deepcopy(family("gpt_oss")), "its attention takes s_aux", caplog)


def test_a_model_that_does_its_own_attention_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    """Which nobody would notice, since all shapes fit."""
    model = copy.deepcopy(family("llama"))
    layer = model.model.layers[1].self_attn
    forward = layer.forward

    def without_interface(*args: Any, **kwargs: Any) -> Any:
        layer.config, config = copy.copy(layer.config), layer.config
        layer.config._attn_implementation_internal = "sdpa"
        try:
            return forward(*args, **kwargs | {"attention_mask": None})
        finally:
            layer.config = config

    layer.forward = without_interface
    reason = "some of its layers do not go through transformers' AttentionInterface"
    _assert_falls_back(model, reason, caplog)


def test_a_model_whose_first_step_fails_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(family("llama"))
    prepare = model.prepare_inputs_for_generation

    def picky(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if isinstance(past_key_values, BeamCache):
            raise TypeError("no such cache")
        return prepare(*args, past_key_values=past_key_values, **kwargs)

    model.prepare_inputs_for_generation = picky
    _assert_falls_back(model, "its step raises TypeError: no such cache", caplog)
    assert model.config._attn_implementation == "sdpa"


def test_an_attention_function_that_cannot_be_replaced_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(family("llama"))
    own = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"]
    transformers.AttentionInterface.register("of_mine", own)
    transformers.AttentionMaskInterface.register(
        "of_mine", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]
    )
    model.config._attn_implementation = "of_mine"
    reason = "its attn_implementation is 'of_mine', and only sdpa and eager can be replaced"
    _assert_falls_back(model, reason, caplog)


def test_a_compiled_model_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(family("llama"))
    model._compiled_call_impl = model._call_impl
    _assert_falls_back(model, "it is compiled", caplog)


def test_code_of_others_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(family("llama"))
    model.__class__ = type("Theirs", (type(model),), {"__module__": "transformers_modules.theirs"})
    _assert_falls_back(model, "its code is not part of transformers", caplog)


@pytest.mark.skipif(OLD, reason="such models are refused in 4")
def test_linear_attention_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(build("qwen3_next"))
    with caplog.at_level(logging.INFO, logger="beamsplit.huggingface"):
        decode(from_transformers(model), case("qwen3_next").inputs, BeamSearch(beams=3), max_length=6)
    assert "its cache is made of LinearAttentionLayer" in _logged(caplog)[0]


# The switch


def _caches_of(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> set[type]:
    """The kinds of caches that steps are made with."""
    seen: set[type] = set()
    model_class = type(family("llama"))
    forward = model_class.forward

    @functools.wraps(forward)
    def noting(*args: Any, **kwargs: Any) -> Any:
        if (ids := kwargs["input_ids"]).shape[1] == 1:
            assert len(ids) > 1
            seen.add(type(kwargs["past_key_values"]))
        return forward(*args, **kwargs)

    monkeypatch.setattr(model_class, "forward", noting)
    call()
    return seen


@pytest.mark.parametrize("loop", [diverse_beam_search, late_branching])
@pytest.mark.parametrize("beam_cache", [True, False])
def test_generate_uses_it_unless_told_not_to(
    loop: Any, beam_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"num_beams": 4, "max_new_tokens": 5, "custom_generate": loop}
    off = {} if beam_cache else {"beam_cache": False}
    kinds = _caches_of(monkeypatch, lambda: family("llama").generate(**_PROMPTS["alone"], **settings, **off))
    assert kinds == {BeamCache if beam_cache else DynamicCache}


@pytest.mark.usefixtures("installed")
def test_groups_of_an_installed_search_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "max_new_tokens": 5}
    call = lambda: family("llama").generate(**_PROMPTS["alone"], **groups)  # noqa: E731
    assert _caches_of(monkeypatch, call) == {BeamCache}


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAMSPLIT_BEAM_CACHE", "0")
    _, state = _states("llama", _PROMPTS["alone"])
    assert not carrying.has_beam_cache(state.kwargs)


def test_short_prompts_on_a_cpu_have_a_cache_for_each_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "LEAST_ON_CPU", 41)
    assert not carrying.has_beam_cache(_states("llama", _PROMPTS["alone"])[1].kwargs)
    monkeypatch.setattr(carrying, "LEAST_ON_CPU", 40)
    assert carrying.has_beam_cache(_states("llama", _PROMPTS["alone"])[1].kwargs)


def test_beam_cache_is_true_or_false() -> None:
    with pytest.raises(ArgumentError, match="beam_cache must be True or False, not 'static'"):
        from_transformers(family("llama"), beam_cache="static")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="beam_cache must be True or False, not 1"):
        family("llama").generate(
            **_PROMPTS["alone"],
            custom_generate=diverse_beam_search,
            num_beams=2,
            max_new_tokens=2,
            beam_cache=1,
        )


# The model is left as it was


@pytest.mark.parametrize("name", ["gemma3", "llava", "marian"])
def test_the_attention_function_is_ours_only_during_a_step(name: str) -> None:
    model = build(name)
    inputs = case(name).inputs
    names = [config._attn_implementation for config in attention_names._configs_of(model)]
    decode(from_transformers(model), inputs, BeamSearch(beams=3), max_length=4)
    assert [config._attn_implementation for config in attention_names._configs_of(model)] == names
    assert not attention_names._switched
    assert not any("beamsplit" in each for each in names)


def test_an_error_in_a_step_is_raised_and_leaves_the_model_as_it_was() -> None:
    model = copy.deepcopy(family("llama"))
    door = from_transformers(model)
    _, state = door.step(torch.tensor([5]), door.start(_PROMPTS["alone"])[1])
    handle = model.model.layers[1].register_forward_pre_hook(_fail)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        door.step(torch.tensor([5]), state)
    handle.remove()
    assert model.config._attn_implementation == "sdpa"
    assert getattr(beam_attention._LOCAL, "caches", None) is None


def _fail(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_another_thread_may_use_the_model_during_a_step(implementation: str) -> None:
    model = copy.deepcopy(family("gemma3"))
    model.set_attn_implementation(implementation)
    inputs = _PROMPTS["padded"]
    expected = model(**inputs).logits
    alone = decode(from_transformers(model, beam_cache=False), inputs, BeamSearch(beams=3), max_length=5)
    found: list[Any] = []

    def meanwhile(*_: object) -> None:
        if "beamsplit" not in model.config._attn_implementation or found:
            return
        found.append(None)
        calls = (
            lambda: model(**inputs).logits,
            lambda: decode(from_transformers(model), inputs, BeamSearch(beams=3), max_length=5),
        )
        for call in calls:
            thread = threading.Thread(target=lambda call=call: found.append(call()))
            thread.start()
            thread.join()

    handle = model.model.layers[1].register_forward_pre_hook(meanwhile)
    with torch.no_grad():
        ours = decode(from_transformers(model), inputs, BeamSearch(beams=3), max_length=5)
    handle.remove()
    assert torch.allclose(found[1], expected, atol=1e-5)
    for each in (ours, found[2]):
        assert [[h.tokens for h in hyps] for hyps in each] == [[h.tokens for h in hyps] for hyps in alone]
    assert model.config._attn_implementation == implementation


def test_caches_of_encoder_decoders_are_exchanged_as_a_whole() -> None:
    state = from_transformers(build("bart")).start(case("bart").inputs)[1]
    cache = state.kwargs["past_key_values"]
    assert type(cache) is EncoderDecoderCache
    assert type(cache.self_attention_cache) is BeamCache
    assert type(cache.cross_attention_cache) is CrossCache


def test_devices_where_it_is_not_measured_need_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        device = torch.device("meta")

    monkeypatch.delenv("BEAMSPLIT_BEAM_CACHE", raising=False)
    assert not carrying._is_tried(Elsewhere())
    monkeypatch.setenv("BEAMSPLIT_BEAM_CACHE", "1")
    assert carrying._is_tried(Elsewhere())
