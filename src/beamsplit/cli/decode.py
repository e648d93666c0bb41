"""`beamsplit decode`: decode files of any length line by line, and resume what was stopped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beamsplit.cli.chat_options import ChatOptions, with_chat_options
from beamsplit.cli.engine_options import EngineOptions, with_engine_options
from beamsplit.cli.inputs import STDIN, file_name, text_lines
from beamsplit.cli.options import FILE, MODEL, OUTPUT
from beamsplit.cli.search_options import SearchOptions, with_search_options
from beamsplit.cli.stopping import Tally, says_what_is_kept
from beamsplit.cli.worker_options import WorkerOptions, with_worker_options
from beamsplit.errors import ArgumentError
from beamsplit.jobs.lines import JSON_NAMES, InputKind, InputLine, check_readable, parse_lines
from beamsplit.strategies.defaults import BATCH_SIZE

if TYPE_CHECKING:
    from beamsplit.jobs.resuming import PartialResult
    from beamsplit.jobs.searching import Searcher

__all__ = ["decode"]

_INSTEAD = "another --out, or --force"


def _shard(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Return a part and the number of parts, of a text such as 3/8."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ArgumentError(f"--shard is {value!r}: give K/N, such as 3/8, with K from 1 to N")
    return int(found[1]), int(found[2])


@click.command(short_help="Decode every line of a file.")
@click.argument("files", type=FILE, nargs=-1, metavar="FILES...")
@click.option(
    "--model",
    "-m",
    type=MODEL,
    metavar="MODEL",
    help="A model of ours (en-fr, captioner, questioner), or one as for generate (default: en-fr; with "
    "--engine, its only one).",
)
@click.option(
    "--out",
    "-o",
    type=click.Path(),
    metavar="FILE",
    help="Write to this file instead of printing; with --workers or --ray, to the files of a folder.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Start over: overwrite an existing result, or a part that was begun.",
)
@click.option(
    "--shard",
    callback=_shard,
    metavar="K/N",
    help="Decode only the K-th of N parts of the file, from 1 to N.",
)
@with_worker_options
@with_engine_options
@with_chat_options
@with_search_options
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Number of inputs decoded at once (default: {BATCH_SIZE}; fewer for a large model on a CPU).",
)
@click.option("--device", metavar="DEVICE", help="Device to decode on, such as cuda.")
def decode(
    files: tuple[str, ...],
    model: str | None,
    out: str | None,
    force: bool,
    shard: tuple[int, int] | None,
    workers: WorkerOptions,
    engine: EngineOptions,
    chat: ChatOptions,
    search: SearchOptions,
    batch_size: int | None,
    device: str | None,
) -> None:
    """Decode every line of FILES (- is standard input), and write a line of JSON for each, in the same order.

    Lines are texts, or paths of pictures for a model that takes those. Lines of a .jsonl file are objects
    with an "input" or an "image", or with "messages" for --chat; an "id" and other keys are copied to the
    result. Without an "id", it is the line's index, from 0. Files that gzip or zstd has compressed are read
    as they are.

    Every line has its line in the result. A blank line has an empty list of "hypotheses". A line that cannot
    be decoded has an "error" instead of "hypotheses"; the others are decoded all the same, and the exit code
    is 2. A line on standard error says how many lists have fewer outputs than were asked for, and how many
    have two that read the same.

    With --out, the result appears when it is complete. Until then FILE.part has all that is done, and the
    same command resumes it, whatever has stopped it.

    With --shard, several processes or machines share a file. Their results, one after another, are the
    result of the whole file.

    With --workers or --ray, workers share all files, and --out is a folder that gets a file for every few
    thousand lines. Then there may be many FILES, globs in quotes, folders, Parquet files, and URLs such as
    s3://bucket/*.jsonl. Lines that cannot be decoded are in _errors.jsonl there.

    \b
    beamsplit decode sentences.txt --out lists.jsonl
    beamsplit decode prompts.jsonl --model path/to/a/model --groups 5 --out lists.jsonl --device cuda
    beamsplit decode photos.jsonl --model captioner | head
    beamsplit decode questions.txt --model path/to/a/model --chat --out answers.jsonl
    beamsplit decode prompts.txt --engine http://localhost:8000 --out lists.jsonl
    for k in 1 2 3 4; do beamsplit decode big.txt --shard $k/4 --out $k.jsonl & done; wait
    cat 1.jsonl 2.jsonl 3.jsonl 4.jsonl > lists.jsonl
    beamsplit decode 'texts/*.parquet' --model path/to/a/model --out lists --workers 4
    beamsplit decode s3://bucket/texts --model a/model --device cuda --out s3://bucket/lists --ray
    """  # noqa: D301 (click wants the character)
    if not files:
        raise click.UsageError("Missing argument 'FILES...'.")
    if workers.asked:
        if shard is not None:
            raise ArgumentError(
                "--shard cuts a file by hand, and workers share it by themselves: leave it out"
            )
        from beamsplit.cli.decoding_on_workers import decode_on_workers

        decode_on_workers(files, model, out, force, engine, chat, search, batch_size, device, workers)
        return
    if _is_many(files):
        what = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
        raise ArgumentError(
            f"{what}: this is for workers, so give --workers 1 or more (--out is then a folder)"
        )
    path = None if out is None else OUTPUT.convert(out, None, None)
    _decode_file(files[0], model, path, force, shard, engine, chat, search, batch_size, device)


def _is_many(files: Sequence[str]) -> bool:
    """Tell whether these cannot be one file on this machine."""
    return (
        len(files) != 1
        or "://" in files[0]
        or os.path.isdir(files[0])
        or files[0].lower().endswith(".parquet")
    )


def _decode_file(
    file: str,
    model: str | None,
    out: Path | None,
    force: bool,
    shard: tuple[int, int] | None,
    engine: EngineOptions,
    chat: ChatOptions,
    search: SearchOptions,
    batch_size: int | None,
    device: str | None,
) -> None:
    """Decode one file, here."""
    from beamsplit.cli.searching import explained_errors, make_searcher
    from beamsplit.jobs.resuming import PartialResult
    from beamsplit.jobs.running import WINDOW, ListCounts

    part = None if out is None else PartialResult(out, _INSTEAD)
    _check_out(file, part, force)
    count = _count_lines(file)  # reads the file once, so that what is broken is known before all else
    if shard is not None and count is None:
        raise ArgumentError(
            f"--shard needs a file whose lines can be counted, and {file_name(file)} can be read only once: "
            "write it to a file first"
        )
    tally = Tally()
    with says_what_is_kept(part, tally):
        model = model or ("en-fr" if engine.url is None else None)
        searcher = make_searcher(model, device, search, compared=False, chat=chat, engine=engine)
        tally.lists = ListCounts(searcher.asked)
        size = batch_size or searcher.batch_size(BATCH_SIZE)
        inputs = check_readable(_inputs(file, searcher.takes, out, chat), WINDOW * size)
        job = _Job.of(searcher, inputs, shard, count, size)
        settings = {"model": model, **searcher.description, **chat.description, **engine.description}
        if shard is not None:
            settings |= {"shard": shard, "lines": count}
        with explained_errors(model or ""):
            if part is None:
                _print(job, tally)
            else:
                with part.locked():
                    _check_out(file, part, force)  # again: another run may have ended since
                    part.resume(settings, force)
                    _write(job, part, tally)
    if shortfall := str(tally.lists or ""):
        click.echo(f"beamsplit: {shortfall}", err=True)
    if tally.refused:
        lines, whose = ("line", "its") if tally.refused == 1 else ("lines", "their")
        click.echo(f'beamsplit: {tally.refused} {lines} could not be decoded: see {whose} "error"', err=True)
        raise click.exceptions.Exit(2)


def _check_out(file: str, part: PartialResult | None, force: bool) -> None:
    if part is None or not part.out.exists():
        return
    if file != STDIN and Path(file).exists() and part.out.samefile(file):
        raise ArgumentError(f"{part.out} is the input: give another --out")
    if not (force or part.replaces):
        raise ArgumentError(f"{part.out} is there already: give {_INSTEAD}")


# Inputs


def _count_lines(file: str) -> int | None:
    """Return the number of lines, or None of what can be read only once, such as a pipe."""
    if file == STDIN or (Path(file).exists() and not Path(file).is_file() and not Path(file).is_dir()):
        return None
    return sum(1 for _ in text_lines(file))


def _inputs(file: str, kind: InputKind, out: Path | None, chat: ChatOptions) -> Iterator[InputLine]:
    """Yield the inputs: JSON in a .jsonl, and where standard input begins so."""
    is_json = None if file == STDIN else file.lower().endswith(JSON_NAMES)
    folder = Path() if file == STDIN else Path(file).parent
    lines = parse_lines(
        text_lines(file), file_name(file), kind, is_json=is_json, folder=folder, out=out, chat=chat.asked
    )
    return (replace(line, given=chat.wrap(line.given)) for line in lines)


@dataclass(frozen=True)
class _Job:
    """The lines to decode, and how."""

    searcher: Searcher
    lines: Iterator[InputLine]
    first: int
    """The number of the first line."""
    total: int | None
    """How many lines there are, if that is known."""
    batch_size: int
    window: int
    """How many lines are read at once, so that texts of like length can go together."""

    @classmethod
    def of(
        cls,
        searcher: Searcher,
        lines: Iterator[InputLine],
        shard: tuple[int, int] | None,
        count: int | None,
        batch_size: int,
    ) -> _Job:
        from beamsplit.jobs.running import WINDOW, shard_range

        window, first = WINDOW * batch_size, 0
        if shard is not None and count is not None:
            chosen = shard_range(*shard, count)
            lines, first, count = islice(lines, chosen.start, chosen.stop), chosen.start, len(chosen)
        return cls(searcher, lines, first, count, batch_size, window)


# Results


def _print(job: _Job, tally: Tally) -> None:
    """Print the result of each line as soon as those of all lines before it are there."""
    from beamsplit.jobs.resuming import to_json
    from beamsplit.jobs.running import KnownLine, Windows, decode_windows
    from beamsplit.progress import Progress

    waiting: dict[int, str] = {}
    windows, following = Windows(map(KnownLine, job.lines), job.window), job.first
    with Progress("decode").bar(job.total, shown=not sys.stdout.isatty()) as bar:
        for results in decode_windows(job.searcher, windows, job.batch_size):
            waiting.update((each.number, to_json(each.result)) for each in results)
            while following in waiting:
                sys.stdout.write(waiting.pop(following))
                following += 1
            sys.stdout.flush()
            tally.add(results)
            bar.advance(len(results))


def _write(job: _Job, part: PartialResult, tally: Tally) -> None:
    """Write the results to a file, from where an earlier run was stopped."""
    from beamsplit.jobs.running import Windows, decode_windows
    from beamsplit.progress import Progress

    windows = Windows(tally.counting_lists(part.known_lines(job.lines)), job.window)
    tally.total, tally.earlier = job.total, windows
    with part.writing() as writer, Progress("decode").bar(job.total, tally.done) as bar:
        for results in decode_windows(job.searcher, windows, job.batch_size):
            writer.write(results)
            tally.add(results)
            bar.advance(tally.done - bar.done)
    part.finish(range(job.first, job.first + windows.lines))
