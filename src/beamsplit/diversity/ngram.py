"""The n-gram term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import (
    LONG,
    Comparison,
    Earlier,
    Similarity,
    by_beam,
    count_equal,
    take_rows,
)

__all__ = ["NGram"]

_NONE = -2  # no token, and not the -1 of an empty place in a list either


@dataclass(frozen=True, kw_only=True)
class NGram:
    """The number of times that the n-gram which this token completes occurs in earlier groups, anywhere."""

    n: int = 2

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        if not self._has_ngrams(prefix, earlier):
            return torch.zeros_like(tokens)
        windows, context = self._windows(earlier.sequences).flatten(1, 2), self._context(prefix)
        # [n beam p]: does window p begin as this n-gram does?
        begins = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1)
        completes = torch.where(begins, windows[:, None, :, -1], -1)
        return count_equal(tokens, completes)

    def reach(self, beams: int, length: int) -> int:
        """Return how many tokens may cost something: those that an n-gram of earlier groups ends with.

        Groups hold as many finished sequences as beams.
        """
        return 2 * beams * max(length - self.n + 1, 0)

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        if not self._has_ngrams(prefix, earlier):
            return torch.zeros_like(tokens, dtype=torch.double)
        context = self._context(prefix).unsqueeze(2)  # [n beam 1 n-1]
        windows = self._windows(earlier.sequences).flatten(1, 2).unsqueeze(1)  # [n 1 p n]
        # [n beam k p] -> [n beam k]
        return similarity([*context.unbind(-1), tokens], windows.unbind(-1)).sum(-1)

    def pairs(self, tokens: Tensor, prefix: Tensor) -> _Pairs | None:
        if tokens.shape[-1] >= LONG:
            return None
        if prefix.shape[-1] < self.n - 1:
            return _no_ngrams(tokens)
        context = self._context(prefix)
        begins_alike = (context.unsqueeze(2) == context.unsqueeze(1)).all(-1)
        return _Pairs(tokens, self._said_before(tokens, prefix, context), begins_alike)

    def _said_before(self, tokens: Tensor, prefix: Tensor, context: Tensor) -> Tensor | None:
        """Return how often each beam has had the n-gram that a candidate completes: [batch e beam k]."""
        if prefix.shape[-1] < self.n:
            return None
        windows = self._windows(prefix).unsqueeze(2)  # [batch e 1 w n]
        # [batch e beam w]
        begins = (context[:, None, :, None] == windows[..., :-1]).all(-1)
        completes = torch.where(begins, windows[..., -1], _NONE)
        return (tokens[:, None, ..., None] == completes.unsqueeze(3)).sum(-1)

    def soft_pairs(
        self,
        tokens: Tensor,
        prefix: Tensor,
        similarity: Similarity,
        compare: Callable[[Sequence[Tensor]], Comparison],
    ) -> _SoftPairs | _Pairs:
        if prefix.shape[-1] < self.n - 1:
            return _no_ngrams(tokens)
        context = self._context(prefix).unsqueeze(2)  # [batch beam 1 n-1]
        ngrams = [each.expand_as(tokens).flatten(1) for each in (*context.unbind(-1), tokens)]
        compared = compare(ngrams)
        return _SoftPairs(tokens, self._like_before(compared, prefix), compared)

    def _like_before(self, compared: Comparison, prefix: Tensor) -> Tensor | None:
        """Return how like the n-grams of each beam an n-gram is, all in all: [batch e a]."""
        if prefix.shape[-1] < self.n:
            return None
        return compared.sums(self._windows(prefix).unbind(-1))

    def _has_ngrams(self, prefix: Tensor, earlier: Earlier) -> bool:
        """Return whether prefixes and earlier sequences are long enough for an n-gram."""
        return prefix.shape[-1] >= self.n - 1 and earlier.sequences.shape[-1] >= self.n

    def _windows(self, sequences: Tensor) -> Tensor:
        """Return all n-grams of sequences: [n f length] -> [n f w n]."""
        return sequences.unfold(-1, self.n, 1)

    def _context(self, prefix: Tensor) -> Tensor:
        """Return the last n-1 tokens of each beam: [n beam n-1]."""
        return prefix[..., prefix.shape[-1] - (self.n - 1) :]


@dataclass(frozen=True)
class _Pairs:
    """A candidate pays for n-grams that the other's beam has had, and for the one that it completes."""

    counts_finished: ClassVar[bool] = True
    tokens: Tensor  # [batch beam k]
    said_before: Tensor | None  # [batch e beam k] by the beam that is extended; None: nothing yet
    begins_alike: Tensor  # [batch e beam] whether what is completed begins as this beam's n-gram does

    def of(self, slots: Tensor) -> Tensor:
        parents = slots // self.tokens.shape[2]
        said = self.tokens.flatten(1).gather(1, slots).unsqueeze(2)  # [batch e 1]
        # [batch e beam]: what would complete the same n-gram
        completes = torch.where(take_rows(self.begins_alike, parents), said, _NONE)
        completed = completes.unsqueeze(3) == self.tokens.unsqueeze(1)
        return completed if self.said_before is None else take_rows(self.said_before, parents) + completed

    def least(self, slots: Tensor) -> None:
        return None


def _no_ngrams(tokens: Tensor) -> _Pairs:
    """Return pairs that cost nothing, as nothing that is said completes an n-gram."""
    batch, beams, _ = tokens.shape
    return _Pairs(tokens, None, tokens.new_zeros(batch, beams, beams, dtype=torch.bool))


@dataclass(frozen=True)
class _SoftPairs:
    """The same with n-grams that are alike."""

    counts_finished: ClassVar[bool] = True
    tokens: Tensor  # [batch beam k]
    like_before: Tensor | None  # [batch e beam*k] by the beam that is extended; None: nothing yet
    compared: Comparison

    def of(self, slots: Tensor) -> Tensor:
        alike = self.compared.among(slots)
        if self.like_before is not None:
            alike = alike + take_rows(self.like_before, slots // self.tokens.shape[2])
        return by_beam(alike, self.tokens)

    def least(self, slots: Tensor) -> None:
        return None
