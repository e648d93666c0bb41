"""The n-gram term."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import Earlier, Similarity, count_equal

__all__ = ["NGram"]


@dataclass(frozen=True, kw_only=True)
class NGram:
    """The number of times that the n-gram which this token completes occurs in earlier groups, anywhere."""

    n: int = 2

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        if not self._has_ngrams(prefix, earlier):
            return torch.zeros_like(tokens)
        windows, context = self._windows(earlier), self._context(prefix)
        # [n beam p]: does window p begin as this n-gram does?
        begins = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1)
        completes = torch.where(begins, windows[:, None, :, -1], -1)
        return count_equal(tokens, completes)

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        if not self._has_ngrams(prefix, earlier):
            return torch.zeros_like(tokens, dtype=torch.double)
        context = self._context(prefix).unsqueeze(2)  # [n beam 1 n-1]
        windows = self._windows(earlier).unsqueeze(1)  # [n 1 p n]
        # [n beam k p] -> [n beam k]
        return similarity([*context.unbind(-1), tokens], windows.unbind(-1)).sum(-1)

    def _has_ngrams(self, prefix: Tensor, earlier: Earlier) -> bool:
        """Return whether prefixes and earlier sequences are long enough for an n-gram."""
        return prefix.shape[-1] >= self.n - 1 and earlier.sequences.shape[-1] >= self.n

    def _windows(self, earlier: Earlier) -> Tensor:
        """Return all n-grams of the earlier sequences: [n p n]."""
        return earlier.sequences.unfold(-1, self.n, 1).flatten(1, 2)

    def _context(self, prefix: Tensor) -> Tensor:
        """Return the last n-1 tokens of each beam: [n beam n-1]."""
        return prefix[..., prefix.shape[-1] - (self.n - 1) :]
