"""Where a chunk ends: with a sentence or a line, after so many tokens, or where a function says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["BOUNDARIES", "Boundary", "Chunk", "Ends", "check_chunk", "longest_of", "make_ends", "marks_of"]

Boundary: TypeAlias = Callable[[str], bool]
"""Whether a chunk with this text is complete."""
Chunk: TypeAlias = str | int | Boundary
"""What a chunk is: a name, a number of tokens, or a function."""
Ends: TypeAlias = Callable[[Sequence[int]], bool]
"""Whether a chunk with these tokens is complete."""

_MARKS = {"sentence": (*".!?\n…。！？",), "line": ("\n",)}  # the most common ones first
_LEAST = {"sentence": 4, "line": 1}  # tokens: "1." and "Mr." are no sentences, and few numbers are cut in two

BOUNDARIES = ("sentence", "line")


def check_chunk(chunk: object) -> None:
    """Raise unless this says what a chunk is."""
    if isinstance(chunk, str):
        if chunk not in BOUNDARIES:
            hint = checks.nearest(chunk, BOUNDARIES, f"there are {' and '.join(BOUNDARIES)}")
            raise ArgumentError(f"there is no chunk {chunk!r}: {hint}, or a number of tokens")
    elif checks.is_whole(chunk):
        checks.at_least("chunk", chunk, 1)
    elif not callable(chunk):
        raise ArgumentError(
            f"chunk must be 'sentence', 'line', a number of tokens or a function of a text, not "
            f"{checks.short_repr(chunk)}"
        )


def make_ends(chunk: Chunk, to_text: Callable[[tuple[int, ...]], str]) -> Ends:
    """Return a function that tells whether a chunk with these tokens is complete."""
    if callable(chunk):
        boundary = chunk
        return lambda tokens: bool(boundary(to_text(tuple(tokens))))
    if not isinstance(chunk, str):
        count = int(chunk)
        return lambda tokens: len(tokens) >= count
    return _by_last_token(frozenset(_MARKS[chunk]), _LEAST[chunk], to_text)


def marks_of(chunk: Chunk) -> tuple[tuple[str, ...], int] | None:
    """Return the marks that end a chunk, and how many tokens it has at least; None if a function says."""
    if isinstance(chunk, str):
        return _MARKS[chunk], _LEAST[chunk]
    return None if callable(chunk) else ((), 1)


def longest_of(chunk: Chunk, longest: int) -> int:
    """Return the most tokens of a chunk."""
    return longest if isinstance(chunk, str) or callable(chunk) else min(int(chunk), longest)


def _by_last_token(marks: frozenset[str], least: int, to_text: Callable[[tuple[int, ...]], str]) -> Ends:
    """Return whether the last token has one of these marks. Each token is read once."""
    known: dict[int, bool] = {}

    def ends(tokens: Sequence[int]) -> bool:
        last = int(tokens[-1])
        if last not in known:
            known[last] = not marks.isdisjoint(to_text((last,)))
        return known[last] and len(tokens) >= least

    return ends
