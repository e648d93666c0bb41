"""The embedding term: any of the others, softened by word vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.cumulative import Cumulative
from beamsplit.diversity.hamming import Hamming
from beamsplit.diversity.ngram import NGram, last_tokens, ngrams_of
from beamsplit.diversity.term import Earlier, on_grid
from beamsplit.errors import ArgumentError

__all__ = ["Embedding"]

_VECTOR_GRID = 2.0**20  # components of word vectors: float64 adds up their products without rounding
_AT_ONCE = 2**25  # numbers that a term holds at once: a quarter of a gigabyte

SoftTerm: TypeAlias = Hamming | Cumulative | NGram


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """One of the other terms with "is the same word" softened to cosine similarity, clipped at 0.

    `vectors` [vocab dim] has a row for each token of the model; an n-gram's vector is the sum of its
    words'. A token without a vector (a row of zeros) resembles only itself.
    """

    vectors: Tensor
    of: SoftTerm = field(default_factory=Hamming)
    _whole: dict[torch.device, Tensor] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.of, Hamming | Cumulative | NGram):
            raise ArgumentError(
                f"of must be Hamming(), Cumulative(...) or NGram(...), not {checks.shown(self.of)}"
            )
        _check_vectors(self.vectors)
        vectors = self.vectors.detach().double()
        longest = vectors.norm(dim=1).amax().clamp(min=torch.finfo(torch.double).tiny)
        # Whole numbers (as float64) make dot products exact, whatever the shape of the product.
        self._whole[vectors.device] = (vectors / longest * _VECTOR_GRID).round()

    @property
    def vocabulary(self) -> int:
        return self.vectors.shape[0]

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        # Each token is compared with all that was said: with a whole vocabulary of them, some at a time.
        said = earlier.sequences if isinstance(self.of, NGram) else earlier.tokens
        others = max(math.prod(said.shape[1:]), self.vectors.shape[1])
        some = max(1, _AT_ONCE // max(1, math.prod(tokens.shape[:2]) * others))
        parts = [self._penalty(part, prefix, earlier) for part in torch.split(tokens, some, 2)]
        return torch.cat(parts, 2)

    def _penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        match self.of:
            case Hamming():
                return self._alike(tokens, earlier.tokens).sum(-1)
            case Cumulative(temperature=temperature):
                return self._cumulative(tokens, prefix, earlier, temperature)
            case NGram(n=n):
                return self._ngram(tokens, prefix, earlier.sequences, n)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """What a token pays that is like nothing: [n beam]."""
        if not isinstance(self.of, Cumulative):
            return torch.zeros(prefix.shape[:2], device=prefix.device)
        apart = self._apart(prefix, earlier) + 1.0
        speaks = (earlier.tokens >= 0).unsqueeze(1)
        return (on_grid(torch.exp(-apart / self.of.temperature)) * speaks).sum(-1)

    def _cumulative(self, tokens: Tensor, prefix: Tensor, earlier: Earlier, temperature: float) -> Tensor:
        apart = self._apart(prefix, earlier).unsqueeze(2)
        apart = apart + (1.0 - self._alike(tokens, earlier.tokens))  # [n beam k e]
        speaks = (earlier.tokens >= 0)[:, None, None]
        return (on_grid(torch.exp(-apart / temperature)) * speaks).sum(-1)

    def _apart(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """How far each earlier beam has drifted from each of these: [n beam e]."""
        before = earlier.beams[..., : prefix.shape[-1]]
        # [n beam e time] -> [n beam e]
        alike = self._cosine(
            self._vector(prefix).unsqueeze(2), self._vector(before).unsqueeze(1)
        ).masked_fill(prefix.unsqueeze(2) == before.unsqueeze(1), 1.0)
        return (1.0 - alike).sum(-1)

    def _ngram(self, tokens: Tensor, prefix: Tensor, sequences: Tensor, n: int) -> Tensor:
        windows = ngrams_of(sequences, n)
        if windows is None or prefix.shape[-1] < n - 1:
            return torch.zeros_like(tokens, dtype=torch.double)
        context = last_tokens(prefix, n)
        complete = (windows >= 0).all(-1)  # [n p]
        theirs = self._vector(windows).sum(-2)  # [n p dim]
        ours = self._vector(context).sum(-2).unsqueeze(2) + self._vector(tokens)  # [n beam k dim]
        alike = self._cosine_to_all(ours, theirs)  # [n beam k p]
        same = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1).unsqueeze(2) & (
            tokens.unsqueeze(-1) == windows[:, None, None, :, -1]
        )
        return (alike.masked_fill(same, 1.0) * complete[:, None, None]).sum(-1)

    def _alike(self, tokens: Tensor, others: Tensor) -> Tensor:
        """[n beam k], [n e] -> [n beam k e]: 1 for the same token, 0 where there is none."""
        cosine = self._cosine_to_all(self._vector(tokens), self._vector(others))
        same = tokens.unsqueeze(-1) == others[:, None, None]
        return cosine.masked_fill(same, 1.0) * (others >= 0)[:, None, None]

    def _vector(self, tokens: Tensor) -> Tensor:
        """[...] -> [... dim]; a place without a token gets some vector, to be masked."""
        if tokens.device not in self._whole:
            self._whole[tokens.device] = self._whole[self.vectors.device].to(tokens.device)
        return self._whole[tokens.device][tokens.clamp(min=0)]

    def _cosine_to_all(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """[n beam k dim], [n p dim] -> [n beam k p]."""
        dot = ours @ theirs.transpose(1, 2).unsqueeze(1)
        squares = (ours * ours).sum(-1).unsqueeze(-1) * (theirs * theirs).sum(-1)[:, None, None]
        return _clipped_cosine(dot, squares)

    def _cosine(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """[... dim], [... dim] -> [...], with the usual broadcasting."""
        squares = (ours * ours).sum(-1) * (theirs * theirs).sum(-1)
        return _clipped_cosine((ours * theirs).sum(-1), squares)


def _check_vectors(vectors: object) -> None:
    if not isinstance(vectors, Tensor) or vectors.dim() != 2 or not vectors.is_floating_point():
        got = (
            f"{vectors.dtype} {list(vectors.shape)}" if isinstance(vectors, Tensor) else checks.shown(vectors)
        )
        raise ArgumentError(f"vectors must be a float tensor [vocabulary dimensions], not {got}")
    if not vectors.numel():
        raise ArgumentError(f"vectors are {list(vectors.shape)}, which is empty: give a row for each token")
    if not bool(vectors.isfinite().all()):
        row = int((~vectors.isfinite()).any(1).nonzero()[0, 0])
        raise ArgumentError(f"vectors must be finite, but row {row} is NaN or infinite: give it zeros")


def _clipped_cosine(dot: Tensor, squares: Tensor) -> Tensor:
    return on_grid((dot / squares.sqrt().clamp(min=1.0)).clamp(0.0, 1.0))
