"""Searches that take turns, and the threads that they run in."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from beamsplit.choices import Choice
from beamsplit.columns import columns
from beamsplit.model import StepModel
from beamsplit.recording import Recorder, Recording
from beamsplit.search import steps
from beamsplit.tree import draw
from beamsplit.web.jobs import Job
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem

__all__ = ["SearchSlots", "Searches", "Stopped", "to_json"]


Work = Callable[[Callable[[], None]], None]


class Stopped(Exception):  # noqa: N818 (not an error)
    """Nobody waits for the result any more."""


class _Search:
    """One search, a step at a time."""

    def __init__(self, choice: Choice, model: StepModel, inputs: Any, job: Job) -> None:
        method = choice.method
        self._steps = steps(
            method.guided(model),
            inputs,
            method.strategy(model),
            max_length=job.max_length,
            seed=job.seed,
            unique=method.unique,
        )
        self._recorder = Recorder(getattr(model, "to_text", None), choice.title)

    def advance(self) -> bool:
        """Whether there was a step to take."""
        step = next(self._steps, None)
        if step is not None:
            self._recorder.add(step)
        return step is not None

    @property
    def recording(self) -> Recording:
        return self._recorder.recording


class Searches:
    """The searches of a job, all for the same input."""

    def __init__(self, job: Job, model: StepModel) -> None:
        self._job = job
        inputs = job.make_inputs()
        self._searches = [_Search(choice, model, inputs, job) for choice in job.choices]

    def turns(self, check: Callable[[], None]) -> Iterator[int]:
        """Let each take a step, until none has one left; `check` may raise in between."""
        going, number = self._searches, 0
        while going := [search for search in going if _checked(check, search.advance)]:
            yield number
            number += 1

    def answer(self, whole: bool = False) -> dict[str, Any]:
        """What they have found so far; the whole of it tells all that they tried, if that was asked for."""
        recordings = [search.recording for search in self._searches]
        lists = columns([(each.title, each.hypotheses) for each in recordings])
        found: dict[str, Any] = {"columns": [column.as_dict() for column in lists]}
        if self._job.tree:
            found["tree"] = draw(recordings)
        if self._job.recordings and whole:
            found["recordings"] = [each.as_dict() for each in recordings]
        return found


def _checked(check: Callable[[], None], advance: Callable[[], bool]) -> bool:
    check()
    return advance()


# Threads


class SearchSlots:
    """Places for searches that run at the same time, each in a thread of its own."""

    def __init__(self, limits: DemoLimits) -> None:
        self._limits = limits
        self._free = threading.BoundedSemaphore(limits.searches)
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()

    @property
    def busy(self) -> int:
        return len(self._threads)

    def run(self, work: Work, stop: threading.Event) -> None:
        """Have a thread do it. The work is given a function to call now and then: it raises when it must end.

        The place is free again when the work is over, whether or not anyone has taken its results.
        """
        if not self._free.acquire(blocking=False):
            line = "all searches that may run at once are running: try again in a moment"
            raise Problem(429, line, {"retry-after": "1"})
        # Not one that the whole program would wait for.
        thread = threading.Thread(target=self._work, args=(work, stop), name="search", daemon=True)
        self._threads.add(thread)
        thread.start()

    def open(self) -> None:
        self._closing.clear()

    def stop(self) -> None:
        """Every search ends at its next step."""
        self._closing.set()

    def close(self, patience: float = 2.0) -> None:
        """Stop, and wait for it."""
        self.stop()
        for thread in [*self._threads]:
            thread.join(patience)

    def _work(self, work: Work, stop: threading.Event) -> None:
        try:
            work(self._check(stop))
        finally:
            self._threads.discard(threading.current_thread())
            self._free.release()

    def _check(self, stop: threading.Event) -> Callable[[], None]:
        begun: list[float] = []  # the time that a model takes to load does not count

        def check() -> None:
            begun[:] = begun or [time.monotonic()]
            if stop.is_set() or self._closing.is_set():
                raise Stopped
            if time.monotonic() - begun[0] > self._limits.seconds:
                seconds = f"{self._limits.seconds:g}"
                raise Problem(
                    503, f"the search took longer than {seconds} s: ask for fewer beams or less length"
                )

        return check


# JSON


def to_json(value: Any) -> bytes:
    """Compact; numbers that JSON does not have are null."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value
