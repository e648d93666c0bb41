"""Steps whose rows and tensors stay where they are: the same results, and what is kept from call to call."""

from __future__ import annotations

import copy
import gc
import logging
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from beamsplit import BeamSearch, DiverseBeamSearch, Hypotheses, LengthNormalised, decode, steps
from beamsplit.huggingface import (
    attention_names,
    diverse_beam_search,
    fixed_attention,
    fixing,
    from_transformers,
)
from beamsplit.huggingface.beam_cache import NotCarriedError
from beamsplit.huggingface.fixed import FixedBeams, bucket
from beamsplit.search.ahead.runner import Runner
from graph_twin import Recording
from huggingface.models import EOS, OLD, build, case
from huggingface.test_beam_cache import _DECODERS, family, prompts

STRATEGIES: dict[str, Any] = {
    "beams": BeamSearch(beams=3),
    "groups": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7),
}
PROMPTS = {"together": prompts(9, 9), "padded": prompts(40, 5, 3)}
ENCODERS = ["marian", "bart", "whisper", "captioner", *([] if OLD else ["t5"])]
OPTIONS: dict[str, Any] = {"max_length": 20, "end": EOS}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Runner]:
    """Grows with every step that is taken ahead."""
    calls: list[Runner] = []
    launch = Runner.launch

    def noted(self: Runner) -> None:
        calls.append(self)
        launch(self)

    monkeypatch.setattr(Runner, "launch", noted)
    return calls


@pytest.fixture(params=["called", "recorded"])
def ahead(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, launched: list[Runner]
) -> list[Runner]:
    """Run ahead: steps are called again, or recorded and done again as a graph would do them."""
    monkeypatch.setattr(fixing, "_kept", weakref.WeakKeyDictionary())
    monkeypatch.setattr(fixing, "_proven", weakref.WeakSet())
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    if request.param == "recorded":
        if OLD and "gemma2" in request.node.name:
            pytest.skip("transformers 4.57 has a number on the processor, which our twin takes for a copy")
        if OLD and "captioner" in request.node.name:
            pytest.skip("in transformers 4.57 a step of it asks for a value, and is not captured")
        request.getfixturevalue("recordings")
    return launched


def plainly(monkeypatch: pytest.MonkeyPatch, model: Any, inputs: Any, strategy: Any, **options: Any) -> Any:
    """What is found with a cache for each beam."""
    with monkeypatch.context() as here:
        here.delenv("BEAMSPLIT_GRAPHS")
        return decode(from_transformers(model, beam_cache=False), inputs, strategy, **(OPTIONS | options))


def assert_same(found: list[Hypotheses], expected: list[Hypotheses]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], rel=1e-5, abs=2e-5)


def assert_runs_ahead(
    monkeypatch: pytest.MonkeyPatch,
    ahead: list[Runner],
    model: Any,
    inputs: Any,
    strategy: Any,
    **options: Any,
) -> list[Hypotheses]:
    """Ahead, a model finds the same tokens, with the same log-probabilities."""
    before = len(ahead)
    found = decode(from_transformers(model), inputs, strategy, **(OPTIONS | options))
    assert len(ahead) > before, "it has fallen back"
    assert_same(found, plainly(monkeypatch, model, inputs, strategy, **options))
    return found


# Results


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", [*_DECODERS, *([] if OLD else ["gpt_oss"])])
def test_results_are_the_same(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str, prompt: str, strategy: str
) -> None:
    assert_runs_ahead(monkeypatch, ahead, family(name), PROMPTS[prompt], STRATEGIES[strategy])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", [*ENCODERS, "llava", *([] if OLD else ["qwen2_vl"])])
def test_results_from_encoded_inputs_and_pictures_are_the_same(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str, strategy: str
) -> None:
    for inputs in (case(name).inputs, case(name).alone(1)):
        assert_runs_ahead(monkeypatch, ahead, build(name), inputs, STRATEGIES[strategy])


@pytest.mark.parametrize(
    ("name", "implementation"),
    [("mistral", "eager"), ("mistral", "sdpa"), ("gemma2", "eager"), *([("gemma2", "sdpa")] if OLD else [])],
)
def test_results_are_the_same_whatever_read_the_prompt(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str, implementation: str
) -> None:
    """Before transformers 5, torch's own function left out a cap on scores, and so does ours then."""
    model = copy.deepcopy(family(name))
    for config in attention_names._configs_of(model):  # from outside, Gemma 2 takes one alone
        config._attn_implementation_internal = implementation
    assert_runs_ahead(monkeypatch, ahead, model, PROMPTS["padded"], STRATEGIES["groups"])


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_outputs_longer_than_windows(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str) -> None:
    strategy = STRATEGIES["groups"]
    assert_runs_ahead(monkeypatch, ahead, family(name), PROMPTS["padded"], strategy, max_length=60, end=None)


