"""Pass results from the threads that search to the clients, which may be slow or gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from beamsplit.model import StepModel
from beamsplit.web.jobs import Job
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem, problem_from, server_stopping
from beamsplit.web.running import Searches, SearchSlots, Stopped, to_json

__all__ = ["EventStream", "Runner"]

T = TypeVar("T")

STEP, DONE, ERROR = "step", "done", "error"
_HEAD_START = 2.0  # seconds that writing steps may take before it must keep up with the search


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    data: bytes
    problem: Problem | None = None

    @property
    def wire(self) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (self.name.encode(), self.data)


class Mailbox:
    """A queue from the thread that searches to the server.

    Each step contains all that was found before it, so when nobody takes them the oldest can be dropped.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._filled = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def put(self, event: Event) -> None:
        """Add an event, from any thread."""
        with self._lock:
            self._events.append(event)
            while len(self._events) > 1 and sum(len(each.data) for each in self._events) > self._max_bytes:
                self._events.popleft()
        with suppress(RuntimeError):  # the server has stopped in the meantime
            self._loop.call_soon_threadsafe(self._filled.set)

    async def take(self) -> Event:
        while True:
            with self._lock:
                if self._events:
                    return self._events.popleft()
                self._filled.clear()
            await self._filled.wait()


@dataclass
class StepThrottle:
    """Skips steps so that writing them takes at most half the time: a drawing may take longer than a step."""

    began: float = field(default_factory=time.monotonic)
    spent: float = 0.0

    def call(self, write: Callable[[], None]) -> None:
        before = time.monotonic()
        searching = before - self.began - self.spent
        if self.spent <= _HEAD_START + searching:
            write()
            self.spent += time.monotonic() - before


@dataclass(frozen=True)
class Runner:
    """Runs jobs in threads, for requests that wait for the results."""

    slots: SearchSlots
    limits: DemoLimits
    model: Callable[[str], StepModel]

    async def decode(self, job: Job, receive: Receive) -> bytes:
        """Return the final response, as JSON."""
        box, stop = self._start(job, steps=False)
        try:
            event = await _unless_disconnected(box.take(), receive)
        finally:
            stop.set()
        if event.problem is not None:
            raise event.problem
        return event.data

    async def stream(self, job: Job) -> EventStream:
        """Return the steps as they come. Raise what goes wrong before the first of them."""
        box, stop = self._start(job, steps=True)
        try:
            first = await box.take()
        except asyncio.CancelledError:
            stop.set()
            raise
        if first.problem is not None:
            raise first.problem
        return EventStream(first, box, stop)

    def _start(self, job: Job, steps: bool) -> tuple[Mailbox, threading.Event]:
        """Start the job in a thread. Return where its events arrive, and what stops it."""
        box, stop = Mailbox(self.limits.waiting_bytes), threading.Event()
        self.slots.run(lambda check: self._work(job, box, check, steps), stop)
        return box, stop

    def _work(self, job: Job, box: Mailbox, check: Callable[[], None], steps: bool) -> None:
        """Search, in a thread. The last event is `done` or `error`."""
        try:
            box.put(self._search(job, box, check, steps))
        except Stopped:
            box.put(_error_event(server_stopping()))
        except Exception as error:
            box.put(_error_event(problem_from(error)))

    def _search(self, job: Job, box: Mailbox, check: Callable[[], None], steps: bool) -> Event:
        model = self.model(job.model)
        check()  # the time limit counts from here
        searches = Searches(job, model)
        check()  # a picture may take long
        throttle = StepThrottle()
        for number in searches.run(check):
            if steps:
                throttle.call(lambda: box.put(_step_event(number, searches)))  # noqa: B023 (called at once)
        return Event(DONE, to_json(searches.response(final=True)))


def _step_event(number: int, searches: Searches) -> Event:
    return Event(STEP, to_json({"number": number, **searches.response()}))


def _error_event(problem: Problem) -> Event:
    return Event(ERROR, to_json(problem.as_dict()), problem)


# Clients


class EventStream(Response):
    """Sends events for as long as the client is there."""

    media_type = "text/event-stream"

    def __init__(self, first: Event, box: Mailbox, stop: threading.Event) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._first = first
        self._box = box
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(Problem):  # the client is gone, so there is nobody to tell
                await _unless_disconnected(self._send(send), receive)
        finally:
            self._stop.set()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        event = self._first
        while event.name == STEP:
            await send(_body(event, more=True))
            event = await self._box.take()
        await send(_body(event, more=False))


def _body(event: Event, more: bool) -> Message:
    return {"type": "http.response.body", "body": event.wire, "more_body": more}


async def _unless_disconnected(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of the work. Cancel it and raise if the client disconnects first."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Problem(400, "the client went away")
    finally:
        working.cancel()
        leaving.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
