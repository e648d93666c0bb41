"""`beamsplit models`: what comes with the package."""

from __future__ import annotations

import json
import sys

import click

from beamsplit.cli.options import show
from beamsplit.errors import ArgumentError

__all__ = ["models"]

# What a model is for, and the command that uses it.
_PURPOSES = {
    "en-fr": ("translates English into French", 'beamsplit translate "I\'m cold."'),
    "captioner": ("says what is in a picture", "beamsplit caption photo.jpg"),
    "questioner": ("asks about a picture", "beamsplit ask photo.jpg"),
    "complexity": ("says how hard a picture is to take in", "beamsplit.models.load('complexity').predict"),
}


@click.command(short_help="The models that come with the package.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def models(name: str | None, as_json: bool) -> None:
    """List the models that come with the package, or print the card of one: its data, figures and limits.

    \b
    beamsplit models
    beamsplit models en-fr
    """  # noqa: D301 (click wants the character)
    if name is not None:
        show(_card(name), is_markdown=True)
        return
    entries = [_entry(each) for each in _PURPOSES]
    if as_json or not sys.stdout.isatty():
        for entry in entries:
            click.echo(json.dumps(entry))
    else:
        rows = "".join(
            f"| {e['name']} | {e['purpose']} | {e['megabytes']} MB | `{e['use']}` |\n" for e in entries
        )
        show(f"| model | | | |\n|---|---|---|---|\n{rows}", is_markdown=True)


def _entry(name: str) -> dict[str, object]:
    from beamsplit.models import storage

    size = (storage.WEIGHTS / f"{name}.safetensors").stat().st_size
    purpose, use = _PURPOSES[name]
    return {"name": name, "purpose": purpose, "megabytes": round(size / 1e6, 1), "use": use}


def _card(name: str) -> str:
    from beamsplit import checks
    from beamsplit.models import storage

    if name not in _PURPOSES:
        hint = checks.nearest(name, _PURPOSES, f"there are {', '.join(_PURPOSES)}")
        raise ArgumentError(f"there is no card of {name!r}: {hint}")
    return (storage.WEIGHTS.parent / "cards" / f"{name}.md").read_text(encoding="utf-8")
