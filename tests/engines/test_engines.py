"""Searches on engines: what comes back is what the same model gives in this process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from beamsplit import (
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    EngineError,
    Hypotheses,
    LateBranching,
    NGram,
    Sampling,
    decode,
    decode_async,
    record,
    steps,
)
from beamsplit.engines import EngineModel, connect
from beamsplit.engines.vocabularies import TextVocabulary
from engines.serving import END, TWINS, VOCABULARY, InProcess, Server, changed, log_probs, slow

PROMPTS = [[5, 7, 9], [9, 8, 1], [30, 31, 5]]
STRATEGIES = [
    BeamSearch(beams=5),
    DiverseBeamSearch(groups=19, strength=1.0),
    DiverseBeamSearch(groups=4, beams_per_group=3, strength=0.7),
    DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, schedule="staggered"),
    DiverseBeamSearch(groups=4, strength=1.0, diversity=Cumulative(temperature=2.0)),
    DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, diversity=NGram(n=2)),
    DiverseSiblings(beams=4, rate=0.5),
    DivMBest(runs=3, beams=2, strength=1.0),
    LateBranching(outputs=6),
    Sampling(samples=5, top_k=8),
    DiverseSampling(groups=4, strength=1.0, top_p=0.3),
]
KINDS = ("vllm", "sglang", "llama.cpp")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(request.param) as made:
        yield made


@pytest.fixture
def vllm() -> Iterator[Server]:
    with Server("vllm") as made:
        yield made


def plain_lists(lists: Any) -> list[list[tuple[Any, ...]]]:
    return [[(each.tokens, each.group, each.finished) for each in found] for found in lists]


def assert_same(found: Any, expected: Any) -> None:
    assert plain_lists(found) == plain_lists(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_every_engine_gives_what_the_model_gives_in_process(server: Server, strategy: Any) -> None:
    with connect(server.url, end=END) as model:
        found = decode(model, PROMPTS, strategy, max_length=7, seed=4)
    here = InProcess(reads=server.kind != "sglang")
    assert_same(found, decode(here, PROMPTS, strategy, max_length=7, end=END, seed=4))
    assert all(each.certified for list_ in found for each in list_)


@pytest.mark.parametrize("strategy", [STRATEGIES[0], STRATEGIES[2], STRATEGIES[8]], ids=str)
def test_awaited_searches_are_the_same(vllm: Server, strategy: Any) -> None:
    async def both() -> Any:
        async with connect(vllm.url, end=END).asynchronous as model:
            return await asyncio.gather(
                *(decode_async(model, PROMPTS, strategy, max_length=6, seed=4) for _ in range(2))
            )

    one, other = asyncio.run(both())
    assert_same(one, other)
    assert_same(one, decode(InProcess(reads=True), PROMPTS, strategy, max_length=6, end=END, seed=4))


def test_a_loop_that_runs_already_is_no_hindrance(vllm: Server) -> None:
    """As in a notebook."""

    async def notebook() -> Any:
        return decode(connect(vllm.url, end=END), PROMPTS, BeamSearch(beams=2), max_length=4)

    assert_same(
        asyncio.run(notebook()), decode(InProcess(), PROMPTS, BeamSearch(beams=2), max_length=4, end=END)
    )


# What is asked


def test_a_step_is_one_request_for_all_beams_of_all_inputs(server: Server) -> None:
    with connect(server.url, end=END) as model:
        decode(model, PROMPTS, DiverseBeamSearch(groups=6, strength=1.0), max_length=5)
        assert model.usage.steps == len(server.asked) == 5
        assert model.usage.widened == 0


def test_as_many_candidates_are_asked_for_as_can_matter(vllm: Server) -> None:
    """As many as beams and ends, and one more."""
    with connect(vllm.url, end=END) as model:
        decode(model, PROMPTS, DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0), max_length=4)
    assert {body["logprobs"] for body in vllm.asked} == {3 * 2 + 1 + 1}
    body = vllm.asked[0]
    assert body == {
        "model": "tiny",
        "prompt": PROMPTS,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 8,
        "return_tokens_as_token_ids": True,
    }


def test_the_same_prefix_is_asked_about_once(vllm: Server) -> None:
    with connect(vllm.url, end=END) as model:
        found = decode(model, PROMPTS[:1] * 3, BeamSearch(beams=2), max_length=3)
    assert plain_lists(found[:1]) == plain_lists(found[1:2]) == plain_lists(found[2:])
    assert [len(body["prompt"]) for body in vllm.asked] == [1, 2, 2]


def test_many_prefixes_are_many_requests_at_once(vllm: Server) -> None:
    strategy = DiverseBeamSearch(groups=10, strength=1.0)
    vllm.always = slow(0.1)
    with connect(vllm.url, end=END, rows_per_request=4, connections=8) as model:
        found = decode(model, PROMPTS, strategy, max_length=3)
    assert_same(found, decode(InProcess(), PROMPTS, strategy, max_length=3, end=END))
    assert max(len(body["prompt"]) for body in vllm.asked) == 4
    assert 1 < vllm.most_under_way <= 8


def test_connections_are_kept(vllm: Server) -> None:
    with connect(vllm.url, end=END) as model:
        decode(model, PROMPTS, BeamSearch(beams=2), max_length=8)
    assert len(vllm.requests) >= 10
    assert vllm.connections <= 2


def test_a_search_that_is_settled_asks_no_more(vllm: Server) -> None:
    """An engine's own beam search goes on to the last token."""
    with connect(vllm.url, end=list(range(0, VOCABULARY, 2))) as model:
        found = decode(model, PROMPTS, BeamSearch(beams=2), max_length=200)
    assert all(each.finished for list_ in found for each in list_)
    assert len(vllm.asked) < 60


