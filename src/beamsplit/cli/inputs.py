"""Read the inputs of a command: texts or pictures, from its arguments, from files, or from standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from beamsplit.errors import ArgumentError
from beamsplit.files import TextLine, stream_lines
from beamsplit.jobs.lines import Input

__all__ = ["STDIN", "file_name", "pictures", "text_lines", "texts"]

STDIN = "-"


def texts(arguments: Sequence[str], file: str | None, example: str) -> Iterator[Input]:
    """Yield the arguments as inputs; `-` stands for the lines of standard input.

    If nothing is given, standard input is read, or the example is taken if that is a terminal. A blank line
    is an input too, so that the others keep their numbers.
    """
    if not arguments and file is None:
        arguments = [STDIN]
        if sys.stdin.isatty():
            click.echo(f"Nothing given, so here is an example: {example!r}", err=True)
            arguments = [example]
    for argument in arguments:
        yield from _inputs(STDIN) if argument == STDIN else [Input(argument, argument)]
    if file is not None:
        yield from _inputs(file)


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
        yield from _inputs(file, Path() if file == STDIN else Path(file).parent)


def _inputs(file: str, folder: Path | None = None) -> Iterator[Input]:
    """Yield an input for each line of a file; with a folder, lines are paths that begin from it."""
    return (_input(line, file_name(file), folder) for line in text_lines(file))


def _input(line: TextLine, name: str, folder: Path | None) -> Input:
    value = line.text if folder is None else str(folder / line.text)
    fault = f"{name}, line {line.number} {line.fault}" if line.fault else ""
    return Input(line.text, value, fault=fault, blank=not line.text)


def file_name(file: str) -> str:
    """Return the name of a file for people."""
    return "standard input" if file == STDIN else file


def text_lines(file: str) -> Iterator[TextLine]:
    """Yield the lines of a file, compressed or not, blank ones too."""
    if file == STDIN:
        return stream_lines(sys.stdin.buffer, file_name(file))
    return stream_lines(file, file_name(file))


def _painted(command: str) -> Input:
    from beamsplit.models.scenes import painted

    click.echo(f"Nothing given, so here is an example (beamsplit {command} photo.jpg takes yours)", err=True)
    return Input("a painted boat", _opened(painted("boat")))


def _from_stdin() -> Iterator[Input]:
    content = sys.stdin.buffer.read()
    paths = _paths(content)
    if paths:
        yield from (Input(each, each, blank=not each) for each in paths)
    else:
        yield Input("standard input", _opened(content))


def _paths(content: bytes) -> list[str]:
    """Return the lines if they are paths; a picture has no line that is the name of a file."""
    try:
        found = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        return []
    paths = [line.strip() for line in found]
    first = next(filter(None, paths), "")
    return paths if first and "\0" not in content.decode("utf-8") and Path(first).is_file() else []


def _opened(content: bytes) -> Any:
    from beamsplit.extras import need

    image: Any = need("PIL.Image", "a picture", "vision")
    from beamsplit.models.vision import open_picture

    if not content:
        raise ArgumentError("standard input is empty: give a picture (cat photo.jpg | beamsplit caption -)")
    try:
        return open_picture(io.BytesIO(content))
    except (image.DecompressionBombError, image.DecompressionBombWarning) as error:
        raise ArgumentError("the picture has far too many pixels: make it smaller first") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise ArgumentError(
            f"standard input has {len(content)} bytes that are no picture: "
            "give a JPEG, PNG, ... (cat photo.jpg | beamsplit caption -)"
        ) from error
