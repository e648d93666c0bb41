"""Where studies are kept: a file of SQLite, or a database of PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError as NoUrl
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from beamsplit import extras
from beamsplit.errors import ArgumentError

__all__ = [
    "RETRIED",
    "display_name",
    "explain_errors",
    "open_engine",
    "parse_url",
    "read_only",
    "sqlite_file",
]

RETRIED = (IntegrityError, OperationalError)
"""What two people at once can do to each other; whoever comes second tries again."""

_WAIT = 10  # seconds, for others who write
_POOL = 40  # connections: as many as there are threads that answer requests


def parse_url(place: str) -> URL:
    """From a file's path, or an address such as postgresql://user@host/name."""
    if "://" not in place:
        return URL.create("sqlite", database=place)
    try:
        url = make_url(place)
    except NoUrl as error:
        raise ArgumentError(f"{place!r} is no address of a database: {_SUCH_AS}") from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("postgresql+psycopg", "sqlite"):
        raise ArgumentError(f"{url.drivername!r} is no kind of database that keeps studies: {_SUCH_AS}")
    return url


_SUCH_AS = "give a file such as pilot.db, or postgresql://user@host/name"


def sqlite_file(url: URL) -> Path | None:
    """Of SQLite, the file."""
    return Path(url.database or "") if url.drivername == "sqlite" else None


def display_name(url: URL) -> str:
    """For messages: never the password."""
    file = sqlite_file(url)
    if file is not None:
        return str(file)
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def open_engine(url: URL) -> Engine:
    """Ready to read and write."""
    options: dict[str, Any] = {"hide_parameters": True}  # errors are logged, and tokens must not be
    if url.drivername == "sqlite":
        options |= {"connect_args": {"timeout": _WAIT}}
    else:
        extras.need("psycopg", "a study in PostgreSQL", "postgres")
        options |= {"connect_args": {"connect_timeout": _WAIT}, "pool_pre_ping": True}
    engine = create_engine(url, pool_size=_POOL, max_overflow=0, **options)
    if url.drivername == "sqlite":
        event.listen(engine, "connect", _durable)
        event.listen(engine, "begin", _begin)
    return engine


def read_only(engine: Engine) -> Engine:
    """The same for those who do not write, and so need not wait for those who do."""
    return engine.execution_options(beamsplit_begin="BEGIN")


def _durable(connection: sqlite3.Connection, _: object) -> None:
    """What is committed is on the disk, and readers see a whole state while others write."""
    connection.isolation_level = None  # we say ourselves when a transaction begins
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    """Who means to write says so at once: otherwise two who have read could both be refused."""
    connection.exec_driver_sql(connection.get_execution_options().get("beamsplit_begin", "BEGIN IMMEDIATE"))


@contextmanager
def explain_errors(url: URL) -> Iterator[None]:
    """Make one line of what a database says when it cannot be used at all."""
    try:
        yield
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise ArgumentError(f"{display_name(url)} cannot be used: {reason}"[:300]) from error
