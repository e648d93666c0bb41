"""Late branching: the strategy that is used unless another is named."""

from __future__ import annotations

from dataclasses import dataclass

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Search
from beamsplit.search.branching.searching import Branching, branching
from beamsplit.search.plan import Plan
from beamsplit.search.rules import Maximise

__all__ = ["LateBranching"]


@dataclass(frozen=True, kw_only=True)
class LateBranching:
    """A list of likely outputs that are all different, each of which leaves the others where it costs least.

    A beam search of a few beams comes first. All next tokens that it has seen and not followed are kept with
    their scores. From these the whole list is chosen: outputs that are complete, and branches with the score
    that is expected of their ends. Each is the one of highest score, less a price for every pair of
    neighbouring tokens that the list has already. The branches are then followed to their ends, all at
    once, and the list is chosen anew. That is done `rounds` times, or until nothing is lacking.

    The price is `strength` times what a token of the first output costs on average, in log-probability. So
    one strength suits models that are sure of themselves and models that are not. That is for lists of 20
    outputs: in shorter lists the price is higher, and in longer ones lower, by the root of their length. If
    the first output has fewer than nine tokens, the price is lower in proportion.

    A list is in the order of choice, so that the first few outputs are likely and different too. Each is a
    group of its own. The first is that of a beam search of `beams` beams, whatever the others are: by
    default four, or a fifth of the outputs if that is more, or as many as outputs if these are fewer, and
    two at least. If fewer different outputs are found than were asked for, the list is shorter: rounds follow
    no more branches than a beam search of as many beams could pay for, half as much again.
    """

    outputs: int
    strength: float = 0.8
    beams: int | None = None
    rounds: int = 2

    def __post_init__(self) -> None:
        checks.at_least("outputs", self.outputs, 1)
        checks.non_negative("strength", self.strength)
        if self.beams is not None:
            checks.at_least("beams", self.beams, 1)
        checks.at_least("rounds", self.rounds, 0)

    @property
    def kept_per_group(self) -> int:
        return 1

    def plan(self) -> Plan:
        """Return the plan of the beam search that comes first."""
        usual = max(2, min(4, self.outputs), self.outputs // 5)
        beams = usual if self.beams is None else self.beams
        return Plan(groups=1, beams_per_group=int(beams), rule=Maximise())

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        """Return the search."""
        if abilities.fixed_rows:
            raise ArgumentError(
                "LateBranching asks for more rows or fewer as it goes, and the model has fixed_rows = True: "
                "use DiverseBeamSearch"
            )
        how = Branching(self.plan(), int(self.outputs), float(self.strength), int(self.rounds))
        return branching(how, options, abilities)
