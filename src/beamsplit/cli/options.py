"""Options that commands have in common."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from beamsplit.errors import ArgumentError
from beamsplit.files import write_bytes
from beamsplit.strategies.defaults import BATCH_SIZE, DEFAULTS

__all__ = [
    "FILE",
    "LONGEST",
    "MIN_LENGTH",
    "MODEL",
    "MODEL_TEMPERATURE",
    "OURS",
    "OUTPUT",
    "InOrder",
    "named_files",
    "one_of",
    "show",
    "with_format",
    "with_settings",
    "write_formats",
]

LONGEST = DEFAULTS["evaluate"].max_length


OURS = {
    "en-fr": "translates English into French",
    "captioner": "says what is in a picture",
    "questioner": "asks about a picture",
    "complexity": "says how hard a picture is to take in",
}
"""The models that come with the package; here too, since importing them takes a second."""


class _Model(click.types.StringParamType):
    """A model by its name, which shells complete."""

    name = "model"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = [CompletionItem(name) for name in OURS if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


class _Output(click.Path):
    """A file to write, in a folder that exists: a typing error makes no folders."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.is_dir():
            raise ArgumentError(f"{path} is a folder: give the name of a file in it")
        if not path.parent.is_dir():
            raise ArgumentError(f"there is no folder {path.parent} for {path.name}: make it first")
        return path


FILE, MODEL, OUTPUT = click.Path(allow_dash=True), _Model(), _Output()


MIN_LENGTH = click.option(
    "--min-length",
    type=click.IntRange(min=0),
    metavar="N",
    help="Minimum number of tokens in an output (default: 0).",
)


MODEL_TEMPERATURE = click.option(
    "--model-temperature",
    type=float,
    metavar="X",
    default=1.0,
    show_default=True,
    help="Divide the model's logits by X before the search, whichever strategy it is: above 1 the model is "
    "less sure. Log-probabilities stay the model's own.",
)


class InOrder(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


_OPTIONS = (
    click.option("--data", metavar="DIR", help="Folder of the data sets (default: $BEAMSPLIT_DATA)."),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Use only N inputs, evenly spread."
    ),
    click.option("--device", metavar="DEVICE", help="Device to decode on, such as cuda."),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        default=BATCH_SIZE,
        show_default=True,
        help="Number of inputs decoded at once.",
    ),
    click.option(
        "--cache",
        type=click.Path(path_type=Path),
        metavar="DIR",
        default=Path(".beamsplit-cache"),
        show_default=True,
        help="Folder that keeps decoded lists, so that decoding them again is free.",
    ),
    click.option(
        "--draws",
        type=click.IntRange(min=1),
        metavar="N",
        default=1000,
        show_default=True,
        help="Number of bootstrap samples.",
    ),
)


def one_of(names: Iterable[str]) -> str:
    """Return the names as a list for help.

    >>> one_of(["bs", "dbs", "mmi"])
    'bs, dbs or mmi'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def named_files(given: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return the files of `--lists NAME=FILE` by name. Raise if a name is taken.

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
    """Print a text; Markdown is rendered if standard output is a terminal."""
    if is_markdown and sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        click.echo(text, nl=False)


_FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "json": "json"}
"""What results are written as, and the extensions of such files."""


def with_format(command: Callable[..., None]) -> Callable[..., None]:
    """Add --format and its synonym --json, which the command gets as `kind`."""

    @functools.wraps(command)
    def called(kind: str | None, as_json: bool, **rest: Any) -> None:
        if as_json and kind not in (None, "json"):
            raise ArgumentError(f"--json means --format json, and --format is {kind}: give one of the two")
        command(kind="json" if as_json else kind or "markdown", **rest)

    called = click.option("--json", "as_json", is_flag=True, help="Print JSON: short for --format json.")(
        called
    )
    return click.option(
        "--format",
        "kind",
        type=click.Choice(list(_FORMATS)),
        metavar="NAME",
        help="What to print: tables as markdown or latex, or all figures as csv or json (default: markdown).",
    )(called)


def write_formats(texts: Mapping[str, str], folder: Path, stem: str) -> None:
    """Write results in each format to a file of its own."""
    for kind, text in texts.items():
        write_bytes(folder / f"{stem}.{_FORMATS[kind]}", text.encode())


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of an evaluation, which the command gets as `settings`."""

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
        from beamsplit.evaluation import RunSettings

        settings = RunSettings(
            data=data, limit=limit, device=device, batch_size=batch_size, cache=cache, draws=draws
        )
        command(settings=settings, **rest)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called
