"""The cumulative term."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import Earlier, on_grid

__all__ = ["Cumulative"]


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """Sum over earlier beams of exp(-d / temperature), d the positions so far at which the two differ.

    This step's position counts. Beams that have drifted apart hardly matter to each other any more.
    (The paper prints the sum over beams inside the exponent, and a sign that would reward sameness;
    this is what we take it to mean.)
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("temperature", self.temperature)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        if_same, if_other = self._decayed(prefix, earlier)
        says = earlier.tokens[:, None, None]  # [n 1 1 e]
        # [n beam k e] -> [n beam k]
        return torch.where(tokens.unsqueeze(-1) == says, if_same.unsqueeze(2), if_other.unsqueeze(2)).sum(-1)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """What a token pays that no earlier beam says: [n beam]."""
        return self._decayed(prefix, earlier)[1].sum(-1)

    def _decayed(self, prefix: Tensor, earlier: Earlier) -> tuple[Tensor, Tensor]:
        """What each earlier beam costs a token that is the same as its, and any other: [n beam e]."""
        time = prefix.shape[-1]
        decay = _decay_table(self.temperature, time + 2).to(prefix.device)
        # [n beam e time] -> [n beam e]
        apart = (prefix.unsqueeze(2) != earlier.beams[:, None, :, :time]).sum(-1)
        speaks = (earlier.tokens >= 0).unsqueeze(1)  # [n 1 e]
        return decay[apart] * speaks, decay[apart + 1] * speaks


@functools.lru_cache(maxsize=256)
def _decay_table(temperature: float, size: int) -> Tensor:
    """exp(-d / temperature) for d = 0 .. size-1, on the grid. From `math.exp`, which is the same for
    every position, as a vectorised exponential need not be.
    """
    return on_grid(torch.tensor([math.exp(-d / temperature) for d in range(size)], dtype=torch.double))
