"""Run the experiments and write docs/results: figures as JSON, plots, and the tables of docs/results.md."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click

from beamsplit.cli.options import with_settings
from beamsplit.evaluation import RunSettings, read_experiment, run
from beamsplit.evaluation.plots import save
from beamsplit.files import write_bytes
from research.experiments.report import renew_tables

__all__ = ["main"]

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
QUOTABLE = "coco."  # whose captions may be published (CC BY 4.0); references of other tasks may not


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@with_settings
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Experiments at once; scoring takes a core each.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write there, and leave docs/results and the page alone.",
)
@click.option(
    "--tables", "only_tables", is_flag=True, help="Only write the page's tables from what is there."
)
def main(names: Sequence[str], jobs: int, out: Path | None, only_tables: bool, settings: RunSettings) -> None:
    """Run the experiments NAMES, such as coco or validation/vqg, or all of them.

    \b
    python -m research.experiments                             all, for docs/results and the page
    python -m research.experiments --limit 100 --out quick     all, a little of each
    """  # noqa: D301 (click wants the character)
    known = {
        str(path.relative_to(HERE).with_suffix("")): path
        # Validation first: what is chosen there is used in the others.
        for folder in ("validation", "front", ".")
        for path in sorted((HERE / folder).glob("*.toml"))
    }
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no experiment {name!r}: there are {', '.join(known)}")
    if not only_tables:
        _run_all({name: known[name] for name in names or known}, settings, out or DOCS / "results", jobs)
    if out is None:
        _renew_page()


def _run_all(paths: dict[str, Path], settings: RunSettings, out: Path, jobs: int) -> None:
    """Run `jobs` experiments at a time; those that measure time run alone."""
    alone = [name for name, path in paths.items() if jobs == 1 or read_experiment(path).cost is not None]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        others = [pool.submit(_run, name, paths[name], settings, out) for name in paths if name not in alone]
        for each in others:
            each.result()
    for name in alone:
        _run(name, paths[name], settings, out)


def _run(name: str, path: Path, settings: RunSettings, out: Path) -> None:
    begin = time.perf_counter()
    _write(name, run(read_experiment(path), settings), out)
    print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)


def _renew_page() -> None:
    """Write the tables of docs/results.md from the results, and delete plots that it does not show."""
    page, results = DOCS / "results.md", DOCS / "results"
    text = renew_tables(page.read_text(encoding="utf-8"), results)
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
