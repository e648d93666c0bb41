"""What a similarity is, and similarities made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypothesis

__all__ = ["MeanAlike", "Similarity", "TextsAlike", "checked_likeness", "prepare", "text_of"]

Similarity: TypeAlias = Callable[[Hypothesis, Hypothesis], float]
"""How alike two outputs are: from 0 to 1, the same in both directions, and 1 for the same output."""

_ROUNDING = 1e-6  # by which a cosine may lie outside 0 to 1


@dataclass(frozen=True)
class TextsAlike:
    """A similarity by a function of two texts."""

    function: Callable[[str, str], float]

    def __call__(self, first: Hypothesis, second: Hypothesis) -> float:
        return checked_likeness(self.function(text_of(first), text_of(second)))


@dataclass(frozen=True)
class MeanAlike:
    """The mean of several similarities."""

    similarities: Sequence[Similarity]

    def prepare(self, hypotheses: Sequence[Hypothesis]) -> None:
        for each in self.similarities:
            prepare(each, hypotheses)

    def __call__(self, first: Hypothesis, second: Hypothesis) -> float:
        return sum(each(first, second) for each in self.similarities) / len(self.similarities)


def prepare(similarity: Similarity, hypotheses: Sequence[Hypothesis]) -> None:
    """Tell a similarity what will be compared, so that an encoder can read it in one go."""
    told = getattr(similarity, "prepare", None)
    if told is not None:
        told(hypotheses)


def text_of(hypothesis: Hypothesis) -> str:
    """Return the text of a hypothesis. Raise if it has none."""
    if hypothesis.text is None:
        raise ArgumentError(
            "a similarity of texts needs texts, and these outputs have none: give the model a to_text, or "
            "the list texts"
        )
    return hypothesis.text


def checked_likeness(value: float) -> float:
    """Return a similarity. Raise if it lies outside 0 to 1."""
    if not -_ROUNDING <= value <= 1 + _ROUNDING:
        raise ArgumentError(f"a similarity is {value}: return 0 to 1")
    return min(max(float(value), 0.0), 1.0)
