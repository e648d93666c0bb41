"""Beams and rows: which row of the model's last answer stands for each beam.

A model sees rows, one below the other, and knows nothing of groups. A search sees beams. This is the one
place where the two meet. A beam goes on from its parent's row (`follow`); then every live beam is given a
row of its own (`hand_out`), and the model is told which row of its last answer each new row goes on from.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Rows", "are_all"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The row behind each beam."""

    index: Tensor  # [batch group beam]
    count: int  # rows of the model's last answer
    in_order: bool = False  # every beam has a row, and they come in the order of the beams

    @classmethod
    def roots(cls, batch: int, groups: int, beams: int, device: torch.device, above: int = 0) -> Rows:
        """Let all beams of an input start from its one row, below so many other rows."""
        row = above + torch.arange(batch, device=device)[:, None, None]
        return cls(row.expand(batch, groups, beams), above + batch)

    def follow(self, parent: Tensor) -> Rows:
        """Let each beam go on from its parent's row: `parent` [batch group beam]."""
        return Rows(self.index.gather(2, parent), self.count)

    def inputs(self, keep: Tensor) -> Rows:
        """Return the rows of these inputs alone. Those of the others are still in the answer."""
        return Rows(self.index.index_select(0, keep), self.count)

    def hand_out(self, live: Tensor | None = None) -> tuple[Tensor, Rows]:
        """Give each live beam a row of its own. Without `live`, every beam is given one.

        Returns, for each new row, the row of the last answer that it goes on from; and the new rows. These
        rows are not to be used any more: the model may write into what it is told.
        """
        if live is None:
            parents = self.index.flatten()
            if self.in_order:
                return parents, self
            index = torch.arange(len(parents), device=parents.device).view_as(self.index)
            return parents, Rows(index, len(parents), in_order=True)
        parents = self.index[live]
        index = (live.flatten().cumsum(0).view_as(self.index) - 1).clamp(min=0)
        return parents, Rows(index, len(parents))

    def below(self, above: int, count: int) -> Rows:
        """Return the same rows with so many others above them, in an answer of `count` rows."""
        index = (self.index + above).clamp(max=count - 1) if above else self.index
        return Rows(index, count)


def are_all(parents: Tensor, count: int) -> bool:
    """Tell whether these are all rows that there were, in their order."""
    return len(parents) == count and torch.equal(parents, torch.arange(count, device=parents.device))
