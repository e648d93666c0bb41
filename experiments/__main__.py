"""Run the experiments and write docs/results: figures as JSON, plots, and the tables of docs/results.md."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from beamsplit.cli.options import with_settings
from beamsplit.errors import BeamsplitError
from beamsplit.evaluation import Settings, read_experiment, run
from beamsplit.evaluation.plots import save
from beamsplit.models.storage import write_bytes
from experiments.report import renewed

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
QUOTABLE = "coco."  # captions may be quoted (CC BY 4.0); what people said of other pictures stays at home


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@with_settings
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write there, and leave docs/results and the page alone.",
)
@click.option(
    "--tables", "only_tables", is_flag=True, help="Only write the page's tables from what is there."
)
def main(names: Sequence[str], out: Path | None, only_tables: bool, settings: Settings) -> None:
    """Run the experiments NAMES, such as coco or validation/vqg, or all of them.

    \b
    python -m experiments                             all, for docs/results and the page
    python -m experiments --limit 100 --out quick     all, a little of each
    """  # noqa: D301 (click wants the character)
    known = {
        str(path.relative_to(HERE).with_suffix("")): path
        # Validation first: what is chosen there is used in the others.
        for path in [*sorted((HERE / "validation").glob("*.toml")), *sorted(HERE.glob("*.toml"))]
    }
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no experiment {name!r}: there are {', '.join(known)}")
    for name in () if only_tables else names or known:
        begin = time.perf_counter()
        _write(name, run(read_experiment(known[name]), settings), out or DOCS / "results")
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    if out is None:
        _renew_page()


def _renew_page() -> None:
    """Its tables from what was found; of the pictures, only those that it shows are kept."""
    page, results = DOCS / "results.md", DOCS / "results"
    text = renewed(page.read_text(encoding="utf-8"), results)
    write_bytes(page, text.encode())
    for picture in results.rglob("*.svg"):
        if f"({picture.relative_to(DOCS)})" not in text:
            picture.unlink()


def _write(name: str, results: dict[str, Any], out: Path) -> None:
    for example in results["examples"]:
        example["references"] = example["references"] if results["task"].startswith(QUOTABLE) else []
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    path = out / f"{name}.json"
    write_bytes(path, text.encode())
    save(results, path.parent, path.stem, formats=("svg",))


if __name__ == "__main__":
    try:
        main()
    except BeamsplitError as error:
        sys.exit(f"experiments: {error}")
