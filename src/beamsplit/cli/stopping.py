"""Stop a command that keeps what it has done, and say whether the same command goes on with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from beamsplit.jobs.running import KnownLine, LineResult, ListCounts, Windows

__all__ = ["Kept", "Tally", "says_what_is_kept"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 128 + signal.SIGINT
_AGAIN = 2.0  # seconds after a signal in which others are passed over


class Kept(Protocol):
    """Results that another run can go on with."""

    unit: str
    """What is lost at most, and how to lose less."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""

    @property
    def replaces(self) -> bool:
        """Whether it was begun by force."""


class Count(Protocol):
    """How far a run is; as a text, for people."""

    @property
    def done(self) -> int:
        """How many lines are done."""


@dataclass
class Tally:
    """How many lines are done, and how many of them have an error."""

    total: int | None = None
    """How many lines there are, if that is known."""
    earlier: Windows | None = None
    """What an earlier run has done, of the lines that were read so far."""
    lists: ListCounts | None = None
    """How many lists fall short, those of an earlier run included."""
    own_done: int = 0
    own_refused: int = 0

    def add(self, results: Sequence[LineResult]) -> None:
        """Count results."""
        self.own_done += len(results)
        self.own_refused += sum(each.refused for each in results)
        for each in results:
            self._add_list(each.result, each.blank)

    def counting_lists(self, lines: Iterable[KnownLine]) -> Iterator[KnownLine]:
        """Pass lines on, and count the lists that an earlier run has found."""
        for each in lines:
            if each.result is not None:
                self._add_list(each.result, each.line.given.blank)
            yield each

    def _add_list(self, result: Mapping[str, Any], blank: bool) -> None:
        if self.lists is not None and not blank:
            self.lists.add(result)

    @property
    def done(self) -> int:
        """How many lines are done."""
        return self.own_done + (self.earlier.done if self.earlier else 0)

    @property
    def refused(self) -> int:
        """How many of them have an error."""
        return self.own_refused + (self.earlier.refused if self.earlier else 0)

    def __str__(self) -> str:
        return f"{self.done} {'' if self.total is None else f'of {self.total} '}lines done"


class _Stopped(KeyboardInterrupt):
    """A signal has come."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@contextmanager
def says_what_is_kept(part: Kept | None, tally: Count) -> Iterator[None]:
    """Say what is kept if the block is stopped by a signal or by an error. Without a part, nothing is."""
    with _signals_stop():
        try:
            yield
        except KeyboardInterrupt as stop:
            click.echo(f"beamsplit: stopped{_kept(part, tally)}", err=True)
            raise click.exceptions.Exit(getattr(stop, "exit_code", _INTERRUPTED)) from stop
        except Exception:
            if part is not None and tally.done:
                click.echo(f"beamsplit: stopped{_kept(part, tally)}", err=True)
            raise


def _kept(part: Kept | None, tally: Count) -> str:
    if part is None:
        return "; nothing is kept (with --out, the same command would go on)"
    if part.is_empty:
        return f" before {part.unit}"
    count = f" with {tally}" if tally.done else ""
    command = "the same command without --force" if part.replaces else "the same command"
    return f"{count}; {command} goes on with what it has"


@contextmanager
def _signals_stop() -> Iterator[None]:
    """Raise where signals ask the program to end.

    What comes right after, such as the second signal of `timeout`, must not disturb the clearing up. A later
    one is raised again: a model may have caught the first. A signal that is ignored stays so, as in a job
    that a shell has put into the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {
        number: handler
        for number in _SIGNALS
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    raised = float("-inf")

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal raised
        if (now := monotonic()) - raised > _AGAIN:
            raised = now
            raise _Stopped(number)

    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
