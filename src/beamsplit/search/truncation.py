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
        nothing = gain.amax(-1, keepdim=True) == -torch.inf  # all ruled out: not an error, but a dead end
        tempered = tempered.masked_fill(nothing, -torch.inf)
        floor = self._floor_of_ranks(tempered)
        if self.top_p is not None and self.top_p < 1:
            floor = torch.maximum(floor, _nucleus_floor(tempered, floor, self.top_p))
        return tempered.masked_fill(tempered < floor, -torch.inf)

    def apply_to_likeliest(self, gain: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Do the same for the likeliest tokens alone: [rows vocab], [rows k] -> [rows k].

        Second comes whether no other token may be drawn [rows], so that nothing is missing.
        """
        tempered = torch.log_softmax(gain / self.temperature, dim=-1).gather(-1, tokens)
        floor = self._floor_of_ranks(tempered)
        if self.top_p is not None and self.top_p < 1:
            cut = tempered.amin(-1, keepdim=True) < floor
            missing = (1 - tempered.exp().sum(-1, keepdim=True)).clamp(min=0).masked_fill(cut, 0.0)
            floor = torch.maximum(floor, _nucleus_floor(tempered, floor, self.top_p, missing))
        complete = (tempered.amin(-1, keepdim=True) < floor).squeeze(-1)
        return tempered.masked_fill(tempered < floor, -torch.inf), complete

    @property
    def keeps_to_few(self) -> bool:
        """Whether unlikely tokens are never drawn."""
        return self.top_k is not None or self.min_p is not None or (self.top_p or 1) < 1

    def apply_to_lists(self, gain: Tensor, rest: Tensor, unlisted: Tensor | None) -> tuple[Tensor, Tensor]:
        """Do the same for candidate lists [... k], of which no unlisted token has a higher gain than `rest`.

        Returns log-probabilities up to a constant of each list; and whether nothing but what is listed may be
        drawn [...], so that this is what `apply` gives. `unlisted` [...] is the probability of what is not
        listed, None if it is not known.
        """
        tempered, rest = gain / self.temperature, rest.unsqueeze(-1) / self.temperature
        floor = self._floor_of_ranks(tempered)
        if self.top_p is not None and self.top_p < 1:
            floor = torch.maximum(floor, self._nucleus_of_lists(tempered, floor, rest, unlisted))
        complete = ((rest < floor) | (rest == -torch.inf)).squeeze(-1)
        return tempered.masked_fill(tempered < floor, -torch.inf), complete

    def _nucleus_of_lists(
        self, tempered: Tensor, floor: Tensor, rest: Tensor, unlisted: Tensor | None
    ) -> Tensor:
        """Return what top_p leaves out of lists [... 1]; -inf where that cannot be known."""
        assert self.top_p is not None
        out_already = (rest < floor) | (rest == -torch.inf)
        if unlisted is None or self.temperature != 1:  # which would change an unknown number of probabilities
            found = _nucleus_floor(tempered, floor, self.top_p, torch.zeros_like(floor))
            return found.masked_fill(~out_already, -torch.inf)
        return _nucleus_floor(
            tempered, floor, self.top_p, unlisted.unsqueeze(-1).masked_fill(out_already, 0.0)
        )

    def _floor_of_ranks(self, tempered: Tensor) -> Tensor:
        """Return what top_k and min_p leave out: whatever is lower than this [... 1]."""
        floor = tempered.new_full((*tempered.shape[:-1], 1), -torch.inf)
        if self.top_k is not None and self.top_k <= tempered.shape[-1]:
            floor = torch.maximum(floor, tempered.topk(self.top_k).values[..., -1:])
        if self.min_p is not None:
            floor = torch.maximum(floor, tempered.amax(-1, keepdim=True) + _log(self.min_p))
        return floor


def _nucleus_floor(log_prob: Tensor, floor: Tensor, mass: float, missing: Tensor | None = None) -> Tensor:
    """Return the lowest log-probability in the smallest set with this share of the mass above `floor`.

    `missing` [... 1] is the mass of tokens that are not here, and unlikelier than all that are. -inf: the set
    goes on among these.
    """
    ranked = log_prob.sort(dim=-1, descending=True).values
    prob = ranked.exp().masked_fill(ranked < floor, 0.0)
    # A running sum is taken row by row, so that its rounding does not depend on the rows beside it.
    until = prob.cumsum(-1)
    total = until[..., -1:]
    if missing is not None:
        total = total + missing
    before = (until - prob) / total  # mass of all likelier tokens
    last = (before < mass).sum(-1, keepdim=True) - 1
    lowest = ranked.gather(-1, last.clamp(min=0))  # below 0: there is no mass at all
    if missing is None:
        return lowest
    return torch.where(until[..., -1:] / total < mass, -torch.inf, lowest)


def _log(p: float) -> float:
    return float(torch.tensor(p, dtype=torch.double).log())
