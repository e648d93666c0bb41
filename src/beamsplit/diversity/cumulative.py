"""The cumulative term."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import Earlier, Similarity, on_grid

__all__ = ["Cumulative"]


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """The sum over earlier beams of exp(-d / temperature), d the positions so far at which the two differ.

    This step's position counts. Beams that have drifted apart hardly affect each other.
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
        """Return the penalty of a token that no earlier beam has: [n beam]."""
        return self._decayed(prefix, earlier)[1].sum(-1)

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        apart = _soft_distance(prefix, earlier, similarity).unsqueeze(2)  # [n beam 1 e]
        alike = similarity([tokens], [earlier.tokens.unsqueeze(1)])  # [n beam k e]
        speaks = (earlier.tokens >= 0)[:, None, None]
        return (self._decay(apart + (1.0 - alike)) * speaks).sum(-1)

    def soft_least(self, prefix: Tensor, earlier: Earlier, similarity: Similarity) -> Tensor:
        """Return the penalty of a token that is like no other: [n beam]."""
        apart = _soft_distance(prefix, earlier, similarity)
        speaks = (earlier.tokens >= 0).unsqueeze(1)
        return (self._decay(apart + 1.0) * speaks).sum(-1)

    def _decay(self, distance: Tensor) -> Tensor:
        return on_grid(torch.exp(-distance / self.temperature))

    def _decayed(self, prefix: Tensor, earlier: Earlier) -> tuple[Tensor, Tensor]:
        """Return what each earlier beam costs a token that equals its own, and any other: [n beam e]."""
        time = prefix.shape[-1]
        decay = _decay_table(self.temperature, time + 2, prefix.device)
        # [n beam e time] -> [n beam e]
        apart = (prefix.unsqueeze(2) != earlier.beams[:, None, :, :time]).sum(-1)
        speaks = (earlier.tokens >= 0).unsqueeze(1)  # [n 1 e]
        return decay[apart] * speaks, decay[apart + 1] * speaks


@functools.lru_cache(maxsize=256)
def _decay_table(temperature: float, size: int, device: torch.device) -> Tensor:
    """Return exp(-d / temperature) for d = 0 .. size-1, on the grid.

    It is made by `math.exp`, which gives the same bits for every position and every device, as a
    vectorised exponential need not.
    """
    values = [math.exp(-d / temperature) for d in range(size)]
    return on_grid(torch.tensor(values, dtype=torch.double, device="cpu")).to(device)


def _soft_distance(prefix: Tensor, earlier: Earlier, similarity: Similarity) -> Tensor:
    """Return how far each earlier beam has drifted from each of these, up to the last step: [n beam e]."""
    before = earlier.beams[..., : prefix.shape[-1]]
    # At each position by itself: [n time beam], [n time e] -> [n time beam e]
    alike = similarity([prefix.transpose(1, 2)], [before.transpose(1, 2)])
    return (1.0 - alike).sum(1)
