"""The loop of every search: Algorithm 1 of the paper, without I/O.

    start the model                       one row an input
    every step:
        list candidates                   once for all rows
        let the groups pick, in order     from longer lists if the picks are not certain
        apply the picks                   ends go to the group's pool; groups that are done stop
        step the model                    one row a live beam, however many groups

The loop yields what it asks of the model and is sent the answer, so that whoever drives it decides how the
model is called. `staggered` has the same loop for groups that run one step behind each other.
"""

from __future__ import annotations

from beamsplit.model import Answer
from beamsplit.options import DecodeOptions
from beamsplit.search.ahead.loop import fix, may_fix, may_run_ahead, run_ahead
from beamsplit.search.ahead.stepping import Stepping
from beamsplit.search.asks import Abilities, Search, Start
from beamsplit.search.frontier import Avoid, Frontier
from beamsplit.search.lists import read_lists
from beamsplit.search.picking import pick
from beamsplit.search.plan import Plan
from beamsplit.search.setting import Setting, room_of
from beamsplit.search.snapshots import Departed, snapshot
from beamsplit.search.step import Step

__all__ = ["dismiss_finished", "lockstep"]


def lockstep(plan: Plan, options: DecodeOptions, abilities: Abilities, avoid: Avoid | None = None) -> Search:
    """Search with all groups at the same time step, and away from what is to be avoided."""
    answer = yield Start(room_of(plan, options, 0 if avoid is None else avoid.sequences.shape[1]))
    setting = Setting.of(plan, options, abilities, answer)
    if not setting.batch:
        return
    fixed = (yield fix(setting)) if may_fix(setting, answer) else None
    if fixed is None:
        yield from _follow(setting, answer, avoid)
        return
    try:
        if avoid is None and may_run_ahead(setting):
            yield from run_ahead(setting, answer, fixed)
        else:
            yield from _follow(setting.with_fixed_rows(), answer, avoid, Stepping(fixed))
    finally:
        fixed.close()


def _follow(
    setting: Setting, answer: Answer, avoid: Avoid | None, stepping: Stepping | None = None
) -> Search:
    """Search step by step. With `stepping`, that takes the model's steps."""
    plan, options = setting.plan, setting.options
    groups, departed = Frontier.roots(setting, range(plan.groups), avoid), Departed()
    for number in range(options.max_length):
        lists = read_lists(setting, answer, groups.rows.count, [groups])
        selection = yield from pick(groups, lists)
        selection = groups.apply(selection)
        yield Step(number, groups.inputs, (selection,), snapshot([groups], departed))
        departed += dismiss_finished(groups)
        if groups.is_done:
            return
        ask = groups.ask()
        answer = (yield ask) if stepping is None else stepping.answer(ask)


def dismiss_finished(groups: Frontier) -> Departed:
    """Let inputs without a live beam leave the batch, unless the model wants its rows to stay."""
    if groups.dense or groups.setting.abilities.fixed_rows:
        return []
    live = groups.beams.live.flatten(1).any(1)
    if bool(live.all()):
        return []
    left = groups.inputs[~live], groups.pool.inputs((~live).nonzero().squeeze(1))
    groups.keep_inputs(live.nonzero().squeeze(1))
    return [left]
