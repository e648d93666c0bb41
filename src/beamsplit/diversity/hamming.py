"""The Hamming term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from beamsplit.diversity.term import Comparison, Earlier, Similarity, by_beam, count_equal

__all__ = ["Hamming"]


@dataclass(frozen=True, kw_only=True)
class Hamming:
    """The number of earlier beams with the same token at this step.

    >>> import torch
    >>> earlier = Earlier.of(torch.tensor([[[7], [7], [3]]]), time=0)
    >>> Hamming().penalty(torch.tensor([[[3, 5, 7]]]), torch.empty(1, 1, 0), earlier)
    tensor([[[1, 0, 2]]])
    """

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        return count_equal(tokens, earlier.tokens.unsqueeze(1))

    def reach(self, beams: int, length: int) -> int:
        """Return how many tokens may cost more than `least`, after so many earlier beams."""
        return beams

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        # [n beam k e] -> [n beam k]
        return similarity([tokens], [earlier.tokens.unsqueeze(1)]).sum(-1)

    def soft_pairs(
        self,
        tokens: Tensor,
        prefix: Tensor,
        similarity: Similarity,
        compare: Callable[[Sequence[Tensor]], Comparison],
    ) -> _SoftPairs:
        return _SoftPairs(tokens, compare([tokens.flatten(1)]))


@dataclass(frozen=True)
class _SoftPairs:
    """A candidate pays for similar tokens."""

    counts_finished: ClassVar[bool] = False
    tokens: Tensor  # [batch beam k]
    compared: Comparison

    def of(self, slots: Tensor) -> Tensor:
        return by_beam(self.compared.among(slots), self.tokens)

    def least(self, slots: Tensor) -> None:
        return None

    def totals(self, slots: Tensor, seen: Tensor) -> Tensor:
        return self.compared.totals(slots, seen)

    def floors(self, slots: Tensor, seen: Tensor) -> Tensor | None:
        return self.compared.floors(slots, seen)
