"""Let groups pick, from lists long enough that the picks are certain."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import torch
from torch import Tensor

from beamsplit.diversity import Earlier
from beamsplit.model import Shortlist
from beamsplit.search import kernels
from beamsplit.search.asks import Widen
from beamsplit.search.floors import LONG, Priced
from beamsplit.search.frontier import Frontier
from beamsplit.search.lists import StepLists
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.repeats import complete_again
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Selection, settle_with_floors, split_ends
from beamsplit.search.shortlist import Scores, without

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
    priced: Priced | None = None
    while True:
        given = lists.of(frontier, width) if priced is None else priced.shortlist(width)
        scores = lists.scores() if frontier.by_floors or width > first else None
        selection, found = _pick_from(frontier, _allowed(frontier, given), penalty, scores)
        frontier.by_floors |= found is not None
        complete = lists.leave_nothing_out(width)
        if selection.doubt is None and not complete:
            break
        lists.check_finite()  # what is NaN is not certain, so there is no need to look before
        if complete:
            selection = replace(selection, doubt=None)
            break
        if found is not None and found.may_tell_more(priced):
            width = max(width, LONG)
        else:
            wider = yield from lists.widen(frontier, selection, width)
            if wider is None:
                _warn_once(frontier, selection, given)
                break
            width = wider
        priced = None if lists.leave_nothing_out(width) else found
    if width > first and not frontier.by_floors:
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


def _pick_from(
    frontier: Frontier, lists: Shortlist, penalty: GroupPenalty | None, scores: Scores | None
) -> tuple[Selection, Priced | None]:
    """Let groups pick from lists. `scores` are those of all tokens, where lists may be made by them.

    Second comes what tokens can score in view of these picks, if that had to be looked at and is known.
    """
    setting = frontier.setting
    beams = setting.plan.beams_per_group
    keep = setting.slots if frontier.is_last_step else beams
    count = keep + beams * setting.options.ends_per_beam  # so that enough are left when some end
    rule = frontier.rule
    width = lists.tokens.shape[-1]
    if setting.has_kernels and setting.is_end is not None and setting.options.stop is None:
        chosen = kernels.pick_by_kernel(rule, frontier.beams, lists, penalty, setting.is_end, count, keep)
        if chosen is not None:
            return Selection(frontier.groups, frontier.time, width=width, **chosen._asdict()), None
    picks, bound, floors = settle_with_floors(rule, frontier.beams, lists, count, penalty)
    ended = frontier.ends(picks)
    survivors, secure, any_end = split_ends(rule, picks, bound, ended, count, keep)
    is_sure, priced = bool(secure.all()), None
    if not is_sure and scores is not None and type(rule) is Maximise and (least := floors()) is not None:
        picked, worst = picks.first(beams).token, survivors.order[..., -1]
        priced = Priced(scores, frontier.beams, frontier.rows, least, picked=picked, worst=worst)
        bound = torch.minimum(bound, priced.bound(lists.tokens))  # more work than the first, and closer
        survivors, secure, any_end = split_ends(rule, picks, bound, ended, count, keep)
        is_sure = bool(secure.all())
    selection = Selection(
        frontier.groups,
        frontier.time,
        picks,
        ended,
        survivors,
        width=width,
        any_end=any_end,
        doubt=None if is_sure else ~secure,
    )
    return selection, priced


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


def _warn_once(frontier: Frontier, selection: Selection, lists: Shortlist) -> None:
    setting, width, time = frontier.setting, selection.width, frontier.time
    if setting.plan.rule.noisy:
        setting.warn_once(
            f"samples are drawn within the model's lists of {width} candidates, and in step {time} others "
            "might have been drawn: such samples have certified=False (a smaller top_k or top_p, a larger "
            "min_p or longer lists help)"
        )
    elif bool((lists.rest >= 0).any()):
        setting.warn_once(
            "the model's lists of candidates say nothing of what is not in them: no hypothesis is certified"
        )
    else:
        sure = setting.sure_width(time)
        enough = "the whole vocabulary would be" if sure is None else f"{sure} would be"
        setting.warn_once(
            f"the model's lists of {width} candidates are too short to be certain of step {time}: hypotheses "
            f"that may differ from an exact search have certified=False ({enough} enough in any case)"
        )