# Lists that are too short


def test_a_limit_is_learned_from_a_refusal() -> None:
    with Server("vllm", most=20) as server, connect(server.url, end=END) as model:
        found = decode(model, PROMPTS, DiverseBeamSearch(groups=18, strength=1.0), max_length=4)
        assert all(each.certified for list_ in found for each in list_)
        assert model.engine.most == 1000  # 20 were enough, and nobody asked for more
        with pytest.warns(UserWarning, match="lists of 20 candidates are too short") as said:
            found = decode(model, PROMPTS, DiverseBeamSearch(groups=40, strength=9.0), max_length=4)
        assert model.engine.most == 20
        assert len(said) == 1
        counts = [body["logprobs"] for body in server.asked]
        assert [count for count in counts if count > 20] == [42]  # refused once, and never asked for again
        assert len(counts) == 4 + 1 + 4  # and no list is asked for again that cannot get longer
    assert not all(each.certified for list_ in found for each in list_)
    whole = decode(InProcess(), PROMPTS, DiverseBeamSearch(groups=40, strength=9.0), max_length=4, end=END)
    for ours, theirs in zip(found, whole, strict=True):
        expected = {each.group: each.tokens for each in theirs}
        assert all(each.tokens == expected[each.group] for each in ours if each.certified)
        assert any(each.certified for each in ours)


def test_samples_are_drawn_from_long_lists(vllm: Server) -> None:
    """As many candidates as may be drawn are asked for at once, and many where all may be."""
    with connect(vllm.url, end=END) as model:
        decode(model, PROMPTS, Sampling(samples=2, top_k=7), max_length=2)
        assert {body["logprobs"] for body in vllm.asked} == {8}
        assert model.usage.widened == 0
        with pytest.warns(UserWarning, match="samples are drawn within"):
            found = decode(model, PROMPTS, Sampling(samples=30), max_length=2)
    assert vllm.asked[-1]["logprobs"] == 200  # more than there are
    assert len({each.tokens[0] for each in found[0]}) > 8


def test_late_branching_says_where_lists_are_too_short() -> None:
    with (
        Server("vllm", most=20) as server,
        connect(server.url, end=END) as model,
        pytest.warns(UserWarning, match="fewer than the 24 candidates that late branching looks at"),
    ):
        found = decode(model, PROMPTS[:1], LateBranching(outputs=24), max_length=4)
    assert not any(each.certified for each in found[0])


def test_an_engine_is_asked_for_more_where_a_term_needs_more(vllm: Server) -> None:
    strategy = DiverseBeamSearch(groups=6, strength=20.0, diversity=NGram(n=1))
    with connect(vllm.url, end=END) as model:
        found = decode(model, PROMPTS[:1], strategy, max_length=16, end=None)
        assert model.usage.widened > 0
    assert_same(found, decode(InProcess(), PROMPTS[:1], strategy, max_length=16))
    assert all(each.certified for list_ in found for each in list_)


# Inputs and texts


