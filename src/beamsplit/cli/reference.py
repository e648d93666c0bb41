"""The help of all commands as one page: `python -m beamsplit.cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from beamsplit.cli import program

__all__ = ["page"]

_WIDTH = 100
_HEAD = """# The command line

What `--help` says, of every command. This page is printed by `python -m beamsplit.cli.reference`.
"""


def page() -> str:
    """Return the page, in Markdown."""
    parts = [_HEAD, *(f"## {path}\n\n```\n{text}\n```\n" for path, text in _helps(program, "beamsplit"))]
    return "\n".join(parts)


def _helps(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield a command's path and help, then those of its subcommands."""
    settings: dict[str, Any] = {"max_content_width": _WIDTH, **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, **settings)
    yield context.command_path, command.get_help(context).strip()
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _helps(found, each, context)


if __name__ == "__main__":
    click.echo(page(), nl=False)
