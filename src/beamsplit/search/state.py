"""What a search holds: live beams, and the hypotheses each group has to its name.

Batch, group and beam are axes of every tensor here. -1 fills token places that hold nothing, and a
score of -inf marks a slot that holds nothing; there are no other flags.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["Beams", "Found"]


@dataclass(frozen=True)
class Beams:
    """The live frontier."""

    tokens: Tensor  # [batch group beam time]
    log_prob: Tensor  # [batch group beam] the model's, never touched by a penalty
    score: Tensor  # [batch group beam] what the search maximises
    row: Tensor  # [batch group beam] the row of the model's state and logits that stands for the beam

    @classmethod
    def roots(cls, score: Tensor) -> Beams:
        """Groups before their first token, with the scores that they begin with."""
        tokens = torch.empty(*score.shape, 0, dtype=torch.long, device=score.device)
        return cls(tokens, torch.zeros_like(score), score, torch.zeros_like(score, dtype=torch.long))

    @functools.cached_property
    def live(self) -> Tensor:
        """[batch group beam]"""
        return self.score > -torch.inf

    def inputs(self, keep: Tensor) -> Beams:
        """Of these inputs alone."""
        return _index_all(self, keep)


@dataclass(frozen=True, slots=True)
class Found:
    """Hypotheses of each group, best first; empty places have a score of -inf."""

    tokens: Tensor  # [batch group place time]
    log_prob: Tensor  # [batch group place]
    score: Tensor  # [batch group place] as the scorer ranks it
    ended: Tensor  # [batch group place] by an end token, not by the limit on length

    @classmethod
    def none(cls, batch: int, groups: int, places: int, like: Tensor) -> Found:
        empty = like.new_full((batch, groups, places), -torch.inf)
        tokens = torch.full((batch, groups, places, 0), -1, dtype=torch.long, device=like.device)
        return cls(tokens, torch.zeros_like(empty), empty, torch.zeros_like(empty, dtype=torch.bool))

    def add(self, more: Found) -> Found:
        """The best of both; of equals, those found first."""
        width = max(self.tokens.shape[-1], more.tokens.shape[-1])
        tokens = torch.cat([widen(self.tokens, width), widen(more.tokens, width)], dim=2)
        places = self.score.shape[2]
        score, order = torch.cat([self.score, more.score], dim=2).sort(dim=2, descending=True, stable=True)
        order = order[..., :places]
        return Found(
            take(tokens, order),
            torch.cat([self.log_prob, more.log_prob], dim=2).gather(2, order),
            score[..., :places],
            torch.cat([self.ended, more.ended], dim=2).gather(2, order),
        )

    @classmethod
    def beside(cls, founds: list[Found]) -> Found:
        """What some groups found and what other groups found."""
        width = max(found.tokens.shape[-1] for found in founds)
        return cls(
            torch.cat([widen(found.tokens, width) for found in founds], dim=1),
            torch.cat([found.log_prob for found in founds], dim=1),
            torch.cat([found.score for found in founds], dim=1),
            torch.cat([found.ended for found in founds], dim=1),
        )

    def inputs(self, keep: Tensor) -> Found:
        """Of these inputs alone."""
        return _index_all(self, keep)


def take(sequences: Tensor, index: Tensor) -> Tensor:
    """Whole sequences by place: [batch group place time], [batch group n] -> [batch group n time]."""
    return sequences.gather(2, index.unsqueeze(-1).expand(*index.shape, sequences.shape[-1]))


def widen(sequences: Tensor, width: int) -> Tensor:
    """Filled up with -1 to this many token places."""
    return pad(sequences, (0, width - sequences.shape[-1]), value=-1)


def below(upper: Tensor, lower: Tensor) -> Tensor:
    """One above the other: [n e time], [n f time'] -> [n e+f max]"""
    width = max(upper.shape[-1], lower.shape[-1])
    return torch.cat([widen(upper, width), widen(lower, width)], dim=1)


def append(sequences: Tensor, token: Tensor) -> Tensor:
    """[... time], [...] -> [... time+1]"""
    return torch.cat([sequences, token.unsqueeze(-1)], dim=-1)


_Held = TypeVar("_Held", Beams, Found)


def _index_all(held: _Held, keep: Tensor) -> _Held:
    return type(held)(*(getattr(held, f.name).index_select(0, keep) for f in fields(held)))
