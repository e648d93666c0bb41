"""From the bytes of a request to what it asks: cheaply, whatever they are.

Python parses JSON without a pause, and a checker has something to say of every wrong key. So what is large is
found out before it is parsed, and what has many parts before it is checked.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem
from beamsplit.web.requests import DecodeRequest

__all__ = ["read", "read_body"]

_KEYS = 20
_SEARCHES = 20  # more than there may be, which is for `DecodeRequest` to say

# The one thing that may be large. What matches is one string to whoever parses it, or is never reached.
_PICTURE = re.compile(rb'"data"\s*:\s*"[^"]{1000,}"')


async def read_body(request: Request, limits: DemoLimits) -> bytes:
    """Return the body of a request; raise if it is too large or does not arrive in time."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > limits.body_bytes:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.read_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        seconds = f"{limits.read_seconds:g}"
        raise Problem(408, f"the request did not arrive within {seconds} s: send it again") from None
    except ClientDisconnect:
        raise Problem(400, "the request was cut off: send it again") from None
    return bytes(body)


def _too_large(limits: DemoLimits) -> Problem:
    most = f"{limits.body_bytes:,}"
    return Problem(413, f"the request is larger than {most} bytes: send a smaller picture or text")


def read(body: bytes, limits: DemoLimits) -> DecodeRequest:
    """What is asked, or the first thing that is wrong with it; never what was sent."""
    _check_size(body, limits)
    given = _parsed(body)
    _check_parts(given)
    try:
        return DecodeRequest.model_validate(given)
    except ValidationError as error:
        raise Problem(422, _said(error)) from None


def _check_size(body: bytes, limits: DemoLimits) -> None:
    if len(body) <= limits.rest_bytes:
        return
    picture = max((len(each.group()) for each in _PICTURE.finditer(body)), default=0)
    if len(body) - picture > limits.rest_bytes:
        most = f"{limits.rest_bytes:,}"
        raise Problem(413, f"the request without its picture is larger than {most} bytes: send a shorter one")


# JSON


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at letter {error.pos}") from None
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise _not_json("it is nested too deeply") from None
    except ValueError:  # all that is left are numbers
        raise _not_json("it has a number that cannot be read") from None


def _refuse(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not of JSON")


def _not_json(reason: str) -> Problem:
    return Problem(400, f"the body is not JSON: {reason}")


# What it is made of


def _check_parts(given: Any) -> None:
    if not isinstance(given, dict):
        raise Problem(422, 'the request is not an object: send one such as {"text": "Hello."}')
    for place, part, most in _parts(given):
        if len(part) > most:
            raise Problem(422, f"{place} has {len(part):,} parts, and there are not so many: leave some out")


def _parts(given: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Each object and list that a request may have: its place, and how long it may be."""
    yield "the request", given, _KEYS
    if isinstance(picture := given.get("picture"), dict):
        yield "picture", picture, _KEYS
    if isinstance(searches := given.get("searches"), list):
        yield "searches", searches, _SEARCHES
        for place, search in enumerate(searches):
            yield from _parts_of_search(f"searches.{place}", search)


def _parts_of_search(place: str, search: Any) -> Iterator[tuple[str, Any, int]]:
    if isinstance(search, dict):
        yield place, search, _KEYS
        if isinstance(settings := search.get("settings"), dict):
            yield f"{place}.settings", settings, _KEYS


def _said(error: ValidationError) -> str:
    """The first mistake, as a place and a reason."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the request"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
