"""Read the inputs of a command: texts or pictures, from its arguments, from files, or from standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from beamsplit.errors import ArgumentError
from beamsplit.jobs.lines import Input

__all__ = ["STDIN", "file_name", "lines", "numbered", "pictures", "texts"]

STDIN = "-"


def texts(arguments: Sequence[str], file: str | None, example: str) -> Iterator[Input]:
    """Yield the arguments as inputs; `-` stands for the lines of standard input.

    If nothing is given, standard input is read, or the example is taken if that is a terminal.
    """
    if not arguments and file is None:
        arguments = [STDIN]
        if sys.stdin.isatty():
            click.echo(f"Nothing given, so here is an example: {example!r}", err=True)
            arguments = [example]
    for argument in arguments:
        yield from (Input(each, each) for each in (lines(STDIN) if argument == STDIN else [argument]))
    if file is not None:
        yield from (Input(each, each) for each in lines(file))


def pictures(arguments: Sequence[str], file: str | None, command: str) -> Iterator[Input]:
    """Yield pictures by their paths; `-` stands for standard input, which is a picture or has paths."""
    if not arguments and file is None:
        if sys.stdin.isatty():
            yield _painted(command)
            return
        arguments = [STDIN]
    for argument in arguments:
        yield from _from_stdin() if argument == STDIN else [Input(argument, argument)]
    if file is not None:
        folder = Path() if file == STDIN else Path(file).parent
        yield from (Input(each, str(folder / each)) for each in lines(file))


def lines(file: str) -> Iterator[str]:
    """Yield the lines that are not empty."""
    return (line for _, line in numbered(file))


def file_name(file: str) -> str:
    """Return the name of a file for people."""
    return "standard input" if file == STDIN else file


def numbered(file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, after their numbers, from 1."""
    try:
        with click.open_file(file, encoding="utf-8-sig") as opened:
            for number, line in enumerate(opened, 1):
                if text := line.strip():
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        from beamsplit import checks

        raise ArgumentError(f"{file_name(file)} cannot be read: {checks.reason(error)}") from error


def _painted(command: str) -> Input:
    from beamsplit.models.scenes import painted

    click.echo(f"Nothing given, so here is an example (beamsplit {command} photo.jpg takes yours)", err=True)
    return Input("a painted boat", _opened(painted("boat")))


def _from_stdin() -> Iterator[Input]:
    content = sys.stdin.buffer.read()
    paths = _paths(content)
    if paths:
        yield from (Input(each, each) for each in paths)
    else:
        yield Input("standard input", _opened(content))


def _paths(content: bytes) -> list[str]:
    """Return the lines if they are paths; a picture has no line that is the name of a file."""
    try:
        found = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return []
    paths = [line.strip() for line in found if line.strip()]
    return paths if paths and "\0" not in content.decode("utf-8") and Path(paths[0]).is_file() else []


def _opened(content: bytes) -> Any:
    from beamsplit.extras import need

    image: Any = need("PIL.Image", "a picture", "vision")
    if not content:
        raise ArgumentError("standard input is empty: give a picture (cat photo.jpg | beamsplit caption -)")
    try:
        return image.open(io.BytesIO(content))
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise ArgumentError(
            f"standard input has {len(content)} bytes that are no picture: "
            "give a JPEG, PNG, ... (cat photo.jpg | beamsplit caption -)"
        ) from error
