"""What the models have in common: lists of inputs, checked, and decoded in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from beamsplit import checks
from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel
from beamsplit.models.text import normalised
from beamsplit.strategies import Strategy

__all__ = ["check_texts", "decode_in_batches"]


def decode_in_batches(
    model: StepModel,
    inputs: Sequence[Any] | Tensor,
    strategy: Strategy,
    *,
    max_length: int,
    batch_size: int = 32,
    seed: int | Sequence[int] = 0,
    **options: Any,
) -> list[Hypotheses]:
    """As `decode`, for more inputs than there is memory for at once."""
    size = checks.at_least("batch_size", batch_size, 1)
    seeds = _seeds(seed, len(inputs))
    return [
        found
        for begin in range(0, len(inputs), size)
        for found in decode(
            model,
            inputs[begin : begin + size],
            strategy,
            max_length=max_length,
            seed=seeds[begin : begin + size],
            **options,
        )
    ]


def check_texts(texts: object) -> None:
    """Whether these are texts, none of them empty."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise ArgumentError(f"texts must be a list of strings, not {checks.shown(texts)}")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise ArgumentError(f"text {place} must be a string, not {checks.shown(text)}")
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ArgumentError(
                f"text {place} is {checks.shown(text)}, with half letters: decode it as UTF-8"
            )
        if not normalised(text):
            raise ArgumentError(f"text {place} is empty: there is nothing to translate")


def _seeds(seed: int | Sequence[int], count: int) -> list[int]:
    """One an input, so that what it gets does not depend on the batch it falls into."""
    given = checks.once(seed)
    if not isinstance(given, list):
        return [checks.whole_number("seed", given) + i for i in range(count)]
    if len(given) != count:
        raise ArgumentError(
            f"seed has {len(given)} values for {count} inputs: give one number, or one an input"
        )
    return given
