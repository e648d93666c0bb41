"""Sampling, independently or in diverse groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity import Diversity, Hamming
from beamsplit.model import Shortlist
from beamsplit.search.plan import (
    Plan,
    Ranked,
    Schedule,
    check_schedule,
    check_term,
    extended_strengths,
    own_strengths,
)
from beamsplit.search.shortlist import Scores
from beamsplit.search.truncation import Truncation

__all__ = ["DiverseSampling", "Sampling"]


_MANY = 200  # candidates that have nearly all of what is ever drawn, where a model lists candidates


@dataclass(frozen=True)
class _Draw:
    """Extend every beam, independently of the others, by a token drawn from the model's distribution.

    The token with the largest log-probability plus Gumbel noise is such a draw. So drawing is picking by
    perturbed keys, and penalties and candidate lists work as for other rules.
    """

    truncation: Truncation

    noisy = True
    needs_model_distribution = False

    def roots(self, noise: Tensor) -> Tensor:
        return torch.zeros_like(noise)

    def survivors(self, beams: int) -> int:
        return 1

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return Scores(scores.log_prob, scores.gain, self.truncation.apply(scores.gain) + noise)

    @property
    def wanted(self) -> int:
        top_k = self.truncation.top_k
        return _MANY if top_k is None else top_k + 1  # one more tells a tie at the list's end

    @property
    def keeps_to_few(self) -> bool:
        return self.truncation.keeps_to_few

    def likeliest(self, gain: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.truncation.apply_to_likeliest(gain, tokens)

    def perturb_lists(self, lists: Shortlist, noise: Tensor, unlisted: Tensor | None) -> Shortlist:
        log_prob, complete = self.truncation.apply_to_lists(lists.gain, lists.rest, unlisted)
        rest = torch.where(complete, -torch.inf, torch.inf)
        return Shortlist(
            lists.tokens, lists.log_prob, rest.to(lists.rest.dtype), lists.gain, log_prob + noise
        )

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        nothing = score == -torch.inf  # a beam that holds nothing has nothing to draw
        order = lists.key.masked_fill(nothing.unsqueeze(-1), -torch.inf)
        return Ranked(order, score.unsqueeze(-1) + lists.gain, lists.rest.masked_fill(nothing, -torch.inf))

    def pick(self, order: Tensor, count: int) -> Tensor:
        beams, width = order.shape[-2:]
        return order.argmax(-1) + torch.arange(beams, device=order.device) * width

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        return ((picked > bound) | (bound == -torch.inf)).all(-1)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Independent samples: ancestral, or truncated by top_k, min_p and top_p, in this order.

    Temperature is applied first. Tokens as likely as the last one admitted are admitted too.
    """

    samples: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        checks.at_least("samples", self.samples, 1)
        self.plan()

    def plan(self) -> Plan:
        rule = _Draw(Truncation(self.temperature, self.top_k, self.top_p, self.min_p))
        return Plan(groups=1, beams_per_group=int(self.samples), rule=rule)


@dataclass(frozen=True, kw_only=True)
class DiverseSampling:
    """Diverse groups that sample instead of maximising.

    Temperature and truncation are applied to the model's own distribution. Each group then draws from it
    times exp(-strength * penalty). So a penalty never lets in a token that truncation has ruled out.
    """

    groups: int
    samples_per_group: int = 1
    strength: float | Sequence[float] = 0.5
    diversity: Diversity = field(default_factory=Hamming)
    schedule: Schedule = "lockstep"
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        checks.at_least("groups", self.groups, 1)
        checks.at_least("samples_per_group", self.samples_per_group, 1)
        own_strengths(self, self.groups)
        check_term(self.diversity)
        check_schedule(self.schedule)
        self.plan()

    @property
    def group_count(self) -> int:
        return int(self.groups)

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> DiverseSampling:
        """Return the same strategy with so many groups more, which have this strength."""
        strengths = extended_strengths(self.strength, self.group_count, groups, strength)
        return replace(self, groups=self.group_count + groups, strength=strengths)

    def plan(self) -> Plan:
        return Plan(
            groups=int(self.groups),
            beams_per_group=int(self.samples_per_group),
            rule=_Draw(Truncation(self.temperature, self.top_k, self.top_p, self.min_p)),
            strengths=checks.strengths(self.strength, self.groups),
            diversity=self.diversity,
            schedule=self.schedule,
        )
