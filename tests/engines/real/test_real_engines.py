"""Real engines give the lists that transformers gives in this process, wherever they are certified."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import (
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DiverseChunks,
    EngineError,
    LateBranching,
    NGram,
    Sampling,
    decode,
    decode_async,
)
from beamsplit.engines import connect, from_vllm
from beamsplit.model import Drawing
from engines.real.models import END, VOCABULARY

PROMPTS = [[1, 2, 3, 4, 5], [9, 8, 7, 6, 5], [60, 61, 200]]
LENGTH = 12
ROUNDING = 1e-3  # of sums of a dozen log-probabilities, computed in other orders
STRATEGIES = [
    BeamSearch(beams=5),
    DiverseBeamSearch(groups=18, strength=1.0),
    DiverseBeamSearch(groups=3, beams_per_group=4, strength=0.7),
    DiverseBeamSearch(groups=4, strength=1.0, schedule="staggered"),
    DiverseBeamSearch(groups=5, strength=1.0, diversity=Cumulative(temperature=2.0)),
    DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, diversity=NGram(n=2)),
    LateBranching(outputs=6),
    Sampling(samples=5, top_k=8),
]


def door(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from beamsplit.huggingface import from_transformers

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return from_transformers(AutoModelForCausalLM.from_pretrained(folder).eval(), tokenizer)


@pytest.fixture(scope="session")
def here(tiny: Path) -> Any:
    return door(tiny)


def assert_equal(found: Any, expected: Any) -> None:
    """Lists are equal, but for outputs that are as likely as each other within rounding."""
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.log_prob == pytest.approx(other.log_prob, abs=ROUNDING)
            is_close_call = any(
                each is not other and abs(each.score - other.score) < ROUNDING for each in theirs
            )
            assert mine.tokens == other.tokens or is_close_call


def each_alone(model: Any, strategy: Any, **options: Any) -> list[Any]:
    """Decode prompts one by one, without padding, and in lockstep, which is what transformers can do."""
    if isinstance(strategy, DiverseBeamSearch):
        strategy = replace(strategy, schedule="lockstep")
    return [
        decode(model, torch.tensor([prompt]), strategy, max_length=LENGTH, numbers=[number], **options)[0]
        for number, prompt in enumerate(PROMPTS)
    ]


ENGINES = ("vllm_server", "llama_server", "sglang_server")


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with connect(request.getfixturevalue(request.param), end=END, most=VOCABULARY) as model:
        yield model


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_an_engine_finds_what_transformers_finds(engine: Any, here: Any, strategy: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*lists of.*candidates")
        found = decode(engine, PROMPTS, strategy, max_length=LENGTH)
    expected = each_alone(here, strategy, end=END)
    if all(each.certified for list_ in found for each in list_):
        assert_equal(found, expected)
    else:  # a limit of 20 is not enough for every term
        assert not isinstance(strategy, BeamSearch)
        assert isinstance(getattr(strategy, "diversity", None), NGram)


CHUNKS = DiverseChunks(groups=3, proposals=4, chunk=4, top_k=8, top_p=None)


def assert_told_right(found: Any, here: Any) -> None:
    """Log-probabilities are the model's own, whatever samples were drawn by, and an end is the end."""
    for prompt, list_ in zip(PROMPTS, found, strict=True):
        assert [each.group for each in list_] == [0, 1, 2]
        assert len({each.tokens for each in list_}) > 1
        for each in list_:
            assert 1 <= len(each.tokens) <= LENGTH
            assert END not in each.tokens[:-1]
            assert each.finished == (each.tokens[-1] == END)
            whole = torch.tensor([[*prompt, *each.tokens]])
            with torch.no_grad():
                said = here.module(whole).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            expected = said.gather(1, torch.tensor(each.tokens).unsqueeze(1)).sum()
            assert each.log_prob == pytest.approx(float(expected), abs=ROUNDING)


