"""The rule of beam search, and what other rules share with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.model import Shortlist
from beamsplit.search.plan import Ranked
from beamsplit.search.shortlist import Scores

__all__ = ["Maximise", "beats_all", "best_slots", "only_first"]


@dataclass(frozen=True)
class Maximise:
    """Keep the extensions of highest total score, whichever beams they extend."""

    noisy = False
    needs_model_distribution = False

    def roots(self, noise: Tensor) -> Tensor:
        return only_first(torch.zeros_like(noise))

    def survivors(self, beams: int) -> int:
        return beams

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return scores

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        total = score.unsqueeze(-1) + lists.gain
        return Ranked(total, total, score + lists.rest)

    def pick(self, order: Tensor, count: int) -> Tensor:
        return best_slots(order, count)

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        return beats_all(worst, bound)


def only_first(score: Tensor) -> Tensor:
    """Return the first beam's score, and -inf for the others."""
    return score.masked_fill(torch.arange(score.shape[2], device=score.device) > 0, -torch.inf)


def best_slots(order: Tensor, count: int) -> Tensor:
    """Return the best over all beams.

    Lists are sorted by token, so a stable sort breaks ties by lower beam, then by lower token.
    """
    flat = order.flatten(2)
    if count == 1:
        return flat.argmax(2, keepdim=True)  # the first of equals
    return flat.sort(dim=2, descending=True, stable=True).indices[..., :count]


def beats_all(worst: Tensor, bound: Tensor) -> Tensor:
    """[batch group], [batch group beam] -> [batch group]; where the bound is -inf nothing was left out."""
    highest = bound.amax(-1)
    above = worst > highest
    return above if bool(above.all()) else above | (highest == -torch.inf)
