"""`beamsplit study`: which of two lists people prefer."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.options import (
    FILE,
    LONGEST,
    MIN_LENGTH,
    MODEL,
    OUTPUT,
    InOrder,
    named_files,
    show,
    with_settings,
)
from beamsplit.cli.search_options import given_for_strategies, strategy_tables, with_strategies
from beamsplit.errors import ArgumentError
from beamsplit.files import write_bytes

if TYPE_CHECKING:
    from beamsplit.evaluation import RunSettings
    from beamsplit.study import Store, StudyPlan
    from beamsplit.study.making import ListPair

__all__ = ["study"]

_STUDY = click.argument("location", metavar="STUDY", type=FILE)


@click.group(cls=InOrder, short_help="Ask people which of two lists they prefer.")
def study() -> None:
    """Ask people which of two lists they prefer, as the paper did, and report the result.

    STUDY is a file such as pilot.db, or the address of a PostgreSQL database.

    \b
    beamsplit study create pilot.db --lists beam=bs.jsonl --lists diverse=dbs.jsonl
    beamsplit study serve pilot.db
    beamsplit study report pilot.db --out results/
    """  # noqa: D301 (click wants the character)


# Create


@study.command(short_help="Make a study from lists or strategies.")
@_STUDY
@click.option(
    "--lists",
    "saved",
    metavar="NAME=FILE",
    multiple=True,
    help="Compare lists that were made elsewhere; give two.",
)
@click.option(
    "--task",
    type=FILE,
    metavar="TASK",
    help="A .jsonl or .txt file of the inputs of the lists, or of inputs to decode.",
)
@click.option("--model", type=MODEL, metavar="MODEL", help="As for beamsplit evaluate.")
@with_strategies("Two strategies to compare, such as bs,dbs; see beamsplit evaluate.")
@click.option(
    "--max-length",
    type=click.IntRange(min=1),
    metavar="N",
    default=LONGEST,
    show_default=True,
    help="Maximum number of tokens in an output.",
)
@MIN_LENGTH
@with_settings
@click.option(
    "--votes", type=int, default=5, show_default=True, metavar="N", help="Number of votes per item."
)
@click.option("--annotators", type=int, metavar="N", help="Number of annotators (default: as many as votes).")
@click.option("--share", type=int, metavar="N", help="Maximum number of items per annotator (default: all).")
@click.option(
    "--attention",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Number of items that check whether people read.",
)
@click.option(
    "--shown", type=int, default=5, show_default=True, metavar="N", help="Number of outputs shown per list."
)
@click.option("--unique", is_flag=True, help="Show no output of a list twice.")
@click.option(
    "--complexity",
    type=click.Choice(["given", "predicted"]),
    default="given",
    show_default=True,
    help='Read complexity from the files ("complexity"), or predict it from pictures.',
)
@click.option(
    "--question", metavar="TEXT", help="Question that people are asked (default: which list they prefer)."
)
@click.option(
    "--consent",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the text that people agree to.",
)
@click.option(
    "--patience",
    type=float,
    default=30,
    show_default=True,
    metavar="MINUTES",
    help="Time after which an item that was shown but not answered may go to someone else.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of orders and sides.")
@click.option("--json", "as_json", is_flag=True, help="Print the links as JSON.")
def create(location: str, as_json: bool, settings: RunSettings, **asked: Any) -> None:
    """Make a study of two lists for each input, and print the links of its annotators.

    \b
    beamsplit study create pilot.db --lists "beam search"=bs.jsonl --lists diverse=dbs.jsonl --annotators 10
    beamsplit study create pilot.db --task my.jsonl --model en-fr --strategies bs,dbs --beams 6

    \b
    bs.jsonl has lines of {"id": "...", "hypotheses": ["...", ...]}; they, or lines of the task with the
    same id, may have an "input" (a text) or an "image" (a path), which is shown above the lists,
    and a "complexity" and a "difficulty" (numbers), by which the report is split.
    """  # noqa: D301 (click wants the character)
    from beamsplit.study import create_study
    from beamsplit.study.creation import check_free

    check_free(location)  # before any decoding
    with closing(create_study(location, _plan(asked, settings))) as made:
        show(_links_json(made) if as_json else _created(location, made), is_markdown=False)


def _plan(asked: dict[str, Any], settings: RunSettings) -> StudyPlan:
    from beamsplit.study.making import make_plan

    given = {name: asked[name] for name in ("votes", "share", "seed", "shown", "unique", "attention")}
    given["annotators"] = asked["votes"] if asked["annotators"] is None else asked["annotators"]
    if asked["question"] is not None:
        given["question"] = _text("--question", asked["question"])
    if asked["consent"] is not None:
        given["consent"] = _text(str(asked["consent"]), _read(asked["consent"]))
    predicted = asked["complexity"] == "predicted"
    return make_plan(_lists(asked, settings), predicted=predicted, patience=60 * asked["patience"], **given)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        from beamsplit import checks

        raise ArgumentError(f"{path} cannot be read: {checks.reason(error)}") from error


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise ArgumentError(f"{name} is empty: say something, or leave it out")
    return text.strip()


def _lists(asked: dict[str, Any], settings: RunSettings) -> ListPair:
    from beamsplit.study.making import lists_from_files, lists_from_strategies

    decodes = asked["strategies"] or asked["model"] or asked["min_length"] or given_for_strategies(asked)
    if asked["saved"] and decodes:
        raise ArgumentError("give --lists twice, or --model with two --strategies, not both")
    if asked["saved"]:
        task = None if asked["task"] is None else Path(asked["task"])
        files = {name: Path(file) for name, file in named_files(asked["saved"]).items()}
        return lists_from_files(files, task, settings.limit)
    if not (asked["task"] and asked["model"] and asked["strategies"]):
        raise ArgumentError("give --lists NAME=FILE twice, or --task with --model and two --strategies")
    return lists_from_strategies(_content(asked), settings)


def _content(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what an experiment's file would say."""
    content = {name: asked[name] for name in ("task", "model", "max_length")}
    return {**content, "min_length": asked["min_length"] or 0, "methods": strategy_tables(asked)}


