"""Chunk-wise search on engines: where one draws chunks by itself, each group's proposals are one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from beamsplit import DiverseChunks, EngineError, decode, decode_async
from beamsplit.engines import EngineModel, Patience, connect
from engines.serving import END, InProcess, Server, changed, log_probs, status

PROMPTS = [[5, 7, 9], [9, 8, 1]]
GROUPS, PROPOSALS = 3, 4
STRATEGY = DiverseChunks(groups=GROUPS, proposals=PROPOSALS, chunk=3, top_p=None, top_k=8)
SENTENCES = DiverseChunks(groups=GROUPS, proposals=PROPOSALS, longest=9)
OPTIONS: dict[str, Any] = {"max_length": 8, "seed": 4}
QUICK = Patience(first_wait=0.01, longest_wait=0.05, tries=3)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("vllm") as made:
        yield made


@pytest.fixture
def model(server: Server) -> Iterator[EngineModel]:
    with connect(server.url, end=END, patience=QUICK) as made:
        yield made


def orders(server: Server) -> list[Any]:
    return [body for body in server.asked if "n" in body]


def tokens_of(lists: Any) -> list[list[tuple[int, ...]]]:
    return [[each.tokens for each in found] for found in lists]


def test_each_group_asks_once_a_round(server: Server, model: EngineModel) -> None:
    found = decode(model, PROMPTS, STRATEGY, **OPTIONS)
    longest = max(len(each.tokens) for list_ in found for each in list_)
    asked = orders(server)
    assert len(asked) <= len(PROMPTS) * GROUPS * -(-longest // 3)
    assert all(body["n"] == PROPOSALS for body in asked)
    assert len(server.asked) == len(asked) + 1, "one request more, which starts"
    assert len({body["seed"] for body in asked}) == len(asked)
    assert Counter(tuple(body["prompt"]) for body in asked[: len(PROMPTS) * GROUPS]) == {
        tuple(prompt): GROUPS for prompt in PROMPTS
    }


def test_what_is_told_of_outputs_is_the_models_own(model: EngineModel) -> None:
    for prompt, found in zip(PROMPTS, decode(model, PROMPTS, STRATEGY, **OPTIONS), strict=True):
        assert [each.group for each in found] == list(range(GROUPS))
        for each in found:
            said = [(*prompt, *each.tokens[:place]) for place in range(len(each.tokens))]
            whole = sum(
                float(log_probs(tuple(before))[token])
                for before, token in zip(said, each.tokens, strict=True)
            )
            assert each.log_prob == pytest.approx(whole, abs=1e-4)
            assert each.finished == (each.tokens[-1] == END)
            assert len(each.tokens) <= 8
            assert each.certified


def test_the_same_seed_gives_the_same_lists(model: EngineModel) -> None:
    first, again, other = (
        tokens_of(decode(model, PROMPTS, STRATEGY, max_length=8, seed=seed)) for seed in (4, 4, 5)
    )
    assert first == again != other
    alone = tokens_of(decode(model, PROMPTS[1:], STRATEGY, numbers=[1], **OPTIONS))
    assert alone == first[1:], "an input does not depend on its batch"
    fewer = tokens_of(decode(model, PROMPTS, DiverseChunks(**{**vars(STRATEGY), "groups": 2}), **OPTIONS))
    assert fewer == [found[:2] for found in first], "no group depends on a later one"


def test_settings_of_samples_are_the_engines(server: Server, model: EngineModel) -> None:
    strategy = DiverseChunks(groups=1, proposals=2, temperature=0.6, top_p=0.9, top_k=5, min_p=0.1)
    decode(model, PROMPTS[:1], strategy, max_length=7)
    body = orders(server)[0]
    settings = {name: body[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens")}
    assert settings == {"temperature": 0.6, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "max_tokens": 7}
    assert (body["stop_token_ids"], body["ignore_eos"]) == ([END], True)
    assert body["stop"] == [".", "!", "?", "\n"]  # more would be refused
    decode(model, PROMPTS[:1], STRATEGY, **OPTIONS)
    assert "stop" not in orders(server)[-1]
    assert "top_p" not in orders(server)[-1]


def test_no_request_asks_for_more_than_is_left(server: Server, model: EngineModel) -> None:
    decode(model, PROMPTS, STRATEGY, **OPTIONS)
    for body in orders(server):
        assert body["max_tokens"] == min(3, 8 - (len(body["prompt"]) - 3))


@pytest.mark.parametrize("full_stop", [".", "。"])
def test_outputs_are_made_of_sentences(server: Server, model: EngineModel, full_stop: str) -> None:
    """Whether the engine knows where a sentence ends or not."""
    server.full_stops, server.full_stop = frozenset(range(10, 40)), full_stop
    found = decode(model, PROMPTS, SENTENCES, max_length=24, seed=1)
    prompts = {tuple(body["prompt"]) for body in orders(server) if body["n"] == PROPOSALS}
    assert any(len(each.tokens) > 12 for list_ in found for each in list_)
    for prompt, list_ in zip(PROMPTS, found, strict=True):
        for each in list_:
            said = tuple(prompt)
            for chunk in cut(each.tokens, server.full_stops)[:-1]:
                said += chunk
                assert said in prompts, "each chunk that is chosen is gone on with"


def test_a_mark_too_early_is_gone_on_with(server: Server, model: EngineModel) -> None:
    """A sentence has four tokens at least: the engine stops at any full stop, and is asked to go on."""
    server.full_stops = frozenset(range(10, 40))
    found = decode(model, PROMPTS, SENTENCES, max_length=24, seed=1)
    short = [body for body in orders(server) if body["n"] == 1]
    assert short, "some chunk came to a full stop early"
    starts = {tuple(prompt) for prompt in PROMPTS}
    for body in short:
        assert tuple(body["prompt"]) not in starts
    chunks = [cut(each.tokens, server.full_stops) for list_ in found for each in list_]
    assert all(len(chunk) >= 4 for of_output in chunks for chunk in of_output[:-1])


def cut(tokens: tuple[int, ...], stops: frozenset[int]) -> list[tuple[int, ...]]:
    """Cut an output into sentences by hand: of four tokens to nine."""
    chunks: list[tuple[int, ...]] = [()]
    for token in tokens:
        chunks[-1] += (token,)
        if (token in stops and len(chunks[-1]) >= 4) or len(chunks[-1]) == 9:
            chunks.append(())
    return chunks if chunks[-1] else chunks[:-1] or [()]


def test_it_may_be_awaited(model: EngineModel) -> None:
    async def search() -> Any:
        try:
            return await decode_async(model.asynchronous, PROMPTS, STRATEGY, **OPTIONS)
        finally:
            await model.asynchronous.aclose()

    found = asyncio.run(search())
    assert tokens_of(found) == tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))


@pytest.mark.parametrize("kind", ["sglang", "llama.cpp", "texts"])
def test_engines_that_cannot_are_asked_token_by_token(kind: str) -> None:
    with Server(kind) as server:
        ends = {"texts": " 2"}.get(kind, END)
        with connect(server.url, kind=kind, end=ends, tokenizer=Reading()) as model:  # type: ignore[arg-type]
            assert model.draw is None
            prompts = [" ".join(map(str, prompt)) for prompt in PROMPTS] if kind == "texts" else PROMPTS
            with (
                pytest.warns(UserWarning, match="certified") if kind == "texts" else nullcontext()
            ):  # nothing is certified
                found = decode(model, prompts, STRATEGY, **OPTIONS)
    assert [len(list_) for list_ in found] == [GROUPS] * 2
    if kind != "texts":
        here = decode(InProcess(reads=True), PROMPTS, STRATEGY, end=END, **OPTIONS)
        assert tokens_of(found) == tokens_of(here)


class Reading:
    """A tokenizer as those of transformers, for an engine that has none."""

    eos_token_id = END
    chat_template = None

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [int(each) for each in text.split()]}

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(each) for each in text.split()]

    def decode(self, tokens: Any, **_: Any) -> str:
        return " ".join(str(token) for token in tokens if token != END)


def test_what_cannot_be_left_to_the_engine_is_asked_token_by_token(
    server: Server, model: EngineModel
) -> None:
    strategy = DiverseChunks(groups=2, proposals=2, chunk=3, propose="beams")
    decode(model, PROMPTS, strategy, max_length=4)
    assert not orders(server)


def of_choice(name: str, value: Any) -> Any:
    def change(found: Any) -> Any:
        for choice in found["choices"]:
            choice["logprobs"][name] = value
        return found

    return changed(change)


def filled(value: Any) -> Any:
    """Give every token this log-probability."""

    def change(found: Any) -> Any:
        for choice in found["choices"]:
            told = choice["logprobs"]
            told["token_logprobs"] = [value] * len(told["tokens"])
        return found

    return changed(change)


FAULTS: dict[str, tuple[Any, str]] = {
    "too few": (changed(lambda found: {"choices": found["choices"][1:]}), "drew 3 chunks .* asked for 4"),
    "no choices": (changed(lambda found: {}), "no 'choices'"),
    "by text": (of_choice("tokens", [" 5"]), "tokens and told|not by its id"),
    "values missing": (of_choice("token_logprobs", [-1.0]), "3 tokens and told 1"),
    "not a number": (filled(float("nan")), "log-probability nan"),
    "logits": (filled(7.5), "log-probability 7.5"),
    "no values": (of_choice("token_logprobs", None), "no 'token_logprobs'"),
    "null": (filled(None), "log-probability None"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_wrong_answers_are_errors(server: Server, model: EngineModel, name: str) -> None:
    fault, said = FAULTS[name]

    def when_drawing(handler: Any, found: Any) -> Any:
        is_drawn = "tokens" in found["choices"][0]["logprobs"]
        return fault(handler, found) if is_drawn else found

    server.always = when_drawing
    with pytest.raises(EngineError, match=said):
        decode(model, PROMPTS, DiverseChunks(**{**vars(STRATEGY), "chunk": 3}), max_length=3, seed=2)


def test_a_failure_is_tried_again(server: Server, model: EngineModel) -> None:
    expected = tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))
    server.faults.extend([status(503)] * 2)
    assert tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS)) == expected


def test_usage_counts_what_was_asked(model: EngineModel) -> None:
    decode(model, PROMPTS, STRATEGY, max_length=6)
    assert model.usage.steps == 3, "a start and two rounds"
    orders = model.usage.prefixes - len(PROMPTS)
    assert len(PROMPTS) * GROUPS < orders <= 2 * len(PROMPTS) * GROUPS
