"""From the threads that search to the clients that read, who may be slow, or gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from beamsplit.model import StepModel
from beamsplit.web.jobs import Job
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem, known, server_stopping
from beamsplit.web.running import Searches, SearchSlots, Stopped, to_json

__all__ = ["EventStream", "Runner"]

STEP, DONE, ERROR = "step", "done", "error"
_HEAD_START = 2.0  # seconds for which telling may hold up the search


@dataclass(frozen=True)
class Event:
    """Something that a search has to tell."""

    name: str
    data: bytes
    problem: Problem | None = None

    @property
    def wire(self) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (self.name.encode(), self.data)


class Mailbox:
    """Events that one thread puts in and the server takes out.

    Each step tells all that the ones before it told, so of those that nobody takes the oldest can go.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._there = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def put(self, event: Event) -> None:
        """From any thread."""
        with self._lock:
            self._events.append(event)
            while len(self._events) > 1 and sum(len(each.data) for each in self._events) > self._most:
                self._events.popleft()
        with suppress(RuntimeError):  # the server has ended in the meantime
            self._loop.call_soon_threadsafe(self._there.set)

    async def take(self) -> Event:
        while True:
            with self._lock:
                if self._events:
                    return self._events.popleft()
                self._there.clear()
            await self._there.wait()


@dataclass
class StepThrottle:
    """Says when to tell of a step: a picture may take longer than the step, and the search comes first."""

    begun: float = field(default_factory=time.monotonic)
    spent: float = 0.0

    def tell(self, put: Callable[[], None]) -> None:
        before = time.monotonic()
        if self.spent <= _HEAD_START + (before - self.begun - self.spent):
            put()
            self.spent += time.monotonic() - before


@dataclass(frozen=True)
class Runner:
    """Runs jobs, in threads, for requests that wait for them."""

    slots: SearchSlots
    limits: DemoLimits
    model: Callable[[str], StepModel]

    async def decode(self, job: Job, receive: Receive) -> bytes:
        """The whole answer as JSON."""
        stop = threading.Event()
        box = Mailbox(self.limits.waiting_bytes)
        self.slots.run(lambda check: self._tell(job, box, check, steps=False), stop)
        try:
            event: Event = await _unless_gone(box.take(), receive)
        finally:
            stop.set()
        if event.problem is not None:
            raise event.problem
        return event.data

    async def stream(self, job: Job) -> EventStream:
        """The answer step by step. What goes wrong before the first is an answer of its own."""
        stop = threading.Event()
        box = Mailbox(self.limits.waiting_bytes)
        self.slots.run(lambda check: self._tell(job, box, check, steps=True), stop)
        try:
            first = await box.take()
        except asyncio.CancelledError:
            stop.set()
            raise
        if first.problem is not None:
            raise first.problem
        return EventStream(first, box, stop)

    def _tell(self, job: Job, box: Mailbox, check: Callable[[], None], steps: bool) -> None:
        """In a thread. The last event is `done`, or what went wrong."""
        try:
            box.put(self._search(job, box, check, steps))
        except Stopped:
            box.put(_failure(server_stopping()))
        except Exception as error:
            box.put(_failure(known(error)))

    def _search(self, job: Job, box: Mailbox, check: Callable[[], None], steps: bool) -> Event:
        model = self.model(job.model)
        check()  # from here on time is counted
        searches = Searches(job, model)
        check()  # a picture may take long
        teller = StepThrottle()
        for number in searches.turns(check):
            if steps:
                teller.tell(lambda: box.put(_step(number, searches)))  # noqa: B023 (it is called at once)
        return Event(DONE, to_json(searches.answer(whole=True)))


def _step(number: int, searches: Searches) -> Event:
    return Event(STEP, to_json({"number": number, **searches.answer()}))


def _failure(problem: Problem) -> Event:
    return Event(ERROR, to_json(problem.as_dict()), problem)


# Clients


class EventStream(Response):
    """Server-sent events, for as long as there is a client that takes them."""

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
                await _unless_gone(self._send(send), receive)
        finally:
            self._stop.set()

    async def _send(self, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        event = self._first
        while event.name == STEP:
            await send(_part(event, more=True))
            event = await self._box.take()
        await send(_part(event, more=False))


def _part(event: Event, more: bool) -> Message:
    return {"type": "http.response.body", "body": event.wire, "more_body": more}


async def _unless_gone(work: Any, receive: Receive) -> Any:
    """What the work returns; if the client goes away first, the work is given up."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_farewell(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Problem(400, "the client went away")
    finally:
        working.cancel()
        leaving.cancel()


async def _farewell(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
