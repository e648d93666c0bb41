"""Chunk-wise search on engines: where one draws chunks by itself, each group's proposals are one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest

from beamsplit import DiverseChunks, EngineError, decode, decode_async
from beamsplit.engines import EngineModel, Patience, connect, remote
from beamsplit.engines.drawing import align
from engines.serving import END, InProcess, Server, changed, detokenize, log_probs, status

PROMPTS = [[5, 7, 9], [9, 8, 1]]
GROUPS, PROPOSALS = 3, 4
STRATEGY = DiverseChunks(groups=GROUPS, proposals=PROPOSALS, chunk=3, top_p=None, top_k=8)
SENTENCES = DiverseChunks(groups=GROUPS, proposals=PROPOSALS, longest=9)
OPTIONS: dict[str, Any] = {"max_length": 8, "seed": 4}
QUICK = Patience(first_wait=0.01, longest_wait=0.05, tries=3)


DRAWING = ("vllm", "sglang", "llama.cpp")
every_engine = pytest.mark.parametrize("server", DRAWING, indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """vLLM, unless a test names another."""
    with Server(getattr(request, "param", "vllm"), at_once=True) as made:
        yield made


@pytest.fixture
def model(server: Server) -> Iterator[EngineModel]:
    with connect(server.url, end=END, patience=QUICK, tokenizer=reader_of(server)) as made:
        yield made


def reader_of(server: Server) -> Any:
    """SGLang reads nothing to its users."""
    return Reading(server) if server.kind == "sglang" else None


class Order(NamedTuple):
    """A request for chunks, whatever the language."""

    prompt: tuple[int, ...]
    chunks: int
    seeds: tuple[int, ...]
    most: int


def orders(server: Server) -> list[Order]:
    read = {"vllm": _vllm_order, "sglang": _sglang_order, "llama.cpp": _llama_order}[server.kind]
    return [order for order in map(read, server.asked) if order is not None]


def _vllm_order(body: Any) -> Order | None:
    if "n" not in body:
        return None
    return Order(tuple(body["prompt"]), body["n"], (body["seed"],), body["max_tokens"])


def _sglang_order(body: Any) -> Order | None:
    settings = body["sampling_params"]
    if not isinstance(settings, list):
        return None
    assert len(set(map(tuple, body["input_ids"]))) == 1
    seeds = tuple(each["sampling_seed"] for each in settings)
    return Order(tuple(body["input_ids"][0]), len(settings), seeds, settings[0]["max_new_tokens"])


def _llama_order(body: Any) -> Order | None:
    if "seed" not in body:
        return None
    return Order(tuple(body["prompt"]), 1, (body["seed"],), body["n_predict"])


def tokens_of(lists: Any) -> list[list[tuple[int, ...]]]:
    return [[each.tokens for each in found] for found in lists]


@every_engine
def test_each_group_asks_once_a_round(server: Server, model: EngineModel) -> None:
    """llama.cpp is asked for each proposal, and SGLang also for what it has told after temperature."""
    found = decode(model, PROMPTS, STRATEGY, **OPTIONS)
    longest = max(len(each.tokens) for list_ in found for each in list_)
    asked, alone = orders(server), PROPOSALS if server.kind == "llama.cpp" else 1
    assert len(asked) <= len(PROMPTS) * GROUPS * -(-longest // 3) * alone
    assert all(order.chunks == PROPOSALS // alone for order in asked)
    scored = len(asked) if server.kind == "sglang" else 0
    assert len(server.asked) == len(asked) + scored + 1, "one request more, which starts"
    seeds = [seed for order in asked for seed in order.seeds]
    assert len(set(seeds)) == len(seeds)
    first = len(PROMPTS) * GROUPS * alone
    assert Counter(order.prompt for order in asked[:first]) == {
        tuple(prompt): GROUPS * alone for prompt in PROMPTS
    }


@every_engine
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_what_is_told_of_outputs_is_the_models_own(model: EngineModel, temperature: float) -> None:
    strategy = DiverseChunks(**{**vars(STRATEGY), "temperature": temperature})
    assert_told_right(decode(model, PROMPTS, strategy, **OPTIONS))


def assert_told_right(lists: Any) -> None:
    assert_told_right_of(lists)
    for found in lists:
        assert [each.group for each in found] == list(range(GROUPS))
        for each in found:
            assert each.finished == (each.tokens[-1] == END)
            assert len(each.tokens) <= 8
            assert each.certified


@every_engine
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
    body = bodies(server)[0]
    settings = {name: body[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens")}
    assert settings == {"temperature": 0.6, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "max_tokens": 7}
    assert (body["stop_token_ids"], body["ignore_eos"]) == ([END], True)
    assert body["stop"] == [".", "!", "?", "\n"]  # more would be refused
    decode(model, PROMPTS[:1], STRATEGY, **OPTIONS)
    assert "stop" not in bodies(server)[-1]
    assert "top_p" not in bodies(server)[-1]


def bodies(server: Server) -> list[Any]:
    return [body for body in server.asked if "n" in body]


@pytest.mark.parametrize("server", ["sglang"], indirect=True)
def test_settings_of_samples_are_sglangs(server: Server, model: EngineModel) -> None:
    strategy = DiverseChunks(groups=1, proposals=2, temperature=0.6, top_p=0.9, top_k=5, min_p=0.1)
    decode(model, PROMPTS[:1], strategy, max_length=7)
    first, second = server.asked[1]["sampling_params"]
    assert first.pop("sampling_seed") != second.pop("sampling_seed")
    assert first == second
    assert first.pop("stop")[:4] == [".", "!", "?", "\n"], "as many as there are"
    assert first == {
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 5,
        "min_p": 0.1,
        "max_new_tokens": 7,
        "stop_token_ids": [END],  # which it would pass over with ignore_eos
        "no_stop_trim": True,
        "skip_special_tokens": False,
    }


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
def test_settings_of_samples_are_llama_cpps(server: Server, model: EngineModel) -> None:
    strategy = DiverseChunks(groups=1, proposals=1, temperature=0.6, top_p=0.9, top_k=5, min_p=0.1)
    decode(model, PROMPTS[:1], strategy, max_length=7)
    body = next(body for body in server.asked if "seed" in body)
    assert body["samplers"] == ["temperature", "top_k", "min_p", "top_p"]
    settings = {name: body[name] for name in ("temperature", "top_p", "top_k", "min_p", "n_predict")}
    assert settings == {"temperature": 0.6, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "n_predict": 7}
    assert (body["return_tokens"], body["n_probs"], body["post_sampling_probs"]) == (True, 1, False)
    assert (body["mirostat"], body["dynatemp_range"]) == (0, 0), "whatever the server was started with"
    decode(model, PROMPTS[:1], STRATEGY, **OPTIONS)
    assert server.asked[-1]["samplers"] == ["temperature", "top_k"]


@every_engine
def test_no_request_asks_for_more_than_is_left(server: Server, model: EngineModel) -> None:
    decode(model, PROMPTS, STRATEGY, **OPTIONS)
    for order in orders(server):
        assert order.most == min(3, 8 - (len(order.prompt) - 3))


@every_engine
@pytest.mark.parametrize("full_stop", [".", "。"])
def test_outputs_are_made_of_sentences(server: Server, model: EngineModel, full_stop: str) -> None:
    """Whether the engine knows where a sentence ends or not."""
    server.full_stops, server.full_stop = frozenset(range(10, 40)), full_stop
    found = decode(model, PROMPTS, SENTENCES, max_length=24, seed=1)
    prompts = {order.prompt for order in orders(server)}
    assert_told_right_of(found)
    assert any(len(each.tokens) > 12 for list_ in found for each in list_)
    for prompt, list_ in zip(PROMPTS, found, strict=True):
        for each in list_:
            said = tuple(prompt)
            for chunk in cut(each.tokens, server.full_stops)[:-1]:
                said += chunk
                assert said in prompts, "each chunk that is chosen is gone on with"


@every_engine
def test_a_mark_too_early_is_gone_on_with(server: Server, model: EngineModel) -> None:
    """A sentence has four tokens at least: the engine stops at any full stop, and is asked to go on."""
    server.full_stops = frozenset(range(10, 40))
    found = decode(model, PROMPTS, SENTENCES, max_length=24, seed=1)
    starts = {tuple(prompt) for prompt in PROMPTS}
    if server.kind != "llama.cpp":  # whose requests are all for one chunk
        short = [order for order in orders(server) if order.chunks == 1]
        assert short, "some chunk came to a full stop early"
        assert all(order.prompt not in starts for order in short)
    chunks = [cut(each.tokens, server.full_stops) for list_ in found for each in list_]
    assert all(len(chunk) >= 4 for of_output in chunks for chunk in of_output[:-1])


def assert_told_right_of(lists: Any) -> None:
    """Log-probabilities are the model's own."""
    for prompt, found in zip(PROMPTS, lists, strict=True):
        for each in found:
            said = [(*prompt, *each.tokens[:place]) for place in range(len(each.tokens))]
            whole = sum(
                float(log_probs(before)[token]) for before, token in zip(said, each.tokens, strict=True)
            )
            assert each.log_prob == pytest.approx(whole, abs=1e-4)


