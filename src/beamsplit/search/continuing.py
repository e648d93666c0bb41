"""More groups for a search that is over: the loop of `lockstep` for the new groups alone.

At every step they are shown what the earlier groups held at that step, so the results are those of a search
with all groups from the beginning. The model sees no row of an earlier group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beamsplit.hypotheses import Hypotheses
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Search, Start
from beamsplit.search.frontier import Frontier
from beamsplit.search.lists import read_lists
from beamsplit.search.loop import dismiss_finished
from beamsplit.search.past import Past, Replay, pool_of
from beamsplit.search.picking import pick
from beamsplit.search.plan import Plan
from beamsplit.search.setting import Setting, room_of
from beamsplit.search.snapshots import Departed, snapshot
from beamsplit.search.step import Step

__all__ = ["continued"]


def continued(
    plan: Plan, options: DecodeOptions, abilities: Abilities, past: Past, found: Sequence[Hypotheses]
) -> Search:
    """Search with those groups of the plan that are not in the past, which has found these lists."""
    new = range(past.groups, plan.groups)
    answer = yield Start(replace(room_of(plan, options), beams=len(new) * plan.beams_per_group))
    setting = Setting.of(plan, options, abilities, answer)
    before = Replay(past.to(setting.like.device))
    found_before = pool_of(found, past.groups, setting.slots, setting.like)
    groups, departed = Frontier.roots(setting, new), Departed()
    for number in range(options.max_length):
        lists = read_lists(setting, answer, groups.rows.count, [groups])
        selection = yield from pick(groups, lists, *before.step(groups.inputs))
        selection = groups.apply(selection)
        yield Step(number, groups.inputs, (selection,), snapshot([groups], departed, found_before))
        departed += dismiss_finished(groups)
        if groups.is_done:
            return
        answer = yield groups.ask()
