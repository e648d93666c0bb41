"""DivMBest with beam search as a black box (Gimpel et al., 2013)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity import Diversity, NGram
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Ask, Search
from beamsplit.search.frontier import Avoid
from beamsplit.search.loop import lockstep
from beamsplit.search.plan import Plan, check_term, extended_strengths, own_strengths
from beamsplit.search.results import rank_by
from beamsplit.search.rules import Maximise
from beamsplit.search.step import Step

__all__ = ["DivMBest"]

_Kept = list[list[Hypothesis]]  # of each input


@dataclass(frozen=True, kw_only=True)
class DivMBest:
    """Beam searches one after another. Each keeps its best hypothesis and avoids those kept before.

    It costs as much as `runs` beam searches, and all but one of the `beams` results of each run are thrown
    away. Diverse Beam Search avoids that waste.
    """

    runs: int
    beams: int
    strength: float | Sequence[float] = 0.5
    diversity: Diversity = field(default_factory=NGram)

    def __post_init__(self) -> None:
        checks.at_least("runs", self.runs, 1)
        checks.at_least("beams", self.beams, 1)
        own_strengths(self, self.runs)
        check_term(self.diversity)

    @property
    def kept_per_group(self) -> int:
        return 1

    @property
    def group_count(self) -> int:
        return int(self.runs)

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> DivMBest:
        """Return the same strategy with so many runs more, which have this strength."""
        strengths = extended_strengths(self.strength, self.group_count, groups, strength)
        return replace(self, runs=self.group_count + groups, strength=strengths)

    def plan(self, run: int = 0) -> Plan:
        """Return the plan of one run. The first has nothing to avoid."""
        return Plan(
            groups=1,
            beams_per_group=int(self.beams),
            rule=Maximise(),
            strengths=(checks.strengths(self.strength, self.runs)[run],),
            diversity=self.diversity,
        )

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        """Run one beam search after another. Group g of the result is what run g has kept."""
        return self.resume(options, abilities, _Memory())

    def resume(self, options: DecodeOptions, abilities: Abilities, memory: Any) -> Search:
        """Do the runs that are not in the memory of a search that is over."""
        kept: _Kept = memory.kept
        doubtful = set(memory.doubtful)
        every = replace(options, return_per_group=None, unique=False)
        steps_before = 0
        for run in range(memory.runs, self.runs):
            avoid = Avoid(_as_tensor(kept), _as_mask(doubtful, len(kept))) if run else None
            search = lockstep(self.plan(run), every, abilities, avoid)
            last = yield from _relay(search, _Run(run, self.runs, steps_before, kept, options), doubtful)
            if last is None:  # an empty batch
                return
            kept = _with_best(kept, last, run, options.unique)
            steps_before += last.number + 1


@dataclass(frozen=True)
class _Memory:
    """What some runs have left behind."""

    runs: int = 0
    kept: _Kept = field(default_factory=list)
    doubtful: frozenset[int] = frozenset()
    """Inputs of which some choice was not certain: so is all that avoids it."""


@dataclass(frozen=True)
class _Run:
    """One of the runs, and what came before it."""

    number: int
    runs: int  # of the whole search
    steps_before: int
    kept: _Kept
    options: DecodeOptions

    def show(self, step: Step, doubtful: set[int]) -> Step:
        """Return the step as one of the whole search."""
        selections = tuple(
            replace(each, groups=range(self.number, self.number + 1)) for each in step.selections
        )
        number = self.steps_before + step.number
        return replace(
            step,
            number=number,
            selections=selections,
            assemble=lambda: self._lists(step),
            memory=lambda: _Memory(self.number + 1, self._kept_after(step), frozenset(doubtful)),
        )

    def _kept_after(self, step: Step) -> _Kept:
        return _with_best(self.kept, step, self.number, self.options.unique)

    def _lists(self, step: Step) -> list[Hypotheses]:
        rank, kept = rank_by(self.options.ranking), self._kept_after(step)
        return [Hypotheses.ordered(sorted(each, key=lambda h: -rank(h)), asked=self.runs) for each in kept]


def _relay(search: Search, run: _Run, doubtful: set[int]) -> Generator[Ask | Step, Any, Step | None]:
    """Pass on what a run asks, and its steps as steps of the whole search. Returns the run's last step.

    Inputs of which a step was not certain are added to `doubtful`.
    """
    reply, last = None, None
    while True:
        try:
            event = search.send(reply)
        except StopIteration:
            return last
        if isinstance(event, Step):
            if any(selection.doubt is not None for selection in event.selections):
                doubtful.update(event.inputs[~event.certified].tolist())
            last, event = event, run.show(event, doubtful)
        reply = yield event


def _with_best(kept: _Kept, step: Step, run: int, unique: bool) -> _Kept:
    """Return what was kept before and the best of this run (the best that is new, if `unique`)."""
    extended = []
    for index, found in enumerate(step.hypotheses):
        before = kept[index] if run else []
        taken = {h.tokens for h in before} if unique else set()
        fresh = [replace(h, group=run) for group in found.groups for h in group if h.tokens not in taken]
        extended.append(before + fresh[:1])
    return extended


def _as_tensor(kept: _Kept) -> Tensor:
    """Return [batch e length], -1 after the ends and where an input has kept fewer."""
    count = max(len(each) for each in kept)
    length = max((len(h.tokens) for each in kept for h in each), default=0)
    tokens = torch.full((len(kept), count, length), -1, device="cpu")
    for index, each in enumerate(kept):
        for e, hypothesis in enumerate(each):
            tokens[index, e, : len(hypothesis.tokens)] = torch.tensor(hypothesis.tokens, device="cpu")
    return tokens


def _as_mask(indices: set[int], batch: int) -> Tensor | None:
    """Return [batch] which inputs these are; None if there are none."""
    return torch.tensor([index in indices for index in range(batch)], device="cpu") if indices else None
