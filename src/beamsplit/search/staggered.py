"""The staggered schedule, the paper's parallel form: group g runs g steps behind the first.

Every group sees what the groups before it picked when they stood where it stands now, so the results are
those of `lockstep`. There are G - 1 steps more, and in each the groups pick independently of each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from beamsplit.diversity import Earlier
from beamsplit.model import Answer, Shortlist, copied, stack_answers
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import LAST, Abilities, Advance, Search, Start, Widen
from beamsplit.search.frontier import Frontier
from beamsplit.search.lists import StepLists, read_lists
from beamsplit.search.picking import pick
from beamsplit.search.plan import Plan
from beamsplit.search.rows import are_all
from beamsplit.search.select import Selection
from beamsplit.search.setting import Setting, room_of
from beamsplit.search.snapshots import Departed, snapshot
from beamsplit.search.state import FinishedPool, stack_sequences
from beamsplit.search.step import Step

__all__ = ["staggered"]

_ROOTS = 0  # the first answer, as a source


@dataclass(frozen=True, slots=True)
class _Moment:
    """The tokens of a group at one time step, for later groups to see. -1: no token there."""

    beams: Tensor  # [batch e time+1] what was picked at this step, with all that came before
    finished: Tensor  # [batch f length] hypotheses from earlier steps
    finished_now: Tensor  # [batch f length] hypotheses after this step
    doubt: Tensor | None  # [batch 1]

    def inputs(self, keep: Tensor) -> _Moment:
        """Return the same of these inputs alone."""
        doubt = None if self.doubt is None else self.doubt[keep]
        return _Moment(self.beams[keep], self.finished[keep], self.finished_now[keep], doubt)


@dataclass(slots=True)
class _Group:
    """One group and what later groups may look back at, newest last."""

    frontier: Frontier
    history: deque[_Moment]

    def apply(self, selection: Selection, elsewhere: Tensor | None) -> Selection:
        """Let the picks be the beams from now on, and remember them for later groups."""
        frontier, finished = self.frontier, self.frontier.pool.tokens
        if self.history.maxlen == 1:  # nobody looks back at the last group
            return frontier.apply(selection, elsewhere)
        spelled = frontier.spell(selection.picks.first(frontier.setting.plan.beams_per_group))
        selection = frontier.apply(selection, elsewhere)
        spelled, finished, now = (held.flatten(1, 2) for held in (spelled, finished, frontier.pool.tokens))
        self.history.append(_Moment(spelled, finished, now, frontier.doubt))
        return selection


def staggered(plan: Plan, options: DecodeOptions, abilities: Abilities) -> Search:
    """Search with group g running g steps behind the first."""
    roots = yield Start(room_of(plan, options), keeps="first" if plan.groups > 1 else "last")
    setting = Setting.of(plan, options, abilities, roots)
    if not setting.batch:
        return
    roots = copied(roots)  # they are looked at again when later groups start
    groups, departed = _make_groups(setting), Departed()
    answer: Answer | None = None
    rows = 0  # that the answer should have
    for number in range(options.max_length + plan.groups - 1):
        started = groups[: number + 1]
        sources: tuple[int, ...] = (LAST,)
        if number < plan.groups:
            if number:
                sources = (_ROOTS,) if answer is None else (LAST, _ROOTS)
            answer = _start_group(started[-1], answer, rows, roots)
            rows += setting.batch
        assert answer is not None, "a search without beams has ended"
        lists = read_lists(setting, answer, rows, [group.frontier for group in started], sources)
        selections = yield from _pick_all(started, lists)
        frontiers = [group.frontier for group in groups]
        yield Step(number, frontiers[0].inputs, selections, snapshot(frontiers, departed))
        if number + 1 >= plan.groups:
            departed += _dismiss_finished(groups)
            if frontiers[0].is_done:
                return
        # The roots' rows are copied, since later groups start from them too.
        ask = _ask(started, rows, sources, must_copy=number < plan.groups)
        answer, rows = (None, 0) if ask is None else ((yield ask), len(ask.tokens))


def _make_groups(setting: Setting) -> list[_Group]:
    count = setting.plan.groups
    return [_Group(Frontier.roots(setting, range(g, g + 1)), deque(maxlen=count - g)) for g in range(count)]


def _start_group(group: _Group, answer: Answer | None, above: int, roots: Answer) -> Answer:
    """Put the roots' rows below those of the groups on their way, for one more group to start from."""
    if answer is None:
        return roots
    group.frontier.rows = group.frontier.rows.below(above, above + group.frontier.setting.batch)
    return stack_answers(answer, roots)


def _pick_all(
    groups: Sequence[_Group], lists: StepLists
) -> Generator[Widen, Shortlist, tuple[Selection, ...]]:
    """Let every group that has started take a step, in the order of the groups."""
    selections = []
    for g, group in enumerate(groups):
        before = _look_back(groups[:g])
        doubts = [moment.doubt for moment in before if moment.doubt is not None]
        doubt = reduce(torch.logical_or, doubts) if doubts else None
        selection = yield from pick(group.frontier, lists, _as_earlier(before) if before else None, doubt)
        selections.append(group.apply(selection, _found_before(group.frontier, before)))
    return tuple(selections)


def _look_back(groups: Sequence[_Group]) -> list[_Moment]:
    """Return what each of these groups held when it stood where the group after them is to step now."""
    leads = range(len(groups), 0, -1)
    return [group.history[-1 - lead] for lead, group in zip(leads, groups, strict=True)]


def _found_before(frontier: Frontier, moments: Sequence[_Moment]) -> Tensor | None:
    """Return what earlier groups have finished [batch f length], if it matters to the group."""
    if not moments or not frontier.setting.options.unique:
        return None
    return reduce(stack_sequences, [moment.finished_now for moment in moments])


def _as_earlier(moments: Sequence[_Moment]) -> Earlier:
    """Return a term's view of it."""
    beams = torch.cat([moment.beams for moment in moments], dim=1)
    return Earlier(
        beams[..., -1], lambda: beams, lambda: reduce(stack_sequences, [m.finished for m in moments], beams)
    )


def _dismiss_finished(groups: Sequence[_Group]) -> Departed:
    """Let inputs without a live beam in any group leave the batch."""
    frontiers = [group.frontier for group in groups]
    if any(frontier.dense for frontier in frontiers):
        return []
    live = torch.stack([frontier.beams.live.flatten(1).any(1) for frontier in frontiers]).any(0)
    if bool(live.all()):
        return []
    pool = FinishedPool.beside([frontier.pool for frontier in frontiers])
    left = frontiers[0].inputs[~live], pool.inputs((~live).nonzero().squeeze(1))
    keep = live.nonzero().squeeze(1)
    for group in groups:
        group.frontier.keep_inputs(keep)
        group.history = deque((moment.inputs(keep) for moment in group.history), group.history.maxlen)
    return [left]


def _ask(groups: Sequence[_Group], count: int, sources: tuple[int, ...], must_copy: bool) -> Advance | None:
    """Ask for one row for each live beam, whichever group it is in; None if there is none."""
    parts = [group.frontier.hand_out_rows() for group in groups]
    tokens, parents = (torch.cat(column) for column in zip(*parts, strict=True))
    above = 0
    for group in groups:
        own = group.frontier.rows.count
        group.frontier.rows = group.frontier.rows.below(above, len(parents))
        above += own
    if not len(parents):
        return None
    return Advance(tokens, parents if must_copy or not are_all(parents, count) else None, sources)