@pytest.mark.skipif(OLD, reason="T5 has an attention function of its own before transformers 5")
@pytest.mark.parametrize("said", [1, 20])
def test_a_bias_of_positions(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], said: int) -> None:
    """It depends on how far a token is away, be it of what was given or of what was generated."""
    inputs = {**case("t5").inputs, "decoder_input_ids": torch.arange(3 * said).view(3, said) % 16 + 4}
    strategy, model = STRATEGIES["groups"], copy.deepcopy(family("t5"))
    with torch.no_grad():  # so that what is read depends on it
        (bias,) = (
            weight for name, weight in model.named_parameters() if "decoder" in name and "bias" in name
        )
        bias.mul_(5)
    assert_runs_ahead(monkeypatch, ahead, model, inputs, strategy, max_length=50, end=None)


@pytest.mark.parametrize("name", ["qwen3", "marian"])
def test_several_ends_and_groups_that_finish_at_different_times(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str
) -> None:
    inputs = prompts(9, 12, 4) if name == "qwen3" else case(name).inputs
    strategy = DiverseBeamSearch(groups=4, beams_per_group=2, strength=0.7)
    found = assert_runs_ahead(monkeypatch, ahead, family(name), inputs, strategy, end=[EOS, 7, 11])
    lengths = {len(h.tokens) for each in found for h in each}
    assert len(lengths) > 3


def test_steps_that_are_not_certain(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]) -> None:
    strategy = DiverseBeamSearch(groups=6, strength=9.0)
    options = {"list_width": 1, "max_length": 12}
    assert_runs_ahead(monkeypatch, ahead, family("llama"), PROMPTS["padded"], strategy, **options)
    assert len({id(runner) for runner in ahead}) > 1


def test_generate_runs_ahead(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]) -> None:
    model = family("llama")
    settings = {"num_beams": 4, "num_beam_groups": 4, "diversity_penalty": 0.5, "max_new_tokens": 12}

    def generate() -> Tensor:
        found: Tensor = model.generate(
            **PROMPTS["padded"], **settings, do_sample=False, custom_generate=diverse_beam_search
        )
        return found

    found = generate()
    assert ahead
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "0")
    before = len(ahead)
    assert torch.equal(found, generate())
    assert len(ahead) == before


def test_who_wants_the_logits_of_every_step_gets_them(ahead: list[Runner]) -> None:
    """Which are seen step by step alone."""
    model = family("llama")
    settings = {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "max_new_tokens": 8}
    found = model.generate(
        **PROMPTS["padded"],
        **settings,
        do_sample=False,
        custom_generate=diverse_beam_search,
        return_dict_in_generate=True,
        output_logits=True,
    )
    assert len(found.logits) == found.sequences.shape[1] - PROMPTS["padded"]["input_ids"].shape[1]
    assert not ahead


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_in_half_precision_lists_are_as_likely_but_for_rounding(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str
) -> None:
    """Judged by the same model in float32 on whole sequences: no list is worse than rounding explains."""
    exact, rounded, inputs = family(name), copy.deepcopy(family(name)).to(torch.bfloat16), prompts(30)
    options: dict[str, Any] = {"max_length": 12, "end": None}

    def likelihood(tokens: tuple[int, ...]) -> float:
        ids = torch.cat([inputs["input_ids"], torch.tensor([tokens])], dim=1)
        with torch.no_grad():
            log_prob = exact(input_ids=ids).logits[0, -len(tokens) - 1 : -1].log_softmax(-1)
        return float(log_prob[range(len(tokens)), list(tokens)].sum())

    (found,) = decode(from_transformers(rounded), inputs, STRATEGIES["beams"], **options)
    assert ahead
    (expected,) = plainly(monkeypatch, rounded, inputs, STRATEGIES["beams"], **options)
    rounding = (
        12 * 40 * torch.finfo(torch.bfloat16).eps
    )  # logits of up to 40, off by a unit in the last place
    ours, theirs = (sum(likelihood(h.tokens) for h in each) / 3 for each in (found, expected))
    assert ours >= theirs - rounding
    assert [h.log_prob for h in found] == pytest.approx([likelihood(h.tokens) for h in found], abs=rounding)


# What is kept from call to call


