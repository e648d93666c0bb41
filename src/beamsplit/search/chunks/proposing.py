"""Proposals of one round: an ordinary search from each root, which ends at the end of a chunk.

The search is that of `lockstep`, with the roots as its inputs, so that the proposals of all groups are one
batch of the model. It is passed on, but for its start: the model has been asked about the roots already.
Where a proposal is complete, the state behind it is kept, so that the next round can go on from it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import torch
from torch import Tensor

from beamsplit.model import Answer
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Advance, Ask, Fix, Keep, Recall, Start
from beamsplit.search.chunks.boundaries import Ends
from beamsplit.search.chunks.paths import Proposal, Root, Where
from beamsplit.search.chunks.restricting import restrict
from beamsplit.search.loop import lockstep
from beamsplit.search.plan import Plan
from beamsplit.search.select import Picks, Selection
from beamsplit.search.state import append, take
from beamsplit.search.step import Step
from beamsplit.search.stopping import ask_stop

__all__ = ["Asked", "Keeper", "propose"]


class Keeper:
    """Keeps states at the model, and recalls them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._heights: list[int] = []  # the rows of each `Keep`

    @property
    def count(self) -> int:
        """How often something was kept."""
        return len(self._heights)

    def keep(self, rows: Tensor) -> Generator[Keep, None, int]:
        """Keep the states of these rows. Returns the number under which they are kept."""
        yield Keep(rows)
        self._heights.append(len(rows))
        return len(self._heights) - 1

    def recall(self, roots: Sequence[Root]) -> Generator[Recall, bool, bool]:
        """Let the states of these roots be the model's last ones. Returns whether it can do that."""
        wheres = [root.path.where for root in roots if root.path.where is not None]
        assert len(wheres) == len(roots), "there is a state behind what is gone on with"
        sources = sorted({where.source for where in wheres})
        above = dict(zip(sources, accumulate((self._heights[s] for s in sources), initial=0), strict=False))
        rows = torch.tensor([above[where.source] + where.row for where in wheres], device=self._device)
        return (yield Recall(rows, tuple(sources)))


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a round."""

    roots: Sequence[Root]
    plan: Plan
    options: DecodeOptions
    """Those of the whole search."""
    seeds: Sequence[tuple[int, int]]
    ends: Ends
    longest: int
    """The most tokens of a chunk."""

    @property
    def is_alone(self) -> bool:
        """Whether the search can see to all limits, since nothing has been said yet."""
        return not any(root.tokens for root in self.roots) and self.options.min_length <= self.most

    @property
    def most(self) -> int:
        """The most tokens of a chunk of any root."""
        return min(self.longest, max(self.left(root) for root in range(len(self.roots))))

    def left(self, root: int) -> int:
        """Return how many tokens may follow this root."""
        return self.options.max_length - len(self.roots[root].tokens)

    def search_options(self) -> DecodeOptions:
        """Return the options of the search for proposals."""
        return replace(
            self.options,
            max_length=self.most,
            min_length=self.options.min_length if self.is_alone else 0,
            no_repeat_ngram=self.options.no_repeat_ngram if self.is_alone else None,
            stop=self._is_complete,
            scorer=None,
            unique=False,
            return_per_group=None,
            seed=[seed for seed, _ in self.seeds],
            numbers=[number for _, number in self.seeds],
        )

    def _is_complete(self, roots: Tensor, tokens: Tensor) -> Tensor:
        """Tell which chunks [n time] of these roots [n] are complete, by their text or otherwise."""
        length = tokens.shape[1]
        pairs = zip(roots.tolist(), tokens.tolist(), strict=True)
        complete = torch.tensor(
            [length >= self.left(root) or self.ends(said) for root, said in pairs], dtype=torch.bool
        ).to(tokens.device)
        return complete if self.options.stop is None else complete | self.stopped(roots, tokens)

    def stopped(self, roots: Tensor, tokens: Tensor) -> Tensor:
        """Tell which of these outputs the caller's `stop` finds complete."""
        stop, stopped = self.options.stop, torch.zeros_like(roots, dtype=torch.bool)
        if stop is None:
            return stopped
        lengths = [len(self.roots[root].tokens) for root in roots.tolist()]
        for length in sorted(set(lengths)):
            if length + tokens.shape[1] < self.options.min_length:
                continue
            these = torch.tensor([each == length for each in lengths], device=roots.device)
            of = [self.roots[root] for root in roots[these].tolist()]
            said = torch.tensor([root.tokens for root in of], dtype=torch.long, device=tokens.device)
            inputs = torch.tensor([root.input for root in of], device=tokens.device)
            full = torch.cat([said.view(len(of), length), tokens[these]], dim=1)
            stopped[these] = ask_stop(stop, inputs, full).to(stopped.device)
        return stopped


