"""Processes that share out work: lists to decode, parts of the inputs to score."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

from beamsplit import checks

__all__ = ["ALONE", "Workers", "cores"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_PARTS = 4  # for each process, so that none waits long for the last
_SMALLEST = 8  # inputs of a part: sending fewer costs more than it gains


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """So many processes, each with its share of the cores; one job is done in this process.

    They start when there is work, and end with the context.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = checks.at_least("jobs", jobs, 1)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """Yield the results in order. What is sent to another process must be picklable."""
        if self.jobs == 1 or len(items) < 2:
            return map(work, items)
        if self._pool is None:
            # Not forked: threads of torch and of CUDA do not survive that.
            self._pool = ProcessPoolExecutor(
                self.jobs,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=torch.set_num_threads,
                initargs=(max(1, cores() // self.jobs),),
            )
        return self._pool.map(work, items)

    def parts(self, items: Sequence[_Item]) -> list[Sequence[_Item]]:
        """Return the items in parts of like size, enough for all processes."""
        count = 1 if self.jobs == 1 else self.jobs * _PARTS
        size = max(-(-len(items) // count), _SMALLEST if self.jobs > 1 else 1)
        return [items[start : start + size] for start in range(0, len(items), size)]

    def map_parts(
        self, work: Callable[[Sequence[_Item]], Sequence[_Result]], items: Sequence[_Item]
    ) -> list[_Result]:
        """Return the results of all items, in order, of work that takes several at a time."""
        return [each for part in self.map(work, self.parts(items)) for each in part]


ALONE = Workers()
"""No other processes."""
