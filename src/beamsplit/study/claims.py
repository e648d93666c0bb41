"""Decide who is shown which item, and whose vote counts.

An item has as many slots as it needs votes. An annotator who is shown an item holds one of its slots. If they
do not answer for a while, they may lose it to someone who could not be shown anything otherwise.

Each function here is part of one transaction, and relies on the constraints of the tables: when two
annotators take the same slot at once, the second transaction fails, and is tried again from its start.
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
"""Counted now, counted before, too late (someone else has the slot), or for an item that was not shown."""


class SlotTakenError(Exception):
    """Someone else took the slot first: try again."""


@dataclass(frozen=True)
class Rules:
    """The settings of a study that decide who is shown what."""

    votes: int
    share: int | None
    patience: float
    seed: int


@dataclass(frozen=True)
class Showing:
    """An item that an annotator holds, and which method's list is on the left."""

    item: int
    left: str


@dataclass(frozen=True)
class Standing:
    """How far an annotator is."""

    done: int
    """Items answered, checks included."""
    left: int
    """Items still to come, as far as is known: others vote too."""
    busy: bool
    """Whether others hold items that may go to this annotator if they do not answer."""


def hashed_uniform(*key: object) -> float:
    """Return a number from 0 to 1 that depends on the key alone."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


# Giving items


def give_item(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    """Return the item that an annotator holds, or else claim one for them, if there is one."""
    return _renew(connection, rules, annotator, now) or _claim(connection, rules, annotator, now)


def _renew(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    renewed = update(showings).where(_pending(annotator)).values(expires=now + rules.patience)
    row = connection.execute(renewed.returning(showings.c.item, showings.c.left)).first()
    return None if row is None else Showing(*row)


def _pending(annotator: int) -> Any:
    return and_(showings.c.annotator == annotator, showings.c.slot.is_not(None), showings.c.choice.is_(None))


def _claim(connection: Connection, rules: Rules, annotator: int, now: float) -> Showing | None:
    item_ids = _items_to_give(connection, rules, annotator, now)
    check = _due_check(connection, rules, annotator, last=not item_ids)
    if check is not None:
        return _show(connection, rules, check, annotator, slot=annotator, now=now)
    if not item_ids:
        return None
    item = min(item_ids, key=lambda each: hashed_uniform(rules.seed, "order", annotator, each))
    slot = _take_slot(connection, rules, item, now)
    return _show(connection, rules, item, annotator, slot=slot, now=now)


def _show(
    connection: Connection, rules: Rules, item: int, annotator: int, *, slot: int, now: float
) -> Showing:
    left = "first" if hashed_uniform(rules.seed, "side", annotator, item) < 0.5 else "second"
    again = update(showings).where(showings.c.item == item, showings.c.annotator == annotator, _lost())
    claim = {"slot": slot, "shown": now, "expires": now + rules.patience}
    if connection.execute(again.values(**claim)).rowcount == 0:
        row = {"item": item, "annotator": annotator, "left": left, **claim}
        connection.execute(insert(showings).values(**row))
    return Showing(item, left)


def _lost() -> Any:
    """Match showings whose slot went to someone else. Their annotators may be shown the item again."""
    return showings.c.slot.is_(None)


def _items_to_give(connection: Connection, rules: Rules, annotator: int, now: float) -> list[int]:
    """Return the items to choose from. No one loses an item to someone who could be given another."""
    if _share_left(connection, rules, annotator) == 0:
        return []
    untouched = list(connection.scalars(_lacking(rules, annotator, true())))
    return untouched or _open_items(connection, rules, annotator, now)


def _open_items(connection: Connection, rules: Rules, annotator: int, now: float) -> list[int]:
    """Return the items new to the annotator that have a free slot, or one that has expired."""
    kept = or_(showings.c.choice.is_not(None), showings.c.expires > now)
    return list(connection.scalars(_lacking(rules, annotator, kept)))


def _lacking(rules: Rules, annotator: int, counted: Any) -> Select[Any]:
    """Select the items new to the annotator with fewer showings that are `counted` than they need votes."""
    taken = and_(showings.c.item == items.c.id, showings.c.slot.is_not(None), counted)
    return (
        select(items.c.id)
        .outerjoin(showings, taken)
        .where(items.c.answer.is_(None), ~_seen(annotator))
        .group_by(items.c.id)
        .having(func.count(showings.c.id) < rules.votes)
    )


def _seen(annotator: int) -> Any:
    """Match items that the annotator holds or has voted on, but not those that they lost."""
    seen = showings.alias()
    return exists().where(seen.c.item == items.c.id, seen.c.annotator == annotator, seen.c.slot.is_not(None))


def _take_slot(connection: Connection, rules: Rules, item: int, now: float) -> int:
    """Return a free slot, or else one that has expired, which its holder loses."""
    slots = select(showings.c.slot).where(showings.c.item == item, showings.c.slot.is_not(None))
    free = set(range(1, rules.votes + 1)).difference(connection.scalars(slots))
    if free:
        return min(free)
    late = and_(showings.c.choice.is_(None), showings.c.expires <= now)
    row = connection.execute(slots.add_columns(showings.c.id).where(late).limit(1)).first()
    if row is None:
        raise SlotTakenError
    released = update(showings).where(showings.c.id == row.id, showings.c.slot.is_not(None), late)
    if connection.execute(released.values(slot=None)).rowcount == 0:
        raise SlotTakenError
    return int(row.slot)


# Attention checks


def _due_check(connection: Connection, rules: Rules, annotator: int, *, last: bool) -> int | None:
    """Return the next attention check, if it is due. Each annotator has checks at positions of their own."""
    unseen = list(
        connection.scalars(select(items.c.id).where(items.c.answer.is_not(None), ~_seen(annotator)))
    )
    if not unseen:
        return None
    count = _count_checks(connection)
    number = count - len(unseen)
    position = number + hashed_uniform(rules.seed, "check", annotator, number)
    # No one's first item is a check, and those who run out of items still get theirs.
    due = 1 if last else max(1, int(position * _expected(connection, rules) / count))
    return min(unseen) if _answered(connection, annotator, checks=False) >= due else None


def _count_checks(connection: Connection) -> int:
    return connection.scalar(select(func.count()).where(items.c.answer.is_not(None))) or 0


def _expected(connection: Connection, rules: Rules) -> int:
    """Return how many items an annotator will be asked about, if all do the same number."""
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
    """Count a vote, once, if the annotator holds the item."""
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
    """Return how far an annotator is, whether or not they hold an item."""
    answered = _answered(connection, annotator, checks=False)
    checked = _answered(connection, annotator, checks=True)
    available = len(_open_items(connection, rules, annotator, now)) + _count_held(connection, annotator)
    share_left = _share_left(connection, rules, annotator)
    left = available if share_left is None else min(available, share_left)
    checks = _count_checks(connection) - checked if answered or left else 0
    unvoted = connection.scalars(_lacking(rules, annotator, showings.c.choice.is_not(None))).first()
    return Standing(answered + checked, left + checks, unvoted is not None and share_left != 0)


def _count_held(connection: Connection, annotator: int) -> int:
    """Return how many items the annotator holds, apart from attention checks."""
    held = select(func.count()).select_from(showings.join(items))
    return connection.scalar(held.where(_pending(annotator), items.c.answer.is_(None))) or 0
