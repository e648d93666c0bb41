"""Studies that are small enough to follow with pencil and paper."""

from __future__ import annotations

from collections import Counter
from typing import Any

from beamsplit.study import NewItem, Store, StudyPlan
from beamsplit.study.store import Annotator

CHECK = NewItem(name="check", first=("choose this list",), second=("choose the other",), answer="first")


def plan(items: int = 4, **changes: Any) -> StudyPlan:
    """Return a plan with items 0, 1, ..., whose lists are of BS and DBS."""
    made = tuple(item(str(number), complexity=float(number)) for number in range(items))
    return StudyPlan(
        **{"first": "BS", "second": "DBS", "items": made, "votes": 2, "annotators": 3, **changes}
    )


def item(name: str, **more: Any) -> NewItem:
    lists = {"first": (f"bs {name}", f"bs {name} again"), "second": (f"dbs {name}", f"other {name}")}
    return NewItem(**{"name": name, "input": f"input {name}", **lists, **more})


def answer_all(store: Store, annotator: Annotator, side: str = "left") -> int:
    """Vote until nothing is left, and say how often."""
    count = 0
    while (given := store.give(annotator)) is not None:
        assert store.vote(annotator, given.item, side) == "counted"
        count += 1
    return count


def votes_per_item(store: Store) -> Counter[str]:
    return Counter(vote.item for vote in store.votes() if not vote.check)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now
