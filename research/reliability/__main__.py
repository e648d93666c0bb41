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

RESULTS = Path("docs/results/reliability.json")


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
