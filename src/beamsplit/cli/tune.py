"""`beamsplit tune`: find settings of Diverse Beam Search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.options import (
    FILE,
    LONGEST,
    MIN_LENGTH,
    MODEL,
    show,
    with_format,
    with_settings,
    write_formats,
)
from beamsplit.diversity.names import TERMS, quick_terms
from beamsplit.strategies.defaults import DEFAULTS

if TYPE_CHECKING:
    from beamsplit.evaluation import RunSettings

__all__ = ["tune"]


@click.command(short_help="Find good settings on validation data.")
@click.option(
    "--task",
    required=True,
    type=FILE,
    metavar="TASK",
    help="A .jsonl file of inputs with references, or the name of a task.",
)
@click.option("--model", required=True, type=MODEL, metavar="MODEL", help="As for beamsplit evaluate.")
@click.option(
    "--beams",
    type=int,
    default=DEFAULTS["evaluate"].widths.beams,
    show_default=True,
    metavar="N",
    help="Number of outputs per input.",
)
@click.option(
    "--metric",
    default="bleu",
    show_default=True,
    metavar="NAME",
    help="Metric of quality: bleu, chrf, bleu4, rouge, cider, meteor or spice.",
)
@click.option(
    "--k", type=int, metavar="N", help="Measure quality as the best of the first N (default: of all)."
)
@click.option(
    "--diversity-metric",
    default="distinct-2",
    show_default=True,
    metavar="NAME",
    help="Metric of diversity: distinct-N, unique, vendi or spread.",
)
@click.option(
    "--target",
    default="quality",
    show_default=True,
    metavar="NAME",
    help="What to tune for: quality, diversity or balance.",
)
@click.option(
    "--keep",
    type=float,
    metavar="X",
    help="Share of beam search's quality to keep, for --target diversity (default: 0.98).",
)
@click.option(
    "--trials", type=int, default=40, show_default=True, metavar="N", help="Number of settings to try."
)
@click.option(
    "--terms",
    metavar="LIST",
    help=f"Diversity terms to try, with commas: {', '.join(TERMS)} (default: all but slow ones, that is "
    f"{', '.join(quick_terms())}).",
)
@click.option(
    "--max-length",
    type=int,
    default=LONGEST,
    show_default=True,
    metavar="N",
    help="Maximum number of tokens in an output.",
)
@MIN_LENGTH
@click.option("--unique", is_flag=True, help="Leave out outputs that an earlier group has found.")
@with_settings
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of the search for settings.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write tune.md, tune.tex, tune.csv and tune.json to this folder.",
)
@with_format
def tune(
    out: Path | None,
    kind: str,
    terms: str | None,
    min_length: int | None,
    settings: RunSettings,
    **asked: Any,
) -> None:
    """Search for the best term, number of groups and strength of Diverse Beam Search on validation data.

    Prints the settings that no other beats in both quality and diversity, beside beam search of the same
    width, and recommends one for the target:

    \b
    quality      the best of the first k; of equals, the most diverse
    diversity    the most diverse that keeps a share of beam search's quality (--keep)
    balance      the largest sum of the gains over beam search, each relative to it

    A run that was stopped is resumed when it is started again: with the same seed it tries the same settings,
    and decoded lists are kept.

    \b
    beamsplit tune --task valid.jsonl --model en-fr
    beamsplit tune --task valid.jsonl --model en-fr --target diversity --keep 0.95 --out results/
    """  # noqa: D301 (click wants the character)
    from beamsplit.evaluation import recommending, tuning

    chosen = () if terms is None else tuple(term.strip() for term in terms.split(","))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # if that is refused, better now than after all the work
    found = tuning.tune(tuning.Tuning(terms=chosen, min_length=min_length or 0, **asked), settings)
    formats = {
        "markdown": recommending.report(found),
        "latex": recommending.report_latex(found),
        "csv": recommending.to_csv(found),
        "json": json.dumps(found, indent=1, ensure_ascii=False) + "\n",
    }
    if out is not None:
        write_formats(formats, out, "tune")
    show(formats[kind], is_markdown=kind == "markdown")
