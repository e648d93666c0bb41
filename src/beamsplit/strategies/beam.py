"""Beam search."""

from __future__ import annotations

from dataclasses import dataclass

from beamsplit import checks
from beamsplit.search.plan import Plan
from beamsplit.search.rules import Maximise

__all__ = ["BeamSearch"]


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Keep the `beams` likeliest prefixes at every step."""

    beams: int

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 1)

    def plan(self) -> Plan:
        return Plan(groups=1, beams_per_group=int(self.beams), rule=Maximise())
