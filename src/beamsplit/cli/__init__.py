"""The command `beamsplit`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import click

from beamsplit import __version__
from beamsplit.cli.compare import ask, caption, generate, translate
from beamsplit.cli.completion import completion
from beamsplit.cli.decode import decode
from beamsplit.cli.demo import demo
from beamsplit.cli.evaluate import evaluate
from beamsplit.cli.models import models
from beamsplit.cli.options import InOrder
from beamsplit.cli.select import select
from beamsplit.cli.study import study
from beamsplit.cli.tune import tune
from beamsplit.errors import BeamsplitError

__all__ = ["main"]


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="beamsplit")
def program() -> None:
    """Diverse decoding: outputs that are each likely and all different.

    \b
    beamsplit translate "We should leave."      compare beam search and late branching
    beamsplit caption photo.jpg                 the same for descriptions of a picture
    beamsplit generate --model NAME "Once"      the same with a Hugging Face model: folder, name or .gguf
    beamsplit decode sentences.txt -o out.jsonl decode every line of a file
    beamsplit demo                              compare searches on a web page

    Results are tables on a terminal and JSON Lines in a pipe.
    """  # noqa: D301 (click wants the character)


for command in (
    translate,
    caption,
    ask,
    generate,
    decode,
    select,
    evaluate,
    tune,
    demo,
    study,
    models,
    completion,
):
    program.add_command(command)


def _is_about_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    )


_RESUMED = ("evaluate", "tune")  # `decode` says so itself, if it is so


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what a user did wrong is one line and exit code 2."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _run(arguments)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning that is for users as one line; others as Python does."""
    text = f"beamsplit: {message}\n"
    if not issubclass(category, UserWarning):
        text = warnings.formatwarning(message, category, filename, lineno, line)
    click.echo(text, file=file, err=file is None, nl=False)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        found = program.main(args=arguments, prog_name="beamsplit", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = "beamsplit" if context is None else context.command_path
        text = error.format_message()
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):  # whose text is the whole help
            text = f"beamsplit: {' '.join(text.split())} ({path} --help says more)"
        click.echo(text, err=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        words = sys.argv[1:] if arguments is None else arguments
        more = "; the same command goes on with what it has" * (next(iter(words), "") in _RESUMED)
        click.echo(f"beamsplit: stopped{more}", err=True)
        return 130
    except BrokenPipeError:
        return 1
    except (BeamsplitError, ImportError) as error:
        click.echo(f"beamsplit: {error}", err=True)
        return 2
    except OSError as error:
        text = f"{error.filename!r} cannot be used: {error.strerror}" if error.filename else str(error)
        click.echo(f"beamsplit: {text}", err=True)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not _is_about_memory(error):
            raise
        click.echo("beamsplit: not enough memory: ask for fewer groups, beams or inputs at once", err=True)
        return 2
    return found if isinstance(found, int) else 0
