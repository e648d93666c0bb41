"""Likeness by words of content: in any form, and in pieces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from beamsplit.hypotheses import Hypothesis
from beamsplit.similarity.base import text_of

__all__ = ["ContentAlike"]

_WORD = re.compile(r"[^\W_]+")
_PIECE = 4  # letters of a piece, the spaces around a word included
_STEM = 3  # letters that a stem has at least
_RECENT = 1 << 14  # texts whose words are remembered

_ENDINGS = ("ings", "ing", "ies", "ied", "edly", "ed", "es", "ly", "s")
_COMMON = frozenset(
    "about above after again all also am an and any are as at be because been before being below between "
    "both but by can could did do does doing down during each even few for from further get got had has "
    "have having he her here hers him his how if in into is it its itself just let me more most much my "
    "no nor not now of off on once only or other our out over own same she should so some such than that "
    "the their them then there these they this those through to too under until up very was we were what "
    "when where which while who whom why will with would you your yours".split()
)
"""English words that say little. Those of other languages count like any other word."""


@dataclass(frozen=True)
class ContentAlike:
    """The mean of two shares: of the words of content, and of their four-letter pieces, that both have.

    Words count once, without their English endings. Pieces find compounds, and forms in other languages.
    """

    def __call__(self, first: Hypothesis, second: Hypothesis) -> float:
        one, other = text_of(first), text_of(second)
        if one == other:
            return 1.0
        return sum(map(_share, _parts(one), _parts(other))) / 2


def _share(first: frozenset[str], second: frozenset[str]) -> float:
    """Return Dice's coefficient: what both have, of what each has."""
    total = len(first) + len(second)
    return 2 * len(first & second) / total if total else 0.0


@lru_cache(_RECENT)
def _parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of a text's words of content, and the pieces of these words."""
    words = [word for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in _COMMON]
    pieces = (piece for word in words for piece in _pieces(f" {word} "))
    return frozenset(map(_stem, words)), frozenset(pieces)


def _pieces(word: str) -> list[str]:
    return [word[start : start + _PIECE] for start in range(max(1, len(word) - _PIECE + 1))]


def _stem(word: str) -> str:
    """Return a word without its ending.

    >>> _stem("walking"), _stem("walks"), _stem("bus")
    ('walk', 'walk', 'bus')
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word
