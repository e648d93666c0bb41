"""What can be told on a GPU alone, against the same GPU's results step by step. `scripts/test-gpu` runs it.

BEAMSPLIT_TEST_DEVICE=cpu lets it run on a processor, to see that the tests themselves work.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    Hamming,
    Hypotheses,
    LengthNormalised,
    NGram,
    decode,
)
from beamsplit.huggingface import carrying, from_transformers, prefilling
from beamsplit.search.ahead.runner import Runner
from beamsplit.search.ahead.stepping import Stepping
from beamsplit.search.capturing import Repeated
from beamsplit.testing import MarkovModel, PrefixHashModel
from huggingface.models import EOS, OLD, case
from huggingface.test_beam_cache import _DECODERS, _WITH_ENCODER, family, prompts
from models import shipped
from search.test_ahead import Remembering, counted

DEVICE = os.environ.get("BEAMSPLIT_TEST_DEVICE", "cuda")

if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("there is no GPU here: these tests are of CUDA", allow_module_level=True)

STRATEGIES: dict[str, Any] = {
    "beams": BeamSearch(beams=3),
    "groups": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7),
    "alone": DiverseBeamSearch(groups=5, strength=0.7),
}
STEPPED = ["marian", "bart", "whisper", *([] if OLD else ["captioner", "t5", "qwen2_vl"]), "llava"]
BEAMS = pytest.mark.parametrize("strategy", STRATEGIES)


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Step by step, with products of float32 in float32; on a processor, short prompts are like long ones."""
    monkeypatch.setattr(carrying, "LEAST_ON_CPU", 0)
    for name in ("BEAMSPLIT_GRAPHS", "BEAMSPLIT_BEAM_CACHE"):
        monkeypatch.setenv(name, "0")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def _launches(monkeypatch: pytest.MonkeyPatch) -> list[Runner]:
    """Grows with every step ahead. None of them may wait for the GPU, but for those that make graphs."""
    calls: list[Runner] = []
    launch = Runner.launch

    def noted(self: Runner) -> None:
        if DEVICE == "cuda" and self in calls:
            torch.cuda.set_sync_debug_mode("error")
        try:
            launch(self)
        finally:
            if DEVICE == "cuda":
                torch.cuda.set_sync_debug_mode("default")
        calls.append(self)

    monkeypatch.setattr(Runner, "launch", noted)
    return calls


def _on_device(inputs: Any) -> Any:
    return {name: value.to(DEVICE) for name, value in inputs.items()}


def _model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    return copy.deepcopy(family(name)).to(device=DEVICE, dtype=dtype)


def _assert_same(found: list[Hypotheses], expected: list[Hypotheses], close: float = 1e-3) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], abs=close)


def _assert_same_ahead(
    monkeypatch: pytest.MonkeyPatch, model: Any, inputs: Any, strategy: Any, **options: Any
) -> None:
    """The same is found step by step and, twice, ahead: the second time with what was kept."""
    expected = decode(model, inputs, strategy, **options)
    launched = _launches(monkeypatch)
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    monkeypatch.delenv("BEAMSPLIT_BEAM_CACHE")
    for _ in range(2):
        before = len(launched)
        _assert_same(decode(model, inputs, strategy, **options), expected)
        assert len(launched) > before, "it has gone step by step"


# Graphs


def test_what_is_captured_is_done_again_in_the_same_memory() -> None:
    given = torch.zeros(3, device=DEVICE)
    calls: list[None] = []

    def double() -> Tensor:
        calls.append(None)
        return given * 2

    repeated = Repeated(double, torch.device(DEVICE))
    made = len(calls)
    places = set()
    for value in (1.0, 2.0, 3.0):
        given.fill_(value)
        result = repeated()
        assert result.tolist() == [2 * value] * 3
        places.add(result.data_ptr())
    if DEVICE == "cuda":
        assert repeated.is_captured
        assert len(calls) == made
        assert len(places) == 1


# Searches


@BEAMS
@pytest.mark.parametrize("scorer", [None, LengthNormalised(alpha=0.7), LengthNormalised(stop="first")])
@pytest.mark.parametrize("width", [None, 1])
def test_models_without_layers(
    monkeypatch: pytest.MonkeyPatch, strategy: str, scorer: Any, width: int | None
) -> None:
    options = {"max_length": 12, "end": [2, 5], "scorer": scorer, "list_width": width}
    inputs = torch.tensor([3, 1, 4, 1, 5], device=DEVICE)
    _assert_same_ahead(monkeypatch, PrefixHashModel(20, seed=2), inputs, STRATEGIES[strategy], **options)


