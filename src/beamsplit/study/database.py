"""The databases of studies: SQLite files and PostgreSQL databases."""

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
"""Errors that a second writer at the same time may get, who then tries again."""

_TIMEOUT = 10  # seconds to wait for other writers
_POOL = 40  # connections: as many as the threads that answer requests


def parse_url(location: str) -> URL:
    """Return the URL of a file, or of an address such as postgresql://user@host/name."""
    if "://" not in location:
        return URL.create("sqlite", database=location)
    try:
        url = make_url(location)
    except NoUrl as error:
        raise ArgumentError(f"{location!r} is not the address of a database: {_SUCH_AS}") from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("postgresql+psycopg", "sqlite"):
        raise ArgumentError(f"{url.drivername!r} databases cannot hold studies: {_SUCH_AS}")
    return url


_SUCH_AS = "give a file such as pilot.db, or postgresql://user@host/name"


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite database, or None."""
    return Path(url.database or "") if url.drivername == "sqlite" else None


def display_name(url: URL) -> str:
    """Return the name of a database for messages, without the password."""
    file = sqlite_file(url)
    if file is not None:
        return str(file)
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def open_engine(url: URL) -> Engine:
    """Return an engine that reads and writes."""
    options: dict[str, Any] = {"hide_parameters": True}  # errors are logged, and tokens must not appear there
    if url.drivername == "sqlite":
        options |= {"connect_args": {"timeout": _TIMEOUT}}
    else:
        extras.need("psycopg", "a study in PostgreSQL", "postgres")
        options |= {"connect_args": {"connect_timeout": _TIMEOUT}, "pool_pre_ping": True}
    engine = create_engine(url, pool_size=_POOL, max_overflow=0, **options)
    if url.drivername == "sqlite":
        event.listen(engine, "connect", _durable)
        event.listen(engine, "begin", _begin)
    return engine


def read_only(engine: Engine) -> Engine:
    """Return the same engine for reading only, which does not wait for writers."""
    return engine.execution_options(beamsplit_begin="BEGIN")


def _durable(connection: sqlite3.Connection, _: object) -> None:
    """Make commits durable, and let readers see a consistent state while others write."""
    connection.isolation_level = None  # _begin starts the transactions
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    """Start a transaction, and lock at once to write: else two that have read could both be refused."""
    connection.exec_driver_sql(connection.get_execution_options().get("beamsplit_begin", "BEGIN IMMEDIATE"))


@contextmanager
def explain_errors(url: URL) -> Iterator[None]:
    """Raise one line where a database cannot be used at all."""
    try:
        yield
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise ArgumentError(f"{display_name(url)} cannot be used: {reason}"[:300]) from error
