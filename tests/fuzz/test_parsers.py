"""Parsers of what people type, what engines answer and what browsers send: read, or refused in a line."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamsplit.cli.options import named_files
from beamsplit.diversity.names import TERMS, read_term, write_term
from beamsplit.engines.candidates import Candidates, stack_candidates
from beamsplit.errors import ArgumentError
from beamsplit.messages import as_conversation, read_conversations
from beamsplit.model import Drawing, Drawn
from beamsplit.similarity.names import check_similarity
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec, Widths
from fuzz.making import fuzzed, read_or_refused, spoilt, spoilt_bytes, texts, values

# Names and settings


WORDS = st.sampled_from(
    [
        *TERMS,
        "term",
        "temperature",
        "n",
        "of",
        ":",
        "=",
        ",",
        "2",
        "-1",
        "nan",
        "inf",
        "1e999",
        "9" * 5_000,
        " ",
    ]
)
TERM_TEXTS = st.lists(WORDS | texts, max_size=8).map("".join)


@fuzzed
@given(TERM_TEXTS)
def test_terms_as_text(text: str) -> None:
    found = read_or_refused(read_term, text)
    if found is not None:
        assert read_or_refused(read_term, write_term(found)) is not None


@pytest.mark.parametrize("term", TERMS)
def test_terms_as_tables(term: str) -> None:
    settings_ = {"temperature": 2.0, "n": 2, "of": {"term": "ngram", "n": 3}}

    @fuzzed
    @given(spoilt({"term": term, **settings_}) | spoilt({"term": term}))
    def holds(table: Any) -> None:
        read_or_refused(read_term, table)

    holds()


SETTINGS: dict[str, Any] = {
    "strength": 0.5,
    "temperature": 1.2,
    "top_k": 5,
    "top_p": 0.9,
    "min_p": 0.1,
    "rate": 0.5,
    "schedule": "lockstep",
    "diversity": {"term": "cumulative", "temperature": 2},
    "unique": True,
    "model_temperature": 1.5,
    "similarity": "content",
    "rounds": 2,
    "chunk": "sentence",
    "proposals": 2,
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_as_tables(name: str) -> None:
    entry = STRATEGIES[name]
    right = {"strategy": name, entry.width: 4, **({entry.per_group: 1} if entry.per_group else {})}
    assert StrategySpec.of_table(right).outputs

    @fuzzed
    @given(spoilt(right) | spoilt({**right, **SETTINGS}), st.sampled_from(["", *SETTINGS]))
    def holds(table: Any, extra: str) -> None:
        if isinstance(table, dict):
            table = {**table, **({extra: SETTINGS[extra]} if extra else {})}
            found = read_or_refused(StrategySpec.of_table, table)
            assert found is None or (found.title and json.dumps(found.description))

    holds()


@fuzzed
@given(st.sampled_from(list(STRATEGIES)) | texts, values, values, values, TERM_TEXTS)
def test_widths(name: str, groups: Any, per_group: Any, strength: Any, term: str) -> None:
    read_or_refused(
        lambda: StrategySpec.of_widths(
            name, Widths(groups=groups, beams_per_group=per_group, strength=strength, diversity=term)
        )
    )


@fuzzed
@given(texts | TERM_TEXTS, st.lists(texts | st.just("name=file"), max_size=3))
def test_other_names(text: str, several: list[str]) -> None:
    read_or_refused(check_similarity, text)
    read_or_refused(named_files, several)


@fuzzed
@given(
    st.lists(st.sampled_from(["paper", "3", "2.5", ",", "-", "nan", "inf", "1e999", "9" * 5_000]), max_size=5)
)
def test_bins(parts: list[str]) -> None:
    bins = pytest.importorskip("beamsplit.study.bins", reason="studies need '.[study]'")
    found = read_or_refused(bins.Bins.parse, "".join(parts))
    assert found is None or len(found.over([1.0, 2.0, 3.0])) >= 1


ADDRESS = st.lists(
    st.sampled_from(
        ["postgresql", "sqlite", "http", "://", "/", ":", "@", "[", "]", "?", "#", "%", "a", "99999999"]
    ),
    max_size=8,
).map("".join)


@fuzzed
@given(ADDRESS | texts)
def test_addresses(text: str) -> None:
    database = pytest.importorskip("beamsplit.study.database", reason="studies need '.[study]'")
    serving = pytest.importorskip("beamsplit.study.serving", reason="studies need '.[study]'")
    found = read_or_refused(database.parse_url, text)
    assert found is None or database.display_name(found) is not None
    read_or_refused(serving.check_url, text)


@fuzzed
@given(ADDRESS | texts)
def test_addresses_of_engines(text: str) -> None:
    http = pytest.importorskip("beamsplit.engines.http", reason="engines need '.[engines]'")
    read_or_refused(http.Client, text)


@fuzzed
@given(spoilt([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": [{"type": "text"}]}]))
def test_conversations(messages: Any) -> None:
    read_or_refused(as_conversation, messages)
    read_or_refused(read_conversations, [messages])


# Answers of engines

TOP = {"token_id:3": -0.5, "token_id:4": -1.5}
ANSWERS: dict[str, Any] = {
    "Completions": {
        "choices": [
            {"index": i, "finish_reason": "length", "logprobs": {"top_logprobs": [TOP]}} for i in (0, 1)
        ]
    },
    "Generate": [{"meta_info": {"output_top_logprobs": [[[-0.5, 3, "a"], [-1.5, 4, "b"]]]}} for _ in (0, 1)],
    "LlamaCpp": [
        {
            "index": i,
            "completion_probabilities": [
                {"top_logprobs": [{"id": 3, "logprob": -0.5}, {"id": 4, "logprob": -1.5}]}
            ],
        }
        for i in (0, 1)
    ],
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_of_engines(kind: str) -> None:
    pytest.importorskip("httpx2", reason="engines need '.[engines]'")
    import asyncio

    from beamsplit.engines import dialects
    from beamsplit.engines.remote import RemoteEngine

    dialect: Any = dialects.Completions("m") if kind == "Completions" else getattr(dialects, kind)()

    def read(answer: Any) -> list[Candidates]:
        async def post(*_: Any) -> Any:
            return answer

        client: Any = SimpleNamespace(url="http://engine", post=post)
        return asyncio.run(RemoteEngine(client, dialect, model="m").candidates([(1,), (2,)], 2))

    assert [each.tokens for each in read(ANSWERS[kind])] == [(3, 4), (3, 4)]

    @fuzzed
    @given(spoilt(ANSWERS[kind]))
    def holds(answer: Any) -> None:
        found = read_or_refused(read, answer)
        if found is not None:
            assert stack_candidates(found).tokens.shape[0] == 2

    holds()


DRAWN: dict[str, Any] = {
    "Completions": {
        "choices": [
            {"index": i, "logprobs": {"tokens": ["token_id:3", "token_id:4"], "token_logprobs": [-0.5, -1.5]}}
            for i in (0, 1)
        ]
    },
    "Generate": [
        {
            "meta_info": {
                "output_token_logprobs": [[-0.5, 3, "a"], [-1.5, 4, "b"]],
                "input_token_logprobs": [[None, 2, None], [-0.5, 3, "a"], [-1.5, 4, "b"]],
            }
        }
        for _ in (0, 1)
    ],
    "LlamaCpp": {
        "tokens": [3, 4],
        "completion_probabilities": [
            {"id": token, "logprob": -0.5 - token, "top_logprobs": [{"id": 3, "logprob": -0.5}]}
            for token in (3, 4)
        ],
    },
}


@pytest.mark.parametrize("kind", DRAWN)
def test_chunks_that_engines_draw(kind: str) -> None:
    pytest.importorskip("httpx2", reason="engines need '.[engines]'")
    import asyncio

    from beamsplit.engines import dialects
    from beamsplit.engines.candidates import Order
    from beamsplit.engines.remote import RemoteEngine

    dialect: Any = dialects.Completions("m") if kind == "Completions" else getattr(dialects, kind)()
    dialect.draws = True
    drawing = Drawing(
        count=2,
        seeds=(1,),
        most=(2,),
        ends=(),
        marks=(),
        least=1,
        temperature=0.5,  # so that SGLang is asked for scores too
        top_k=None,
        top_p=None,
        min_p=None,
    )

    def read(answer: Any) -> list[list[Drawn]]:
        async def post(*_: Any) -> Any:
            return answer

        client: Any = SimpleNamespace(url="http://engine", post=post)
        engine = RemoteEngine(client, dialect, model="m")
        return asyncio.run(engine.draw([Order((1, 2), 2, 1, 2, 7)], drawing))

    assert [chunk.tokens for chunks in read(DRAWN[kind]) for chunk in chunks] == [(3, 4), (3, 4)]

    @fuzzed
    @given(spoilt(DRAWN[kind]))
    def holds(answer: Any) -> None:
        found = read_or_refused(read, answer)
        if found is not None:
            assert all(len(chunk.tokens) == len(chunk.log_probs) <= 2 for chunk in found[0])

    holds()


# What browsers send

REQUEST: dict[str, Any] = {
    "model": "en-fr",
    "text": "Hello.",
    "seed": 1,
    "max_length": 9,
    "tree": True,
    "searches": [{"strategy": "dbs", "groups": 2, "strength": 0.5, "settings": {"temperature": 1}}],
    "picture": {"data": "AAAA"},
}


@fuzzed
@given(
    spoilt(REQUEST).map(lambda asked: json.dumps(asked).encode())
    | spoilt_bytes(json.dumps(REQUEST).encode())
    | st.binary(max_size=20)
)
def test_requests_of_the_demo(body: bytes) -> None:
    pytest.importorskip("fastapi", reason="the demo needs '.[web]'")
    from beamsplit.web import DemoLimits
    from beamsplit.web.problems import Problem
    from beamsplit.web.reading import parse_request

    said: Problem | None = None
    try:
        parse_request(body, DemoLimits())
    except Problem as problem:
        said = problem
    assert said is None or (said.status in (400, 413, 422) and len(said.line.splitlines()) == 1)


@fuzzed
@given(spoilt_bytes(b"form=abc&item=3&choice=left&%41=%zz+&&a=b=c"))
def test_forms_of_a_study(body: bytes) -> None:
    forms = pytest.importorskip("beamsplit.study.forms", reason="studies need '.[study]'")
    from starlette.exceptions import HTTPException

    status, fields = 200, {}
    try:
        fields = forms._parse_fields(body)
    except HTTPException as error:
        status = error.status_code
    assert status in (200, 400)
    assert all(isinstance(each, str) for pair in fields.items() for each in pair)


# What a study writes

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
) | st.sampled_from(["=1+1", "+1", "-1", "@a", "\t=1", "a,b", 'a"b', "a\nb", "\r"])


@fuzzed
@given(st.lists(st.tuples(NAMES, NAMES, st.sampled_from([None, "first"])), max_size=4), NAMES, NAMES)
def test_votes_are_read_as_they_were_written(
    votes: list[tuple[str, str, str | None]], first: str, second: str
) -> None:
    """A row each, and no cell that a spreadsheet takes for a formula."""
    pytest.importorskip("sqlalchemy", reason="studies need '.[study]'")
    from beamsplit.study.export import export_votes
    from beamsplit.study.store import Vote

    kept = [Vote(item, who, "first", "first", 1.0, 2.0, answer) for item, who, answer in votes]
    store: Any = SimpleNamespace(
        votes=lambda: kept, study=SimpleNamespace(name=lambda method: first if method == "first" else second)
    )
    rows = list(csv.reader(io.StringIO(export_votes(store, "csv"), newline="")))
    assert [len(row) for row in rows] == [10] * (len(kept) + 1)
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and cell]
    for row, (item, who, _) in zip(rows[1:], votes, strict=True):
        for cell, name in ((row[0], item), (row[1], who)):
            assert cell.removeprefix("'") == "\n".join(name.replace("\r\n", "\r").split("\r")).removeprefix(
                "'"
            )
    lines = [json.loads(line) for line in export_votes(store, "jsonl").split("\n") if line]
    assert [(line["item"], line["annotator"]) for line in lines] == [(item, who) for item, who, _ in votes]


def test_the_law_sees_a_line_that_is_two() -> None:
    def refuse() -> None:
        raise ArgumentError("one\ntwo")

    with pytest.raises(AssertionError):
        read_or_refused(refuse)
    with pytest.raises(ZeroDivisionError):
        read_or_refused(lambda: 1 // 0)
