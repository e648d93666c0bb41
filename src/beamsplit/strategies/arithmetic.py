"""Arithmetic sampling: samples that are spread over the model's distribution (Vilnis et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity import Diversity, Hamming
from beamsplit.model import Shortlist
from beamsplit.search.plan import Plan, Ranked, Schedule, check_schedule, check_term, own_strengths
from beamsplit.search.shortlist import Scores
from beamsplit.search.truncation import Truncation

__all__ = ["ArithmeticSampling", "DiverseArithmeticSampling"]

_LAST = 1 - 2.0**-53  # the largest number below 1


@dataclass(frozen=True)
class _DrawByCode:
    """Extend every beam by the token in whose part of the unit interval the beam's code lies.

    Tokens divide the interval in the order of their ids, each having a part as long as its probability. This
    part is then stretched to the whole interval, and the code with it. A beam also carries the gap between
    two codes, stretched as well. If that is 1 or more, no other sample can have the same prefix. Then where
    the code lies is as good as random, and a random number is used in its place. Otherwise stretching would
    soon leave nothing of a code but rounding errors, its own and the model's.
    """

    truncation: Truncation
    code: Tensor | None = None  # [batch group beam], in [0, 1)
    gap: Tensor | None = None  # [batch group beam] between two codes

    noisy = False
    needs_model_distribution = False

    def roots(self, noise: Tensor) -> Tensor:
        return torch.zeros_like(noise)

    def root_codes(self, shift: Tensor, beams: int) -> Tensor:
        code = (torch.arange(beams, dtype=shift.dtype, device=shift.device) / beams + shift) % 1.0
        return torch.stack([code, torch.full_like(code, 1 / beams)], dim=-1)

    def holding(self, code: Tensor, fresh: Tensor) -> _DrawByCode:
        inherited, gap = code.unbind(-1)
        return replace(self, code=torch.where(gap < 1, inherited, fresh), gap=gap)

    def survivors(self, beams: int) -> int:
        return 1

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        return scores

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        nothing = score == -torch.inf  # a beam that holds nothing has nothing to draw
        order = self.truncation.apply(lists.gain.flatten(0, 2)).view_as(lists.gain)
        order = order.masked_fill(nothing.unsqueeze(-1), -torch.inf)
        return Ranked(order, score.unsqueeze(-1) + lists.gain, lists.rest)

    def pick(self, order: Tensor, count: int) -> Tensor:
        return self.draw(order)[0]

    def draw(self, order: Tensor) -> tuple[Tensor, Tensor]:
        assert self.code is not None, "a search gives the rule its codes"
        assert self.gap is not None
        token, code, share = _decode(_running_weights(order), self.code)
        beams, width = order.shape[-2:]
        slots = token + torch.arange(beams, device=order.device) * width
        return slots, torch.stack([code, self.gap / share], dim=-1)

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        return (bound == -torch.inf).all(-1)  # that is, where nothing was left out


def _running_weights(order: Tensor) -> Tensor:
    """Return [... vocab] the sum of each token's weight, exp(order), and of those before it, in float64.

    Weights are relative to the largest, and NaN where no token has any.
    """
    weight = (order - order.amax(-1, keepdim=True)).double().exp_()
    until = weight.cumsum(-1)
    # A CPU adds up one after another.
    return until if until.device.type == "cpu" else without_dips(until, weight)


def without_dips(until: Tensor, weight: Tensor) -> Tensor:
    """Return sums [... vocab] that never fall, and do not rise where a token has no weight.

    Those of a GPU may, by their rounding: it adds up parts of a row first.
    """
    return until.masked_fill(weight == 0, 0.0).cummax(-1).values


def _decode(until: Tensor, code: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tokens whose parts the codes lie in, where in these parts, and how long these are.

    [... vocab], [...] -> [...]. Where no token has any weight, what is returned means nothing.
    """
    total = until[..., -1:]
    target = code.unsqueeze(-1) * total  # below it, since a code is below 1 by 2**-53 at least
    token = torch.searchsorted(until, target, right=True).clamp(max=until.shape[-1] - 1)
    begin = until.gather(-1, (token - 1).clamp(min=0)).masked_fill(token == 0, 0.0)
    length = until.gather(-1, token) - begin
    inside = ((target - begin) / length).clamp(max=_LAST)
    return token.squeeze(-1), inside.squeeze(-1), (length / total).squeeze(-1)


@dataclass(frozen=True, kw_only=True)
class ArithmeticSampling:
    """Samples that are spread: each is an exact draw from the model, and together they repeat little.

    The codes i / samples + u (mod 1), for i = 0, 1, ... and one random number u of each input, are decoded
    as in arithmetic coding. So a sequence of probability p is drawn samples * p times, rounded up or down.
    Temperature and truncation are those of `Sampling`; p is the probability that is left after them.
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
        rule = _DrawByCode(Truncation(self.temperature, self.top_k, self.top_p, self.min_p))
        return Plan(groups=1, beams_per_group=int(self.samples), rule=rule)


@dataclass(frozen=True, kw_only=True)
class DiverseArithmeticSampling:
    """Diverse groups, each with spread samples: the groups of `DiverseSampling` that draw by codes.

    At each step a group draws from the model's distribution, after temperature and truncation, times
    exp(-strength * penalty). Each group has a random number u of its own. So given the groups before it,
    each of its samples is an exact draw from that product, and they are spread over it. Samples of
    different groups are kept apart by the penalty alone: with one sample per group this is `DiverseSampling`.
    """

    groups: int
    samples_per_group: int
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

    def plan(self) -> Plan:
        return Plan(
            groups=int(self.groups),
            beams_per_group=int(self.samples_per_group),
            rule=_DrawByCode(Truncation(self.temperature, self.top_k, self.top_p, self.min_p)),
            strengths=checks.strengths(self.strength, self.groups),
            diversity=self.diversity,
            schedule=self.schedule,
        )
