"""What the tests of big jobs have in common: a job in a folder, run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from beamsplit.batch.folder import JobFolder
from beamsplit.batch.pool import InProcess, Pool
from beamsplit.batch.running import Job, Totals, run_job
from beamsplit.batch.sources import expand
from beamsplit.batch.task import Task
from beamsplit.jobs.lines import Input
from beamsplit.jobs.searching import Searcher
from beamsplit.strategies.spec import StrategySpec, Widths
from research.chaos import small_model
from research.chaos.small_model import SmallModel

MODEL = f"{small_model.__file__}:make"


class RememberingModel(SmallModel):
    """The small model, which remembers each batch that it was asked for."""

    def __init__(self, most_rows: int | None = None) -> None:
        super().__init__(most_rows)
        self.batches: list[list[str]] = []

    def start(self, inputs: Sequence[str]) -> tuple[Tensor, Tensor]:
        self.batches.append(list(inputs))
        return super().start(inputs)


def searcher(model: Any = None, name: str = "dbs") -> Searcher:
    """What decodes: by default the small model, which a worker makes by its name."""
    widths = Widths(groups=2, beams_per_group=1, strength=1.0, diversity="hamming")
    spec = StrategySpec.of_widths(name, widths)
    return Searcher(small_model.make() if model is None else model, (spec,), {"max_length": 3})


def as_given(given: Input) -> Input:
    return given


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def decode_files(
    patterns: Sequence[str | Path],
    out: str | Path,
    *,
    model: Any = None,
    strategy: str = "dbs",
    force: bool = False,
    shard_size: int | None = 4,
    batch_size: int | None = 2,
    max_errors: int | None = None,
    kind: str = "jsonl",
    column: str | None = None,
    settings: dict[str, Any] | None = None,
    make_pool: Callable[[Task], Pool] = InProcess,
) -> Totals:
    """Run a job to its end, or to whatever is raised."""
    folder, totals = JobFolder(str(out)), Totals()
    task = Task(
        partial(searcher, model, strategy),
        as_given,
        folder.url,
        kind,
        run=folder.run,
        column=column,
        batch_size=batch_size,
    )
    files = expand(map(str, patterns))
    job = Job(files, folder, {"name": "small", **(settings or {})}, shard_size, batch_size, max_errors)
    with folder.locked(force):
        run_job(job, make_pool(task), totals)
    return totals


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their names."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lists_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of all results, in order."""
    parts = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "_manifest.json").read_text(encoding="utf-8"))
    return found
