"""Check inputs of models."""

from __future__ import annotations

from collections.abc import Sequence

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.models.text import normalised

__all__ = ["check_texts"]


def check_texts(texts: object) -> None:
    """Raise if these are not texts, or if one is empty."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise ArgumentError(f"texts must be a list of strings, not {checks.short_repr(texts)}")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ArgumentError(f"text {index} must be a string, not {checks.short_repr(text)}")
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(
                f"text {index} is {checks.short_repr(text)}, with half letters: decode it as UTF-8"
            )
        if not normalised(text):
            raise ArgumentError(f"text {index} is empty: there is nothing to translate")