def test_chunks(engine: Any, here: Any) -> None:
    """vLLM and llama.cpp draw them by themselves, and SGLang does so if it heeds seeds."""
    found, again = (decode(engine, PROMPTS, CHUNKS, max_length=LENGTH, seed=5) for _ in range(2))
    assert_told_right(found, here)
    assert [list(map(_tokens, each)) for each in found] == [list(map(_tokens, each)) for each in again]


@pytest.mark.parametrize("server", ["vllm_server", "llama_server"])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_each_round_is_drawn_at_once(
    server: str, temperature: float, here: Any, request: pytest.FixtureRequest
) -> None:
    """Tokens of the tiny model are bytes, so that llama.cpp takes most for parts of letters."""
    with connect(request.getfixturevalue(server), end=END) as model:
        assert model.draw is not None
        chunks = replace(CHUNKS, temperature=temperature, top_k=None, min_p=0.01)
        assert_told_right(decode(model, PROMPTS, chunks, max_length=LENGTH), here)
        assert model.usage.steps <= 1 + LENGTH // 4
        sentences = DiverseChunks(groups=3, proposals=4, longest=LENGTH, temperature=temperature)
        assert_told_right(decode(model, PROMPTS, sentences, max_length=LENGTH, seed=2), here)


@pytest.mark.parametrize("server", ["vllm_server", "llama_server"])
def test_chunks_are_drawn_from_the_models_distribution(
    server: str, here: Any, request: pytest.FixtureRequest
) -> None:
    """First tokens come as often as their probability says, after temperature and top_k, in that order."""
    prompt, count, temperature, top_k = PROMPTS[0], 400, 0.7, 4
    with torch.no_grad():
        logits = here.module(torch.tensor([prompt])).logits[0, -1]
    kept = (logits / temperature).topk(top_k)
    expected = dict(zip(kept.indices.tolist(), kept.values.softmax(-1).tolist(), strict=True))
    drawing = Drawing(
        count=count,
        seeds=(3,),
        most=(1,),
        ends=(END,),
        marks=(),
        least=1,
        temperature=temperature,
        top_k=top_k,
        top_p=None,
        min_p=None,
    )
    with connect(request.getfixturevalue(server), end=END) as model:
        assert model.draw is not None
        _, state = model.start([prompt])
        (chunks,) = model.draw(state, [0], [()], drawing)
    firsts = [chunk.tokens[0] for chunk in chunks]
    assert set(firsts) <= set(expected)
    for token, share in expected.items():  # within four standard errors
        assert firsts.count(token) / count == pytest.approx(share, abs=4 * (share / count) ** 0.5)


def _tokens(each: Any) -> tuple[int, ...]:
    return tuple(each.tokens)


def test_steps_are_few_and_none_is_asked_twice(engine: Any) -> None:
    before = engine.usage.steps
    decode(engine, PROMPTS, DiverseBeamSearch(groups=4, strength=1.0), max_length=LENGTH, end=None)
    assert engine.usage.steps - before == LENGTH


def test_searches_run_at_once(engine: Any) -> None:
    async def several() -> Any:
        strategies = BeamSearch(beams=3), DiverseBeamSearch(groups=4, strength=1.0)
        async with connect(engine.engine._client.url, end=END, most=VOCABULARY).asynchronous as model:
            return await asyncio.gather(
                *(decode_async(model, PROMPTS, strategy, max_length=LENGTH) for strategy in strategies)
            )

    beam, diverse = asyncio.run(several())
    assert_equal(beam, decode(engine, PROMPTS, BeamSearch(beams=3), max_length=LENGTH))
    assert_equal(
        diverse, decode(engine, PROMPTS, DiverseBeamSearch(groups=4, strength=1.0), max_length=LENGTH)
    )


# vLLM


