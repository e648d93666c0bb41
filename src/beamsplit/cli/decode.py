"""`beamsplit decode`: decode files of any length line by line, and resume what was stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from beamsplit.cli.inputs import STDIN, file_name, numbered
from beamsplit.cli.options import FILE, MODEL, OUTPUT
from beamsplit.cli.search_options import SearchOptions, with_search_options
from beamsplit.errors import ArgumentError
from beamsplit.jobs.lines import InputKind, InputLine, check_same_inputs, parse_lines
from beamsplit.jobs.resuming import PartialResult
from beamsplit.strategies.defaults import BATCH_SIZE

if TYPE_CHECKING:
    from beamsplit.jobs.searching import Searcher

__all__ = ["decode"]

_CHUNK = 16  # batches that are read at once, so that texts of like length can go together


@click.command(short_help="Decode every line of a file.")
@click.argument("file", type=FILE)
@click.option(
    "--model",
    "-m",
    type=MODEL,
    metavar="MODEL",
    default="en-fr",
    show_default=True,
    help="A model of ours (en-fr, captioner, questioner), or one as for generate.",
)
@click.option("--out", "-o", type=OUTPUT, metavar="FILE", help="Write to this file instead of printing.")
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite an existing result, or a part that was begun with other settings.",
)
@with_search_options
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    default=BATCH_SIZE,
    show_default=True,
    help="Number of inputs decoded at once.",
)
@click.option("--device", metavar="DEVICE", help="Device to decode on, such as cuda.")
def decode(
    file: str,
    model: str,
    out: Path | None,
    force: bool,
    search: SearchOptions,
    batch_size: int,
    device: str | None,
) -> None:
    """Decode every line of FILE (- is standard input), and write a line of JSON for each, in the same order.

    Lines are texts, or paths of pictures for a model that takes those. Lines of a .jsonl file are objects
    with an "input" or an "image"; an "id" and other keys are copied to the result. With --out, the result
    appears when it is complete; until then FILE.part grows, and the same command resumes it. A line that
    cannot be decoded has an "error" instead of "hypotheses".

    \b
    beamsplit decode sentences.txt --out lists.jsonl
    beamsplit decode prompts.jsonl --model path/to/a/model --groups 5 --out lists.jsonl --device cuda
    beamsplit decode photos.jsonl --model captioner | head
    """  # noqa: D301 (click wants the character)
    from beamsplit.cli.searching import explained_errors, make_searcher

    _check_out(file, out, force)
    searcher = make_searcher(model, device, search, compared=False)
    inputs = _not_empty(_inputs(file, searcher.takes, out))
    with explained_errors(model):
        if out is None:
            refused = sum(_write(_results(searcher, inputs, batch_size), sys.stdout))
        else:
            settings = {"model": model, **searcher.description}
            refused = _into_file(searcher, inputs, file, PartialResult(out), batch_size, settings, force)
    if refused:
        lines = "line" if refused == 1 else "lines"
        click.echo(f'beamsplit: {refused} {lines} could not be decoded: see their "error"', err=True)
        raise click.exceptions.Exit(2)


def _check_out(file: str, out: Path | None, force: bool) -> None:
    if out is None or not out.exists():
        return
    if file != STDIN and Path(file).exists() and out.samefile(file):
        raise ArgumentError(f"{out} is the input: give another --out")
    if not force:
        raise ArgumentError(f"{out} is there already: give another --out, or --force")


def _inputs(file: str, kind: InputKind, out: Path | None) -> Iterator[InputLine]:
    """Yield the inputs: JSON in a .jsonl, and where standard input begins so."""
    is_json = None if file == STDIN else file.endswith(".jsonl")
    folder = Path() if file == STDIN else Path(file).parent
    return parse_lines(numbered(file), file_name(file), kind, is_json=is_json, folder=folder, out=out)


def _not_empty(inputs: Iterator[InputLine]) -> Iterator[InputLine]:
    """Return the same inputs. Raise if there are none."""
    first = list(islice(inputs, 1))
    if not first:
        raise ArgumentError("there is nothing to decode: the input is empty")
    return chain(first, inputs)


def _results(searcher: Searcher, inputs: Iterable[InputLine], batch_size: int) -> Iterator[dict[str, Any]]:
    """Yield a line of the result for each input, in their order."""
    from beamsplit.jobs.batches import chunks

    for chunk in chunks(inputs, _CHUNK * batch_size):
        numbers = [line.number for line in chunk]
        lists = searcher.search([line.given for line in chunk], numbers, batch_size)
        yield from (_result(line, found) for line, found in zip(chunk, lists, strict=True))


def _result(line: InputLine, found: Any) -> dict[str, Any]:
    if isinstance(found, ArgumentError):
        return {**line.about, "error": str(found)}
    return {**line.about, "hypotheses": [asdict(hypothesis) for hypothesis in found[0]]}


# Writing


def _write(results: Iterable[dict[str, Any]], file: IO[str]) -> Iterator[bool]:
    """Write the results; yield, after each line, whether it has an error."""
    for result in results:
        file.write(json.dumps(result, ensure_ascii=False) + "\n")
        yield "error" in result


def _into_file(
    searcher: Searcher,
    inputs: Iterator[InputLine],
    file: str,
    part: PartialResult,
    batch_size: int,
    settings: dict[str, Any],
    force: bool,
) -> int:
    """Write the results to a file, from where an earlier run was stopped; return how many have an error."""
    from beamsplit.progress import Progress

    with part.locked():
        done = part.resume(settings, force)
        with part.path.open(encoding="utf-8") as before:
            refused = check_same_inputs(islice(inputs, done), before, part.path)
        total = sum(1 for _ in numbered(file)) if file != STDIN else done
        with part.path.open("a", encoding="utf-8") as opened, Progress("decode").bar(total, done) as bar:
            for number, is_error in enumerate(_write(_results(searcher, inputs, batch_size), opened), 1):
                refused += is_error
                bar.advance()
                if number % batch_size == 0:
                    part.flush(opened)
            part.flush(opened)
        part.finish()
    return refused
