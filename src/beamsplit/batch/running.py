"""Run a job: hand out shards, count what is done, and hand out again what a lost worker had."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beamsplit.batch.folder import ERRORS, JobFolder
from beamsplit.batch.plan import Plan, Shard, make_plan
from beamsplit.batch.pool import Done, Event, Lost, Pool
from beamsplit.batch.sources import Source
from beamsplit.batch.task import Loaded, ShardReport
from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.jobs.running import ListCounts
from beamsplit.progress import Bar, Progress

__all__ = ["Job", "Totals", "run_job"]

_MOST_LOSSES = 5
"""Workers that one shard may end. After that, it is likely to end any."""


@dataclass
class Totals:
    """What is done so far, by earlier runs too."""

    total: int | None = None
    reports: dict[int, ShardReport] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """How many lines are done."""
        return sum(each.rows for each in self.reports.values())

    @property
    def refused(self) -> int:
        """How many of them have an error."""
        return sum(each.errors for each in self.reports.values())

    def __str__(self) -> str:
        return f"{self.done} {'' if self.total is None else f'of {self.total} '}lines done"

    @property
    def lists(self) -> ListCounts | None:
        """How many lists fall short."""
        if not self.reports:
            return None
        reports = list(self.reports.values())
        counts = ListCounts(reports[0].asked)
        counts.lists = sum(each.lists for each in reports)
        counts.short = sum(each.short for each in reports)
        counts.repetitive = sum(each.repetitive for each in reports)
        return counts


@dataclass(frozen=True)
class Job:
    """What to decode, where to, and how much may go wrong."""

    files: Sequence[Source]
    folder: JobFolder
    settings: Mapping[str, Any]
    """What results depend on, beside what the workers tell."""
    shard_size: int | None = None
    batch_size: int | None = None
    """How many inputs are decoded at once; None: as an earlier run had it, or what suits the model."""
    max_errors: int | None = None


def run_job(job: Job, pool: Pool, totals: Totals) -> None:
    """Decode all inputs that are not done yet; the folder must be locked. `totals` tells how far it came."""
    plan = make_plan(job.files, job.shard_size, job.folder.known_plan())
    totals.total = plan.rows
    shards = plan.shards()
    loaded = pool.start()
    size = job.batch_size or job.folder.known_batch_size() or loaded.batch_size
    manifest = job.folder.begin(plan, _settings(job, plan, loaded), loaded.versions, size)
    totals.reports.update(job.folder.reports(shards))
    _check_errors(job, totals)
    with Progress("decode").bar(plan.rows, totals.done) as bar:
        _Run(job, pool, totals, size, bar).run(shards)
    job.folder.finish(totals.reports, manifest)


def _settings(job: Job, plan: Plan, loaded: Loaded) -> dict[str, Any]:
    return {**job.settings, **loaded.settings, "shard_size": plan.shard_size}


class _Run:
    """The shards that are left, and those that workers have."""

    def __init__(self, job: Job, pool: Pool, totals: Totals, batch_size: int, bar: Bar) -> None:
        self._job = job
        self._pool = pool
        self._totals = totals
        self._batch_size = batch_size
        self._bar = bar
        self._done = totals.done
        self._losses: Counter[int] = Counter()

    def run(self, shards: Sequence[Shard]) -> None:
        """Decode the shards that have no report."""
        left = deque(shard for shard in shards if shard.index not in self._totals.reports)
        given = 0
        while left or given:
            while left and self._pool.has_room():
                self._pool.give(left.popleft(), self._batch_size)
                given += 1
            for event in self._pool.wait():
                given -= 1
                self._take(event, left)
            self._show()

    def _take(self, event: Event, left: deque[Shard]) -> None:
        match event:
            case Done(report):
                self._totals.reports[report.index] = report
                self._done += report.rows
                if report.errors:
                    _check_errors(self._job, self._totals)
            case Lost(shard, reason, begun):
                left.appendleft(shard)  # first of all, so that results are whole from the beginning on
                if begun:
                    self._blame(shard, reason)

    def _blame(self, shard: Shard, reason: str) -> None:
        """Count the workers that a shard has ended. Raise if it is likely to end any."""
        self._losses[shard.index] += 1
        if self._losses[shard.index] >= _MOST_LOSSES:
            raise BeamsplitError(
                f"{self._losses[shard.index]} workers ended while they decoded {shard.source.name}, "
                f"lines {shard.first + 1} to {shard.first + shard.rows} ({reason}): if memory is short, "
                "give a smaller --batch-size or --memory"
            )
        self._bar.note(f"a worker was lost ({reason}); what it had is decoded again")

    def _show(self) -> None:
        rows = self._done + self._pool.rows_done()
        if rows > self._bar.done:
            self._bar.advance(rows - self._bar.done)


def _check_errors(job: Job, totals: Totals) -> None:
    """Raise if more lines cannot be decoded than may be."""
    if job.max_errors is not None and totals.refused > job.max_errors:
        job.folder.write_errors(totals.reports)
        lines = "line" if totals.refused == 1 else "lines"
        raise ArgumentError(
            f"{totals.refused} {lines} could not be decoded, more than the {job.max_errors} of --max-errors: "
            f"see {job.folder.url}/{ERRORS}, and mend the inputs or give a larger one"
        )
