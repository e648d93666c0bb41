"""The n-gram term."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import Earlier

__all__ = ["NGram", "last_tokens", "ngrams_of"]


@dataclass(frozen=True, kw_only=True)
class NGram:
    """How often the n-gram that this token completes occurs in earlier groups, wherever it stands."""

    n: int = 2

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        windows = ngrams_of(earlier.sequences, self.n)
        if windows is None or prefix.shape[-1] < self.n - 1:
            return torch.zeros_like(tokens)
        context = last_tokens(prefix, self.n)
        # [n beam p]: does window p begin as this n-gram does?
        begins = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1)
        completes = torch.where(begins, windows[:, None, :, -1], -1)
        # [n beam k p] -> [n beam k]
        return (tokens.unsqueeze(-1) == completes.unsqueeze(2)).sum(-1)


def ngrams_of(sequences: Tensor, n: int) -> Tensor | None:
    """All n-grams of the sequences: [n f length] -> [n p n], or None if they are too short."""
    if sequences.shape[-1] < n:
        return None
    return sequences.unfold(-1, n, 1).flatten(1, 2)


def last_tokens(prefix: Tensor, n: int) -> Tensor:
    """The last n-1 tokens: [n beam time] -> [n beam n-1]."""
    return prefix[..., prefix.shape[-1] - (n - 1) :]
