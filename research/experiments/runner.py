"""Run the experiments and write docs/results: figures as JSON, plots, and the tables of docs/results.md."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from beamsplit.cli.options import with_settings
from beamsplit.errors import ArgumentError
from beamsplit.evaluation import Experiment, RunSettings, read_experiment, run
from beamsplit.evaluation.plots import save
from beamsplit.evaluation.workers import Workers, cores
from beamsplit.files import write_bytes
from beamsplit.metrics.coco import Unavailable, check_java, keeping_programs
from research.experiments.ahead import decode_ahead
from research.experiments.front import draw_front
from research.experiments.report import renew_tables
from research.novelty.plot import draw_novelty

__all__ = ["main"]

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
JOBS_EACH = 4  # processes for each experiment that is scored: more, and they wait for what one of them does
NEED_JAVA = ("cider", "meteor", "bleu4", "rouge")
PAGES = ("results.md", "choosing.md", "paper-conditions.md", "novelty.md")
"""Pages whose tables are made from results."""
ON_REQUEST = "paper/"
"""Experiments that need models which do not come with the package: run if they are named."""
QUOTABLE = "coco."  # whose captions may be published (CC BY 4.0); references of other tasks may not


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@with_settings
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    default=cores,
    show_default="one a core",
    help="Processes that decode and score; METEOR takes 1.3 GB in each.",
)
@click.option(
    "--decode-only",
    is_flag=True,
    help="Only fill the cache with lists, for another machine to score: needs no Java.",
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
def main(
    names: Sequence[str],
    jobs: int,
    decode_only: bool,
    out: Path | None,
    only_tables: bool,
    settings: RunSettings,
) -> None:
    """Run the experiments NAMES, such as coco or validation/vqg, or all of them.

    Those of the folder paper/ are run only if they are named, since they need models that do not come with
    the package: docs/paper-conditions.md says how to make them.

    \b
    python -m research.experiments                             all, for docs/results and the pages
    python -m research.experiments --limit 100 --out quick     all, a little of each
    python -m research.experiments --device cuda --batch-size 256 --decode-only
                                                               lists alone, where there is a GPU
    """  # noqa: D301 (click wants the character)
    known = _experiments()
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no experiment {name!r}: there are {', '.join(known)}")
    if not only_tables:
        asked = names or [name for name in known if not name.startswith(ON_REQUEST)]
        chosen = {name: read_experiment(known[name]) for name in asked}
        _run_all(chosen, settings, out or DOCS / "results", jobs, decode_only)
    if out is None and not decode_only:
        _renew_pages()


def _experiments() -> dict[str, Path]:
    """Return the files by name, validation first: what is chosen there is used in the others."""
    folders = ("validation", "front", ".", "paper/validation", "paper")
    paths = [path for folder in folders for path in sorted((HERE / folder).glob("*.toml"))]
    return {str(path.relative_to(HERE).with_suffix("")): path for path in paths}


def _run_all(
    experiments: dict[str, Experiment], settings: RunSettings, out: Path, jobs: int, decode_only: bool
) -> None:
    """Decode first, then score; experiments that measure time run at the end, with nothing beside them."""
    if not decode_only:
        _check_programs(experiments)
    timed = {name: each for name, each in experiments.items() if each.cost is not None}
    others = {name: each for name, each in experiments.items() if name not in timed}
    with Workers(jobs) as workers:
        decode_ahead(others.values(), settings, workers)
    if decode_only:
        return
    at_once = max(1, jobs // JOBS_EACH)
    score = partial(_run, settings=settings, out=out, jobs=jobs // at_once)
    largest_first = sorted(others.items(), key=lambda each: -(each[1].limit or math.inf))
    with Workers(at_once) as scorers, keeping_programs(jobs // at_once):
        for _ in scorers.map(score, largest_first):
            pass
    for each in timed.items():
        _run(each, settings, out, 1)


def _check_programs(experiments: Mapping[str, Experiment]) -> None:
    """Raise if a metric cannot be had, before anything is decoded; SPICE is left out where it is missing."""
    for name, experiment in experiments.items():
        if needed := [metric for metric in experiment.metrics if metric in NEED_JAVA]:
            try:
                check_java()
            except Unavailable as error:
                raise ArgumentError(
                    f"{', '.join(needed)} of {name} cannot be measured, since {error}; "
                    "or decode here with --decode-only, and score where there is Java"
                ) from error


def _run(named: tuple[str, Experiment], settings: RunSettings, out: Path, jobs: int) -> None:
    name, experiment = named
    begin = time.perf_counter()
    with Workers(jobs) as workers:
        _write(name, run(experiment, settings, workers=workers), out)
    print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)


def _renew_pages() -> None:
    """Write the tables of the pages from the results, and delete plots that no page shows."""
    results, shown = DOCS / "results", ""
    draw_front(results)
    draw_novelty(results / "novelty")
    for page in (DOCS / name for name in PAGES):
        text = renew_tables(page.read_text(encoding="utf-8"), results)
        write_bytes(page, text.encode())
        shown += text
    for picture in results.rglob("*.svg"):
        if f"({picture.relative_to(DOCS)})" not in shown:
            picture.unlink()


def _write(name: str, results: dict[str, Any], out: Path) -> None:
    for example in results["examples"]:
        example["references"] = example["references"] if results["task"].startswith(QUOTABLE) else []
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    path = out / f"{name}.json"
    _check_complete(path, results)
    write_bytes(path, text.encode())
    save(results, path.parent, path.stem, formats=("svg",))


def _check_complete(path: Path, results: Mapping[str, Any]) -> None:
    """Raise if a file has figures that could not be measured this time, rather than write over them."""
    if not path.exists():
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    lost = [name for name in results["unavailable"] if name not in before["unavailable"]]
    if lost and before["task"] == results["task"]:
        raise ArgumentError(
            f"{path} has figures of {', '.join(lost)}, which cannot be measured here, and is left as it is: "
            f"{results['unavailable'][lost[0]]}; or give --out another folder"
        )
