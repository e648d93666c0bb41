"""When a group is done, and what it has finished by then."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.options import Stop
from beamsplit.scoring import Scorer
from beamsplit.search.select import Selection
from beamsplit.search.state import FinishedPool, fill_up, stack_sequences

__all__ = ["Settled", "Stopping", "StoppingRule", "ask_stop", "fresh_scores", "stopping_rule_of"]


class StoppingRule(Protocol):
    """The rule by which a group is done. A scorer may bring its own, as its attribute `stopping`."""

    @property
    def takes_unfinished(self) -> bool:
        """Whether at the last step a group that is done still takes beams that have not ended."""
        ...

    def rival(self, selection: Selection) -> Tensor:
        """Return [batch group] the best score of this step that may still become a better hypothesis."""
        ...


@dataclass(frozen=True)
class Settled:
    """A group is done when no live beam can beat the worst of its hypotheses."""

    capturable = True

    takes_unfinished = True

    def rival(self, selection: Selection) -> Tensor:
        return selection.survivors.score.amax(2)


def stopping_rule_of(scorer: Scorer) -> StoppingRule:
    """Return the scorer's own rule, or else the exact one."""
    rule: StoppingRule | None = getattr(scorer, "stopping", None)
    return Settled() if rule is None else rule


@dataclass(frozen=True)
class Stopping:
    """Finishes hypotheses and tells which groups are done."""

    rule: StoppingRule
    scorer: Scorer
    beams: int  # of each group: as many hypotheses must beat what may come
    max_length: int
    unique: bool

    def collect(
        self,
        pool: FinishedPool,
        found: FinishedPool,
        selection: Selection,
        elsewhere: Tensor | None,
        may_rise: bool,
    ) -> FinishedPool:
        """Add to the pool the hypotheses that end at this step.

        `found` are the picks in full. An end counts if it is among the best picks, as many as there are
        beams. At the last step everything that would live on is complete too.
        """
        complete = selection.ended.clone()
        complete[..., self.beams :] = False
        length = selection.time + 1
        if length == self.max_length:
            unfinished = ~selection.ended & ((~selection.ended).cumsum(2) <= pool.score.shape[2])
            if not self.rule.takes_unfinished:
                done = self.done(_add(pool, found, complete), selection, elsewhere, may_rise)
                unfinished &= ~done.unsqueeze(2)
            complete |= unfinished
        return _add(pool, found, complete)

    def done(
        self, pool: FinishedPool, selection: Selection, elsewhere: Tensor | None, may_rise: bool
    ) -> Tensor:
        """Tell which groups [batch group] have as many hypotheses as beams, all better than what may come."""
        best = self.rule.rival(selection)
        bound = self.scorer.bound(best, selection.time + 1, self.max_length)
        if may_rise:
            bound = bound.masked_fill((bound > -torch.inf) & (best > -torch.inf), torch.inf)
        score = fresh_scores(pool, elsewhere) if self.unique else pool.score
        worst = score[..., self.beams - 1]
        return (worst > -torch.inf) & (worst >= bound)


def _add(pool: FinishedPool, found: FinishedPool, complete: Tensor) -> FinishedPool:
    score = found.score.masked_fill(~complete, -torch.inf)
    return pool.add(FinishedPool(found.tokens, found.log_prob, score, found.ended, found.certified))


def fresh_scores(pool: FinishedPool, elsewhere: Tensor | None = None) -> Tensor:
    """Return [batch group slot] the scores of what no earlier group has found, best first.

    `elsewhere` [batch f length] is what groups before all of these have found.
    """
    lower = [] if elsewhere is None else [elsewhere]
    fresh = []
    for g in range(pool.score.shape[1]):
        tokens, score = pool.tokens[:, g], pool.score[:, g]
        if lower:
            score = score.masked_fill(_among(tokens, functools.reduce(stack_sequences, lower)), -torch.inf)
        fresh.append(score.sort(dim=1, descending=True).values)
        lower = [functools.reduce(stack_sequences, [*lower, tokens])]
    return torch.stack(fresh, dim=1)


def _among(sequences: Tensor, others: Tensor) -> Tensor:
    """[batch p length], [batch q length'] -> [batch p]: is the sequence one of the others?"""
    width = max(sequences.shape[-1], others.shape[-1])
    pairs = fill_up(sequences, width).unsqueeze(2) == fill_up(others, width).unsqueeze(1)
    return pairs.all(-1).any(-1)


def ask_stop(stop: Stop, inputs: Tensor, tokens: Tensor) -> Tensor:
    """Return which outputs with tokens [n time] of inputs [n] are complete by a caller's `stop`."""
    stopped = stop(inputs.clone(), tokens)  # a copy, which it may keep
    if not isinstance(stopped, Tensor) or stopped.shape != inputs.shape:
        got = list(stopped.shape) if isinstance(stopped, Tensor) else type(stopped).__name__
        raise ArgumentError(f"stop returned {got} for {len(inputs)} outputs: it must say yes or no to each")
    return stopped.bool()
