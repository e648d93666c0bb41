"""Run coroutines for callers that are not asynchronous: in a thread of their own, or at once."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

__all__ = ["AtOnce", "InBackground", "Runner"]

T = TypeVar("T")


class Runner(Protocol):
    """Runs coroutines to their end."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns."""
        ...

    def close(self) -> None:
        """Take no more work."""
        ...


class AtOnce:
    """Runs coroutines that wait for nothing, in the caller's thread."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        work.close()
        raise RuntimeError("a coroutine that was to wait for nothing waits")

    def close(self) -> None:
        pass


class InBackground:
    """Runs coroutines on an event loop in a thread of its own, which lives as long as this object.

    So that whoever is on a loop already, as all notebooks are, can call them too.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns. It is cancelled if the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            if self._loop is not None:
                self._stop()
                self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: the interpreter does not wait for it at the end.
                threading.Thread(
                    target=_serve, args=(self._loop,), name="beamsplit-engine", daemon=True
                ).start()
                self._stop = weakref.finalize(self, _end, self._loop)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_running():
        loop.call_soon_threadsafe(loop.stop)
