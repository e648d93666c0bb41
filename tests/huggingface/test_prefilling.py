"""Prompts that a compiler reads are as the model reads them. Here it only traces, and compiles nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from beamsplit import DiverseBeamSearch, Hypotheses, decode
from beamsplit.huggingface import compiling, fixing, from_transformers, prefilling
from huggingface.models import OLD
from huggingface.test_beam_cache import family, prompts

pytestmark = pytest.mark.skipif(OLD, reason="transformers 4 has no prefill of its own to take the place of")

STRATEGY = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7)


@pytest.fixture(autouse=True)
def traced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Compile on a processor too, and note the shapes of prompts that what was compiled has read."""
    shapes: list[tuple[int, ...]] = []
    made = torch.compile(prefilling._read, backend="aot_eager", dynamic=False, fullgraph=True)

    def noted(model: Any, arguments: Any, last: Any) -> Any:
        shapes.append(tuple(arguments["input_ids"].shape))
        return made(model, arguments, last)

    torch._dynamo.reset()  # there is a limit to what it keeps
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    monkeypatch.setattr(compiling, "are_wanted", lambda device: True)
    monkeypatch.setattr(prefilling, "_compiled", lambda: noted)
    monkeypatch.setattr(fixing, "_compiled", lambda: fixing._call)
    for known in (prefilling._proven, prefilling._given_up, compiling._shapes):
        known.clear()
    return shapes


def found(name: str, *lengths: int, times: int = 1) -> list[Hypotheses]:
    door = from_transformers(family(name))
    for _ in range(times):
        result = decode(door, prompts(*lengths), STRATEGY, max_length=6, end=None)
    return result


def without_compiler(monkeypatch: pytest.MonkeyPatch, name: str, *lengths: int) -> list[Hypotheses]:
    with monkeypatch.context() as here:
        here.setattr(compiling, "are_wanted", lambda device: False)
        return found(name, *lengths)


def assert_same(ours: list[Hypotheses], theirs: list[Hypotheses]) -> None:
    for each, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in each] == [h.tokens for h in other]
        assert [h.log_prob for h in each] == pytest.approx([h.log_prob for h in other], abs=1e-4)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("lengths", [(9, 9), (33,)], ids=str)
def test_prompts_are_read_as_the_model_reads_them(
    monkeypatch: pytest.MonkeyPatch, traced: list[Any], name: str, lengths: tuple[int, ...]
) -> None:
    expected = without_compiler(monkeypatch, name, *lengths)
    assert_same(found(name, *lengths, times=2), expected)
    longer = {9: 16, 33: 48}[lengths[0]]
    assert traced
    assert set(traced) == {(len(lengths), longer)}


@pytest.mark.parametrize(("name", "lengths"), [("llama", (9, 4)), ("mistral", (9, 9)), ("gemma2", (9,))])
def test_padding_and_windows_are_left_to_the_model(
    monkeypatch: pytest.MonkeyPatch, traced: list[Any], name: str, lengths: tuple[int, ...]
) -> None:
    assert_same(found(name, *lengths, times=2), without_compiler(monkeypatch, name, *lengths))
    assert not traced


def test_a_model_that_cannot_be_compiled_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(prefilling, "_compiled", lambda: fail)
    expected = without_compiler(monkeypatch, "llama", 9, 9)
    with caplog.at_level(logging.INFO, "beamsplit.huggingface"):
        assert_same(found("llama", 9, 9, times=3), expected)
    said = [line for line in caplog.messages if "without a compiler" in line]
    assert said == ["LlamaForCausalLM reads prompts without a compiler: RuntimeError: no such operator"]


def test_what_is_compiled_wrongly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: Any) -> Any:
        logits, read = prefilling._read(*args)
        return logits + torch.arange(logits.shape[2]), read

    monkeypatch.setattr(prefilling, "_compiled", lambda: wrong)
    expected = without_compiler(monkeypatch, "qwen3", 9, 9)
    assert_same(found("qwen3", 9, 9, times=2), expected)
    assert family("qwen3") in prefilling._given_up


def test_only_so_many_shapes_are_compiled(
    monkeypatch: pytest.MonkeyPatch, traced: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "MOST", 3)
    with caplog.at_level(logging.INFO, "beamsplit.huggingface"):
        for length in (9, 20, 40, 60):
            found("llama", length, times=2)
    assert len(set(traced)) < 4
    told = [line for line in caplog.messages if line.startswith("compiled")]
    assert told[-1].endswith("(3 of at most 3)")
    assert len(told) == 3
