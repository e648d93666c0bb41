"""Options of jobs on several workers: --workers, --ray and what goes with them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from beamsplit.errors import ArgumentError

__all__ = ["NO_WORKERS", "WorkerOptions", "with_worker_options"]

_AUTO = "auto"


@dataclass(frozen=True)
class WorkerOptions:
    """How many workers to have, where, and how their work is cut; none without a number or a cluster."""

    count: int | None = None
    ray: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    shard_size: int | None = None
    format: str | None = None
    column: str | None = None
    max_errors: int | None = None
    memory: str | None = None

    @property
    def asked(self) -> bool:
        """Whether workers are asked for."""
        return self.count is not None or self.ray is not None


NO_WORKERS = WorkerOptions()

_OPTIONS = (
    click.option(
        "--workers",
        "count",
        type=click.IntRange(min=1),
        metavar="N",
        help="Decode on N workers, each with its own copy of the model; --out is then a folder.",
    ),
    click.option(
        "--ray",
        is_flag=False,
        flag_value=_AUTO,
        metavar="[ADDRESS]",
        help="Decode on a Ray cluster, by default the one that this machine is part of; without --workers, "
        "on as many workers as there is room for.",
    ),
    click.option(
        "--worker-cpus",
        "cpus",
        type=click.FloatRange(0, min_open=True),
        metavar="N",
        help="With workers: CPUs that each of them has (default: 1).",
    ),
    click.option(
        "--worker-gpus",
        "gpus",
        type=click.FloatRange(0),
        metavar="N",
        help="With workers: GPUs that each of them has (default: 1 with --device cuda, otherwise 0).",
    ),
    click.option(
        "--shard-size",
        type=click.IntRange(min=1),
        metavar="N",
        help="With workers: lines in a file of results, which is also what a lost worker costs at most "
        "(default: by the number of inputs, 64 to 4096).",
    ),
    click.option(
        "--format",
        type=click.Choice(["jsonl", "parquet"]),
        help="With workers: how to write results (default: as the inputs are).",
    ),
    click.option(
        "--column",
        metavar="NAME",
        help="With workers: the key or column of the input (default: input, image or messages).",
    ),
    click.option(
        "--max-errors",
        type=click.IntRange(min=0),
        metavar="N",
        help="With workers: stop when more than N lines could not be decoded (default: go on).",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="With workers: memory that a batch may take beyond the weights, such as 40GB; long inputs then "
        "have smaller batches.",
    ),
)


def with_worker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --workers and what goes with it, which the command gets as `workers`."""
    names = list(WorkerOptions.__dataclass_fields__)

    @functools.wraps(command)
    def called(**options: Any) -> None:
        given = WorkerOptions(**{name: options.pop(name) for name in names})
        _check(given)
        command(workers=given, **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def _check(given: WorkerOptions) -> None:
    if given.ray is not None and os.path.isfile(given.ray):
        raise ArgumentError(
            f"--ray is {given.ray!r}, which is a file: give an address, --ray auto, or put --ray last"
        )
    if given.asked:
        return
    for name in ("cpus", "gpus"):
        if getattr(given, name) is not None:
            raise ArgumentError(f"--worker-{name} is for --workers or --ray: give one of them too")
    for name in ("shard_size", "format", "column", "max_errors", "memory"):
        if getattr(given, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ArgumentError(f"{option} is for --workers or --ray: give one of them too (--workers 1)")
