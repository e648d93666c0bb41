"""Scorers: how hypotheses of different lengths are ranked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["LengthNormalised", "LogProb", "Scorer"]


class Scorer(Protocol):
    """Turns the sum that the search maximises into the score that hypotheses are ranked by."""

    def final(self, total: Tensor, length: Tensor | int) -> Tensor:
        """Return the score of a hypothesis with this total and this many tokens, its end included."""
        ...

    def bound(self, total: Tensor, length: int, max_length: int) -> Tensor:
        """Return an upper bound on the score of any continuation of a beam with this total and length.

        Totals never rise. A group stops when all its hypotheses beat the bound of its best beam. So a bound
        that is too low stops too early, and one that is too high only costs time.

        A scorer may have an attribute `stopping`, a `StoppingRule`; see `beamsplit.search.stopping`. A class
        with `capturable = True` takes a tensor for `length` too, and asks no tensor for its values, so that a
        GPU can stop groups by itself.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class LogProb:
    """The sum itself: the likeliest sequence wins, which favours short ones."""

    capturable = True

    def final(self, total: Tensor, length: Tensor | int) -> Tensor:
        return total

    def bound(self, total: Tensor, length: int, max_length: int) -> Tensor:
        return total


@dataclass(frozen=True, kw_only=True)
class LengthNormalised:
    """The sum divided by length ** alpha; alpha=1 is the mean over tokens. Prompts do not count.

    stop="exact" goes on while any beam could still win, which takes long when max_length is large.
    stop="first" ends a group as soon as it has as many hypotheses as beams.
    """

    capturable = True

    alpha: float = 1.0
    stop: Literal["exact", "first"] = "exact"

    def __post_init__(self) -> None:
        checks.non_negative("alpha", self.alpha)
        if self.stop not in ("exact", "first"):
            raise ArgumentError(f"stop must be 'exact' or 'first', not {checks.short_repr(self.stop)}")

    def final(self, total: Tensor, length: Tensor | int) -> Tensor:
        if isinstance(length, Tensor):
            length = length.to(total.dtype)  # or the power would be taken in float32
        return total / length**self.alpha

    def bound(self, total: Tensor, length: int, max_length: int) -> Tensor:
        if self.stop == "first":
            return torch.full_like(total, -torch.inf)
        # A negative total looks best when divided by most, a positive one when divided by least.
        return torch.maximum(self.final(total, max_length), self.final(total, length))
