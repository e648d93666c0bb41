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

from beamsplit.options import DecodeOptions
from beamsplit.search.ahead.loop import fix, may_run_ahead, run_ahead
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
    if avoid is None and may_run_ahead(setting, answer):
        fixed = yield fix(setting)
        if fixed is not None:
            yield from run_ahead(setting, answer, fixed)
            return
    groups, departed = Frontier.roots(setting, range(plan.groups), avoid), Departed()
    for number in range(options.max_length):
        lists = read_lists(setting, answer, groups.rows.count, [groups])
        selection = yield from pick(groups, lists)
        selection = groups.apply(selection)
        yield Step(number, groups.inputs, (selection,), snapshot([groups], departed))
        departed += dismiss_finished(groups)
        if groups.is_done:
            return
        answer = yield groups.ask()


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
