"""Create the database of a study."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import URL, Connection, insert, inspect

from beamsplit.errors import ArgumentError
from beamsplit.study import database, tables
from beamsplit.study.people import add_people, new_token
from beamsplit.study.plan import NewItem, StudyPlan
from beamsplit.study.store import Store, open_study
from beamsplit.study.tables import items, pictures

__all__ = ["check_free", "create_study"]


def check_free(location: str) -> None:
    """Raise if no study can be created there. Call this before long work."""
    url = database.parse_url(location)
    file = database.sqlite_file(url)
    if file is not None:
        if file.exists():
            raise _exists(file)
        return
    engine = database.open_engine(url)
    try:
        with database.explain_errors(url), database.read_only(engine).begin() as connection:
            _check_empty(connection, url)
    finally:
        engine.dispose()


def create_study(location: str, plan: StudyPlan, *, clock: Callable[[], float] = time.time) -> Store:
    """Create a study, entirely or not at all. An existing one is never changed."""
    url = database.parse_url(location)
    file = database.sqlite_file(url)
    if file is not None:
        _reserve(file)
    engine = database.open_engine(url)
    try:
        with database.explain_errors(url), engine.begin() as connection:
            _check_empty(connection, url)
            tables.everything.create_all(connection)
            _fill(connection, plan, clock())
    except BaseException:
        engine.dispose()
        if file is not None:
            file.unlink(missing_ok=True)
        raise
    engine.dispose()
    return open_study(location, clock=clock)


def _reserve(file: Path) -> None:
    """Create the file. Of two processes that do so at once, one is refused."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)  # it holds the links
    except FileExistsError as error:
        raise _exists(file) from error
    os.close(descriptor)


def _exists(file: Path) -> ArgumentError:
    return ArgumentError(f"{file} already exists: give another name, or remove it first")


def _check_empty(connection: Connection, url: URL) -> None:
    if inspect(connection).has_table(tables.study.name):
        raise ArgumentError(f"{database.display_name(url)} already has a study: give another database")


def _fill(connection: Connection, plan: StudyPlan, now: float) -> None:
    connection.execute(
        insert(tables.study).values(
            id=1,
            version=tables.VERSION,
            first=plan.first,
            second=plan.second,
            question=plan.question,
            consent=plan.consent,
            votes=plan.votes,
            share=plan.share,
            patience=plan.patience,
            seed=plan.seed,
            secret=secrets.token_hex(32),
            admin_token=new_token(),
            created=now,
        )
    )
    for number, item in enumerate([*plan.items, *plan.checks], 1):
        _add_item(connection, number, item)
    add_people(connection, range(1, plan.annotators + 1), now)


def _add_item(connection: Connection, number: int, item: NewItem) -> None:
    if item.picture is not None:
        connection.execute(insert(pictures).values(id=number, jpeg=item.picture))
    connection.execute(
        insert(items).values(
            id=number,
            name=item.name,
            input=item.input,
            picture=None if item.picture is None else number,
            first=list(item.first),
            second=list(item.second),
            complexity=item.complexity,
            difficulty=item.difficulty,
            answer=item.answer,
        )
    )