Found = list[list[list[Proposal]]]
"""Proposals by root and by the group that they are for."""


def propose(asked: Asked, answer: Answer, abilities: Abilities, keeper: Keeper) -> Generator[Ask, Any, Found]:
    """Return proposals for each root, given the model's answer about the roots."""
    search = lockstep(asked.plan, asked.search_options(), abilities)
    collector, reply = _Collector(asked, keeper), None
    event = next(search)
    while True:
        if isinstance(event, Step):
            yield from collector.note(event)
            reply = None
        elif isinstance(event, Start):
            reply = collector.restricted(answer)
        elif isinstance(event, Fix):
            reply = None  # a search that runs ahead does not tell where its states are
        else:
            reply = yield event
            if isinstance(event, Advance):
                reply = collector.restricted(reply)
        try:
            event = search.send(reply)
        except StopIteration:
            return collector.found()


class _Collector:
    """Watches a search for proposals: knows the row of each beam, and notes what is complete."""

    def __init__(self, asked: Asked, keeper: Keeper) -> None:
        self._asked = asked
        self._keeper = keeper
        self._beams: _Beams | None = None
        self._doubted = torch.zeros(len(asked.roots), asked.plan.groups, dtype=torch.bool, device="cpu")
        self._found: list[list[list[tuple[float, Proposal]]]] = [
            [[] for _ in range(asked.plan.groups)] for _ in asked.roots
        ]

    def found(self) -> Found:
        """Return the best of each group of the search, as many as it has beams, for each group of ours."""
        beams, searches = self._asked.plan.beams_per_group, self._asked.plan.groups
        lists = []
        for root, by_search in zip(self._asked.roots, self._found, strict=True):
            best = [_best(each, beams) for each in by_search]
            share = searches // len(root.groups)
            parts = (best[start : start + share] for start in range(0, searches, share))
            lists.append([list(chain.from_iterable(part)) for part in parts])
        return lists

    def restricted(self, answer: Answer) -> Answer:
        """Return the model's answer about the live beams, without what their paths rule out."""
        options = self._asked.options
        if self._asked.is_alone or (options.no_repeat_ngram is None and not options.min_length):
            return answer
        return restrict(answer, self._sequences(), options)

    def note(self, step: Step) -> Generator[Keep, None, None]:
        """Note what a step has completed, and where its beams are."""
        (selection,) = step.selections
        beams = self._extended(step, selection)
        if selection.doubt is not None:
            self._doubted[step.inputs.cpu()] |= selection.doubt.cpu()
        complete = self._complete(selection)
        if bool(complete.any()):
            picked = beams.picked(selection.picks, complete)
            yield from self._collect(picked)
        self._beams = beams.after(selection)

    def _sequences(self) -> list[tuple[int, ...]]:
        """Return the tokens behind each row of the model's answer."""
        roots = self._asked.roots
        if self._beams is None:
            return [root.tokens for root in roots]
        live = self._beams.live
        owner = self._beams.inputs.view(-1, 1, 1).expand_as(live)[live].tolist()
        said = self._beams.tokens[live].tolist()
        return [(*roots[root].tokens, *tokens) for root, tokens in zip(owner, said, strict=True)]

    def _extended(self, step: Step, selection: Selection) -> _Beams:
        """Return the beams that a step extends."""
        if self._beams is not None:
            return self._beams.of(step.inputs)
        shape = (len(step.inputs), len(selection.groups), self._asked.plan.beams_per_group)
        return _Beams.roots(step.inputs, shape, selection.picks.score.dtype)

    def _complete(self, selection: Selection) -> Tensor:
        """Tell which picks are complete chunks."""
        beams, ended = self._asked.plan.beams_per_group, selection.ended
        complete = ended.clone()
        complete[..., beams:] = False  # as in any search, an end counts among the best picks alone
        if selection.time + 1 == self._asked.most:
            complete |= ~ended & ((~ended).cumsum(2) <= beams)
        return complete & (selection.picks.score > -torch.inf)

    def _collect(self, picked: _Picked) -> Generator[Keep, None, None]:
        """Note complete chunks, and keep the states behind those that may be gone on from."""
        asked, device = self._asked, picked.root.device
        is_end = torch.isin(picked.tokens[:, -1], torch.tensor(asked.options.ends, device=device))
        ended = is_end | asked.stopped(picked.root, picked.tokens)
        left = torch.tensor([asked.left(root) for root in range(len(asked.roots))], device=device)
        goes_on = ~ended & (left[picked.root] > picked.tokens.shape[1])
        source = -1
        if bool(goes_on.any()):
            source = yield from self._keeper.keep(picked.row[goes_on])
        place = torch.where(goes_on, goes_on.long().cumsum(0) - 1, -1)
        doubtful = self._doubted[picked.root.cpu(), picked.group.cpu()]
        columns = (*picked.columns, ended, doubtful, place)
        for root, group, tokens, *values, at in zip(*(column.tolist() for column in columns), strict=True):
            score, log_prob, gain, is_ended, doubt = values
            where = None if at < 0 else Where(source, at)
            made = Proposal(tuple(tokens), log_prob, gain, is_ended, not doubt, where)
            self._found[root][group].append((score, made))


