"""DivMBest with beam search as a black box (Gimpel et al., 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from beamsplit import checks
from beamsplit.diversity import Diversity, NGram
from beamsplit.strategies.beam import Maximise
from beamsplit.strategies.plan import Plan, check_term, own_strengths

__all__ = ["DivMBest"]


@dataclass(frozen=True, kw_only=True)
class DivMBest:
    """Whole beam searches one after another; each keeps its best and avoids those kept before.

    Costs `runs` times a beam search, and of each run's `beams` results all but one are thrown away:
    the waste that Diverse Beam Search was made to avoid.
    """

    runs: int
    beams: int
    strength: float | Sequence[float] = 0.5
    diversity: Diversity = field(default_factory=NGram)

    def __post_init__(self) -> None:
        checks.at_least("runs", self.runs, 1)
        checks.at_least("beams", self.beams, 1)
        own_strengths(self, self.runs)
        check_term(self.diversity)

    def plan(self, run: int = 0) -> Plan:
        """The plan of one run. The first has nothing to avoid."""
        return Plan(
            groups=1,
            beams=int(self.beams),
            rule=Maximise(),
            strengths=(checks.strengths(self.strength, self.runs)[run],),
            diversity=self.diversity,
        )
