"""`beamsplit models`: what comes with the package."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from beamsplit.cli.options import MODEL, OURS, show
from beamsplit.errors import ArgumentError

__all__ = ["models"]

_USES = {
    "en-fr": 'beamsplit translate "I\'m cold."',
    "captioner": "beamsplit caption photo.jpg",
    "questioner": "beamsplit ask photo.jpg",
    "complexity": "beamsplit study create ... --complexity predicted",
}


@click.command(short_help="List the models that come with the package.")
@click.argument("name", required=False, type=MODEL)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def models(name: str | None, as_json: bool) -> None:
    """List the models that come with the package, or print the card of one: its data, figures and limits.

    \b
    beamsplit models
    beamsplit models en-fr
    """  # noqa: D301 (click wants the character)
    if name is not None:
        card = _card(name)
        if as_json:
            click.echo(json.dumps({**_entry(name), "card": card}, ensure_ascii=False))
        else:
            show(card, is_markdown=True)
        return
    entries = [_entry(each) for each in OURS]
    if as_json or not sys.stdout.isatty():
        for entry in entries:
            click.echo(json.dumps(entry))
    else:
        _show_table(entries)


def _show_table(entries: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("model", "what it does", "size", "how to use it"):
        table.add_column(head, overflow="fold", no_wrap=head == "model")
    for entry in entries:
        table.add_row(entry["name"], entry["purpose"], f"{entry['megabytes']} MB", entry["use"])
    Console(highlight=False).print(table)


def _entry(name: str) -> dict[str, Any]:
    from beamsplit.models import storage

    size = (storage.WEIGHTS / f"{name}.safetensors").stat().st_size
    return {"name": name, "purpose": OURS[name], "megabytes": round(size / 1e6, 1), "use": _USES[name]}


def _card(name: str) -> str:
    from beamsplit import checks
    from beamsplit.models import storage

    if name not in OURS:
        hint = checks.nearest(name, OURS, f"there are {', '.join(OURS)}")
        raise ArgumentError(f"there is no card of {name!r}: {hint}")
    return (storage.WEIGHTS.parent / "cards" / f"{name}.md").read_text(encoding="utf-8")
