"""The cumulative term."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity.term import Comparison, Earlier, Similarity, by_beam, on_grid, take_rows

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
        if_same, if_other = self._decayed(prefix, earlier.beams)
        says = earlier.tokens[:, None, None]  # [n 1 1 e]
        # [n beam k e]
        costs = torch.where(tokens.unsqueeze(-1) == says, if_same.unsqueeze(2), if_other.unsqueeze(2))
        return (costs * (says >= 0)).sum(-1)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """Return the penalty of a token that no earlier beam has: [n beam]."""
        speaks = (earlier.tokens >= 0).unsqueeze(1)
        return (self._decayed(prefix, earlier.beams)[1] * speaks).sum(-1)

    def reach(self, beams: int, length: int) -> int:
        """Return how many tokens may cost more than `least`, after so many earlier beams."""
        return beams

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        apart = _soft_distance(prefix, earlier.beams, similarity).unsqueeze(2)  # [n beam 1 e]
        alike = similarity([tokens], [earlier.tokens.unsqueeze(1)])  # [n beam k e]
        speaks = (earlier.tokens >= 0)[:, None, None]
        return (_decay(apart + (1.0 - alike), self.temperature) * speaks).sum(-1)

    def soft_least(self, prefix: Tensor, earlier: Earlier, similarity: Similarity) -> Tensor:
        """Return the penalty of a token that is like no other: [n beam]."""
        apart = _soft_distance(prefix, earlier.beams, similarity)
        speaks = (earlier.tokens >= 0).unsqueeze(1)
        return (_decay(apart + 1.0, self.temperature) * speaks).sum(-1)

    def pairs(self, tokens: Tensor, prefix: Tensor) -> _Pairs:
        if_same, if_other = self._decayed(prefix, prefix)
        return _Pairs(tokens, if_same, if_other)

    def soft_pairs(
        self,
        tokens: Tensor,
        prefix: Tensor,
        similarity: Similarity,
        compare: Callable[[Sequence[Tensor]], Comparison],
    ) -> _SoftPairs:
        apart = _soft_distance(prefix, prefix, similarity)
        return _SoftPairs(self.temperature, tokens, apart, compare([tokens.flatten(1)]))

    def _decayed(self, prefix: Tensor, beams: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each of other beams [n e ...] costs a token that equals its own, and any other.

        Both are [n beam e].
        """
        time = prefix.shape[-1]
        decay = _decay_table(self.temperature, time + 2, prefix.device)
        # [n beam e time] -> [n beam e]
        apart = (prefix.unsqueeze(2) != beams[:, None, :, :time]).sum(-1)
        return decay[apart], decay[apart + 1]


@dataclass(frozen=True)
class _Pairs:
    """A candidate pays for the beam that the other extends: one sum if it is the same token, or else another.

    Beams are as far apart from each other as the other way round, so it does not matter whose axis is whose.
    """

    counts_finished: ClassVar[bool] = False
    tokens: Tensor  # [batch beam k]
    if_same: Tensor  # [batch beam beam]
    if_other: Tensor  # [batch beam beam]

    def of(self, slots: Tensor) -> Tensor:
        parents = slots // self.tokens.shape[2]
        same, other = (take_rows(each, parents).unsqueeze(3) for each in (self.if_same, self.if_other))
        said = self.tokens.flatten(1).gather(1, slots)[..., None, None]  # [batch e 1 1]
        return torch.where(said == self.tokens.unsqueeze(1), same, other)

    def least(self, slots: Tensor) -> Tensor:
        return take_rows(self.if_other, slots // self.tokens.shape[2])


@dataclass(frozen=True)
class _SoftPairs:
    """A candidate pays the more, the less far beams have drifted apart and the more alike the tokens are."""

    counts_finished: ClassVar[bool] = False
    temperature: float
    tokens: Tensor  # [batch beam k]
    apart: Tensor  # [batch beam beam]
    compared: Comparison

    def of(self, slots: Tensor) -> Tensor:
        alike = by_beam(self.compared.among(slots), self.tokens)
        return _decay(self._apart(slots).unsqueeze(3) + (1.0 - alike), self.temperature)

    def least(self, slots: Tensor) -> Tensor:
        return _decay(self._apart(slots) + 1.0, self.temperature)

    def _apart(self, slots: Tensor) -> Tensor:
        return take_rows(self.apart, slots // self.tokens.shape[2])


def _decay(distance: Tensor, temperature: float) -> Tensor:
    return on_grid(torch.exp(-distance / temperature))


@functools.lru_cache(maxsize=256)
def _decay_table(temperature: float, size: int, device: torch.device) -> Tensor:
    """Return exp(-d / temperature) for d = 0 .. size-1, on the grid.

    It is made by `math.exp`, which gives the same bits for every position and every device, as a
    vectorised exponential need not.
    """
    values = [math.exp(-d / temperature) for d in range(size)]
    return on_grid(torch.tensor(values, dtype=torch.double, device="cpu")).to(device)


def _soft_distance(prefix: Tensor, beams: Tensor, similarity: Similarity) -> Tensor:
    """Return how far other beams [n e ...] have drifted from each of these before: [n beam e]."""
    before = beams[..., : prefix.shape[-1]]
    # At each position by itself: [n time beam], [n time e] -> [n time beam e]
    alike = similarity([prefix.transpose(1, 2)], [before.transpose(1, 2)])
    return (1.0 - alike).sum(1)
