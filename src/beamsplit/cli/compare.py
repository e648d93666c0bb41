"""`beamsplit translate | caption | ask | generate`: lists by beam search and by late branching."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.chat_options import NO_CHAT, ChatOptions, with_chat_options
from beamsplit.cli.engine_options import NO_ENGINE, EngineOptions, with_engine_options
from beamsplit.cli.inputs import pictures, texts
from beamsplit.cli.options import FILE, MODEL, OUTPUT
from beamsplit.cli.search_options import SearchOptions, with_search_options
from beamsplit.cli.showing import entry, for_people, show_json, show_lists
from beamsplit.errors import ArgumentError
from beamsplit.files import write_bytes
from beamsplit.jobs.lines import Input
from beamsplit.strategies.defaults import SHOWN_BATCH_SIZE

if TYPE_CHECKING:
    from beamsplit.jobs.searching import Searcher

__all__ = ["ask", "caption", "generate", "translate"]

SENTENCE = "I need to talk to you in person."


@dataclass(frozen=True)
class OutputOptions:
    """Where results go, and in which form."""

    alone: bool
    tree: Path | None
    as_json: bool
    as_table: bool
    batch_size: int
    device: str | None


_OPTIONS = (
    click.option(
        "--file", "-f", type=FILE, metavar="FILE", help="Read inputs from the lines of this file, too."
    ),
    click.option("--alone", is_flag=True, help="Do not run beam search of the same width for comparison."),
    click.option(
        "--tree",
        type=OUTPUT,
        metavar="FILE.svg",
        help="Draw the search tree into this file; for one input.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON Lines even on a terminal."),
    click.option("--table", "as_table", is_flag=True, help="Print tables even into a pipe."),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        default=SHOWN_BATCH_SIZE,
        show_default=True,
        help="Number of inputs decoded at once.",
    ),
    click.option("--device", metavar="DEVICE", help="Device to decode on, such as cuda."),
)


def _with_output(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for what to print, which the command gets as `output`."""

    @functools.wraps(command)
    def called(**options: Any) -> None:
        names = ("alone", "tree", "as_json", "as_table", "batch_size", "device")
        output = OutputOptions(**{name: options.pop(name) for name in names})
        if output.as_json and output.as_table:
            raise click.UsageError("--json and --table exclude each other")
        if output.tree is not None and output.tree.suffix.lower() != ".svg":
            raise ArgumentError(f"--tree is {str(output.tree)!r}, and the picture is SVG: give FILE.svg")
        command(output=output, **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


@click.command(short_help="Translate English into French.")
@click.argument("text", nargs=-1)
@with_search_options
@_with_output
def translate(text: tuple[str, ...], file: str | None, search: SearchOptions, output: OutputOptions) -> None:
    """Translate English TEXT into French, by beam search and by late branching side by side.

    The model comes with the package. Words that differ from the first output of a list are underlined, and +
    marks outputs that only one of the lists has. In a pipe, and with --json, a line of JSON is printed for
    each text. Without any TEXT, standard input is read; on a terminal, an example is translated instead.

    \b
    beamsplit translate "I need to talk to you in person."
    beamsplit translate "I'm cold." --groups 6 --beams-per-group 1 --strength 2 --diversity hamming
    beamsplit translate --tree tree.svg "Where did you leave the keys?"
    cat sentences.txt | beamsplit translate > lists.jsonl
    beamsplit translate --file sentences.txt --strategy nucleus --top-p 0.8
    """  # noqa: D301 (click wants the character)
    _run("en-fr", texts(text, file, SENTENCE), search, output)


@click.command(short_help="Describe a picture.")
@click.argument("picture", nargs=-1, type=FILE)
@with_search_options
@_with_output
def caption(picture: tuple[str, ...], file: str | None, search: SearchOptions, output: OutputOptions) -> None:
    """Describe a PICTURE, by beam search and by late branching side by side.

    The model comes with the package. Reading pictures needs more: pip install '.[vision]' in a checkout.

    \b
    beamsplit caption photo.jpg
    beamsplit caption photo.jpg --groups 10 --strength 0.8 --tree tree.svg
    beamsplit caption *.jpg > lists.jsonl
    cat photo.jpg | beamsplit caption -
    """  # noqa: D301 (click wants the character)
    _run("captioner", pictures(picture, file, "caption"), search, output)


@click.command(short_help="Ask questions about a picture.")
@click.argument("picture", nargs=-1, type=FILE)
@with_search_options
@_with_output
def ask(picture: tuple[str, ...], file: str | None, search: SearchOptions, output: OutputOptions) -> None:
    """Ask questions about a PICTURE, by beam search and by late branching side by side.

    The model comes with the package. Reading pictures needs more: pip install '.[vision]' in a checkout.

    \b
    beamsplit ask photo.jpg
    beamsplit ask photo.jpg --diversity ngram:n=2 --strength 1
    """  # noqa: D301 (click wants the character)
    _run("questioner", pictures(picture, file, "ask"), search, output)


@click.command(short_help="Continue a text with a Hugging Face model, or one of your own.")
@click.option(
    "--model",
    "-m",
    type=MODEL,
    metavar="MODEL",
    help="A Hugging Face model by its folder or name, a FILE.gguf, or FILE.py:NAME for a model of your own, "
    "whose code is run; with --engine, its name there, if there are several.",
)
@click.argument("prompt", nargs=-1)
@with_engine_options
@with_chat_options
@with_search_options
@_with_output
def generate(
    model: str | None,
    prompt: tuple[str, ...],
    file: str | None,
    engine: EngineOptions,
    chat: ChatOptions,
    search: SearchOptions,
    output: OutputOptions,
) -> None:
    """Continue a PROMPT with a Hugging Face model, one of your own, or one on a serving engine; or ask a chat
    model.

    Finished outputs are ranked by log-probability per token, since by log-probability alone stubs and empty
    outputs would come first (see --order). With --chat, eight answers are given: the best of each group.

    Hugging Face models need transformers: pip install 'transformers>=4.57,<6'.

    \b
    beamsplit generate --model path/to/a/model "The best way to start the day is"
    beamsplit generate --model smollm2.Q8_0.gguf "Once upon a time" --groups 5 --max-length 20
    beamsplit generate --model smollm2.Q8_0.gguf --chat "Suggest a name for a cat." --alone
    beamsplit generate --model my_model.py:make "some input" --json     (it is given a list of texts)
    beamsplit generate --engine http://localhost:8000 "The best way to start the day is"
    """  # noqa: D301 (click wants the character)
    example = "Suggest a name for a cat." if chat.asked else "The best way to start the day is"
    _run(model, map(chat.wrap, texts(prompt, file, example)), search, output, chat, engine)


def _run(
    name: str | None,
    given: Iterator[Input],
    search: SearchOptions,
    output: OutputOptions,
    chat: ChatOptions = NO_CHAT,
    engine: EngineOptions = NO_ENGINE,
) -> None:
    from beamsplit.cli.searching import explained_errors, make_searcher

    compared = not output.alone
    searcher = make_searcher(
        name, output.device, search, compared=compared, chat=chat, engine=engine, progress=True
    )
    if getattr(searcher.model, "chats", False) and not chat.asked:
        _mention_chat(output)
    with explained_errors(name or ""):
        if output.tree is not None:
            _draw(searcher, _only(given), output)
        else:
            _search(searcher, given, output)


def _mention_chat(output: OutputOptions) -> None:
    if for_people(output.as_json, output.as_table):
        click.echo("This model has a chat template: with --chat it answers instead of going on.", err=True)


def _search(searcher: Searcher, given: Iterator[Input], output: OutputOptions) -> None:
    from beamsplit.jobs.batches import chunks

    refused, number, empty = 0, 0, True
    for batch in chunks(given, output.batch_size):
        lists = searcher.search(batch, range(number, number + len(batch)), output.batch_size)
        for each, found in zip(batch, lists, strict=True):
            if isinstance(found, ArgumentError):
                refused += 1
                click.echo(f"beamsplit: input {number + 1}, {_brief(each.shown)}: {found}", err=True)
            elif found:  # a blank line has nothing to show
                _show(str(number), each, searcher, found, output)
            number, empty = number + 1, empty and each.blank
    if refused:
        raise click.exceptions.Exit(2)
    if empty:
        raise ArgumentError("there is nothing to decode: the input is empty")


def _brief(shown: str) -> str:
    return repr(shown if len(shown) <= 60 else f"{shown[:57]}...")


def _draw(searcher: Searcher, given: Input, output: OutputOptions) -> None:
    from beamsplit.recording import record
    from beamsplit.tree import draw

    assert output.tree is not None
    values = searcher.prepare([given])
    recordings = [
        record(model, values, strategy, title=spec.title, seed=searcher.seed, **searcher.options_of(spec))[0]
        for spec, model, strategy in searcher.searches
    ]
    write_bytes(output.tree, draw(recordings).encode())
    found = [searcher.finish(recording.hypotheses) for recording in recordings]
    _show("0", given, searcher, found, output)


def _only(given: Iterator[Input]) -> Input:
    several = [each for each in given if not each.blank]
    if len(several) != 1:
        raise ArgumentError(f"--tree draws the search for one input, and there are {len(several)}: give one")
    if several[0].fault:
        raise ArgumentError(several[0].fault)
    return several[0]


def _show(identity: str, given: Input, searcher: Searcher, found: list[Any], output: OutputOptions) -> None:
    from beamsplit.comparison import compare_lists

    titles = [spec.title for spec in searcher.specs]
    lists = compare_lists(list(zip(titles, found, strict=True)))
    orders = [searcher.order_of(spec) for spec in searcher.specs]
    if for_people(output.as_json, output.as_table):
        show_lists(given.shown, lists, orders, searcher.selected)
    else:
        show_json(entry(identity, given.shown, lists, orders))
