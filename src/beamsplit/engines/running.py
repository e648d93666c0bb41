"""Run coroutines for callers that are not asynchronous: in a thread of their own, or at once."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
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

    So whoever is on a loop already, as all notebooks are, can call them too.
    """

    def __init__(self, at_end: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """`at_end` is run on the loop when that ends."""
        self._at_end = at_end
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns. It is cancelled if the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._started().loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
            thread.join()

    def _started(self) -> _LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = _LoopThread(self._at_end)
                self._thread.start()
                weakref.finalize(self, self._thread.end)
            return self._thread


class _LoopThread(threading.Thread):
    """A thread with an event loop. The interpreter does not wait for it at the end."""

    def __init__(self, at_end: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        super().__init__(name="beamsplit-engine", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._at_end = at_end

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            if self._at_end is not None:
                self.loop.run_until_complete(self._at_end())
        finally:
            self.loop.close()

    def end(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