def cut(tokens: tuple[int, ...], stops: frozenset[int]) -> list[tuple[int, ...]]:
    """Cut an output into sentences by hand: of four tokens to nine."""
    chunks: list[tuple[int, ...]] = [()]
    for token in tokens:
        chunks[-1] += (token,)
        if (token in stops and len(chunks[-1]) >= 4) or len(chunks[-1]) == 9:
            chunks.append(())
    return chunks if chunks[-1] else chunks[:-1] or [()]


@every_engine
def test_it_may_be_awaited(model: EngineModel) -> None:
    async def search() -> Any:
        try:
            return await decode_async(model.asynchronous, PROMPTS, STRATEGY, **OPTIONS)
        finally:
            await model.asynchronous.aclose()

    found = asyncio.run(search())
    assert tokens_of(found) == tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))


@pytest.mark.parametrize("kind", ["sglang", "texts"])
def test_engines_that_cannot_are_asked_token_by_token(kind: str) -> None:
    """SGLang heeds seeds only if its user wants it to."""
    with Server(kind, at_once=True) as server:
        server.heeds_seeds = False
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

    def __init__(self, server: Server | None = None) -> None:
        self._server = server

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [int(each) for each in text.split()]}

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(each) for each in text.split()]

    def decode(self, tokens: Any, **_: Any) -> str:
        if self._server is not None:
            return str(detokenize(self._server, {"tokens": list(tokens)})["content"])
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


