"""Likeness by the token vectors of the model that is decoded, in any language that it knows.

A text's vector is the sum over its tokens, each weighed by how rare it is. Vectors are whitened first: in the
space of a language model's embeddings a few directions, which tell frequent tokens from rare ones, would
outweigh all that has to do with meaning (Arora et al. 2017 weigh and take away directions of sentence
vectors; Yokoi et al. 2024 whiten word vectors by Zipf's law).

Where a vocabulary was learned by merging pairs, a token's id is close to its rank by frequency, so that ids
stand for counts: that of rank r is taken to occur in proportion to 1 / (r + 100).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypothesis

__all__ = ["TokensAlike"]

_OFFSET = 100  # of Zipf's law: the first ranks are about as frequent
_HALF = 3000  # the rank whose tokens weigh half
_KNOWN, _KNOWN_OF_WIDE = 8192, 2048  # tokens that directions are found from: fewer where vectors are wide
_WIDE = 1024
_SMALLEST = 1e-6  # a direction in which tokens vary less, in proportion, is taken to vary so much
_RECENT = 1 << 14  # texts whose vectors are remembered
_MODELS = 4  # vocabularies whose directions are remembered

ToText = Callable[[tuple[int, ...]], str]


class TokensAlike:
    """The cosine of two outputs' vectors; below 0 it is 0.

    `vectors` [vocabulary dimensions] are a model's `word_vectors`. With its `to_text`, tokens without two
    letters or digits count for nothing: signs, and in some vocabularies single letters with high ids.
    """

    def __init__(self, vectors: Tensor, to_text: ToText | None = None) -> None:
        if vectors.dim() != 2:
            raise ArgumentError(f"vectors have the shape {list(vectors.shape)}: give [vocabulary dimensions]")
        self._table = vectors
        self._to_text = to_text
        self._mean, self._axes = _directions(vectors)
        self._vector = lru_cache(_RECENT)(self._vector_of)
        self._weight = lru_cache(None)(self._weight_of)

    def __call__(self, first: Hypothesis, second: Hypothesis) -> float:
        if first.tokens == second.tokens:
            return 1.0
        return max(0.0, float(self._vector(first.tokens) @ self._vector(second.tokens)))

    def _vector_of(self, tokens: tuple[int, ...]) -> Tensor:
        if not tokens:
            return torch.zeros(self._axes.shape[1], device="cpu")
        ids = torch.tensor(tokens, device=self._table.device)
        weights = torch.tensor([self._weight(token) for token in tokens], device="cpu")
        centred = self._table[ids].float().cpu() - self._mean
        return torch.nn.functional.normalize((weights @ centred) @ self._axes, dim=0)

    def _weight_of(self, token: int) -> float:
        """Return what a token counts: the more, the rarer it is."""
        if self._to_text is not None and sum(map(str.isalnum, self._to_text((token,)))) < 2:
            return 0.0
        return token / (token + _HALF)


_known: dict[str, tuple[Tensor, Tensor]] = {}


def _directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean vector, and the axes that whiten vectors [dimensions axes]; by content, remembered."""
    sample = vectors[:: max(1, len(vectors) // 256)].float().cpu().contiguous()
    key = hashlib.blake2b(sample.numpy().tobytes(), digest_size=16).hexdigest() + str(list(vectors.shape))
    if key not in _known:
        while len(_known) >= _MODELS:
            _known.pop(next(iter(_known)))
        _known[key] = _find_directions(vectors)
    return _known[key]


def _find_directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean, and the axes divided by how much tokens vary along them, under Zipf's law."""
    count = _KNOWN_OF_WIDE if vectors.shape[1] > _WIDE else _KNOWN
    known = vectors[:count].float().cpu()
    share = 1 / (torch.arange(len(known), device="cpu") + float(_OFFSET))
    share /= share.sum()
    mean = share @ known
    weighed = (known - mean) * share.sqrt().unsqueeze(1)
    if len(known) >= vectors.shape[1]:
        size, axes = torch.linalg.eigh(weighed.T @ weighed)
        return mean, axes / size.clamp(min=_SMALLEST * float(size[-1])).sqrt()
    # Fewer tokens than dimensions: the axes are combinations of their vectors.
    size, mixes = torch.linalg.eigh(weighed @ weighed.T)
    size = size.clamp(min=_SMALLEST * float(size[-1]))
    return mean, weighed.T @ mixes / size