@BEAMS
def test_steps_that_are_not_certain(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    wanted = torch.randn(60, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    model = MarkovModel(wanted.expand(60, 60))
    many = DiverseBeamSearch(groups=12, strength=5.0) if strategy == "groups" else STRATEGIES[strategy]
    _assert_same_ahead(monkeypatch, model, [1, 2], many, max_length=9, end=None)


@pytest.mark.parametrize(
    ("groups", "beams", "strength"), [(1, 256, 0.0), (1, 40, 0.0), (4, 36, 0.8), (16, 16, 0.5)]
)
@pytest.mark.parametrize("vocabulary", [300, 3_000])
def test_wide_groups(
    monkeypatch: pytest.MonkeyPatch, groups: int, beams: int, strength: float, vocabulary: int
) -> None:
    """Whose choice is sorted, from lists that a kernel may not make alone."""
    strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=strength)
    inputs = torch.tensor([3, 1], device=DEVICE)
    for end in (None, [2, 5]):
        model = PrefixHashModel(vocabulary, seed=2)
        with monkeypatch.context() as here:
            _assert_same_ahead(here, model, inputs, strategy, max_length=5, end=end)


@BEAMS
def test_states_of_several_parts(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    model: Any = Remembering()
    model.table = model.table.to(DEVICE)
    start = model.start
    model.start = lambda inputs: torch.utils._pytree.tree_map(lambda each: each.to(DEVICE), start(inputs))
    _assert_same_ahead(monkeypatch, model, [3, 1, 4], STRATEGIES[strategy], max_length=12, end=3)


@BEAMS
@pytest.mark.parametrize("name", ["en-fr", "captioner", "questioner"])
def test_models_that_ship(monkeypatch: pytest.MonkeyPatch, name: str, strategy: str) -> None:
    model, inputs = copy.deepcopy(shipped.model(name)).to(DEVICE), shipped.inputs(name)
    inputs = inputs.to(DEVICE) if isinstance(inputs, Tensor) else inputs
    _assert_same_ahead(monkeypatch, model, inputs, STRATEGIES[strategy], max_length=20)


@BEAMS
@pytest.mark.parametrize("lengths", [(9, 9), (70, 5, 33)], ids=str)
@pytest.mark.parametrize("name", [*_DECODERS, *([] if OLD else ["gpt_oss"])])
def test_decoders(
    monkeypatch: pytest.MonkeyPatch, name: str, lengths: tuple[int, ...], strategy: str
) -> None:
    inputs = _on_device(prompts(*lengths))
    door = from_transformers(_model(name))
    _assert_same_ahead(monkeypatch, door, inputs, STRATEGIES[strategy], max_length=24, end=[EOS, 7])


@BEAMS
@pytest.mark.parametrize("name", STEPPED)
def test_encoders_and_pictures(monkeypatch: pytest.MonkeyPatch, name: str, strategy: str) -> None:
    inputs, door = _on_device(case(name).inputs), from_transformers(_model(name))
    _assert_same_ahead(monkeypatch, door, inputs, STRATEGIES[strategy], max_length=24, end=EOS)


@pytest.mark.parametrize("strategy", ["beams", "groups"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_compiled_steps(monkeypatch: pytest.MonkeyPatch, name: str, strategy: str) -> None:
    if DEVICE != "cuda":
        pytest.skip("a compiler is not needed on a processor")
    monkeypatch.setenv("BEAMSPLIT_COMPILE", "1")
    inputs, door = _on_device(prompts(70, 5, 33)), from_transformers(_model(name))
    _assert_same_ahead(monkeypatch, door, inputs, STRATEGIES[strategy], max_length=24, end=EOS)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
def test_compiled_prompts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if DEVICE != "cuda":
        pytest.skip("a compiler is not needed on a processor")
    model = _model(name)
    inputs, door = _on_device(prompts(33, 33)), from_transformers(model)
    monkeypatch.setenv("BEAMSPLIT_COMPILE", "1")
    _assert_same_ahead(monkeypatch, door, inputs, STRATEGIES["groups"], max_length=12, end=EOS)
    again = decode(door, inputs, STRATEGIES["groups"], max_length=12, end=EOS)
    _assert_same(decode(door, inputs, STRATEGIES["groups"], max_length=12, end=EOS), again)
    assert model in prefilling._proven


@pytest.mark.parametrize(
    ("term", "options"),
    [
        (Cumulative(), {}),
        (NGram(n=2), {"no_repeat_ngram": 3}),
        (Hamming(), {"min_length": 3, "unique": True}),
    ],
    ids=["cumulative", "ngram", "hamming"],
)
def test_other_searches_take_captured_steps(
    monkeypatch: pytest.MonkeyPatch, term: Any, options: dict[str, Any]
) -> None:
    door, inputs = from_transformers(_model("llama")), _on_device(prompts(70, 5, 33))
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, diversity=term)
    expected = decode(door, inputs, strategy, max_length=16, end=EOS, **options)
    taken = counted(monkeypatch, "answer", of=Stepping)
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    monkeypatch.delenv("BEAMSPLIT_BEAM_CACHE")
    for _ in range(2):
        _assert_same(decode(door, inputs, strategy, max_length=16, end=EOS, **options), expected)
    assert taken


@BEAMS
@pytest.mark.parametrize("name", [*_DECODERS, *_WITH_ENCODER])
def test_caches_for_beams(monkeypatch: pytest.MonkeyPatch, name: str, strategy: str) -> None:
    door = from_transformers(_model(name))
    inputs = _on_device(prompts(70, 5, 33) if name in _DECODERS else case(name).inputs)
    options: Any = {"max_length": 24, "end": EOS}
    expected = decode(door, inputs, STRATEGIES[strategy], **options)
    monkeypatch.setenv("BEAMSPLIT_BEAM_CACHE", "1")
    _assert_same(decode(door, inputs, STRATEGIES[strategy], **options), expected)


@pytest.mark.usefixtures("without_onednn")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("switch", ["BEAMSPLIT_GRAPHS", "BEAMSPLIT_BEAM_CACHE"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2"])
def test_in_half_precision_lists_are_as_likely_but_for_rounding(
    monkeypatch: pytest.MonkeyPatch, name: str, switch: str, dtype: torch.dtype
) -> None:
    """Judged by the same model in float32 on whole sequences: no list is worse than rounding explains."""
    exact, rounded, inputs = _model(name), _model(name, dtype), _on_device(prompts(70))
    options: Any = {"max_length": 12, "end": None}

    def likelihood(tokens: tuple[int, ...]) -> float:
        ids = torch.cat([inputs["input_ids"], torch.tensor([tokens], device=DEVICE)], dim=1)
        with torch.no_grad():
            log_prob = exact(input_ids=ids).logits[0, -len(tokens) - 1 : -1].log_softmax(-1)
        return float(log_prob[range(len(tokens)), list(tokens)].sum())

    rounding = 12 * 40 * torch.finfo(dtype).eps  # logits of up to 40, each off by a unit in the last place
    means = []
    for value in ("0", "1"):
        monkeypatch.setenv("BEAMSPLIT_BEAM_CACHE", "0")
        if value == "1":
            monkeypatch.delenv("BEAMSPLIT_BEAM_CACHE")
            monkeypatch.setenv(switch, "1")
        (found,) = decode(from_transformers(rounded), inputs, STRATEGIES["beams"], **options)
        judged = [likelihood(h.tokens) for h in found]
        assert [h.log_prob for h in found] == pytest.approx(judged, abs=rounding)
        means.append(sum(judged) / len(judged))
    assert means[1] >= means[0] - rounding


def test_two_threads_may_search_with_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model("gemma3")
    inputs = [_on_device(prompts(*lengths)) for lengths in ((9, 9), (70, 5, 33))] * 2
    options: Any = {"max_length": 24, "end": EOS}
    expected = [decode(from_transformers(model), each, STRATEGIES["groups"], **options) for each in inputs]
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    monkeypatch.delenv("BEAMSPLIT_BEAM_CACHE")
    found: dict[int, Any] = {}

    def search(number: int) -> None:
        found[number] = decode(from_transformers(model), inputs[number], STRATEGIES["groups"], **options)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, theirs in enumerate(expected):
        _assert_same(found[number], theirs)