def test_a_step_is_kept_for_inputs_that_are_about_as_large(
    monkeypatch: pytest.MonkeyPatch, launched: list[Runner], recordings: list[Recording]
) -> None:
    model = copy.deepcopy(family("smollm3"))
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    counts = []
    for inputs in (prompts(40, 5, 3), prompts(33, 12, 36), prompts(41, 45, 48), prompts(4, 3, 5)):
        assert_runs_ahead(monkeypatch, launched, model, inputs, STRATEGIES["groups"])
        counts.append(len(recordings))
    # Two graphs for the first (and one for the step that is compared), none for the next two; the last is
    # less than the least bucket of 16.
    assert counts == [3, 3, 3, 5]
    assert len(fixing._kept[model]) == 2


def test_a_kept_step_knows_nothing_of_an_earlier_search(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]
) -> None:
    """Such as what that has finished: it would stop groups too early, and be corrected at every step."""
    told: list[int] = []
    tell = Runner.set

    def noted(self: Runner, *args: Any) -> None:
        told.append(len(ahead))
        tell(self, *args)

    monkeypatch.setattr(Runner, "set", noted)
    model = copy.deepcopy(family("qwen3"))
    for searches, length in enumerate((20, 20, 30, 18), 1):
        options = {"max_length": length, "scorer": LengthNormalised(alpha=1.3)}
        assert_runs_ahead(monkeypatch, ahead, model, prompts(9, 12, 4), STRATEGIES["groups"], **options)
        assert len(told) == searches


@pytest.mark.parametrize("name", ["marian", "whisper"])
def test_a_step_is_kept_for_other_encoded_inputs(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], name: str
) -> None:
    model = copy.deepcopy(build(name))
    for place in (1, 0, 1):
        assert_runs_ahead(monkeypatch, ahead, model, case(name).alone(place), STRATEGIES["groups"])
    assert len(fixing._kept[model]) <= 2


def test_other_scorers_and_ends_have_runners_of_their_own(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]
) -> None:
    model = copy.deepcopy(family("llama"))
    for end in (EOS, 7, None, [EOS, 7], [7, EOS]):
        for strategy in (
            DiverseBeamSearch(groups=4, strength=0.7),
            DiverseBeamSearch(groups=4, strength=3.0),
        ):
            assert_runs_ahead(monkeypatch, ahead, model, PROMPTS["padded"], strategy, end=end)
    ((_, step),) = fixing._kept[model]
    assert len(step.kept) == 8  # and the first two are forgotten


def test_weights_that_are_exchanged_are_noticed(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]) -> None:
    model = copy.deepcopy(family("llama"))
    first = assert_runs_ahead(monkeypatch, ahead, model, PROMPTS["together"], STRATEGIES["beams"])
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().roll(1, 0))
    second = assert_runs_ahead(monkeypatch, ahead, model, PROMPTS["together"], STRATEGIES["beams"])
    assert [h.tokens for h in first[0]] != [h.tokens for h in second[0]]
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.roll(1, 0))
    assert_runs_ahead(monkeypatch, ahead, model, PROMPTS["together"], STRATEGIES["beams"])


def test_few_steps_are_kept_and_none_without_its_model(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]
) -> None:
    model = copy.deepcopy(family("llama"))
    for beams in range(2, 8):
        decode(from_transformers(model), PROMPTS["together"], BeamSearch(beams=beams), **OPTIONS)
    assert len(fixing._kept[model]) == 4
    kept = [weakref.ref(step) for _, step in fixing._kept[model]]
    ahead.clear()
    del model
    monkeypatch.undo()  # what was recorded holds on to it
    gc.collect()
    assert not any(step() for step in kept)


def test_a_search_that_is_left_early_gives_its_step_back(ahead: list[Runner]) -> None:
    model = copy.deepcopy(family("llama"))
    search: Any = steps(from_transformers(model), PROMPTS["together"], STRATEGIES["beams"], **OPTIONS)
    for _ in range(5):
        next(search)
    search.close()
    assert ahead
    assert len(fixing._kept[model]) == 1


