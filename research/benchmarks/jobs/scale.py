"""What very many inputs take of the driver: plans, manifests and reports, of inputs that are not there."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from beamsplit.batch.folder import JobFolder
from beamsplit.batch.plan import Plan, Shard, shard_size_of
from beamsplit.batch.pool import Done, Event
from beamsplit.batch.running import Job, Totals, run_job
from beamsplit.batch.sources import Source, find, scan
from beamsplit.batch.task import DONE, Loaded, ShardReport

__all__ = ["scan_speed", "simulated_job"]

_LINE = 100  # bytes of an input
_WORKERS = 100


def scan_speed(folder: Path, mib: int) -> dict[str, Any]:
    """Return how fast a file is looked at before anything is decoded."""
    path = folder / "large.txt"
    line = b"x" * (_LINE - 1) + b"\n"
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(line * ((1 << 20) // _LINE))
    (source,) = find(str(path))
    begun = time.perf_counter()
    scanned = scan(source, 64)
    seconds = time.perf_counter() - begun
    path.unlink()
    return {"mib": mib, "mib_per_s": mib / seconds, "lines_per_s": scanned.rows / seconds}


def simulated_job(folder: Path, rows: int, files: int) -> dict[str, Any]:
    """Run a job of so many inputs in so many files, whose workers say at once that a shard is done.

    What the driver does is real: it cuts shards, hands them out, takes reports, reads those that an earlier
    run has left, and writes manifests. Half of the shards are done by that earlier run.
    """
    plan = plan_of(rows, files)
    shards = plan.shards()
    size: dict[str, Any] = {
        "rows": rows,
        "files": files,
        "shard_size": plan.shard_size,
        "shards": len(shards),
    }
    out = folder / f"scale-{rows}-{files}"
    first = _Instant(out, stop_after=len(shards) // 2)
    begun = time.perf_counter()
    _run(out, plan, first)
    size["first_half_s"] = time.perf_counter() - begun
    size["manifest_mib"] = _mib(out / "_manifest.json")
    size["reports_mib"] = sum(path.stat().st_size for path in (out / DONE).iterdir()) / 2**20
    begun = time.perf_counter()
    second = _Instant(out)
    tracemalloc.start()
    totals = _run(out, plan, second)
    size["driver_mib"] = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    size["resume_s"] = second.began - begun
    size["second_half_s"] = time.perf_counter() - second.began
    size["final_manifest_mib"] = _mib(out / "_manifest.json")
    assert totals.done == rows
    return size


def plan_of(rows: int, files: int) -> Plan:
    """Return the plan of files of the same size, each of whose lines has 100 bytes."""
    size, each = shard_size_of(rows), rows // files
    offsets = tuple(range(0, each * _LINE, size * _LINE))
    sources = [
        Source(
            f"s3://bucket/inputs/part-{number:06}.jsonl",
            "json",
            each * _LINE,
            version=f"{number:032x}",
            rows=each,
            digest=f"{number:064x}",
            step=size,
            offsets=offsets,
        )
        for number in range(files)
    ]
    return Plan(tuple(sources), size)


class _Known(JobFolder):
    """A folder of a job whose files were looked at before."""

    plan: Plan

    def known_plan(self) -> Plan:
        return self.plan


class _StoppedError(Exception):
    """The first run has done its part."""


def _run(out: Path, plan: Plan, pool: _Instant) -> Totals:
    """Run the job on files that were looked at before, as a job that goes on does."""
    totals, folder = Totals(), _Known(str(out))
    folder.plan = plan
    with folder.locked(False), suppress(_StoppedError):
        run_job(Job(plan.sources, folder, {"model": "none"}), pool, totals)
    return totals


class _Instant:
    """Workers that have each shard done as soon as it is given to them."""

    def __init__(self, out: Path, stop_after: int | None = None) -> None:
        self._out = out
        self._given: list[Shard] = []
        self._left = stop_after
        self.began = 0.0
        """When the first shard was given."""

    def start(self) -> Loaded:
        return Loaded({"seed": 0}, 32, {"beamsplit": "none"})

    def has_room(self) -> bool:
        return len(self._given) < 2 * _WORKERS

    def give(self, shard: Shard, batch_size: int) -> None:
        self.began = self.began or time.perf_counter()
        self._given.append(shard)

    def wait(self) -> Sequence[Event]:
        if self._left == 0:
            raise _StoppedError
        given, self._given = self._given, []
        if self._left is not None:
            given = given[: self._left]
            self._left -= len(given)
        return [Done(self._report(shard)) for shard in given]

    def rows_done(self) -> int:
        return 0

    def _report(self, shard: Shard) -> ShardReport:
        name = f"{shard.name}.jsonl"
        (self._out / name).touch()
        report = ShardReport(shard.index, name, shard.rows, 6, shard.rows, 0, 0, 0, 0, f"{shard.index:064x}")
        path = self._out / DONE / f"{shard.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(report.to_json())
        return report


def _mib(path: Path) -> float:
    return path.stat().st_size / 2**20
