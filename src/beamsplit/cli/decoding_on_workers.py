"""`beamsplit decode` with --workers or --ray: a folder of results, which several workers fill."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import click

from beamsplit.batch.folder import ERRORS, JobFolder
from beamsplit.batch.on_ray import Cluster, ray_pool
from beamsplit.batch.pool import InProcess, Pool
from beamsplit.batch.running import Job, Totals, run_job
from beamsplit.batch.sources import Source, expand
from beamsplit.batch.storage import is_remote, local_path
from beamsplit.batch.task import Task
from beamsplit.cli.chat_options import ChatOptions
from beamsplit.cli.engine_options import EngineOptions
from beamsplit.cli.inputs import STDIN
from beamsplit.cli.search_options import SearchOptions
from beamsplit.cli.searching import explained_errors, make_searcher
from beamsplit.cli.stopping import says_what_is_kept
from beamsplit.cli.worker_options import WorkerOptions
from beamsplit.errors import ArgumentError
from beamsplit.jobs.footprint import parse_memory

__all__ = ["decode_on_workers"]


def decode_on_workers(
    files: Sequence[str],
    model: str | None,
    out: str | None,
    force: bool,
    engine: EngineOptions,
    chat: ChatOptions,
    search: SearchOptions,
    batch_size: int | None,
    device: str | None,
    workers: WorkerOptions,
) -> None:
    """Decode files into a folder; say what is kept if that is stopped, and what falls short."""
    out = _checked_folder(out)
    if STDIN in files:
        raise ArgumentError("- is standard input, which workers cannot read: write it to a file first")
    sources = expand(files)
    folder, totals = JobFolder(out), Totals()
    model = model or ("en-fr" if engine.url is None else None)
    task = Task(
        make_searcher=partial(
            make_searcher, _from_anywhere(model), device, search, compared=False, chat=chat, engine=engine
        ),
        wrap=chat.wrap,
        out=folder.url,
        run=folder.run,
        format=workers.format or _format_of(sources),
        chat=chat.asked,
        column=workers.column,
        batch_size=batch_size,
        memory=None if workers.memory is None else parse_memory(workers.memory),
    )
    settings = {
        "model": model,
        "format": task.format,
        "column": task.column,
        "memory": task.memory,
        **chat.description,
        **engine.description,
    }
    job = Job(sources, folder, settings, workers.shard_size, batch_size, workers.max_errors)
    with (
        says_what_is_kept(folder, totals),
        folder.locked(force),
        explained_errors(model or ""),
        _pool(task, workers, device) as pool,
    ):
        run_job(job, pool, totals)
    _say_what_falls_short(totals, folder)


def _say_what_falls_short(totals: Totals, folder: JobFolder) -> None:
    if shortfall := str(totals.lists or ""):
        click.echo(f"beamsplit: {shortfall}", err=True)
    if totals.refused:
        lines = "line" if totals.refused == 1 else "lines"
        click.echo(
            f"beamsplit: {totals.refused} {lines} could not be decoded: see {folder.url}/{ERRORS}", err=True
        )
        raise click.exceptions.Exit(2)


def _checked_folder(out: str | None) -> str:
    if out is None:
        raise ArgumentError("--out is missing: workers write to a folder, so give one")
    if is_remote(out):
        return out
    path = Path(local_path(out))
    if path.exists() and not path.is_dir():
        raise ArgumentError(f"{out} is a file, and workers write to a folder: give another --out")
    if not path.parent.is_dir():
        raise ArgumentError(f"there is no folder {path.parent} for {path.name}: make it first")
    return str(path)


def _pool(task: Task, workers: WorkerOptions, device: str | None) -> AbstractContextManager[Pool]:
    """Return the workers: a single one in this process, or those of a Ray cluster."""
    if workers.ray is None and workers.count == 1:
        return nullcontext(InProcess(task))
    on_gpu = device is not None and device.startswith("cuda")
    gpus = workers.gpus if workers.gpus is not None else float(on_gpu)
    return ray_pool(task, Cluster(workers.ray, workers.count, workers.cpus or 1, gpus))


def _from_anywhere(model: str | None) -> str | None:
    """Return the name by which a worker finds a model, which may be in another folder."""
    if model is None:
        return None
    path, separator, name = model.rpartition(":")
    if separator and path.endswith(".py"):
        return f"{os.path.abspath(path)}:{name}"
    return os.path.abspath(model) if os.path.exists(model) else model


def _format_of(sources: Sequence[Source]) -> str:
    return "parquet" if all(each.kind == "parquet" for each in sources) else "jsonl"
