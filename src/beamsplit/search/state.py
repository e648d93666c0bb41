"""The state of a search: live beams, and the hypotheses that each group has finished.

Batch, group and beam are axes of every tensor here. -1 fills token places that hold nothing, and a score of
-inf marks a slot that holds nothing; there are no other flags.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["Beams", "FinishedPool", "append", "fill_up", "stack_sequences", "take"]


@dataclass(frozen=True)
class Beams:
    """The live frontier."""

    tokens: Tensor  # [batch group beam time]
    log_prob: Tensor  # [batch group beam] the model's, never touched by a penalty
    score: Tensor  # [batch group beam] what the search maximises
    code: Tensor | None = None  # [batch group beam n] what the next token is drawn by, for a CodedRule

    @classmethod
    def roots(cls, score: Tensor, code: Tensor | None = None) -> Beams:
        """Return groups before their first token, with the scores and codes that they begin with."""
        tokens = torch.empty(*score.shape, 0, dtype=torch.long, device=score.device)
        return cls(tokens, torch.zeros_like(score), score, code)

    @functools.cached_property
    def live(self) -> Tensor:
        """[batch group beam]"""
        return self.score > -torch.inf

    def inputs(self, keep: Tensor) -> Beams:
        """Return the beams of these inputs alone."""
        return _index_all(self, keep)


@dataclass(frozen=True, slots=True)
class FinishedPool:
    """The finished hypotheses of each group, best first; empty slots have a score of -inf."""

    tokens: Tensor  # [batch group slot time]
    log_prob: Tensor  # [batch group slot]
    score: Tensor  # [batch group slot] as the scorer ranks it
    ended: Tensor  # [batch group slot] by an end token, not by the limit on length
    certified: Tensor | None = None  # [batch group slot] whether it is free of doubt; None: all are

    @classmethod
    def empty(cls, batch: int, groups: int, slots: int, like: Tensor) -> FinishedPool:
        score = like.new_full((batch, groups, slots), -torch.inf)
        tokens = torch.full((batch, groups, slots, 0), -1, dtype=torch.long, device=like.device)
        return cls(tokens, torch.zeros_like(score), score, torch.zeros_like(score, dtype=torch.bool))

    def add(self, more: FinishedPool) -> FinishedPool:
        """Return the best of both; of equals, those found first."""
        width = max(self.tokens.shape[-1], more.tokens.shape[-1])
        tokens = torch.cat([fill_up(self.tokens, width), fill_up(more.tokens, width)], dim=2)
        slots = self.score.shape[2]
        score, order = torch.cat([self.score, more.score], dim=2).sort(dim=2, descending=True, stable=True)
        order = order[..., :slots]
        return FinishedPool(
            take(tokens, order),
            torch.cat([self.log_prob, more.log_prob], dim=2).gather(2, order),
            score[..., :slots],
            torch.cat([self.ended, more.ended], dim=2).gather(2, order),
            _gather(_join_certified([self, more], dim=2), order),
        )

    @classmethod
    def beside(cls, pools: Sequence[FinishedPool]) -> FinishedPool:
        """Return the pools of some groups and those of other groups as one."""
        if len(pools) == 1:
            return pools[0]
        width = max(pool.tokens.shape[-1] for pool in pools)
        return cls(
            torch.cat([fill_up(pool.tokens, width) for pool in pools], dim=1),
            torch.cat([pool.log_prob for pool in pools], dim=1),
            torch.cat([pool.score for pool in pools], dim=1),
            torch.cat([pool.ended for pool in pools], dim=1),
            _join_certified(pools, dim=1),
        )

    def inputs(self, keep: Tensor) -> FinishedPool:
        """Return the pools of these inputs alone."""
        return _index_all(self, keep)


def _join_certified(pools: Sequence[FinishedPool], dim: int) -> Tensor | None:
    """Return what is certified of all pools, along groups or slots; None if all of it is."""
    if all(pool.certified is None for pool in pools):
        return None
    known = [torch.ones_like(p.ended) if p.certified is None else p.certified for p in pools]
    return torch.cat(known, dim=dim)


def _gather(values: Tensor | None, order: Tensor) -> Tensor | None:
    return None if values is None else values.gather(2, order)


def take(sequences: Tensor, index: Tensor) -> Tensor:
    """Return whole sequences by slot: [batch group slot time], [batch group n] -> [batch group n time]."""
    return sequences.gather(2, index.unsqueeze(-1).expand(*index.shape, sequences.shape[-1]))


def fill_up(sequences: Tensor, width: int) -> Tensor:
    """Return the sequences filled up with -1 to this many token places."""
    return pad(sequences, (0, width - sequences.shape[-1]), value=-1)


def stack_sequences(upper: Tensor, lower: Tensor) -> Tensor:
    """Return the sequences of both: [n e time], [n f time'] -> [n e+f max]."""
    width = max(upper.shape[-1], lower.shape[-1])
    return torch.cat([fill_up(upper, width), fill_up(lower, width)], dim=1)


def append(sequences: Tensor, token: Tensor) -> Tensor:
    """Return the sequences with one more token: [... time], [...] -> [... time+1]."""
    return torch.cat([sequences, token.unsqueeze(-1)], dim=-1)


_Held = TypeVar("_Held", Beams, FinishedPool)


def _index_all(held: _Held, keep: Tensor) -> _Held:
    values: list[Any] = [getattr(held, f.name) for f in fields(held)]
    kept: list[Any] = [None if value is None else value.index_select(0, keep) for value in values]
    return type(held)(*kept)
