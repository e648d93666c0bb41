"""The distribution that samplers draw from: the model's after temperature, without unlikely tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks

__all__ = ["Truncation"]


@dataclass(frozen=True)
class Truncation:
    """Temperature, then top_k, min_p and top_p.

    Tokens as likely as the last one admitted are admitted too.
    """

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None

    def __post_init__(self) -> None:
        hint = ": for the likeliest token use BeamSearch(beams=1)"
        checks.positive("temperature", self.temperature, hint)
        if self.top_k is not None:
            checks.at_least("top_k", self.top_k, 1)
        if self.top_p is not None:
            checks.fraction("top_p", self.top_p)
        if self.min_p is not None:
            checks.fraction("min_p", self.min_p)

    def apply(self, gain: Tensor) -> Tensor:
        """Return log-probabilities after temperature [rows vocab], -inf for tokens that may not be drawn."""
        tempered = torch.log_softmax(gain / self.temperature, dim=-1)
        nothing = gain.amax(1, keepdim=True) == -torch.inf  # all ruled out: not an error, but a dead end
        tempered = tempered.masked_fill(nothing, -torch.inf)
        floor = tempered.new_full((tempered.shape[0], 1), -torch.inf)
        if self.top_k is not None and self.top_k < tempered.shape[1]:
            floor = torch.maximum(floor, tempered.topk(self.top_k).values[:, -1:])
        if self.min_p is not None:
            floor = torch.maximum(floor, tempered.amax(1, keepdim=True) + _log(self.min_p))
        if self.top_p is not None and self.top_p < 1:
            floor = torch.maximum(floor, _nucleus_floor(tempered, floor, self.top_p))
        return tempered.masked_fill(tempered < floor, -torch.inf)


def _nucleus_floor(log_prob: Tensor, floor: Tensor, mass: float) -> Tensor:
    """Return the lowest log-probability in the smallest set with this share of the mass above `floor`."""
    ranked = log_prob.sort(dim=1, descending=True).values
    prob = ranked.exp().masked_fill(ranked < floor, 0.0)
    # A running sum is taken row by row, so that its rounding does not depend on the rows beside it.
    until = prob.cumsum(1)
    before = (until - prob) / until[:, -1:]  # mass of all likelier tokens
    last = (before < mass).sum(1, keepdim=True) - 1
    return ranked.gather(1, last.clamp(min=0))  # below 0: there is no mass at all


def _log(p: float) -> float:
    return float(torch.tensor(p, dtype=torch.double).log())