@pytest.mark.parametrize("size", [1, 15, 16, 17, 130, 255, 2000, 2049, 100_000])
def test_a_bucket_is_no_smaller_and_little_larger(size: int) -> None:
    assert size <= bucket(size) <= max(size + 15, size * 9 // 8)
    assert bucket(bucket(size)) == bucket(size)


# Threads


def test_two_threads_may_search_with_one_model(monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]) -> None:
    model = copy.deepcopy(family("gemma3"))
    expected = {name: plainly(monkeypatch, model, PROMPTS[name], STRATEGIES["groups"]) for name in PROMPTS}
    found: dict[int, Any] = {}

    def search(number: int, name: str) -> None:
        found[number] = decode(from_transformers(model), PROMPTS[name], STRATEGIES["groups"], **OPTIONS)

    names = [*PROMPTS] * 2
    threads = [threading.Thread(target=search, args=each) for each in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ahead
    for number, name in enumerate(names):
        assert_same(found[number], expected[name])
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_another_thread_may_call_the_model_during_a_step(
    monkeypatch: pytest.MonkeyPatch, launched: list[Runner], implementation: str
) -> None:
    """Also a search with a cache for beams, whose attention function has the same name."""
    model = copy.deepcopy(family("gemma3"))
    model.set_attn_implementation(implementation)
    inputs, strategy = PROMPTS["padded"], STRATEGIES["groups"]
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    logits = model(**inputs).logits
    expected = plainly(monkeypatch, model, inputs, strategy)
    found: list[Any] = []

    def meanwhile(*_: object) -> None:
        if not fixed_attention.is_reading() or len(launched) < 3 or found:
            return
        found.append(None)
        with monkeypatch.context() as here:
            here.setenv("BEAMSPLIT_GRAPHS", "0")
            for call in (
                lambda: model(**inputs).logits,
                lambda: decode(from_transformers(model), inputs, strategy, **OPTIONS),
            ):
                thread = threading.Thread(target=lambda call=call: found.append(call()))
                thread.start()
                thread.join()

    handle = model.model.layers[1].register_forward_pre_hook(meanwhile)
    ours = decode(from_transformers(model), inputs, strategy, **OPTIONS)
    handle.remove()
    assert torch.allclose(found[1], logits, atol=1e-5)
    assert_same(ours, expected)
    assert_same(found[2], expected)
    assert not attention_names._switched


def test_a_search_with_a_cache_for_beams_may_meet_steps_ahead(
    monkeypatch: pytest.MonkeyPatch, launched: list[Runner]
) -> None:
    """The other way round: during a step with such a cache, another thread runs ahead."""
    model = copy.deepcopy(family("gemma3"))
    inputs, strategy = PROMPTS["padded"], STRATEGIES["groups"]
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "0")
    expected = decode(from_transformers(model, beam_cache=False), inputs, strategy, **OPTIONS)
    found: list[Any] = []

    def meanwhile(*_: object) -> None:
        if "beamsplit" not in model.config._attn_implementation or found:
            return
        found.append(None)
        with monkeypatch.context() as here:
            here.setenv("BEAMSPLIT_GRAPHS", "1")
            thread = threading.Thread(
                target=lambda: found.append(decode(from_transformers(model), inputs, strategy, **OPTIONS))
            )
            thread.start()
            thread.join()

    handle = model.model.layers[1].register_forward_pre_hook(meanwhile)
    ours = decode(from_transformers(model), inputs, strategy, **OPTIONS)
    handle.remove()
    assert launched
    assert_same(ours, expected)
    assert_same(found[1], expected)


# Models that cannot


def assert_falls_back(
    monkeypatch: pytest.MonkeyPatch,
    ahead: list[Runner],
    caplog: pytest.LogCaptureFixture,
    model: Any,
    inputs: Any,
    reason: str,
) -> None:
    """It says why, once, and finds the same step by step."""
    expected = plainly(monkeypatch, model, inputs, STRATEGIES["groups"])
    ahead.clear()
    caplog.set_level(logging.INFO, logger="beamsplit.huggingface")
    for _ in range(2):
        assert_same(decode(from_transformers(model), inputs, STRATEGIES["groups"], **OPTIONS), expected)
    assert not ahead
    told = [each.getMessage() for each in caplog.records if "without graphs" in each.getMessage()]
    assert told == [f"{type(model).__name__} is stepped without graphs: {reason}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("speech_to_text", "it has a mask of shape [3, 20] for 10 encoded tokens"),
    ],
)
def test_models_that_cannot_be_captured_go_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
    ahead: list[Runner],
    caplog: pytest.LogCaptureFixture,
    name: str,
    reason: str,
) -> None:
    inputs = PROMPTS["padded"] if name == "gpt_oss" else case(name).inputs
    assert_falls_back(monkeypatch, ahead, caplog, copy.deepcopy(family(name)), inputs, reason)


def test_a_step_that_asks_for_a_value_goes_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Runner],
    caplog: pytest.LogCaptureFixture,
    recordings: list[Recording],
) -> None:
    """A capture raises an error then."""
    model = copy.deepcopy(family("llama"))
    model.model.layers[1].register_forward_hook(lambda _, __, output: output + bool((output == 0).any()))
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    reason = "a graph cannot ask for a value: aten._local_scalar_dense.default"
    assert_falls_back(monkeypatch, launched, caplog, model, PROMPTS["padded"], reason)
    assert not recordings


