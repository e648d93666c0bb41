"""`beamsplit decode`: files of any length, a list for each line; what is stopped goes on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from beamsplit.cli.choosing import Asked, with_choice
from beamsplit.cli.inputs import STDIN, Input, lines
from beamsplit.errors import ArgumentError

if TYPE_CHECKING:
    from beamsplit.cli.searching import Searcher

__all__ = ["decode"]

_CHUNK = 16  # batches that are read at once, so that texts of one length can go together


class Line(NamedTuple):
    """An input with its name, and its place among all."""

    number: int
    identity: str
    given: Input


@click.command(short_help="A list for each line of a file, however long.")
@click.argument("file")
@click.option("--model", "-m", metavar="MODEL", default="en-fr", show_default=True, help="As for generate.")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to write (default: print)."
)
@click.option("--force", is_flag=True, help="Write over a result that is there, or over a part of another.")
@with_choice
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", default=32, show_default=True)
@click.option("--device", metavar="DEVICE", help="Where to decode, such as cuda.")
def decode(
    file: str, model: str, out: Path | None, force: bool, asked: Asked, batch_size: int, device: str | None
) -> None:
    """Decode every line of FILE (- is standard input), and write a line of JSON for each, in their order.

    Lines are texts, or in a .jsonl objects with an "input" (an "image" has a picture's path) and an "id" if
    you like. With --out the result appears when it is whole; until then FILE.part grows, and the same command
    goes on with it. A line that cannot be decoded has an "error" instead of "hypotheses".

    \b
    beamsplit decode sentences.txt --out lists.jsonl
    beamsplit decode prompts.jsonl --model path/to/a/model --groups 5 --out lists.jsonl --device cuda
    beamsplit decode captions.jsonl --model captioner | head
    """  # noqa: D301 (click wants the character)
    from beamsplit.cli.searching import Searcher
    from beamsplit.evaluation.models import load_model

    if out is not None and out.exists() and not force:
        raise ArgumentError(f"{out} is there already: give another --out, or --force")
    searcher = Searcher.of(load_model(model, device), asked, compared=False)
    if out is None:
        refused = sum(_write(_decoded(searcher, _read(file), batch_size), sys.stdout))
    else:
        refused = _into_file(searcher, file, out, batch_size, _about(model, searcher), force)
    if refused:
        click.echo(f'beamsplit: {refused} lines could not be decoded: see their "error"', err=True)
        raise click.exceptions.Exit(2)


def _about(model: str, searcher: Searcher) -> dict[str, Any]:
    """What a part must agree with to be gone on with."""
    limits = {name: repr(value) for name, value in searcher.limits.items()}
    return {"model": model, "method": searcher.choices[0].method.description, "seed": searcher.seed, **limits}


# Reading


def _read(file: str) -> Iterator[Line]:
    """The inputs, each with its name: its own, or its place."""
    is_json, folder = file.endswith(".jsonl"), Path(file).parent
    for number, line in enumerate(lines(file)):
        identity, given = (
            _parsed(line, f"{file}, line {number + 1}", folder) if is_json else ("", Input(line, line))
        )
        yield Line(number, identity or str(number), given)


def _parsed(line: str, where: str, folder: Path) -> tuple[str, Input]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ArgumentError(f"{where} is no JSON: {error}") from error
    known = [key for key in ("image", "input") if isinstance(entry, dict) and key in entry]
    if not known or not isinstance(entry[known[0]], str):
        raise ArgumentError(f'{where} has no text under "input" (or path under "image")')
    shown = entry[known[0]]
    value = str(folder / shown) if known[0] == "image" else shown
    return str(entry.get("id", "")), Input(shown, value)


# Decoding


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
    about = {"id": line.identity, "input": line.given.shown}
    if isinstance(found, ArgumentError):
        return {**about, "error": str(found)}
    return {**about, "hypotheses": [asdict(hypothesis) for hypothesis in found[0]]}


# Writing


def _write(entries: Iterable[dict[str, Any]], file: IO[str]) -> Iterator[bool]:
    """Yields, for each line that is written, whether it has an error."""
    for entry in entries:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        yield "error" in entry


def _into_file(
    searcher: Searcher, file: str, out: Path, batch_size: int, about: dict[str, Any], force: bool
) -> int:
    from beamsplit.progress import Progress

    part, note = out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.part.json")
    done = _goes_on(part, note, about, force)
    inputs = _read(file)
    refused = _pass_over(inputs, part, done)
    total = sum(1 for _ in lines(file)) if file != STDIN else done
    with part.open("a", encoding="utf-8") as opened, Progress("decode").bar(total, done) as bar:
        for number, is_error in enumerate(_write(_decoded(searcher, inputs, batch_size), opened), 1):
            refused += is_error
            bar.advance()
            if number % batch_size == 0:
                _flush(opened)
        _flush(opened)
    os.replace(part, out)
    note.unlink()
    return refused


def _goes_on(part: Path, note: Path, about: dict[str, Any], force: bool) -> int:
    """How many lines of the result are there from an earlier run that was stopped."""
    if force or not note.exists():
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"")
        note.write_text(json.dumps(about), encoding="utf-8")
        return 0
    if json.loads(note.read_text(encoding="utf-8")) != json.loads(json.dumps(about)):
        raise ArgumentError(f"{part} was begun with other settings: give those, another --out, or --force")
    content = part.read_bytes() if part.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]  # whoever was killed may have left half a line
    if len(whole) < len(content):
        part.write_bytes(whole)
    return whole.count(b"\n")


def _pass_over(inputs: Iterator[Line], part: Path, done: int) -> int:
    """Skip inputs that are done; they must be the same ones. How many of them have an error."""
    refused = 0
    with part.open(encoding="utf-8") as opened:
        for line, written in zip(islice(inputs, done), opened, strict=False):
            entry = json.loads(written)
            if (entry["id"], entry["input"]) != (line.identity, line.given.shown):
                raise ArgumentError(
                    f"{part} has {entry['input']!r:.60} where the input has {line.given.shown!r:.60}: "
                    "give the same input, another --out, or --force"
                )
            refused += "error" in entry
    return refused


def _flush(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())
