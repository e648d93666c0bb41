"""What `steps` yields: one step of a search, and what became of every pick in it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.search.select import Selection

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """One step of a search."""

    number: int
    """Counts from 0; `DivMBest` goes on counting from run to run."""
    inputs: Tensor
    """[batch] which of the caller's inputs were decoded in this step."""
    selections: tuple[Selection, ...]
    """What the groups did: one selection for all of them in lockstep, one for each if staggered."""
    assemble: Callable[[], list[Hypotheses]] = field(repr=False, compare=False)
    memory: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """Returns what a strategy with a `resume` of its own needs to go on from here: plain data, and little."""
    one_tree: bool = False
    """Whether groups go on from prefixes of each other, so that all that they tried is one tree."""

    @functools.cached_property
    def hypotheses(self) -> Results:
        """What the search would return if it stopped here; of the last step, its result."""
        return Results(self.assemble())

    @property
    def certified(self) -> Tensor:
        """[batch] whether no candidate outside the lists could have been picked by any group."""
        return torch.cat([selection.certified for selection in self.selections], dim=1).all(1)

    def with_text(self, to_text: Callable[[tuple[int, ...]], str]) -> Step:
        """Return the same step, whose hypotheses have their text."""
        return replace(self, assemble=lambda: [found.with_text(to_text) for found in self.assemble()])
