"""Who is shown which item, and whose vote counts.

An item has as many slots as it needs votes. To be shown an item is to hold one of its slots; whoever does not
answer for a while may lose it to someone else, who could not be shown anything otherwise. Each function here
is a part of one transaction, and relies on the constraints of the tables: when two people want the same slot
at once, the second transaction fails, and is tried again from its beginning.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Select, and_, exists, func, insert, or_, select, true, update

from beamsplit.study.tables import annotators, items, showings

__all__ = [
    "Rules",
    "Showing",
    "SlotTakenError",
    "Standing",
    "VoteResult",
    "cast_vote",
    "give_item",
    "hashed_uniform",
    "standing",
]

VoteResult = Literal["counted", "before", "late", "foreign"]
"""Of a vote: counted now, counted before, too late (the slot is someone else's), for an item not given."""


class SlotTakenError(Exception):
    """Someone else was faster: try again."""


@dataclass(frozen=True)
class Rules:
    """What a study says about who is shown what."""

    votes: int
    share: int | None
    patience: float
    seed: int


@dataclass(frozen=True)
class Showing:
    """An item that a person holds, and which method's list is on the left."""

    item: int
    left: str


@dataclass(frozen=True)
class Standing:
    """How far a person is."""

    done: int
    """Items answered, checks among them."""
    left: int
    """Items still to come, as far as can be known: others vote too."""
    busy: bool
    """Whether others hold items that may come to this person if they do not answer."""


def hashed_uniform(*what: object) -> float:
    """A number from 0 to 1 that depends on this alone."""
    digest = hashlib.blake2b("/".join(map(str, what)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


# An item for a person


def give_item(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    """The item that a person holds, or else one that is free; none if there is none for them."""
    return _held(connection, rules, annotator, now) or _claimed(connection, rules, annotator, now)


def _held(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    renewed = update(showings).where(_pending(annotator)).values(expires=now + rules.patience)
    row = connection.execute(renewed.returning(showings.c.item, showings.c.left)).first()
    return None if row is None else Showing(*row)


def _pending(annotator: int) -> Any:
    return and_(showings.c.annotator == annotator, showings.c.slot.is_not(None), showings.c.choice.is_(None))


def _claimed(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    places = _items_to_give(connection, rules, annotator, now)
    check = _due_check(connection, rules, annotator, last=not places)
    if check is not None:
        return _shown(connection, rules, check, annotator, slot=annotator, now=now)
    if not places:
        return None
    item = min(places, key=lambda place: hashed_uniform(rules.seed, "order", annotator, place))
    slot = _free_slot(connection, rules, item, now)
    return _shown(connection, rules, item, annotator, slot=slot, now=now)


def _shown(
    connection: Connection, rules: Rules, item: int, annotator: int, *, slot: int, now: float
) -> Showing:
    left = "first" if hashed_uniform(rules.seed, "side", annotator, item) < 0.5 else "second"
    again = update(showings).where(showings.c.item == item, showings.c.annotator == annotator, _lost())
    now_theirs = {"slot": slot, "shown": now, "expires": now + rules.patience}
    if connection.execute(again.values(**now_theirs)).rowcount == 0:
        row = {"item": item, "annotator": annotator, "left": left, **now_theirs}
        connection.execute(insert(showings).values(**row))
    return Showing(item, left)


def _lost() -> Any:
    """Shown, and then given to someone else: who may be given it back."""
    return showings.c.slot.is_(None)


def _items_to_give(connection: Connection, rules: Rules, annotator: int, now: float) -> list[int]:
    """Nobody loses an item to someone who could be given another."""
    if _share_left(connection, rules, annotator) == 0:
        return []
    untouched = list(connection.scalars(_lacking(rules, annotator, true())))
    return untouched or _open_items(connection, rules, annotator, now)


def _open_items(connection: Connection, rules: Rules, annotator: int, now: float) -> list[int]:
    """Those that the person has not voted on and that have a slot nobody holds."""
    kept = or_(showings.c.choice.is_not(None), showings.c.expires > now)
    return list(connection.scalars(_lacking(rules, annotator, kept)))


def _lacking(rules: Rules, annotator: int, counted: Any) -> Select[Any]:
    """Items new to the person that have fewer showings of this kind than they need votes."""
    taken = and_(showings.c.item == items.c.id, showings.c.slot.is_not(None), counted)
    return (
        select(items.c.id)
        .outerjoin(showings, taken)
        .where(items.c.answer.is_(None), ~_seen(annotator))
        .group_by(items.c.id)
        .having(func.count(showings.c.id) < rules.votes)
    )


def _seen(annotator: int) -> Any:
    """Whether the person holds the item, or has voted on it; not if they were too slow."""
    seen = showings.alias()
    return exists().where(seen.c.item == items.c.id, seen.c.annotator == annotator, seen.c.slot.is_not(None))


def _free_slot(connection: Connection, rules: Rules, item: int, now: float) -> int:
    """One that nobody has, or else one whose holder let the time pass, who loses it."""
    asked = select(showings.c.slot).where(showings.c.item == item, showings.c.slot.is_not(None))
    free = set(range(1, rules.votes + 1)).difference(connection.scalars(asked))
    if free:
        return min(free)
    late = and_(showings.c.choice.is_(None), showings.c.expires <= now)
    row = connection.execute(asked.add_columns(showings.c.id).where(late).limit(1)).first()
    if row is None:
        raise SlotTakenError
    released = update(showings).where(showings.c.id == row.id, showings.c.slot.is_not(None), late)
    if connection.execute(released.values(slot=None)).rowcount == 0:
        raise SlotTakenError
    return int(row.slot)


# Checks of attention


def _due_check(connection: Connection, rules: Rules, annotator: int, *, last: bool) -> int | None:
    """The next check, where the person has come to its place; everybody has places of their own."""
    unseen = list(
        connection.scalars(select(items.c.id).where(items.c.answer.is_not(None), ~_seen(annotator)))
    )
    if not unseen:
        return None
    known = _checks(connection)
    place = known - len(unseen)
    within = place + hashed_uniform(rules.seed, "check", annotator, place)
    # Nobody's first item is a check, and whoever runs out of items still gets theirs.
    due = 1 if last else max(1, int(within * _expected(connection, rules) / known))
    return min(unseen) if _answered(connection, annotator, checks=False) >= due else None


def _checks(connection: Connection) -> int:
    return connection.scalar(select(func.count()).where(items.c.answer.is_not(None))) or 0


def _expected(connection: Connection, rules: Rules) -> int:
    """How many items a person will be asked about, if all do as much."""
    count = connection.scalar(select(func.count()).where(items.c.answer.is_(None))) or 0
    people = connection.scalar(select(func.count()).select_from(annotators)) or 1
    return min(count, rules.share or count, math.ceil(count * rules.votes / people))


def _answered(connection: Connection, annotator: int, *, checks: bool) -> int:
    kind = items.c.answer.is_not(None) if checks else items.c.answer.is_(None)
    mine = and_(showings.c.annotator == annotator, showings.c.choice.is_not(None), kind)
    return connection.scalar(select(func.count()).select_from(showings.join(items)).where(mine)) or 0


def _share_left(connection: Connection, rules: Rules, annotator: int) -> int | None:
    if rules.share is None:
        return None
    return max(0, rules.share - _answered(connection, annotator, checks=False))


# Votes


def cast_vote(connection: Connection, annotator: int, item: int, side: str, now: float) -> VoteResult:
    """Count a vote, once, if the person holds the item."""
    mine = and_(showings.c.annotator == annotator, showings.c.item == item)
    left = connection.scalar(select(showings.c.left).where(mine))
    if left is None:
        return "foreign"
    choice = left if side == "left" else {"first": "second", "second": "first"}[left]
    pending = and_(mine, showings.c.slot.is_not(None), showings.c.choice.is_(None))
    if connection.execute(update(showings).where(pending).values(choice=choice, voted=now)).rowcount:
        return "counted"
    voted = connection.scalar(select(showings.c.id).where(mine, showings.c.choice.is_not(None)))
    return "before" if voted is not None else "late"


def standing(connection: Connection, rules: Rules, annotator: int, now: float) -> Standing:
    """How far a person is, with nothing held or one item held."""
    answered = _answered(connection, annotator, checks=False)
    checked = _answered(connection, annotator, checks=True)
    places = len(_open_items(connection, rules, annotator, now)) + _holds(connection, annotator)
    room = _share_left(connection, rules, annotator)
    left = places if room is None else min(places, room)
    checks = _checks(connection) - checked if answered or left else 0
    unvoted = connection.scalars(_lacking(rules, annotator, showings.c.choice.is_not(None))).first()
    return Standing(answered + checked, left + checks, unvoted is not None and room != 0)


def _holds(connection: Connection, annotator: int) -> int:
    """Of a check nothing is said: those are counted apart."""
    held = select(func.count()).select_from(showings.join(items))
    return connection.scalar(held.where(_pending(annotator), items.c.answer.is_(None))) or 0
