"""The searches of a job, and the threads that they run in."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from beamsplit.comparison import compare_lists
from beamsplit.decoding import steps
from beamsplit.model import StepModel
from beamsplit.recording import Recorder, Recording
from beamsplit.strategies.spec import StrategySpec
from beamsplit.tree import draw
from beamsplit.web.jobs import Job
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem

__all__ = ["SearchSlots", "Searches", "Stopped", "to_json"]


Work = Callable[[Callable[[], None]], None]


class Stopped(Exception):  # noqa: N818 (not an error)
    """The search was stopped: its client is gone, or the server is stopping."""


class _Search:
    """One search, run step by step."""

    def __init__(self, spec: StrategySpec, model: StepModel, inputs: Any, job: Job) -> None:
        self._steps = steps(
            spec.guide(model),
            inputs,
            spec.make(model),
            max_length=job.max_length,
            seed=job.seed,
            **spec.decode_options,
        )
        self._recorder = Recorder(getattr(model, "to_text", None), spec.title)

    def advance(self) -> bool:
        """Take a step, and return whether there was one to take."""
        step = next(self._steps, None)
        if step is not None:
            self._recorder.add(step)
        return step is not None

    @property
    def recording(self) -> Recording:
        return self._recorder.recording


class Searches:
    """The searches of a job, on the same input."""

    def __init__(self, job: Job, model: StepModel) -> None:
        self._job = job
        inputs = job.make_inputs()
        self._searches = [_Search(spec, model, inputs, job) for spec in job.specs]

    def run(self, check: Callable[[], None]) -> Iterator[int]:
        """Advance all searches step by step, and yield the number of each step.

        `check` is called before each step of each search, and may raise.
        """
        active, number = self._searches, 0
        while active := [search for search in active if _advance(search, check)]:
            yield number
            number += 1

    def response(self, final: bool = False) -> dict[str, Any]:
        """Return what was found so far. Only the final response has recordings."""
        recordings = [search.recording for search in self._searches]
        lists = compare_lists([(each.title, each.hypotheses) for each in recordings])
        response: dict[str, Any] = {"columns": [column.as_dict() for column in lists]}
        if self._job.tree:
            response["tree"] = draw(recordings)
        if self._job.recordings and final:
            response["recordings"] = [each.as_dict() for each in recordings]
        return response


def _advance(search: _Search, check: Callable[[], None]) -> bool:
    check()
    return search.advance()


# Threads


class SearchSlots:
    """Threads for a limited number of jobs at the same time."""

    def __init__(self, limits: DemoLimits) -> None:
        self._limits = limits
        self._free = threading.BoundedSemaphore(limits.searches)
        self._closing = threading.Event()
        self._threads: set[threading.Thread] = set()

    @property
    def busy(self) -> int:
        """The number of jobs that are running."""
        return len(self._threads)

    def run(self, work: Work, stop: threading.Event) -> None:
        """Start a thread that calls `work` with a check, which raises when the work must end.

        The slot is free again when the work ends, whether or not anyone has read its results.
        """
        if not self._free.acquire(blocking=False):
            line = "all searches that may run at once are running: try again in a moment"
            raise Problem(429, line, {"retry-after": "1"})
        # A daemon: the program does not wait for it to exit.
        thread = threading.Thread(target=self._work, args=(work, stop), name="search", daemon=True)
        self._threads.add(thread)
        thread.start()

    def open(self) -> None:
        self._closing.clear()

    def stop(self) -> None:
        """Tell every search to end at its next step."""
        self._closing.set()

    def close(self, timeout: float = 2.0) -> None:
        """Stop all searches, and wait for their threads."""
        self.stop()
        for thread in [*self._threads]:
            thread.join(timeout)

    def _work(self, work: Work, stop: threading.Event) -> None:
        try:
            work(self._make_check(stop))
        finally:
            self._threads.discard(threading.current_thread())
            self._free.release()

    def _make_check(self, stop: threading.Event) -> Callable[[], None]:
        began: float | None = None  # time counts from the first check, after the model was loaded

        def check() -> None:
            nonlocal began
            began = time.monotonic() if began is None else began
            if stop.is_set() or self._closing.is_set():
                raise Stopped
            if time.monotonic() - began > self._limits.seconds:
                seconds = f"{self._limits.seconds:g}"
                raise Problem(
                    503, f"the search took longer than {seconds} s: ask for fewer beams or less length"
                )

        return check


# JSON


def to_json(value: Any) -> bytes:
    """Return compact JSON. NaN and infinities become null."""
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
