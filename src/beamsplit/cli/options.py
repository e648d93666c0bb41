"""Options that commands have in common."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import click

from beamsplit.errors import ArgumentError

__all__ = ["LONGEST", "InOrder", "named_files", "show", "with_settings"]

LONGEST = 60  # tokens, unless one says: more than a sentence has


class InOrder(click.Group):
    """Lists its commands as they were added, those that one begins with first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


_OPTIONS = (
    click.option("--data", metavar="DIR", help="The data folder (default: $BEAMSPLIT_DATA)."),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Only so many inputs, evenly spread."
    ),
    click.option("--device", metavar="DEVICE", help="Where to decode, such as cuda."),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        default=32,
        show_default=True,
        help="Inputs at once.",
    ),
    click.option(
        "--cache",
        type=click.Path(path_type=Path),
        metavar="DIR",
        default=Path(".beamsplit-cache"),
        show_default=True,
        help="Where lists are kept once they are decoded, so that the same again is free.",
    ),
    click.option(
        "--draws",
        type=click.IntRange(min=1),
        metavar="N",
        default=1000,
        show_default=True,
        help="Of the bootstrap.",
    ),
)


def named_files(given: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """What `--lists NAME=FILE` has, given any number of times; names that are taken are refused.

    >>> named_files(["mine=lists.jsonl"])
    {'mine': 'lists.jsonl'}
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, file = each.partition("=")
        if not (name.strip() and equals and file):
            raise ArgumentError(f"--lists is {each!r}: give NAME=FILE, such as mine=lists.jsonl")
        if name in found or name in taken:
            raise ArgumentError(f"--lists is {each!r}, and there is another {name!r}: give it another name")
        found[name] = file
    return found


def show(text: str, is_markdown: bool) -> None:
    """Print, for people as well as their terminal can."""
    if is_markdown and sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        click.echo(text, nl=False)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Options for where things are and how hard to look, which the command gets as `settings`."""

    @functools.wraps(command)
    def called(
        data: str | None,
        limit: int | None,
        device: str | None,
        batch_size: int,
        cache: Path,
        draws: int,
        **rest: Any,
    ) -> None:
        from beamsplit.evaluation import Settings

        settings = Settings(
            data=data, limit=limit, device=device, batch_size=batch_size, cache=cache, draws=draws
        )
        command(settings=settings, **rest)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called
