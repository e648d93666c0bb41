"""The similarity of texts by any encoder: a function from texts to vectors.

Vendi(kernel=EncoderCosine(encode=model.encode, name="all-MiniLM-L6-v2"))    the effective number of texts
Spread(kernel=EncoderCosine(encode=model.encode, name="all-MiniLM-L6-v2"))   their mean distance

Vendi is that of Friedman & Dieng 2022 with embeddings, as they take it of sentences; the mean distance of
sentence embeddings is that of Tevet & Berant 2021, "Evaluating the Evaluation of Diversity in Natural
Language Generation". They do not see what the encoder does not: most find a sentence and its negation
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import check_name
from beamsplit.metrics.diversity import cosine_of

__all__ = ["EncoderCosine"]


@dataclass(frozen=True, kw_only=True)
class EncoderCosine:
    """The cosine similarity of two texts' vectors, a `Kernel`.

    `encode` is called once for each list, with its different texts. It returns a vector for each: an array,
    a tensor on any device, or lists of numbers, [texts dimensions]. A text whose vector is zero resembles
    only its copies. `name` stands for the encoder in signatures.
    """

    encode: Callable[[list[str]], Any]
    name: str

    def __post_init__(self) -> None:
        check_name("the encoder", self.name)

    @property
    def signature(self) -> str:
        return f"encoder-cosine|encoder:{self.name}"

    def __call__(self, texts: Sequence[str]) -> Tensor:
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = _checked(self.encode(list(rows)), list(rows))
        return cosine_of(vectors[[rows[text] for text in texts]], texts)


def _checked(found: object, texts: Sequence[str]) -> Tensor:
    """Return vectors as a tensor. Raise if they are not one for each text, or not finite."""
    try:
        vectors = torch.as_tensor(found).detach().cpu().double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            f"encode must return numbers [texts dimensions], not {checks.short_repr(found)}"
        ) from error
    if vectors.dim() != 2 or len(vectors) != len(texts) or not vectors.numel():
        raise ArgumentError(
            f"encode must return [{len(texts)} dimensions] for {len(texts)} texts, not {list(vectors.shape)}"
        )
    if not bool(vectors.isfinite().all()):
        row = int((~vectors.isfinite()).any(1).nonzero()[0, 0])
        raise ArgumentError(
            f"encode must return finite numbers, but did not for {checks.short_repr(texts[row])}"
        )
    return vectors