# Links


def _links_json(made: Store) -> str:
    from beamsplit.study.serving import links

    return json.dumps(links(made), indent=1) + "\n"


def _created(location: str, made: Store) -> str:
    return (
        f"{len(made.items())} items, {made.study.rules.votes} votes each. Links, to be put after the address "
        f"of your server:\n\n{_link_lines(made)}\nNext: beamsplit study serve {_shown(location)}\n"
    )


def _link_lines(made: Store, base: str = "") -> str:
    from beamsplit.study.serving import links

    found = links(made, base)
    lines = (*found["annotators"].items(), ("admin", found["admin"]))
    return "".join(f"{name:<8}{link}\n" for name, link in lines)


def _shown(location: str) -> str:
    from beamsplit.study import database

    return database.display_name(database.parse_url(location))


# Serve


@study.command(short_help="Serve its pages, and print everybody's link.")
@_STUDY
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is every address."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8321,
    show_default=True,
    help="Port to listen on; 0 is any free one.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address at which people find it, if it is another one, such as https://example.org/study "
    "(a proxy there has to remove /study).",
)
def serve(location: str, host: str, port: int, public_url: str | None) -> None:
    """Serve the pages of a study, and print the links to them. Stop and start it as you like.

    \b
    beamsplit study serve pilot.db
    beamsplit study serve pilot.db --host 0.0.0.0 --port 80 --public-url https://example.org
    beamsplit study serve postgresql://me@localhost/pilot
    """  # noqa: D301 (click wants the character)
    from beamsplit.study import open_study, serving

    address = None if public_url is None else serving.check_url(public_url)
    with closing(open_study(location)) as store:

        def announce(base: str) -> None:
            click.echo(_link_lines(store, base), nl=False)
            if address is None and host in ("0.0.0.0", "::"):
                click.echo("give --public-url, so that links say where others find this machine", err=True)
            sys.stdout.flush()  # for those who read it from a pipe

        serving.serve(store, host, port, public_url=address, ready=announce)


# Export and report


@study.command(short_help="Print all votes, as CSV or JSON Lines.")
@_STUDY
@click.option("--format", "kind", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
@click.option("-o", "--output", type=OUTPUT, metavar="FILE", help="Write to this file instead of printing.")
def export(location: str, kind: str, output: Path | None) -> None:
    """Print all votes, one a row: the item, who voted (a number, not the link), which side, when.

    \b
    beamsplit study export pilot.db -o votes.csv
    beamsplit study export pilot.db --format jsonl
    """  # noqa: D301 (click wants the character)
    from beamsplit.study import open_study
    from beamsplit.study.export import export_votes

    with closing(open_study(location)) as store:
        text = export_votes(store, kind)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_bytes(output, text.encode())


@study.command(short_help="Report which list people prefer.")
@_STUDY
@click.option(
    "--bins",
    default="paper",
    show_default=True,
    metavar="HOW",
    help="Bins of complexity: paper (the mean plus or minus a standard deviation), a number of bins with as "
    "many items each, or edges such as 2.5,3.5.",
)
@click.option("--include-failed", is_flag=True, help="Count annotators who failed an attention check, too.")
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Number of bootstrap samples.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write report.json, report.md and the plot (SVG and PNG) to this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def report(
    location: str, bins: str, include_failed: bool, draws: int, out: Path | None, as_json: bool
) -> None:
    """Report which list people prefer, how sure that is, by complexity, and how much people agree.

    \b
    beamsplit study report pilot.db
    beamsplit study report pilot.db --bins 4 --out results/
    """  # noqa: D301 (click wants the character)
    from beamsplit.study import collect_data, figures, open_study, words
    from beamsplit.study.bins import Bins

    parts = Bins.parse(bins)
    with closing(open_study(location)) as store:
        found = figures(collect_data(store), bins=parts, include_failed=include_failed, draws=draws)
    tables, text = words.markdown(found), json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if out is not None:
        _write(found, tables, text, out)
    show(text if as_json else tables, is_markdown=not as_json)


def _write(found: dict[str, Any], tables: str, text: str, out: Path) -> None:
    from beamsplit.study.plots import draw_plot

    write_bytes(out / "report.json", text.encode())
    write_bytes(out / "report.md", tables.encode())
    for kind in ("svg", "png"):
        write_bytes(out / f"report.{kind}", draw_plot(found, kind))
