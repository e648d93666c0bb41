"""Likeness by a sentence encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypothesis
from beamsplit.similarity.base import text_of

__all__ = ["EncoderAlike"]

_RECENT = 1 << 14  # texts whose vectors are remembered


class EncoderAlike:
    """The cosine of two texts' vectors; below 0 it is 0.

    `encode` turns a list of texts into vectors [texts dimensions]: the method of that name of a
    sentence-transformers model, or any function. A text is encoded once.
    """

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self._encode = encode
        self._vectors: dict[str, Tensor] = {}

    def prepare(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encode all of these at once."""
        texts = list(dict.fromkeys(map(text_of, hypotheses)))
        new = [text for text in texts if text not in self._vectors]
        if not new:
            return
        if len(self._vectors) + len(new) > _RECENT:
            self._vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        self._vectors.update(zip(new, _checked(self._encode(new), len(new)), strict=True))

    def __call__(self, first: Hypothesis, second: Hypothesis) -> float:
        one, other = text_of(first), text_of(second)
        if one == other:
            return 1.0
        self.prepare([first, second])
        return max(0.0, float(self._vectors[one] @ self._vectors[other]))


def _checked(found: object, count: int) -> Tensor:
    """Return vectors of length 1. Raise if they are not one for each text, or not finite."""
    try:
        vectors = torch.as_tensor(found).detach().cpu().float()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            f"encode must return numbers [texts dimensions], not {checks.short_repr(found)}"
        ) from error
    if vectors.dim() != 2 or len(vectors) != count or not bool(vectors.isfinite().all()):
        raise ArgumentError(
            f"encode must return finite numbers [{count} dimensions] for {count} texts, and returned "
            f"{list(vectors.shape)}"
        )
    return torch.nn.functional.normalize(vectors)