def test_texts_go_through_the_engines_own_tokenizer(vllm: Server) -> None:
    with connect(vllm.url) as model:
        assert model.end == [END]  # of the usual ends, the one at which the engine stops
        (found,) = decode(model, "5 7 9", BeamSearch(beams=3), max_length=6)
        (same,) = decode(model, [[5, 7, 9]], BeamSearch(beams=3), max_length=6)
    assert [each.tokens for each in found] == [each.tokens for each in same]
    for each in found:
        said = [token for token in each.tokens if token != END]
        assert each.text == "".join(f" {TWINS[0] if token in TWINS else token}" for token in said)


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_messages_go_through_the_engines_chat_template(kind: str) -> None:
    with Server(kind) as server, connect(server.url) as model:
        assert model.end == [END]
        assert model.chats
        found = model.chat("5 9", answers=3, max_length=5)
        assert len(found) == 3
        assert server.asked[0]["prompt"] == [[7, 5, 9, 8]]


def test_a_model_without_a_chat_template_does_not_chat(vllm: Server) -> None:
    vllm.has_template = False
    with connect(vllm.url) as model:
        assert not model.chats
        with pytest.raises(ArgumentError, match="has no chat template"):
            model.chat("5 9")


def test_a_tokenizer_of_transformers_writes_and_reads(vllm: Server) -> None:
    from huggingface.models import tokenizer

    own = tokenizer()
    with connect(vllm.url, tokenizer=own) as model:
        assert model.end == [own.eos_token_id]
        (found,) = decode(model, ["a b"], BeamSearch(beams=2), max_length=3, end=None)
        assert vllm.asked[0]["prompt"] == [own("a b")["input_ids"]]
        assert found.best.text == own.decode(list(found.best.tokens), skip_special_tokens=True)


def test_an_engine_without_a_tokenizer_takes_ids(server: Server) -> None:
    server.kind = "sglang"
    with pytest.warns(UserWarning, match="nobody knows the end token of tiny at http"):
        model = connect(server.url)
    with pytest.raises(ArgumentError, match="must be token ids"):
        decode(model, ["text"], max_length=3)
    assert decode(model, torch.tensor([[5, 7, 9]]), BeamSearch(beams=1), max_length=3)[0].best.text is None
    with pytest.raises(ArgumentError, match="input 1 has no tokens"):
        decode(model, [[5], []], max_length=3)


def test_prompts_that_are_too_long_are_refused_before_anything_is_asked() -> None:
    with Server("vllm", longest=12) as server, connect(server.url, end=END) as model:
        assert decode(model, [[5] * 8], BeamSearch(beams=2), max_length=4, end=None)
        before = len(server.asked)
        with pytest.raises(
            ArgumentError, match="input 1 has 9 tokens, and with max_length=4 that is more than"
        ):
            decode(model, [[5], [5] * 9], BeamSearch(beams=2), max_length=4)
        assert len(server.asked) == before


# Servers that know texts alone


def test_texts_alone_are_searched_and_nothing_is_certified() -> None:
    settings: Any = {
        "kind": "texts",
        "end": [" 2"],
        "rows_per_request": 4,
    }  # of which such a server takes one
    with Server("texts") as server, connect(server.url, **settings) as model:
        with pytest.warns(UserWarning, match="no hypothesis is certified"):
            (found,) = decode(model, ["5 7 9"], BeamSearch(beams=3), max_length=4)
        assert len(server.asked) == model.usage.prefixes  # none again, for longer lists
        with pytest.raises(ArgumentError, match="input 1 is empty"):
            decode(model, ["5", ""], BeamSearch(beams=3), max_length=4)
    assert not any(each.certified for each in found)
    (expected,) = decode(InProcess(), [[5, 7, 9]], BeamSearch(beams=3), max_length=4, end=END)
    texts = [[f" {token}" for token in each.tokens if token != END] for each in expected]
    if not any(token in TWINS for each in expected for token in each.tokens):
        assert [each.text for each in found] == ["".join(said) for said in texts]


def test_texts_are_numbered_and_ends_are_not_shown() -> None:
    vocabulary = TextVocabulary(["</s>", ""])
    assert vocabulary.end == [0, 1]
    said = tuple(vocabulary.number(text) for text in ("un", " deux", "un", "</s>"))
    assert said == (2, 3, 2, 0)
    assert vocabulary.to_text(said) == "un deuxun"
    assert vocabulary.spell(said) == "un deuxun</s>"


