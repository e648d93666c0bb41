"""The scores and the stopping rules of transformers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.search.select import Selection
from beamsplit.search.stopping import Settled, StoppingRule

__all__ = ["AsIn455", "GenerationScorer"]


@dataclass(frozen=True)
class AsIn455:
    """The stopping rule of group beam search in transformers 4.55, which is not that of its beam search.

    A group is compared with the best candidate of a step even if that has just ended. At the last step a
    group that is done takes no unfinished beam.
    """

    capturable = True

    takes_unfinished = False

    def rival(self, selection: Selection) -> Tensor:
        return selection.picks.score.amax(2)


@dataclass(frozen=True, kw_only=True)
class GenerationScorer:
    """The sum divided by length ** length_penalty; above 0 favours long hypotheses, below 0 short ones.

    `early_stopping` says when a group is done: True, as soon as it has as many hypotheses as beams; False,
    when its best candidate would be no better if it ended now; "never", when no continuation can win.
    """

    capturable = True

    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    stopping: StoppingRule = field(default_factory=Settled)
    """The rule by which a group is done: that of beam search, or that of the groups of transformers 4.55."""

    def __post_init__(self) -> None:
        checks.number("length_penalty", self.length_penalty)
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise ArgumentError(
                f"early_stopping must be True, False or 'never', not {checks.short_repr(self.early_stopping)}"
            )

    def final(self, total: Tensor, length: Tensor | int) -> Tensor:
        if isinstance(length, Tensor):
            length = length.to(total.dtype)
        return total / length**self.length_penalty

    def bound(self, total: Tensor, length: int, max_length: int) -> Tensor:
        if self.early_stopping is True:
            return torch.full_like(total, -torch.inf)
        lasting = self.early_stopping == "never" and self.length_penalty > 0
        return self.final(total, max_length if lasting else length)
