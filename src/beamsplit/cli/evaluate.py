"""`beamsplit evaluate`: an experiment's figures."""

from __future__ import annotations

import json
from pathlib import Path

import click

from beamsplit.models.storage import write_bytes

__all__ = ["evaluate"]


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--data", metavar="DIR", help="The data folder (default: $BEAMSPLIT_DATA).")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only so many inputs, evenly spread.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=Path(".beamsplit-cache"),
    show_default=True,
    help="A folder for lists that are decoded, so that scoring again is free.",
)
@click.option(
    "--draws", type=click.IntRange(min=1), default=1000, show_default=True, help="Of the bootstrap."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Write NAME.json and NAME.md there."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def evaluate(
    experiment: Path,
    data: str | None,
    limit: int | None,
    cache: Path,
    draws: int,
    out: Path | None,
    as_json: bool,
) -> None:
    r"""Decode, measure and compare as the file EXPERIMENT says, and print tables.

    The first method of the file is what the others are compared with; a star marks a difference whose 95%
    interval (paired bootstrap) leaves out 0. A run that is stopped goes on when it is started again.

    \b
    beamsplit evaluate experiments/coco.toml --limit 200
    beamsplit evaluate experiments/coco.toml --out results/
    """
    from beamsplit.evaluation import Settings, markdown, read_experiment, run

    settings = Settings(data=data, cache=cache, limit=limit, draws=draws)
    found = run(read_experiment(experiment), settings)
    tables, figures = markdown(found), json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if out is not None:
        write_bytes(out / f"{experiment.stem}.json", figures.encode())
        write_bytes(out / f"{experiment.stem}.md", tables.encode())
    click.echo(figures if as_json else tables, nl=False)
