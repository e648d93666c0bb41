"""`beamsplit completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command(short_help="Print completion code for your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the code by which SHELL completes beamsplit's commands and options.

    \b
    beamsplit completion bash >> ~/.bashrc
    beamsplit completion zsh >> ~/.zshrc
    beamsplit completion fish > ~/.config/fish/completions/beamsplit.fish
    """  # noqa: D301 (click wants the character)
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "beamsplit", "_BEAMSPLIT_COMPLETE").source())