def test_a_server_that_hides_where_it_would_end_is_kept_from_ending() -> None:
    with Server("texts") as server:
        server.hides_ends = True
        ending = next(prompt for prompt in range(3, VOCABULARY) if int(log_probs((prompt,)).argmax()) == END)
        with (
            connect(server.url, kind="texts", end=[" 2"]) as model,
            pytest.raises(EngineError, match="give end= the id of its end token, too"),
        ):
            decode(model, [str(ending)], BeamSearch(beams=2), max_length=3)
        with (
            connect(server.url, kind="texts", end=[" 2", END]) as model,
            pytest.warns(UserWarning, match="no hypothesis is certified"),
        ):
            (found,) = decode(model, [str(ending)], BeamSearch(beams=2), max_length=3)
        assert found.best.text == ""
        assert found.best.finished


def test_candidates_that_read_as_nothing_are_refused() -> None:
    def nothing(found: Any) -> Any:
        found["choices"][0]["logprobs"]["top_logprobs"] = [{"": -0.5}]
        return found

    with Server("texts") as server, connect(server.url, kind="texts", end=[" 2"]) as model:
        server.always = changed(nothing)
        with pytest.raises(EngineError, match="parts of letters"):
            decode(model, ["5 7 9"], BeamSearch(beams=3), max_length=4)


def test_an_engine_of_texts_that_is_taken_for_another_says_so(vllm: Server) -> None:
    def by_text(_handler: Any, found: Any) -> Any:
        for choice in found["choices"]:
            top = choice["logprobs"]["top_logprobs"][0]
            choice["logprobs"]["top_logprobs"][0] = {f" {name[9:]}": value for name, value in top.items()}
        return found

    vllm.always = by_text
    with connect(vllm.url, end=END) as model, pytest.raises(EngineError, match="kind='texts'"):
        decode(model, PROMPTS, BeamSearch(beams=2), max_length=3)


# Everything else works with it


def test_steps_trees_and_more_groups(vllm: Server) -> None:
    strategy = DiverseBeamSearch(groups=2, strength=1.0)
    with connect(vllm.url) as model:
        shown = [step.hypotheses for step in steps(model, PROMPTS, strategy, max_length=4)]
        assert len(shown) == 4
        (recording, *_) = record(model, PROMPTS, strategy, max_length=4)
        assert recording.hypotheses.best.tokens == shown[-1][0].best.tokens
        found = decode(model, PROMPTS, strategy, max_length=4, resumable=True).more(model)
    wider = DiverseBeamSearch(groups=3, strength=1.0)
    assert_same(found, decode(InProcess(), PROMPTS, wider, max_length=4, end=END))


def test_models_know_themselves_by_what_they_answer(vllm: Server) -> None:
    with connect(vllm.url, end=END) as one, connect(vllm.url, end=END) as other:
        assert one.fingerprint == other.fingerprint
        assert "tiny" in one.fingerprint
    with connect(vllm.url, end=[END, 5]) as ends_elsewhere:
        assert ends_elsewhere.fingerprint != one.fingerprint

    def upside_down(_handler: Any, found: Any) -> Any:
        for choice in found["choices"]:
            top = choice["logprobs"]["top_logprobs"][0]
            choice["logprobs"]["top_logprobs"][0] = {f"token_id:{59 - int(k[9:])}": v for k, v in top.items()}
        return found

    vllm.always = upside_down
    with connect(vllm.url, end=END) as changed:
        assert changed.fingerprint != one.fingerprint


def test_models_of_texts_know_themselves_too() -> None:
    with Server("texts") as server:
        models = [connect(server.url, kind="texts", end=[" 2"]) for _ in range(2)]
        with pytest.warns(UserWarning, match="no hypothesis is certified"):
            decode(
                models[1], ["5 7"], BeamSearch(beams=2), max_length=2
            )  # which numbers texts in its own way
        assert models[0].fingerprint == models[1].fingerprint
        for model in models:
            model.close()


def test_nothing_is_left_running() -> None:
    before = threading.active_count()
    with Server("vllm") as server:
        model: EngineModel | None = connect(server.url, end=END)
        assert model is not None
        decode(model, PROMPTS, BeamSearch(beams=2), max_length=2)
        model.close()
        model = connect(server.url, end=END)
        del model  # without a word
        gc.collect()
    for thread in threading.enumerate():
        if thread.name == "beamsplit-engine":
            thread.join(5)
    assert threading.active_count() <= before + 1  # the server's own may still be ending


def test_found_is_a_list_like_any_other(vllm: Server) -> None:
    with connect(vllm.url) as model:
        (found,) = decode(model, ["5 7 9"], max_length=5)
    assert isinstance(found, Hypotheses)
    assert found.asked == 6
