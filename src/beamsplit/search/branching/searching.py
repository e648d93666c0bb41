"""The search: a beam search first, then rounds of choosing lists and following what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from beamsplit.model import Room
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Search, Start
from beamsplit.search.branching.explorer import CANDIDATES
from beamsplit.search.branching.first import FirstSearch
from beamsplit.search.branching.lists import Lists
from beamsplit.search.branching.rounds import Round
from beamsplit.search.plan import Plan
from beamsplit.search.select import Selection
from beamsplit.search.setting import room_of
from beamsplit.search.step import Step

__all__ = ["Branching", "branching"]


@dataclass(frozen=True, slots=True)
class Branching:
    """How to search."""

    first: Plan  # the beam search
    outputs: int
    strength: float
    rounds: int


def branching(how: Branching, options: DecodeOptions, abilities: Abilities) -> Search:
    """Search for lists of likely and different outputs."""
    first = FirstSearch(how.first, options, abilities, _start(how, options, abilities), how.outputs)
    yield from first.search()
    if first.explorer is None or first.last is None:  # an empty batch
        return
    if not len(first.explorer.tree.outputs.input):  # nothing is allowed
        yield first.show(first.last)
        return
    lists = Lists(first.explorer, how.outputs, how.strength, abilities.to_text)
    yield replace(first.last, assemble=lists.freeze(), one_tree=True)
    numbers = count(first.last.number + 1)
    for number in range(how.rounds):
        branches = lists.branches(limited=number > 0)
        if branches is None:
            return
        yield from _follow(branches, lists, numbers)


def _start(how: Branching, options: DecodeOptions, abilities: Abilities) -> Start:
    """Ask for what the beam search needs and what the rounds need, whichever is more."""
    first, candidates = room_of(how.first, options), max(CANDIDATES, how.outputs) + len(options.ends) + 1
    room = Room(
        beams=max(first.beams, how.outputs),
        length=options.max_length,
        candidates=max(first.candidates, candidates),
    )
    return Start(room, keeps="all" if abilities.returns else "first")


def _follow(branches: Round, lists: Lists, numbers: Iterator[int]) -> Search:
    """Follow the branches of a round, and show it step by step."""
    events, reply = branches.follow(), None
    while True:
        try:
            event = events.send(reply)
        except StopIteration:
            return
        if isinstance(event, Selection):
            yield Step(next(numbers), branches.inputs, (event,), lists.freeze(), one_tree=True)
            reply = None
        else:
            reply = yield event
