"""What is made up for readers: values that JSON may have, spoilt copies of what is right, and the law."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from beamsplit.errors import BeamsplitError

T = TypeVar("T")

_MORE = os.environ.get("BEAMSPLIT_FUZZ")

fuzzed = settings(
    derandomize=_MORE is None,
    database=None,
    deadline=None,
    max_examples=int(_MORE or 60),
    suppress_health_check=list(HealthCheck),
)
"""The same few cases every time; with BEAMSPLIT_FUZZ=5000, so many, and others every time."""

ODD_TEXTS = [
    "",
    " ",
    "\0",
    "a\nb",
    "\u2028",
    "\ud800",
    "é" * 300,
    "nan",
    "1e999",
    "-1",
    "0",
    "../..",
    "{}",
    "=1+1",
]
ODD_NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.5, 1e308, float("inf"), float("nan")]

texts = st.sampled_from(ODD_TEXTS) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
"""Anything that JSON may hold."""


@st.composite
def spoilt(draw: st.DrawFn, right: Any) -> Any:
    """A copy of a value with some part of it, or all, replaced, left out, doubled or added."""
    found = {"value": copy.deepcopy(right)}
    for _ in range(draw(st.integers(1, 2))):
        _spoil(draw, found)
    return found.get("value")


def _spoil(draw: st.DrawFn, whole: Any) -> None:
    inside: Any = whole
    key: Any = "value"
    while True:
        below = inside.get(key) if isinstance(inside, dict) else inside[key]
        if not (isinstance(below, dict | list) and below) or draw(st.integers(0, 3)) == 0:
            break
        inside = below
        key = draw(st.sampled_from(sorted(below, key=repr) if isinstance(below, dict) else range(len(below))))
    change = draw(st.sampled_from(["replace", "remove", "double", "add"]))
    if change == "replace":
        inside[key] = draw(values)
    elif change == "add" and isinstance(inside, dict):
        inside[draw(texts)] = draw(values)
    elif change == "double" and isinstance(inside, list):
        inside.append(inside[key])
    elif key in inside or isinstance(inside, list):
        del inside[key]


@st.composite
def spoilt_bytes(draw: st.DrawFn, right: bytes) -> bytes:
    """Bytes with some replaced, cut off or put in."""
    found = bytearray(right)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found)))
        cut = draw(st.sampled_from([0, 0, 1, 2, len(found)]))
        found[at : at + cut] = draw(
            st.binary(max_size=3) | st.sampled_from([b"\0", b"\xff", b"\n", b'"', b"[" * 9])
        )
    return bytes(found)


def read_or_refused(read: Callable[..., T], *given: Any) -> T | None:
    """Return what is read, or None where it is refused in one line. Nothing else may happen."""
    try:
        return read(*given)
    except BeamsplitError as error:
        said = str(error)
        assert said
        assert len(said.splitlines()) == 1, said
        assert len(said) < 2_000, said
        return None
