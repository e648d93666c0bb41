"""Whatever people do, in whatever order: the laws of votes hold."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beamsplit.study import Store, create_study
from study.small import CHECK, Clock, plan

ITEMS, VOTES, PEOPLE = 3, 2, 4
_numbers = itertools.count()

# Somebody looks, votes on what they look at, votes on anything at all, or a while passes.
acts = st.one_of(
    st.tuples(st.just("look"), st.integers(0, PEOPLE - 1)),
    st.tuples(st.just("vote"), st.integers(0, PEOPLE - 1)),
    st.tuples(st.just("guess"), st.integers(0, PEOPLE - 1), st.integers(1, ITEMS + 1)),
    st.tuples(st.just("wait"), st.sampled_from([1, 61])),
)


def act(store: Store, clock: Clock, what: tuple[object, ...]) -> int:
    """Do it, and say how many votes were counted."""
    kind, number, *rest = what
    assert isinstance(number, int)
    if kind == "wait":
        clock.now += number
        return 0
    annotator = store.annotators()[number]
    if kind == "guess":
        (item,) = rest
        assert isinstance(item, int)
        return store.vote(annotator, item, "right") == "counted"
    shown = store.give(annotator)
    if kind == "look" or shown is None:
        return 0
    return store.vote(annotator, shown.item, "left") == "counted"


def check(store: Store, counted: int) -> None:
    votes = store.votes()
    assert len(votes) == counted
    assert all(count <= VOTES for count in Counter(v.item for v in votes if not v.check).values())
    assert all(count == 1 for count in Counter((v.item, v.annotator) for v in votes).values())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(acts, max_size=40))
def test_any_order_of_things(tmp_path: Path, what: list[tuple[object, ...]]) -> None:
    clock = Clock()
    made = plan(items=ITEMS, votes=VOTES, annotators=PEOPLE, checks=(CHECK,), patience=60)
    store = create_study(str(tmp_path / f"{next(_numbers)}.db"), made, clock=clock)
    try:
        counted = 0
        for each in what:
            counted += act(store, clock, each)
            check(store, counted)
        finish(store, clock, counted)
    finally:
        store.close()


def finish(store: Store, clock: Clock, counted: int) -> None:
    """With fresh people every study comes to its end."""
    clock.now += 61
    for annotator in [*store.annotators(), *store.add_annotators(VOTES)]:
        while (shown := store.give(annotator)) is not None:
            counted += store.vote(annotator, shown.item, "left") == "counted"
    check(store, counted)
    told = Counter(vote.item for vote in store.votes() if not vote.check)
    assert told == {str(number): VOTES for number in range(ITEMS)}