def test_prompts_with_gaps_go_step_by_step(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], caplog: pytest.LogCaptureFixture
) -> None:
    inputs = prompts(9, 7)
    inputs["attention_mask"][0, 4] = 0
    reason = "the real tokens of its inputs are not next to each other"
    assert_falls_back(monkeypatch, ahead, caplog, copy.deepcopy(family("llama")), inputs, reason)


def test_a_model_in_training_goes_step_by_step(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], caplog: pytest.LogCaptureFixture
) -> None:
    model = copy.deepcopy(family("llama")).train()
    assert_falls_back(monkeypatch, ahead, caplog, model, PROMPTS["together"], "it is in training mode")


@pytest.mark.parametrize("verb", ["_for_rows", "_run"])
def test_a_step_that_would_come_out_otherwise_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    """Here for a wrong position, and where one of the two steps that are compared is wrong."""
    method = getattr(FixedBeams, verb)

    def wrong(self: FixedBeams, *positions: Tensor) -> Any:
        if positions:
            return method(self, *positions) + 1
        logits = method(self)
        return torch.where(self.time == 1, logits.roll(1, 1), logits)

    monkeypatch.setattr(FixedBeams, verb, wrong)
    reason = "its steps come out otherwise when their rows are fixed"
    model = copy.deepcopy(family("llama"))
    assert_falls_back(monkeypatch, ahead, caplog, model, PROMPTS["padded"], reason)


def test_a_layer_that_reads_for_itself_is_noticed(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner], caplog: pytest.LogCaptureFixture
) -> None:
    model = copy.deepcopy(family("llama"))
    ALL_ATTENTION_FUNCTIONS.register("itself", ALL_ATTENTION_FUNCTIONS["sdpa"])
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    masks.register("itself", masks["sdpa"])
    layer = model.model.layers[1].self_attn
    layer.config = copy.deepcopy(layer.config)
    layer.config._attn_implementation_internal = "itself"
    reason = "some of its layers do not go through transformers' AttentionInterface"
    assert_falls_back(monkeypatch, ahead, caplog, model, PROMPTS["together"], reason)


def test_masks_of_other_kinds_are_refused() -> None:
    fixed_attention.mask(masking_utils.causal_mask_function)
    fixed_attention.mask(masking_utils.sliding_window_causal_mask_function(4))
    odd = masking_utils.or_masks(masking_utils.causal_mask_function, masking_utils.causal_mask_function)
    for function in (odd, masking_utils.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long))):
        with pytest.raises(NotCarriedError, match="its mask is neither causal nor of a sliding window"):
            fixed_attention.mask(function)


def test_nobody_who_wants_caches_of_their_own_runs_ahead(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]
) -> None:
    decode(from_transformers(family("llama"), beam_cache=False), PROMPTS["together"], **OPTIONS)
    monkeypatch.setenv("BEAMSPLIT_BEAM_CACHE", "0")
    decode(from_transformers(family("llama")), PROMPTS["together"], STRATEGIES["beams"], **OPTIONS)
    assert not ahead


def test_no_memory_is_set_aside_for_very_long_outputs(
    monkeypatch: pytest.MonkeyPatch, ahead: list[Runner]
) -> None:
    monkeypatch.setattr(fixing, "_MOST_STEPS", 10)
    for length, runs_ahead in ((12, False), (11, True)):
        door = from_transformers(family("llama"))
        decode(door, PROMPTS["together"], BeamSearch(beams=2), max_length=length, end=None)
        assert bool(ahead) is runs_ahead


def test_an_error_in_a_step_is_raised_and_leaves_the_model_as_it_was(
    monkeypatch: pytest.MonkeyPatch, launched: list[Runner]
) -> None:
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    model = copy.deepcopy(family("llama"))
    decode(from_transformers(model), PROMPTS["together"], STRATEGIES["beams"], **OPTIONS)

    def fail(*_: object) -> None:
        if fixed_attention.is_reading():
            raise ZeroDivisionError("on purpose")

    handle = model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        decode(from_transformers(model), PROMPTS["together"], STRATEGIES["beams"], **OPTIONS)
    handle.remove()
    assert model.config._attn_implementation == "sdpa"
    assert not fixed_attention.is_reading()
    assert_runs_ahead(monkeypatch, launched, model, PROMPTS["together"], STRATEGIES["beams"])
