"""Beam search that discourages siblings (Li & Jurafsky, 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.model import Shortlist
from beamsplit.search.plan import Plan, Ranked
from beamsplit.search.rules import Maximise, beats_all, best_slots, only_first
from beamsplit.search.shortlist import Scores

__all__ = ["DiverseSiblings"]


@dataclass(frozen=True)
class _RankSiblings:
    """Subtract `rate` times its rank, from 1, among the extensions of its beam from an extension's score."""

    rate: float
    rank_root: bool

    noisy = False
    needs_model_distribution = False

    def roots(self, noise: Tensor) -> Tensor:
        return only_first(torch.zeros_like(noise))

    def survivors(self, beams: int) -> int:
        return beams

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return scores

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        gain = lists.gain
        if not time and not self.rank_root:
            return Maximise().rank(score, log_prob, lists, time)
        # Lists are sorted by token, so that of equal siblings the lower token comes first.
        rank = gain.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1) + 1
        total = score.unsqueeze(-1) + (gain - self.rate * rank.to(gain.dtype))
        # An unlisted sibling as good as the last one listed may come right after those that are better.
        ahead = (gain > lists.rest.unsqueeze(-1)).sum(-1).to(gain.dtype)
        return Ranked(total, total, score + (lists.rest - self.rate * (ahead + 1)))

    def pick(self, order: Tensor, count: int) -> Tensor:
        return best_slots(order, count)

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        return beats_all(worst, bound)


@dataclass(frozen=True, kw_only=True)
class DiverseSiblings:
    """Beam search in which the k-th best extension of a beam loses rate * k.

    The second-best extension of a beam must then beat other beams' best ones by a margin, so fewer survivors
    share a parent. With rate=0 it is beam search.

    First tokens are not ranked, unless `rank_root`. They all extend one empty prefix, and their ranks could
    cancel later ranks: rate * (1 + 2) equals rate * (2 + 1).
    """

    beams: int
    rate: float
    rank_root: bool = False

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 1)
        checks.non_negative("rate", self.rate)

    def plan(self) -> Plan:
        rule = _RankSiblings(self.rate, bool(self.rank_root))
        return Plan(groups=1, beams_per_group=int(self.beams), rule=rule)
