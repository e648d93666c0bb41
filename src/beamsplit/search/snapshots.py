"""What a search would return if it stopped at this moment."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from beamsplit.hypotheses import Hypotheses
from beamsplit.search.frontier import Frontier
from beamsplit.search.results import assemble
from beamsplit.search.state import FinishedPool

__all__ = ["Departed", "snapshot"]

Departed = list[tuple[Tensor, FinishedPool]]
"""Inputs that have left the batch, and what was found for them."""


def snapshot(
    frontiers: list[Frontier], departed: Departed, found_before: FinishedPool | None = None
) -> Callable[[], list[Hypotheses]]:
    """Return what there is to return at this moment, put together only if someone asks.

    `found_before` is what groups before all of these have found, for every input of the caller.
    """
    setting, inputs = frontiers[0].setting, frontiers[0].inputs
    now = [frontier.freeze() for frontier in frontiers]  # which go on changing
    left = tuple(departed)

    def assembled() -> list[Hypotheses]:
        pools = [*left, (inputs, FinishedPool.beside([pool() for pool in now]))]
        if found_before is not None:
            pools = [(of, FinishedPool.beside([found_before.inputs(of), pool])) for of, pool in pools]
        options, plan = setting.options, setting.plan
        per_group = options.return_per_group or plan.beams_per_group
        return assemble(pools, setting.batch, options.ranking, plan.groups, per_group, options.unique)

    return assembled
