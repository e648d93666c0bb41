"""What the groups of a search picked, for groups that join when the search is over.

A group looks at what the groups before it hold at every step, also at beams that are dropped later. So the
outputs of a search are not enough to go on with. A `Past` has the best picks and the survivors of every step:
five small numbers for each beam. A `Replay` takes the groups through these steps again, without the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from beamsplit.diversity import Earlier
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.scoring import Scorer
from beamsplit.search.select import Selection
from beamsplit.search.state import FinishedPool, append, stack_sequences, take

__all__ = ["Past", "Replay", "pool_of"]


@dataclass(frozen=True, slots=True)
class Past:
    """What some groups did at every step. Tensors are [time batch group beam], and on the CPU."""

    parents: Tensor  # of the best picks, as many as beams: the beams that they extend
    tokens: Tensor  # of the best picks; -1: nothing was picked
    kept_parents: Tensor  # of the beams that went on
    kept_tokens: Tensor
    finals: Tensor  # what the scorer makes of a pick that ended; -inf: it did not end
    doubt: Tensor  # [time batch group] whether the step was not certain

    @classmethod
    def of(
        cls, moves: Sequence[tuple[Tensor, Selection]], groups: range, batch: int, beams: int, scorer: Scorer
    ) -> Past:
        """Return what these groups did: every selection, with the inputs [n] that it is about."""
        shape = 1 + max(selection.time for _, selection in moves), batch, len(groups), beams
        whole = moves[0][1].picks.token.new_zeros(shape, dtype=torch.int32)
        finals = moves[0][1].picks.score.new_full(shape, -torch.inf)
        doubt = torch.zeros_like(whole[..., 0], dtype=torch.bool)
        made = cls(whole.clone(), whole - 1, whole.clone(), whole - 1, finals, doubt)
        for inputs, selection in moves:
            made._note(inputs, selection, groups.start, scorer)
        return made.to(torch.device("cpu"))

    def _note(self, inputs: Tensor, selection: Selection, first: int, scorer: Scorer) -> None:
        time, beams = selection.time, self.tokens.shape[3]
        picks, kept = selection.picks.first(beams), selection.survivors.first(beams)
        at = inputs, slice(selection.groups.start - first, selection.groups.stop - first)
        self.parents[time][at] = picks.parent.int()
        self.tokens[time][at] = picks.token.masked_fill(picks.score == -torch.inf, -1).int()
        self.kept_parents[time][at] = kept.parent.int()
        self.kept_tokens[time][at] = kept.token.int()
        final = scorer.final(picks.score, time + 1)
        self.finals[time][at] = final.masked_fill(~selection.ended[..., :beams], -torch.inf)
        if selection.doubt is not None:
            self.doubt[time][at] = selection.doubt

    @property
    def times(self) -> int:
        """How many steps the groups took."""
        return self.tokens.shape[0]

    @property
    def groups(self) -> int:
        """How many groups these are."""
        return self.tokens.shape[2]

    def beside(self, later: Past) -> Past:
        """Return what these groups and some later ones did."""
        times = max(self.times, later.times)
        columns = zip(self._columns, later._columns, _NOTHING, strict=True)
        return Past(
            *(
                torch.cat([_lengthened(values, times, nothing) for values in pair], dim=2)
                for *pair, nothing in columns
            )
        )

    def to(self, device: torch.device) -> Past:
        return Past(*(values.to(device) for values in self._columns))

    @property
    def _columns(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


_NOTHING = (0, -1, 0, -1, -torch.inf, False)  # what stands in each column where a group did nothing


def _lengthened(values: Tensor, times: int, nothing: float) -> Tensor:
    """Return values [time ...] for so many steps."""
    return torch.cat([values, values.new_full((times - values.shape[0], *values.shape[1:]), nothing)])


class Replay:
    """Groups of a search that is over, taken through its steps again for others to look at."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._time = 0
        _, batch, groups, beams = past.tokens.shape
        self._beams = past.tokens.new_empty((batch, groups, beams, 0), dtype=torch.long)
        self._finished = FinishedPool.empty(batch, groups, beams, past.finals)
        self._doubt = torch.zeros_like(past.doubt[0]) if bool(past.doubt.any()) else None

    def step(self, inputs: Tensor) -> tuple[Earlier, Tensor | None]:
        """Take one step. Return what the groups hold at it, and whether that is in doubt [n 1].

        Both are told of these inputs [n] alone.
        """
        is_over = self._time >= self._past.times
        spelled = self._spell_nothing() if is_over else self._spell()
        held, finished = (each[inputs].flatten(1, 2) for each in (spelled, self._finished.tokens))
        if not is_over:
            self._apply(spelled)
        self._time += 1
        doubt = None if self._doubt is None else self._doubt[inputs].any(1, keepdim=True)
        return Earlier(held[..., -1], lambda: held, lambda: stack_sequences(held, finished)), doubt

    def _spell(self) -> Tensor:
        """Return the picks of this step in full, -1 where nothing was picked: [batch group beam time+1]."""
        parents, tokens = (each[self._time].long() for each in (self._past.parents, self._past.tokens))
        return append(take(self._beams, parents), tokens).masked_fill((tokens < 0).unsqueeze(-1), -1)

    def _spell_nothing(self) -> Tensor:
        return self._beams.new_full((*self._beams.shape[:3], self._time + 1), -1)

    def _apply(self, spelled: Tensor) -> None:
        past, time = self._past, self._time
        finals = past.finals[time]
        if bool((finals > -torch.inf).any()):
            unused = torch.zeros_like(finals)
            self._finished = self._finished.add(FinishedPool(spelled, unused, finals, unused.bool()))
        self._beams = append(take(self._beams, past.kept_parents[time].long()), past.kept_tokens[time].long())
        if self._doubt is not None:
            self._doubt = self._doubt | past.doubt[time]


def pool_of(lists: Sequence[Hypotheses], groups: int, slots: int, like: Tensor) -> FinishedPool:
    """Return the pools [batch group slot] that the lists of a search were made of, as far as they have it."""
    length = max((len(h.tokens) for each in lists for h in each), default=0)
    by_group = [[*each.groups, *[()] * (groups - len(each.groups))] for each in lists]

    def column(value: Callable[[Hypothesis], Any], nothing: Any, like: Tensor) -> Tensor:
        rows = [[[*map(value, each), *[nothing] * (slots - len(each))] for each in row] for row in by_group]
        return like.new_tensor(rows)

    boolean = torch.zeros_like(like, dtype=torch.bool)
    certified = None
    if not all(h.certified for each in lists for h in each):
        certified = column(lambda h: h.certified, True, boolean)
    return FinishedPool(
        column(lambda h: [*h.tokens, *[-1] * (length - len(h.tokens))], [-1] * length, like.long()),
        column(lambda h: h.log_prob, 0.0, like),
        column(lambda h: h.score, -torch.inf, like),
        column(lambda h: h.finished, False, boolean),
        certified,
    )
