"""What `steps` yields: one turn of the crank, and what became of every pick in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from beamsplit.beams import Beams
from beamsplit.hypotheses import Hypotheses
from beamsplit.selection import Picks

__all__ = ["Move", "Step"]


@dataclass(frozen=True, slots=True)
class Move:
    """What some groups did in one step. Tensors are [batch group pick], best pick first; where groups
    sample, one pick for each beam, in the order of the beams.
    """

    groups: range
    time: int
    picks: Picks
    """Extensions that were considered to the last; a score of -inf marks an empty place."""
    ended: Tensor
    """Whether the pick's token is an end."""
    width: int
    """How many candidates of each beam were looked at."""
    _beams: Beams = field(repr=False)  # what has come of it

    @property
    def beam(self) -> Tensor:
        """What became of each pick: the beam it is from now on, or -1 if it ended or was dropped."""
        goes_on = ~self.ended
        beam = goes_on.cumsum(2) - 1
        known = goes_on & (beam < self.live.shape[2])
        beam = torch.where(known, beam, 0)
        return torch.where(known & self.live.gather(2, beam), beam, -1)

    @property
    def live(self) -> Tensor:
        """[batch group beam]: does the beam live on?"""
        return self._beams.live


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the crank."""

    number: int
    """Counts from 0; `DivMBest` goes on counting from run to run."""
    inputs: Tensor
    """[batch] which of the caller's inputs were decoded in this step."""
    moves: tuple[Move, ...]
    """What the groups did: one move for all of them in lockstep, one for each if staggered."""
    _assemble: Callable[[], list[Hypotheses]] = field(repr=False)

    @property
    def hypotheses(self) -> list[Hypotheses]:
        """What the search would return if it stopped here; of the last step, its result."""
        return self._assemble()

    def with_text(self, to_text: Callable[[tuple[int, ...]], str]) -> Step:
        """The same step, whose hypotheses have their text."""
        return replace(self, _assemble=lambda: [found.with_text(to_text) for found in self._assemble()])