def _best(found: Sequence[tuple[float, Proposal]], count: int) -> list[Proposal]:
    """Return so many proposals of the highest scores, in the order in which they were found."""
    ranked = sorted(range(len(found)), key=lambda place: -found[place][0])
    return [found[place][1] for place in sorted(ranked[:count])]


@dataclass(frozen=True, slots=True)
class _Picked:
    """Some picks [n]."""

    root: Tensor
    group: Tensor
    tokens: Tensor  # [n time]
    score: Tensor
    log_prob: Tensor
    gain: Tensor  # the score without penalties
    row: Tensor  # of the model's last answer, which they follow

    @property
    def columns(self) -> tuple[Tensor, ...]:
        return self.root, self.group, self.tokens, self.score, self.log_prob, self.gain


@dataclass(frozen=True, slots=True)
class _Beams:
    """The beams of a search for proposals. Tensors are [root group beam] unless they say more."""

    inputs: Tensor  # [root]
    row: Tensor  # of the model's last answer
    tokens: Tensor  # [root group beam time]
    paid: Tensor  # what penalties have taken off the score
    live: Tensor

    @classmethod
    def roots(cls, inputs: Tensor, shape: tuple[int, int, int], dtype: torch.dtype) -> _Beams:
        """Return beams before their first token."""
        row = inputs.view(-1, 1, 1).expand(shape)
        tokens = torch.empty(*shape, 0, dtype=torch.long, device=row.device)
        paid = torch.zeros(shape, dtype=dtype, device=row.device)
        return cls(inputs, row, tokens, paid, torch.ones_like(row, dtype=torch.bool))

    def of(self, inputs: Tensor) -> _Beams:
        """Return those of some of the roots."""
        at = torch.searchsorted(self.inputs, inputs)
        return _Beams(inputs, self.row[at], self.tokens[at], self.paid[at], self.live[at])

    def picked(self, picks: Picks, which: Tensor) -> _Picked:
        """Return some of the picks that extend these beams."""
        roots = self.inputs.view(-1, 1, 1).expand_as(which)
        groups = torch.arange(which.shape[1], device=which.device).view(1, -1, 1).expand_as(which)
        return _Picked(
            root=roots[which],
            group=groups[which],
            tokens=append(take(self.tokens, picks.parent), picks.token)[which],
            score=picks.score[which],
            log_prob=picks.log_prob[which],
            gain=(picks.score + self.paid.gather(2, picks.parent) + picks.cost)[which],
            row=self.row.gather(2, picks.parent)[which],
        )

    def after(self, selection: Selection) -> _Beams:
        """Return the beams after a step. Those that are live have the rows of the next answer, in order."""
        beams, kept = selection.beams_after, selection.survivors.first(self.live.shape[2])
        assert beams is not None, "the step is done"
        live = beams.live
        row = (live.flatten().cumsum(0) - 1).clamp(min=0).view_as(live)
        paid = self.paid.gather(2, kept.parent) + kept.cost
        return _Beams(self.inputs, row, beams.tokens, paid, live)