ALIGNED: list[Any] = [
    ([5, 6, 7], [(5, -1.0), (6, -2.0), (7, -3.0)], (-1.0, -2.0, -3.0)),
    ([5, 6, 7], [(5, -1.0), (6, -2.0)], (-1.0, -2.0, None)),
    ([5, 6, 7], [(7, -3.0)], (None, None, -3.0)),
    ([5, 6, 7], [], (None, None, None)),
    ([5, 5, 7], [(5, -1.0), (7, -3.0)], (None, None, -3.0)),  # nobody knows which 5
    ([5, 5, 7], [(5, -1.0), (5, -2.0)], (-1.0, -2.0, None)),
    ([5, 6, 5], [(5, -1.0), (6, -2.0)], (-1.0, -2.0, None)),
]


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


def of_entries(change: Any) -> Any:
    """Change what SGLang tells of the tokens that it has drawn, and of those that it is given."""

    def of_each(found: Any) -> Any:
        for each in found:
            info = each["meta_info"]
            for name in {"output_token_logprobs", "input_token_logprobs"} & set(info):
                info[name] = change(info[name])
        return found

    return changed(of_each)


SGLANG_FAULTS: dict[str, tuple[Any, str]] = {
    "too few": (changed(lambda found: found[1:]), "drew 3 chunks .* asked for 4|for 3 prompts .* about 4"),
    "nothing told": (of_entries(lambda entries: None), "no 'output_token_logprobs'"),
    "other tokens": (
        of_entries(lambda entries: [[value, (token + 1) % 60, None] for value, token, _ in entries]),
        "of other tokens than it was given",
    ),
    "fewer": (
        of_entries(lambda entries: entries[:-1] if entries[0][0] is None else entries),
        "of other tokens than it was given",
    ),
    "logits": (of_entries(lambda entries: [[7.5, token, None] for _, token, _ in entries]), "7.5, which is"),
    "null": (of_entries(lambda entries: [[None, token, None] for _, token, _ in entries]), "None, which is"),
}


@pytest.mark.parametrize("server", ["sglang"], indirect=True)
@pytest.mark.parametrize("name", SGLANG_FAULTS)
def test_wrong_answers_of_sglang_are_errors(server: Server, model: EngineModel, name: str) -> None:
    fault, said = SGLANG_FAULTS[name]

    def when_drawing(handler: Any, found: Any) -> Any:
        return found if "output_top_logprobs" in found[0]["meta_info"] else fault(handler, found)

    server.always = when_drawing
    with pytest.raises(EngineError, match=said):
        decode(model, PROMPTS, STRATEGY, max_length=3, seed=2)


LLAMA_FAULTS: dict[str, tuple[Any, str]] = {
    "no tokens": (changed(lambda found: {**found, "tokens": None}), "no 'tokens'"),
    "other tokens": (
        changed(lambda found: {**found, "tokens": [(token + 1) % 60 for token in found["tokens"]]}),
        "of tokens that it has not drawn",
    ),
    "several": (changed(lambda found: [found, found]), "no 'tokens'"),
    "logits": (
        changed(
            lambda found: {
                **found,
                "completion_probabilities": [
                    {**each, "logprob": 7.5} for each in found["completion_probabilities"]
                ],
            }
        ),
        "7.5, which is",
    ),
}


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
@pytest.mark.parametrize("name", LLAMA_FAULTS)
def test_wrong_answers_of_llama_cpp_are_errors(server: Server, model: EngineModel, name: str) -> None:
    fault, said = LLAMA_FAULTS[name]

    def when_drawing(handler: Any, found: Any) -> Any:
        return fault(handler, found) if isinstance(found, dict) else found

    server.always = when_drawing
    with pytest.raises(EngineError, match=said):
        decode(model, PROMPTS, STRATEGY, max_length=3, seed=2)


