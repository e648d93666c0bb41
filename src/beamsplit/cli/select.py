"""`beamsplit select`: a few outputs of every list in files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.inputs import STDIN, file_name, text_lines
from beamsplit.cli.options import FILE, OUTPUT
from beamsplit.errors import ArgumentError
from beamsplit.files import json_object, write_bytes
from beamsplit.ordering import SELECTION, SELECTIONS

if TYPE_CHECKING:
    from beamsplit.jobs.choosing import Choice
    from beamsplit.selecting import Similarity

__all__ = ["select"]

_SIMILARITIES = ("words", "vectors", "meaning")
_WEIGHED = ("diverse-mbr", "dpp")


@click.command(short_help="Choose a few outputs of every list in a file.")
@click.argument("file", nargs=-1, required=True, type=FILE)
@click.option(
    "--count",
    "-n",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of outputs to choose of each list.",
)
@click.option(
    "--by",
    type=click.Choice(SELECTIONS),
    default=SELECTION,
    show_default=True,
    help="mbr: those most like all others; diverse-mbr: the same, but unlike each other; k-medoids: one of "
    "each cluster; dpp: likely ones that differ (a determinantal point process).",
)
@click.option(
    "--diversity",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Weight of being different against quality, from 0 to 1, for diverse-mbr and dpp (default: 0.5).",
)
@click.option(
    "--similarity",
    metavar="NAME",
    default=_SIMILARITIES[0],
    show_default=True,
    help="How alike two outputs are. words: by the words and pairs of words that they share; vectors: by the "
    "mean of their words' vectors, which are English; meaning: by words of content in any form; "
    "encoder:NAME: by a sentence-transformers model, a folder or a name on the hub.",
)
@click.option("--repeats", is_flag=True, help="Allow the same text twice, if a list has it so.")
@click.option("--out", "-o", type=OUTPUT, metavar="FILE", help="Write to this file instead of printing.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def select(
    file: tuple[str, ...],
    count: int,
    by: str,
    diversity: float | None,
    similarity: str,
    repeats: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Choose N outputs of every list in FILE (- is standard input), each worth having and unlike the others.

    Files are those that decode writes, or lines of {"hypotheses": [...]} from anywhere, with texts or with
    objects that have a "text" and, for dpp, a "log_prob". What else a line says is kept, and so is the order
    of the outputs. Lists of several files come one after another.

    To choose well, decode more than you need.

    \b
    beamsplit decode sentences.txt --strategy sampling --groups 30 --beams-per-group 1 --out samples.jsonl
    beamsplit select samples.jsonl --count 6 --out lists.jsonl
    beamsplit select samples.jsonl -n 6 --by dpp --diversity 0.8 --similarity vectors | head
    """  # noqa: D301 (click wants the character)
    from beamsplit.jobs.choosing import Choice

    if diversity is not None and by not in _WEIGHED:
        raise ArgumentError(f"--diversity is for {' and '.join(_WEIGHED)}, and --by is {by}: leave it out")
    _check_out(file, out, force)
    choice = Choice(
        count,
        by,
        0.5 if diversity is None else diversity,
        _similarity(similarity),
        unique=not repeats,
    )
    _write("".join(_lines(file, choice)), out)
    if choice.short:
        what = "outputs" if repeats else "different outputs"
        click.echo(
            f"beamsplit: {choice.short} of {choice.lists} lists have fewer than {count} {what}", err=True
        )


def _check_out(files: Sequence[str], out: Path | None, force: bool) -> None:
    if out is None or not out.exists():
        return
    for file in files:
        if file != STDIN and Path(file).exists() and out.samefile(file):
            raise ArgumentError(f"{out} is the input: give another --out")
    if not force:
        raise ArgumentError(f"{out} is there already: give another --out, or --force")


def _similarity(name: str) -> Similarity:
    from beamsplit.evaluation.methods import SIMILARITIES
    from beamsplit.similarity import make_similarity

    if name in SIMILARITIES:
        return SIMILARITIES[name]()
    if name == "meaning" or name.startswith("encoder:"):
        return make_similarity(name)
    raise ArgumentError(
        f"--similarity is {name}: there are {', '.join(SIMILARITIES)}, meaning and encoder:NAME"
    )


def _lines(files: Sequence[str], choice: Choice) -> Iterator[str]:
    """Yield the lines of the result; raise if there are none."""
    from beamsplit.jobs.choosing import LINE
    from beamsplit.jobs.resuming import to_json

    empty = True
    for file in files:
        for line in text_lines(file):
            where = f"{file_name(file)}, line {line.number}"
            if line.fault:
                raise ArgumentError(f"{where} {line.fault}")
            if line.text:
                entry: dict[str, Any] = json_object(line.text, where, LINE)
                yield to_json(choice.of_line(entry, where))
                empty = False
    if empty:
        raise ArgumentError(f"{', '.join(map(file_name, files))} has no lists: give lines of {LINE}")


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        write_bytes(out, text.encode())
