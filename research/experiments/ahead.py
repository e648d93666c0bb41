"""Decode the lists of many experiments before any is scored, by several processes at once.

They are kept in the cache, so that another machine, with other programs installed, can score them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from beamsplit.evaluation import Experiment, Method, RunSettings
from beamsplit.evaluation.running import Prepared, decode_method, prepare
from beamsplit.evaluation.workers import Workers
from beamsplit.progress import Progress

__all__ = ["decode_ahead"]

Lists: TypeAlias = tuple[Experiment, Method]
"""What is decoded: a method, on the inputs of an experiment."""


def decode_ahead(experiments: Iterable[Experiment], settings: RunSettings, workers: Workers) -> None:
    """Decode all lists that the cache lacks."""
    jobs = _jobs(experiments)
    with Progress("decoding").bar(len(jobs)) as bar:
        for _ in workers.map(partial(_decode, settings), jobs):
            bar.advance()


def _jobs(experiments: Iterable[Experiment]) -> list[list[Lists]]:
    """Return what to decode, the longest first. Lists of one file of the cache are one process's job.

    Otherwise two would decode the same inputs at the same time.
    """
    longest_first = sorted(experiments, key=lambda each: (-each.max_length, each.limit or 0))
    jobs: dict[str, list[Lists]] = {}
    for experiment in longest_first:
        for method in experiment.methods:
            if isinstance(method, Method):
                alone = replace(experiment, methods=(method,))
                jobs.setdefault(_file_key(experiment, method), []).append((alone, method))
    return list(jobs.values())


def _file_key(experiment: Experiment, method: Method) -> str:
    about = [experiment.model, method.spec.description, experiment.max_length, experiment.min_length]
    return json.dumps(about, sort_keys=True, default=str)


def _decode(settings: RunSettings, job: Sequence[Lists]) -> None:
    for experiment, method in job:
        for _ in decode_method(method, _prepared(experiment, settings), experiment, settings, shown=False):
            pass


@dataclass
class _Recent:
    """What this process prepared last: the next job is often of the same experiment."""

    key: tuple[Any, ...] = ()
    prepared: Prepared | None = None


_recent = _Recent()


def _prepared(experiment: Experiment, settings: RunSettings) -> Prepared:
    key = (experiment.task, experiment.model, experiment.limit, settings)
    if _recent.prepared is None or key != _recent.key:
        _recent.key, _recent.prepared = key, prepare(experiment, settings, scored=False)
    return _recent.prepared
