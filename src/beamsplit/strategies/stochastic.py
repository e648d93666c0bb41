"""Stochastic beam search: sampling without replacement (Kool, van Hoof & Welling, 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.model import Shortlist
from beamsplit.search.plan import Plan, Ranked
from beamsplit.search.rules import beats_all, best_slots, only_first
from beamsplit.search.shortlist import Scores

__all__ = ["StochasticBeamSearch"]


@dataclass(frozen=True)
class _TopGumbels:
    """Keep the extensions of highest perturbed log-probability.

    A beam's score is the largest perturbed log-probability of any sequence that begins with it. The scores of
    its extensions are drawn under the condition that the largest of them equals it.
    """

    noisy = True
    needs_model_distribution = True

    def roots(self, noise: Tensor) -> Tensor:
        return only_first(noise)

    def survivors(self, beams: int) -> int:
        return beams

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return Scores(scores.log_prob, scores.gain, scores.gain + noise)

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        dead = score == -torch.inf
        parent = score.masked_fill(dead, 0.0).unsqueeze(-1)
        perturbed = log_prob.unsqueeze(-1) + lists.key
        largest = perturbed.amax(-1, keepdim=True)
        order = _given_maximum(perturbed, largest, parent)
        bound = _given_maximum(log_prob.unsqueeze(-1) + lists.rest.unsqueeze(-1), largest, parent)
        order = order.masked_fill(dead.unsqueeze(-1), -torch.inf)
        return Ranked(order, order, bound.squeeze(-1).masked_fill(dead, -torch.inf))

    def pick(self, order: Tensor, count: int) -> Tensor:
        return best_slots(order, count)

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        return beats_all(worst, bound)


def _given_maximum(value: Tensor, largest: Tensor, maximum: Tensor) -> Tensor:
    """Shift Gumbel variables, of which `largest` is the largest, so that it becomes `maximum`.

    This is the form of the paper's appendix B, which neither overflows nor cancels.
    """
    v = maximum - value + torch.log1p(-torch.exp(value - largest))
    moved = maximum - v.clamp(min=0) - torch.log1p(torch.exp(-v.abs()))
    return torch.where(value == largest, maximum, moved).masked_fill(value == -torch.inf, -torch.inf)


@dataclass(frozen=True, kw_only=True)
class StochasticBeamSearch:
    """`beams` different sequences, sampled without replacement from the model.

    The score of a hypothesis is its perturbed log-probability. Importance weights are computed from it.
    """

    beams: int

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 1)

    def plan(self) -> Plan:
        return Plan(groups=1, beams_per_group=int(self.beams), rule=_TopGumbels())
