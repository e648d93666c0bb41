"""The command: measure, and write the tables of docs/reliability.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from beamsplit.errors import BeamsplitError
from beamsplit.files import parse_json, read_text, write_bytes
from research.benchmarks.performance.record import machine
from research.reliability.decodes import decode_many
from research.reliability.load import hold_demo, hold_study
from research.reliability.report import renewed

RESULTS = Path("docs/results/reliability.json")
PAGE = Path("docs/reliability.md")


@click.group()
def program() -> None:
    """Measure what the package holds out. Figures are kept in a file of JSON, each part by its name."""


_OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    metavar="FILE",
    help="File of JSON to write the figures to; parts that it has of others stay.",
)


@program.command()
@click.option("--count", type=click.IntRange(min=10), default=100_000, show_default=True, help="How many.")
@_OUT
def decodes(count: int, out: Path) -> None:
    """Decode so often in one process, and see whether it holds more and more memory."""
    _keep(out, "decodes", decode_many(count))


@program.command()
@click.option("--clients", type=click.IntRange(min=1), default=16, show_default=True, help="How many.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long each server is asked.")
@_OUT
def load(clients: int, seconds: float, out: Path) -> None:
    """Ask the demo, and then a study, by many clients at once."""
    _keep(out, "demo", hold_demo(clients, seconds))
    _keep(out, "study", hold_study(clients, seconds))


@program.command()
@click.option("--page", type=click.Path(path_type=Path), default=PAGE, show_default=True, metavar="FILE")
@_OUT
def tables(page: Path, out: Path) -> None:
    """Renew the tables of a page from the figures."""
    text = renewed(read_text(page), parse_json(read_text(out), str(out)))
    write_bytes(page, text.encode())


def _keep(out: Path, part: str, measured: dict[str, Any]) -> None:
    """Write a part of the figures, beside those of other parts."""
    content = parse_json(read_text(out), str(out)) if out.exists() else {}
    content[part] = {"machine": machine("cpu", tiny=False), **measured}
    write_bytes(out, (json.dumps(content, indent=1) + "\n").encode())


def main() -> None:
    try:
        program(standalone_mode=True)
    except BeamsplitError as error:
        sys.exit(f"research.reliability: {error}")


if __name__ == "__main__":
    main()
