"""Reading requests, cheaply whatever they contain.

Python parses JSON without a pause, and validation writes a message about every wrong key. So the size of a
request is checked before it is parsed, and the number of its parts before it is validated.
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

__all__ = ["parse_request", "read_body"]

_MAX_KEYS = 20
_MAX_SEARCHES = 20  # more than `DecodeRequest` allows, whose own message is better

# A picture is the only part that may be large. JSON reads a match as one string, or never gets there.
_PICTURE = re.compile(rb'"data"\s*:\s*"[^"]{1000,}"')


async def read_body(request: Request, limits: DemoLimits) -> bytes:
    """Return the body of a request. Raise if it is too large or does not arrive in time."""
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


def parse_request(body: bytes, limits: DemoLimits) -> DecodeRequest:
    """Return the request in a body. Raise the first thing that is wrong with it, without quoting it."""
    _check_size(body, limits)
    content = _parse_json(body)
    _check_parts(content)
    try:
        return DecodeRequest.model_validate(content)
    except ValidationError as error:
        raise Problem(422, _first_message(error)) from None


def _check_size(body: bytes, limits: DemoLimits) -> None:
    if len(body) <= limits.rest_bytes:
        return
    picture = max((len(each.group()) for each in _PICTURE.finditer(body)), default=0)
    if len(body) - picture > limits.rest_bytes:
        most = f"{limits.rest_bytes:,}"
        raise Problem(413, f"the request without its picture is larger than {most} bytes: send a shorter one")


# JSON


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at character {error.pos}") from None
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise _not_json("it is nested too deeply") from None
    except ValueError:  # only numbers are left
        raise _not_json("it has a number that cannot be read") from None


def _refuse_constant(_: str) -> NoReturn:
    raise ValueError("JSON has no NaN and no Infinity")


def _not_json(reason: str) -> Problem:
    return Problem(400, f"the body is not JSON: {reason}")


# Validation


def _check_parts(content: Any) -> None:
    if not isinstance(content, dict):
        raise Problem(422, 'the request is not an object: send one such as {"text": "Hello."}')
    for path, part, most in _parts(content):
        if len(part) > most:
            raise Problem(422, f"{path} has {len(part):,} parts, and the limit is {most}: leave some out")


def _parts(content: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield each object and list that a request may have: its path, itself and the most parts it may have."""
    yield "the request", content, _MAX_KEYS
    if isinstance(picture := content.get("picture"), dict):
        yield "picture", picture, _MAX_KEYS
    if isinstance(searches := content.get("searches"), list):
        yield "searches", searches, _MAX_SEARCHES
        for index, search in enumerate(searches):
            yield from _parts_of_search(f"searches.{index}", search)


def _parts_of_search(path: str, search: Any) -> Iterator[tuple[str, Any, int]]:
    if isinstance(search, dict):
        yield path, search, _MAX_KEYS
        if isinstance(settings := search.get("settings"), dict):
            yield f"{path}.settings", settings, _MAX_KEYS


def _first_message(error: ValidationError) -> str:
    """Return the path and the reason of the first mistake."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"]) or "the request"
    return f"{path}: {first['msg'].removeprefix('Value error, ')}"
