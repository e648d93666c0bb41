"""Annotators and the secret tokens of their links."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, insert

from beamsplit.study.tables import annotators

__all__ = ["add_people", "digest", "new_token"]


def add_people(connection: Connection, numbers: Sequence[int], now: float) -> None:
    tokens = [new_token() for _ in numbers]
    rows = [
        {"id": number, "token": token, "digest": digest(token), "created": now}
        for number, token in zip(numbers, tokens, strict=True)
    ]
    connection.execute(insert(annotators), rows)


def new_token() -> str:
    return secrets.token_urlsafe(18)


def digest(token: str) -> str:
    """Return the hash that a token is looked up by, so that response times reveal nothing about tokens."""
    return hashlib.sha256(token.encode()).hexdigest()
