"""Let groups pick, from lists long enough that the picks are certain."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import replace

from torch import Tensor

from beamsplit.diversity import Earlier
from beamsplit.model import Shortlist
from beamsplit.search import kernels
from beamsplit.search.asks import Widen
from beamsplit.search.frontier import Frontier
from beamsplit.search.lists import StepLists
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.repeats import complete_again
from beamsplit.search.select import Selection, settle, split_ends
from beamsplit.search.shortlist import without

__all__ = ["pick"]


def pick(
    frontier: Frontier, lists: StepLists, outside: Earlier | None = None, doubt_outside: Tensor | None = None
) -> Generator[Widen, Shortlist, Selection]:
    """Let the groups of a frontier pick.

    `outside` is what earlier groups hold that do not step together with these; `doubt_outside` [batch 1]
    whether that is in doubt.
    """
    penalty = frontier.penalty(outside)
    width = first = frontier.first_width
    while True:
        selection = _pick_from(frontier, _allowed(frontier, lists.of(frontier, width)), penalty)
        complete = lists.leave_nothing_out(width)
        if selection.doubt is None and not complete:
            break
        lists.check_finite()  # what is NaN is not certain, so there is no need to look before
        if complete:
            selection = replace(selection, doubt=None)
            break
        wider = yield from lists.widen(frontier, selection, width)
        if wider is None:
            _warn_once(frontier, selection)
            break
        width = wider
    if width > first:
        frontier.width = 2 * first  # what was too short once will be so again
    return _spread_doubt(selection, penalty, doubt_outside)


def _allowed(frontier: Frontier, lists: Shortlist) -> Shortlist:
    """Return the lists without tokens that would repeat an n-gram, if that is asked for.

    Noisy rules draw from scores in which these are ruled out already.
    """
    n = frontier.setting.options.no_repeat_ngram
    if n is None or frontier.setting.plan.rule.noisy:
        return lists
    return without(lists, complete_again(lists.tokens, frontier.beams.tokens, n))


def _pick_from(frontier: Frontier, lists: Shortlist, penalty: GroupPenalty | None) -> Selection:
    setting = frontier.setting
    beams = setting.plan.beams_per_group
    keep = setting.slots if frontier.is_last_step else beams
    count = keep + beams * setting.options.ends_per_beam  # so that enough are left when some end
    rule = frontier.rule
    if setting.has_kernels and setting.is_end is not None and setting.options.stop is None:
        chosen = kernels.pick_by_kernel(rule, frontier.beams, lists, penalty, setting.is_end, count, keep)
        if chosen is not None:
            return Selection(frontier.groups, frontier.time, width=lists.tokens.shape[-1], **chosen._asdict())
    picks, bound = settle(rule, frontier.beams, lists, count, penalty)
    ended = frontier.ends(picks)
    survivors, secure, any_end = split_ends(rule, picks, bound, ended, count, keep)
    return Selection(
        frontier.groups,
        frontier.time,
        picks,
        ended,
        survivors,
        width=lists.tokens.shape[-1],
        any_end=any_end,
        doubt=None if bool(secure.all()) else ~secure,
    )


def _spread_doubt(
    selection: Selection, penalty: GroupPenalty | None, doubt_outside: Tensor | None
) -> Selection:
    """Let doubt about a group be doubt about all groups that avoid it."""
    doubt = selection.doubt
    if penalty is not None and doubt_outside is not None:
        doubt = doubt_outside if doubt is None else doubt | doubt_outside
    if penalty is not None and doubt is not None:
        doubt = doubt.cumsum(1) > 0
    return selection if doubt is selection.doubt else replace(selection, doubt=doubt)


def _warn_once(frontier: Frontier, selection: Selection) -> None:
    notes = frontier.setting.notes
    if notes:
        return
    notes.append("in doubt")
    if frontier.setting.plan.rule.noisy:
        warnings.warn(
            f"samples are drawn within the model's lists of {selection.width} candidates, and in step "
            f"{frontier.time} others might have been drawn: such samples have certified=False (a smaller "
            "top_k or top_p, a larger min_p or longer lists help)",
            stacklevel=2,
        )
        return
    sure = frontier.setting.sure_width(frontier.time)
    enough = "the whole vocabulary would be" if sure is None else f"{sure} would be"
    warnings.warn(
        f"the model's lists of {selection.width} candidates are too short to be certain of step "
        f"{frontier.time}: hypotheses that may differ from an exact search have certified=False "
        f"({enough} enough in any case)",
        stacklevel=2,
    )
