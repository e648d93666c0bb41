"""Votes as rows, for other programs."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

from beamsplit.study.store import Store, Study, Vote

__all__ = ["FORMATS", "export_votes", "rows"]

FORMATS = ("csv", "jsonl")
_COLUMNS = ("item", "annotator", "left", "right", "choice", "side", "shown", "voted", "check", "passed")


def rows(store: Store) -> list[dict[str, Any]]:
    """One for each vote, in the order in which they came; people have numbers, never their links."""
    return [_row(store.study, vote) for vote in store.votes()]


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
    """All votes as one text."""
    found = rows(store)
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in found)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    """Words that all programs understand; and nothing that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
