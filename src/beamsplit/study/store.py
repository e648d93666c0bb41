"""A study in its database, which any number of people may use at once.

store = open_study("pilot.db")
given = store.give(annotator)            an item, the same one until it is answered
store.vote(annotator, given.item, "left")
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, func, inspect, select, update

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.study import claims, database, tables
from beamsplit.study.people import add_people, digest
from beamsplit.study.tables import annotators, items, pictures, showings

__all__ = ["Annotator", "AnnotatorProgress", "ShownItem", "Store", "Study", "Vote", "open_study"]

T = TypeVar("T")

_RETRY_SECONDS = 20
_MAX_ADDED = 1000  # annotators at once


@dataclass(frozen=True)
class Study:
    """The settings of a study."""

    first: str
    second: str
    question: str
    consent: str
    rules: claims.Rules
    secret: str
    admin_token: str
    created: float

    def name(self, method: str) -> str:
        return self.first if method == "first" else self.second


@dataclass(frozen=True)
class Annotator:
    """An annotator, as far as the study knows them."""

    id: int
    token: str
    agreed: float | None
    declined: float | None

    @property
    def name(self) -> str:
        """The name that others may see."""
        return f"a{self.id}"


@dataclass(frozen=True)
class ShownItem:
    """An item as an annotator sees it."""

    item: int
    input: str
    picture: bool
    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True)
class Vote:
    """A vote, and what was shown."""

    item: str
    annotator: str
    left: str
    choice: str
    shown: float
    voted: float
    answer: str | None

    @property
    def check(self) -> bool:
        return self.answer is not None

    @property
    def passed(self) -> bool:
        return self.answer in (None, self.choice)


@dataclass(frozen=True)
class AnnotatorProgress:
    """How far an annotator is, for administrators."""

    annotator: Annotator
    votes: int
    checks: int
    failed: int


def open_study(location: str, *, clock: Callable[[], float] = time.time) -> Store:
    """Open an existing study."""
    url = database.parse_url(location)
    file = database.sqlite_file(url)
    if file is not None and not file.is_file():
        raise ArgumentError(f"there is no study {file}: make one with beamsplit study create")
    engine = database.open_engine(url)
    try:
        with database.explain_errors(url), database.read_only(engine).begin() as connection:
            study = _read_study(connection, url)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, study, clock)


def _read_study(connection: Connection, url: URL) -> Study:
    if not inspect(connection).has_table(tables.study.name):
        raise ArgumentError(
            f"{database.display_name(url)} has no study: make one with beamsplit study create"
        )
    row = connection.execute(select(tables.study)).one()
    if row.version != tables.VERSION:
        raise ArgumentError(
            f"{database.display_name(url)} is a study of version {row.version}, and this beamsplit reads "
            f"version {tables.VERSION}: use the beamsplit that made it"
        )
    rules = claims.Rules(row.votes, row.share, row.patience, row.seed)
    texts = (row.first, row.second, row.question, row.consent)
    return Study(*texts, rules, row.secret, row.admin_token, row.created)


class Store:
    """An open study. Any number of threads may share it."""

    def __init__(self, engine: Engine, study: Study, clock: Callable[[], float]) -> None:
        self.study = study
        self._engine = engine
        self._reading = database.read_only(engine)
        self._clock = clock
        # SQLite has one writer at a time, and those that wait look again now and then: whoever looks at the
        # wrong moments waits for seconds. Threads that wait for each other here have their turn at once.
        alone = engine.dialect.name == "sqlite"
        self._turn: AbstractContextManager[Any] = threading.Lock() if alone else nullcontext()

    def close(self) -> None:
        self._engine.dispose()

    # Annotators

    def annotator(self, token: str) -> Annotator | None:
        """Return the annotator whose link has this token, or None."""
        with self._reading.begin() as connection:
            row = connection.execute(select(annotators).where(annotators.c.digest == digest(token))).first()
        return None if row is None else _annotator(row)

    def annotators(self) -> list[Annotator]:
        with self._reading.begin() as connection:
            return [
                _annotator(row) for row in connection.execute(select(annotators).order_by(annotators.c.id))
            ]

    def is_admin(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.study.admin_token.encode())

    def form_token(self, token: str) -> str:
        """Return the secret that the forms of the page with this token contain."""
        return hmac.new(self.study.secret.encode(), f"form/{token}".encode(), "sha256").hexdigest()

    def add_annotators(self, count: int) -> list[Annotator]:
        """Add `count` annotators, and return them."""
        if checks.at_least("annotators", count, 1) > _MAX_ADDED:
            raise ArgumentError(f"annotators is {count}: give {_MAX_ADDED} at once at most")

        def add(connection: Connection) -> int:
            last = connection.scalar(select(func.max(annotators.c.id))) or 0
            add_people(connection, range(last + 1, last + count + 1), self._clock())
            return last

        last = self._write(add)
        return [each for each in self.annotators() if last < each.id <= last + count]

    def agree(self, annotator: Annotator) -> None:
        self._answer(annotator, agreed=self._clock(), declined=None)

    def decline(self, annotator: Annotator) -> None:
        self._answer(annotator, agreed=None, declined=self._clock())

    def _answer(self, annotator: Annotator, **values: float | None) -> None:
        changed = update(annotators).where(annotators.c.id == annotator.id).values(**values)
        self._write(lambda connection: connection.execute(changed))

    # Items and votes

    def give(self, annotator: Annotator) -> ShownItem | None:
        """Return the annotator's current item, or None if nothing is left for them."""

        def claim(connection: Connection) -> ShownItem | None:
            showing = claims.give_item(connection, self.study.rules, annotator.id, self._clock())
            return None if showing is None else _shown_item(connection, showing)

        return self._write(claim)

    def vote(self, annotator: Annotator, item: int, side: str) -> claims.VoteResult:
        """Count a vote for the list on that side. Once counted, it is on the disk."""
        if side not in ("left", "right"):
            raise ArgumentError(f"side is {checks.short_repr(side)}: give 'left' or 'right'")
        return self._write(lambda c: claims.cast_vote(c, annotator.id, item, side, self._clock()))

    def standing(self, annotator: Annotator) -> claims.Standing:
        with self._reading.begin() as connection:
            return claims.standing(connection, self.study.rules, annotator.id, self._clock())

    def picture(self, annotator: Annotator, item: int) -> bytes | None:
        """Return the picture of an item, if the annotator was shown the item."""
        theirs = (showings.c.item == item, showings.c.annotator == annotator.id)
        with self._reading.begin() as connection:
            joined = select(pictures.c.jpeg).select_from(showings.join(items).join(pictures))
            return connection.scalar(joined.where(*theirs))

    # For administrators

    def items(self) -> list[Any]:
        """Return the name, complexity and difficulty of each item, without attention checks."""
        columns = (items.c.name, items.c.complexity, items.c.difficulty)
        with self._reading.begin() as connection:
            query = select(*columns).where(items.c.answer.is_(None)).order_by(items.c.id)
            return list(connection.execute(query))

    def votes(self) -> list[Vote]:
        """Return all votes, in the order in which they came."""
        query = (
            select(
                items.c.name,
                showings.c.annotator,
                showings.c.left,
                showings.c.choice,
                showings.c.shown,
                showings.c.voted,
                items.c.answer,
            )
            .select_from(showings.join(items))
            .where(showings.c.choice.is_not(None))
            .order_by(showings.c.voted, showings.c.id)
        )
        with self._reading.begin() as connection:
            return [Vote(name, f"a{number}", *rest) for name, number, *rest in connection.execute(query)]

    def progress(self) -> list[AnnotatorProgress]:
        votes = self.votes()
        return [
            AnnotatorProgress(
                each,
                sum(vote.annotator == each.name and not vote.check for vote in votes),
                sum(vote.annotator == each.name and vote.check for vote in votes),
                sum(vote.annotator == each.name and not vote.passed for vote in votes),
            )
            for each in self.annotators()
        ]

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Do the work in one transaction, and try again while others are in the way."""
        until = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                with self._turn, self._engine.begin() as connection:
                    return work(connection)
            except (claims.SlotTakenError, *database.RETRIED):
                if time.monotonic() > until:
                    raise
            time.sleep(0.001 * (1 + secrets.randbelow(50)))


def _annotator(row: Any) -> Annotator:
    return Annotator(row.id, row.token, row.agreed, row.declined)


def _shown_item(connection: Connection, showing: claims.Showing) -> ShownItem:
    row = connection.execute(select(items).where(items.c.id == showing.item)).one()
    lists = tuple(row.first), tuple(row.second)
    left, right = lists if showing.left == "first" else lists[::-1]
    return ShownItem(row.id, row.input, row.picture is not None, left, right)