def test_vllm_lists_twenty_and_that_is_said(vllm_server: str, here: Any) -> None:
    """19 groups need 20 candidates where nothing ends, and 21 with an end; 40 groups cannot be certified."""
    with connect(vllm_server) as model:
        assert model.end == [END]
        nineteen = DiverseBeamSearch(groups=19, strength=1.0)
        found = decode(model, PROMPTS, nineteen, max_length=LENGTH, end=None)
        assert all(each.certified for list_ in found for each in list_)
        assert_equal(found, each_alone(here, nineteen, end=None))
        with pytest.warns(UserWarning, match="lists of 20 candidates are too short"):
            found = decode(model, PROMPTS, DiverseBeamSearch(groups=40, strength=3.0), max_length=LENGTH)
        assert model.engine.most == 20
    assert not all(each.certified for list_ in found for each in list_)


def test_vllm_refuses_what_does_not_fit(vllm_server: str) -> None:
    with connect(vllm_server) as model:
        assert model.engine.longest == 256
        with pytest.raises(ArgumentError, match="more than the 256 that the engine takes"):
            decode(model, [[5] * 250], max_length=LENGTH)
        decode(model, [[5] * 250], BeamSearch(beams=1), max_length=6, end=None)  # to the last place
        with pytest.raises(EngineError, match="out of vocabulary"):
            decode(model, [[5, VOCABULARY]], max_length=LENGTH)


def test_vllm_writes_and_reads(vllm_server: str, here: Any) -> None:
    for tokenizer in (None, False):  # the one of the folder, and vLLM's own requests
        with connect(vllm_server, tokenizer=tokenizer) as model:
            found = decode(model, ["hello", "you"], BeamSearch(beams=3), max_length=LENGTH)
        expected = [
            decode(here, [text], BeamSearch(beams=3), max_length=LENGTH)[0] for text in ("hello", "you")
        ]
        assert_equal(found, expected)
        assert [each.text for each in found[0]] == [each.text for each in expected[0]]


def test_smollm_on_vllm(smollm_server: str, smollm: Path) -> None:
    """A real model: text in, text out, and answers of a chat."""
    here, prompt = door(smollm), "The best way to start the day is"
    with connect(smollm_server, tokenizer=False) as model:
        assert set(here.end) <= set(model.end or ())
        for strategy in (DiverseBeamSearch(groups=6, strength=1.0), BeamSearch(beams=6)):
            found = decode(model, [prompt], strategy, max_length=16)
            assert all(each.certified for each in found[0])
            assert_equal(found, decode(here, [prompt], strategy, max_length=16))
        question = "Suggest a name for a cat."
        theirs = here.chat(question, answers=4, max_length=12)
        ours = model.chat(question, answers=4, max_length=12)
    if all(each.certified for each in ours):
        assert_equal([ours], [theirs])


@pytest.fixture(scope="module")
def llm(tiny: Path) -> Any:
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1")
    import vllm

    return vllm.LLM(model=str(tiny), dtype="float32", max_model_len=256, enforce_eager=True)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_vllm_in_process_finds_what_transformers_finds(llm: Any, here: Any, strategy: Any) -> None:
    model = from_vllm(llm)
    assert model.end == [END]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*lists of.*candidates")
        found = decode(model, PROMPTS, strategy, max_length=LENGTH)
    if all(each.certified for list_ in found for each in list_):
        assert_equal(found, each_alone(here, strategy, end=END))
    else:
        assert isinstance(getattr(strategy, "diversity", None), NGram)


def test_vllm_in_process_draws_chunks(llm: Any, here: Any) -> None:
    model = from_vllm(llm, end=END)
    assert_told_right(decode(model, PROMPTS, CHUNKS, max_length=LENGTH, seed=5), here)
    assert model.usage.steps <= 1 + LENGTH // 4


def test_vllm_in_process_takes_texts(llm: Any, here: Any) -> None:
    (found,) = decode(from_vllm(llm), ["hello"], BeamSearch(beams=3), max_length=LENGTH)
    (expected,) = decode(here, ["hello"], BeamSearch(beams=3), max_length=LENGTH)
    assert [each.text for each in found] == [each.text for each in expected]


def test_what_is_no_llm_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"llm must be a vllm.LLM, not 'tiny'"):
        from_vllm("tiny")
