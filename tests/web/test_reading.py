"""From bytes to what is asked: nothing that someone sends takes long to refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beamsplit.web import DemoLimits, reading
from beamsplit.web.problems import Problem
from beamsplit.web.reading import parse_request
from beamsplit.web.requests import DecodeRequest

LIMITS = DemoLimits()


def refused(body: bytes | str, limits: DemoLimits = LIMITS) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        parse_request(body.encode() if isinstance(body, str) else body, limits)
    return caught.value.status, caught.value.line


def test_what_is_asked() -> None:
    asked = {"text": "Hi!", "searches": [{"strategy": "bs"}], "seed": 3}
    assert parse_request(json.dumps(asked).encode(), LIMITS) == DecodeRequest.model_validate(asked)
    assert parse_request(b"\xef\xbb\xbf" + json.dumps(asked).encode(), LIMITS).seed == 3


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"", "the body is not JSON: Expecting value at character 0"),
        (b"{", "the body is not JSON: Expecting property name enclosed in double quotes at character 1"),
        (b'{"text": "a"} x', "the body is not JSON: Extra data at character 14"),
        (b'{"text": "\xff"}', "the body is not JSON: byte 10 is not UTF-8"),
        (b'{"seed": NaN}', "the body is not JSON: it has a number that cannot be read"),
        (b'{"seed": ' + b"9" * 5_000 + b"}", "the body is not JSON: it has a number that cannot be read"),
        (b"[" * 60_000, "the body is not JSON: it is nested too deeply"),
    ],
)
def test_what_is_not_json(body: bytes, line: str) -> None:
    assert refused(body) == (400, line)


@pytest.mark.parametrize("body", ["[]", "3", "null", '"text"'])
def test_what_is_no_object(body: str) -> None:
    assert refused(body) == (422, 'the request is not an object: send one such as {"text": "Hello."}')


def keys(count: int) -> dict[str, int]:
    return {f"{n:x}": 1 for n in range(count)}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (keys(3_000), "the request"),
        ({"picture": keys(3_000)}, "picture"),
        ({"text": "a", "searches": [{}, keys(3_000)]}, "searches.1"),
        ({"text": "a", "searches": [{"settings": keys(3_000)}]}, "searches.0.settings"),
        ({"text": "a", "searches": [{}] * 3_000}, "searches"),
    ],
)
def test_many_parts_are_counted_before_they_are_checked(
    asked: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker would write a line about each."""
    monkeypatch.setattr(reading, "DecodeRequest", None)
    line = f"{path} has 3,000 parts, and the limit is 20: leave some out"
    assert refused(json.dumps(asked)) == (422, line)


PICTURE = "A" * 900_000


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(keys(100_000)),
        json.dumps({"text": [[]] * 100_000}),
        json.dumps({"text": "a" * 100_000}),
        json.dumps({"picture": {"data": [PICTURE]}}),
        json.dumps({"picture": {"data": PICTURE}, "searches": [{}] * 40_000}),
        json.dumps({"picture": {"data": PICTURE}, "text": {"data": PICTURE}}),
        '{"data": "' + "[" * 900_000,
    ],
)
def test_what_is_large_and_no_picture_is_not_even_parsed(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "json", None)
    line = "the request without its picture is larger than 64,000 bytes: send a shorter one"
    assert refused(body) == (413, line)


@pytest.mark.parametrize("space", ["", " ", "\n\t "])
def test_a_picture_may_be_large(space: str) -> None:
    body = f'{{"model": "captioner", "picture": {{"data"{space}:{space}"{PICTURE}"}}}}'
    asked = parse_request(body.encode(), LIMITS)
    assert asked.picture is not None
    assert asked.picture.data == PICTURE


def test_the_rest_may_be_so_large() -> None:
    body = b'{"text": "a"}'
    assert parse_request(body, DemoLimits(rest_bytes=len(body))).text == "a"
    assert refused(body, DemoLimits(rest_bytes=len(body) - 1))[0] == 413
