"""Export votes as CSV or JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

from beamsplit.study.store import Store, Study, Vote

__all__ = ["export_votes"]

_COLUMNS = ("item", "annotator", "left", "right", "choice", "side", "shown", "voted", "check", "passed")


def _row(study: Study, vote: Vote) -> dict[str, Any]:
    right = "second" if vote.left == "first" else "first"
    values = (
        vote.item,
        vote.annotator,
        study.name(vote.left),
        study.name(right),
        study.name(vote.choice),
        "left" if vote.choice == vote.left else "right",
        _time(vote.shown),
        _time(vote.voted),
        vote.check,
        vote.passed if vote.check else None,
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def export_votes(store: Store, kind: str) -> str:
    """Return all votes in their order, one a row. Annotators have numbers, never their links."""
    rows = [_row(store.study, vote) for vote in store.votes()]
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    """Write booleans as words, and keep spreadsheets from taking a text for a formula.

    The csv module does not quote a carriage return, at which readers begin another row: it becomes a newline.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\n") else text
