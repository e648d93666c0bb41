"""Beam search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.candidates import Candidates, Scores
from beamsplit.strategies.plan import Plan, Ranked

__all__ = ["BeamSearch", "Maximise"]


@dataclass(frozen=True)
class Maximise:
    """Keep the extensions of highest total score, whichever beams they extend."""

    noisy = False
    normalised = False

    def roots(self, noise: Tensor) -> Tensor:
        return only_first(torch.zeros_like(noise))

    def survivors(self, beams: int) -> int:
        return beams

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return scores

    def rank(self, score: Tensor, log_prob: Tensor, lists: Candidates) -> Ranked:
        total = score.unsqueeze(-1) + lists.gain
        return Ranked(total, total, score + lists.rest)

    def pick(self, order: Tensor, count: int) -> Tensor:
        return best_places(order, count)

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> bool:
        return beats_all(worst, bound)


def only_first(score: Tensor) -> Tensor:
    """The first beam's score, and -inf for the others."""
    return score.masked_fill(torch.arange(score.shape[2], device=score.device) > 0, -torch.inf)


def best_places(order: Tensor, count: int) -> Tensor:
    """The best over all beams. Lists are sorted by token, so a stable sort breaks ties by lower beam,
    then by lower token.
    """
    flat = order.flatten(2)
    if count == 1:
        return flat.argmax(2, keepdim=True)  # the first of equals
    return flat.sort(dim=2, descending=True, stable=True).indices[..., :count]


def beats_all(worst: Tensor, bound: Tensor) -> bool:
    """[batch group], [batch group beam]; where the bound is -inf nothing was left out."""
    highest = bound.amax(-1)
    above = worst > highest
    return bool(above.all()) or bool((above | (highest == -torch.inf)).all())


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Keep the `beams` likeliest prefixes at every step."""

    beams: int

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 1)

    def plan(self) -> Plan:
        return Plan(groups=1, beams=int(self.beams), rule=Maximise())
