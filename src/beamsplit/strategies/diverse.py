"""Diverse Beam Search (Vijayakumar et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from beamsplit import checks
from beamsplit.diversity import Diversity, Hamming
from beamsplit.search.plan import (
    Plan,
    Schedule,
    check_schedule,
    check_term,
    extended_strengths,
    own_strengths,
)
from beamsplit.search.rules import Maximise

__all__ = ["DiverseBeamSearch"]


@dataclass(frozen=True, kw_only=True)
class DiverseBeamSearch:
    """Groups of beams, each penalised for repeating what the groups before it hold.

    The first group is a beam search of width `beams_per_group`. `strength` is the weight of the penalty: one
    number, or one for each group. With schedule="lockstep" all groups step together, in one call of the
    model. With "staggered", the paper's parallel form, group g runs g steps behind the first, and the model
    must be able to `join` states. The results are the same.
    """

    groups: int
    beams_per_group: int = 1
    strength: float | Sequence[float] = 0.5
    diversity: Diversity = field(default_factory=Hamming)
    schedule: Schedule = "lockstep"

    def __post_init__(self) -> None:
        checks.at_least("groups", self.groups, 1)
        checks.at_least("beams_per_group", self.beams_per_group, 1)
        own_strengths(self, self.groups)
        check_term(self.diversity)
        check_schedule(self.schedule)

    @property
    def group_count(self) -> int:
        return int(self.groups)

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> DiverseBeamSearch:
        """Return the same strategy with so many groups more, which have this strength."""
        strengths = extended_strengths(self.strength, self.group_count, groups, strength)
        return replace(self, groups=self.group_count + groups, strength=strengths)

    def plan(self) -> Plan:
        return Plan(
            groups=int(self.groups),
            beams_per_group=int(self.beams_per_group),
            rule=Maximise(),
            strengths=checks.strengths(self.strength, self.groups),
            diversity=self.diversity,
            schedule=self.schedule,
        )
