"""The command `beamsplit`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from beamsplit import __version__
from beamsplit.cli.evaluate import evaluate
from beamsplit.cli.tune import tune
from beamsplit.errors import BeamsplitError

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="beamsplit")
def program() -> None:
    """Diverse decoding: outputs that are each likely and all different."""


program.add_command(evaluate)
program.add_command(tune)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what a user did wrong is one line and exit code 2."""
    try:
        found = program.main(args=arguments, prog_name="beamsplit", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = "beamsplit" if context is None else context.command_path
        text = error.format_message()  # of who gives nothing at all, the whole help
        click.echo(text if "\n" in text else f"beamsplit: {text} ({path} --help says more)", err=True)
        return error.exit_code
    except BrokenPipeError:
        return 1
    except (BeamsplitError, ImportError, OSError) as error:
        click.echo(f"beamsplit: {error}", err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("beamsplit: stopped; the same command goes on with what it has", err=True)
        return 130
    return found if isinstance(found, int) else 0


if __name__ == "__main__":
    sys.exit(main())