@every_engine
def test_a_failure_is_tried_again(server: Server, model: EngineModel) -> None:
    expected = tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))
    server.faults.extend([status(503)] * 2)
    assert tokens_of(decode(model, PROMPTS, STRATEGY, **OPTIONS)) == expected


# What SGLang and llama.cpp keep to themselves


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
@pytest.mark.parametrize("parts", [range(10, 40), range(60)], ids=["some", "all"])
def test_what_llama_cpp_does_not_tell_is_asked_for(server: Server, model: EngineModel, parts: range) -> None:
    server.full_stops, server.parts = frozenset(range(5, 30)), frozenset(parts)
    found = decode(model, PROMPTS, SENTENCES, max_length=12, seed=1)
    assert_told_right_of(found)
    lists = [body for body in server.asked if "seed" not in body]
    rounds = 1 + max(len(cut(each.tokens, server.full_stops)) for list_ in found for each in list_)
    assert 1 < len(lists) <= 1 + 3 * len(PROMPTS) * GROUPS * rounds


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
def test_an_unlikely_token_is_looked_for_among_all(
    server: Server, model: EngineModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.parts = frozenset(range(60))
    monkeypatch.setattr(remote, "_LIKELY", 1)
    assert_told_right_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))
    assert any(body.get("n_probs") == 2**20 for body in server.asked)


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
def test_guesses_of_another_model_are_looked_up(server: Server, model: EngineModel) -> None:
    """What comes without any candidate has a log-probability that means nothing."""

    def guess(found: Any) -> Any:
        for entry in found.get("completion_probabilities", ()) if isinstance(found, dict) else ():
            entry.update(logprob=0.0, top_logprobs=[])
        return found

    server.always = changed(guess)
    assert_told_right_of(decode(model, PROMPTS, STRATEGY, **OPTIONS))


@pytest.mark.parametrize("server", ["llama.cpp"], indirect=True)
def test_chunks_that_are_too_long_are_cut(server: Server, model: EngineModel) -> None:
    """llama.cpp brings a letter to its end."""
    server.overshoots = 2
    found = decode(model, PROMPTS, STRATEGY, **OPTIONS)
    assert_told_right(found)
    assert any(len(each.tokens) == 8 for list_ in found for each in list_)
    starts = {len(order.prompt) - 3 for order in orders(server)}
    assert starts <= {0, 3, 6}


@pytest.mark.parametrize("server", ["sglang", "llama.cpp"], indirect=True)
def test_an_end_of_the_engine_that_is_none_of_the_search_ends_a_chunk(
    server: Server, model: EngineModel
) -> None:
    server.own_ends = frozenset(range(20, 40))
    found = decode(model, PROMPTS, STRATEGY, **OPTIONS)
    assert_told_right(found)
    assert any(set(each.tokens[:-1]) & server.own_ends for list_ in found for each in list_)


@pytest.mark.parametrize("server", ["sglang"], indirect=True)
def test_at_temperature_one_sglang_tells_the_models_own(server: Server, model: EngineModel) -> None:
    strategy = DiverseChunks(**{**vars(STRATEGY), "temperature": 1.0})
    decode(model, PROMPTS, strategy, **OPTIONS)
    assert not any("logprob_start_len" in body for body in server.asked)
    decode(model, PROMPTS, STRATEGY, **OPTIONS)
    scores = [body for body in server.asked if "logprob_start_len" in body]
    assert scores
    for body in scores:
        assert len(body["input_ids"]) == PROPOSALS
        assert body["sampling_params"]["temperature"] == 0


@pytest.mark.parametrize(("tokens", "told", "expected"), ALIGNED)
def test_values_that_are_told_of_some_tokens(
    tokens: list[int], told: list[tuple[int, float]], expected: tuple[float | None, ...]
) -> None:
    assert align(tokens, told) == expected


def test_values_of_other_tokens_are_an_error() -> None:
    with pytest.raises(EngineError, match="of tokens that it has not drawn"):
        align([5, 6], [(6, -1.0), (5, -1.0)])


def test_usage_counts_what_was_asked(model: EngineModel) -> None:
    decode(model, PROMPTS, STRATEGY, max_length=6)
    assert model.usage.steps == 3, "a start and two rounds"
    orders = model.usage.prefixes - len(PROMPTS)
    assert len(PROMPTS) * GROUPS < orders <= 2 * len(PROMPTS) * GROUPS
