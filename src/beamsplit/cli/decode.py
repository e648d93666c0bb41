"""`beamsplit decode`: files of any length, a list for each line; what is stopped goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from beamsplit.cli.inputs import STDIN, numbered
from beamsplit.cli.lines import Line, check_same, read
from beamsplit.cli.options import FILE, MODEL, OUTPUT
from beamsplit.cli.resuming import Part
from beamsplit.cli.search_options import SearchOptions, with_search_options
from beamsplit.errors import ArgumentError
from beamsplit.strategies.defaults import BATCH_SIZE

if TYPE_CHECKING:
    from beamsplit.cli.searching import Searcher

__all__ = ["decode"]

_CHUNK = 16  # batches that are read at once, so that texts of one length can go together


@click.command(short_help="A list for each line of a file, however long.")
@click.argument("file", type=FILE)
@click.option(
    "--model", "-m", type=MODEL, metavar="MODEL", default="en-fr", show_default=True, help="As for generate."
)
@click.option("--out", "-o", type=OUTPUT, metavar="FILE", help="Where to write (default: print).")
@click.option("--force", is_flag=True, help="Write over a result that is there, or over a part of another.")
@with_search_options
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", default=BATCH_SIZE, show_default=True)
@click.option("--device", metavar="DEVICE", help="Where to decode, such as cuda.")
def decode(
    file: str,
    model: str,
    out: Path | None,
    force: bool,
    search: SearchOptions,
    batch_size: int,
    device: str | None,
) -> None:
    """Decode every line of FILE (- is standard input), and write a line of JSON for each, in their order.

    Lines are texts (or paths of pictures, for a model that looks at those); in a .jsonl they are objects with
    an "input" or an "image", an "id" if you like, and whatever else, which the result has too. With --out the
    result appears when it is whole; until then FILE.part grows, and the same command goes on with it. A line
    that cannot be decoded has an "error" instead of "hypotheses".

    \b
    beamsplit decode sentences.txt --out lists.jsonl
    beamsplit decode prompts.jsonl --model path/to/a/model --groups 5 --out lists.jsonl --device cuda
    beamsplit decode photos.jsonl --model captioner | head
    """  # noqa: D301 (click wants the character)
    from beamsplit.cli.searching import Searcher, failing
    from beamsplit.loading import load_model

    _check_place(file, out, force)
    searcher = Searcher.of(load_model(model, device), search, compared=False)
    inputs = _some(read(file, searcher.takes, out))
    with failing(model):
        if out is None:
            refused = sum(_write(_decoded(searcher, inputs, batch_size), sys.stdout))
        else:
            about = {"model": model, **searcher.about}
            refused = _into_file(searcher, inputs, file, Part(out), batch_size, about, force)
    if refused:
        lines = "line" if refused == 1 else "lines"
        click.echo(f'beamsplit: {refused} {lines} could not be decoded: see their "error"', err=True)
        raise click.exceptions.Exit(2)


def _check_place(file: str, out: Path | None, force: bool) -> None:
    if out is None or not out.exists():
        return
    if file != STDIN and Path(file).exists() and out.samefile(file):
        raise ArgumentError(f"{out} is the input: give another --out")
    if not force:
        raise ArgumentError(f"{out} is there already: give another --out, or --force")


def _some(inputs: Iterator[Line]) -> Iterator[Line]:
    """The same, if there are any."""
    first = list(islice(inputs, 1))
    if not first:
        raise ArgumentError("there is nothing to decode: the input is empty")
    return chain(first, inputs)


def _decoded(searcher: Searcher, inputs: Iterable[Line], batch_size: int) -> Iterator[dict[str, Any]]:
    """A line of the result for each input, in their order."""
    from beamsplit.cli.searching import in_batches

    for chunk in in_batches(inputs, _CHUNK * batch_size):
        found: dict[int, dict[str, Any]] = {}
        # Texts of one length in a batch: no short one waits for a long one.
        for batch in in_batches(sorted(chunk, key=lambda line: len(line.given.shown)), batch_size):
            lists = searcher.search([line.given for line in batch], [line.number for line in batch])
            found |= {line.number: _entry(line, each) for line, each in zip(batch, lists, strict=True)}
        yield from (found[line.number] for line in chunk)


def _entry(line: Line, found: Any) -> dict[str, Any]:
    if isinstance(found, ArgumentError):
        return {**line.about, "error": str(found)}
    return {**line.about, "hypotheses": [asdict(hypothesis) for hypothesis in found[0]]}


# Writing


def _write(entries: Iterable[dict[str, Any]], file: IO[str]) -> Iterator[bool]:
    """Yields, for each line that is written, whether it has an error."""
    for entry in entries:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        yield "error" in entry


def _into_file(
    searcher: Searcher,
    inputs: Iterator[Line],
    file: str,
    part: Part,
    batch_size: int,
    about: dict[str, Any],
    force: bool,
) -> int:
    from beamsplit.progress import Progress

    with part.held():
        done = part.begin(about, force)
        with part.path.open(encoding="utf-8") as before:
            refused = check_same(islice(inputs, done), before, part.path)
        total = sum(1 for _ in numbered(file)) if file != STDIN else done
        with part.path.open("a", encoding="utf-8") as opened, Progress("decode").bar(total, done) as bar:
            for number, is_error in enumerate(_write(_decoded(searcher, inputs, batch_size), opened), 1):
                refused += is_error
                bar.advance()
                if number % batch_size == 0:
                    part.flush(opened)
            part.flush(opened)
        part.finish()
    return refused
