"""Show progress to people, always on stderr: a bar on a terminal, a line now and then in a file.

A notebook has one line that is written over. Short jobs print no lines: the first comes after 20 seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import rich.progress

__all__ = ["Bar", "Progress", "describe"]

_EVERY = 20.0  # seconds between lines that stay
_SHORT = 1.0  # seconds before a brief bar is drawn
_IN_PLACE = 0.5  # seconds between lines that are written over


class _View(Protocol):
    """What people see of a bar."""

    def update(self, bar: Bar) -> None: ...
    def note(self, bar: Bar, text: str) -> None: ...
    def close(self, bar: Bar) -> None: ...


@dataclass
class Bar:
    """How far a job has come."""

    name: str
    total: int | None
    """How many steps there are; None if nobody knows."""
    done: int
    view: _View | None
    """What people see of it, if anything."""
    before: int = field(init=False)
    """Steps that were done before it began."""
    begun: float = field(init=False)
    """When it began."""

    def __post_init__(self) -> None:
        self.before, self.begun = self.done, monotonic()

    def advance(self, steps: int = 1) -> None:
        """Move so many steps further."""
        self.done += steps
        self._update()

    def complete(self) -> None:
        """Say that no step is left: the job took fewer than it might have taken."""
        self.total = self.done
        self._update()

    def note(self, text: str) -> None:
        """Show a text beside the bar; where there is no bar, print it as a line."""
        if self.view is not None:
            self.view.note(self, text)

    def _update(self) -> None:
        if self.view is not None:
            self.view.update(self)

    def __str__(self) -> str:
        steps, seconds = self.done - self.before, monotonic() - self.begun
        return f"{self.name}: {describe(self.done, self.total, steps, seconds)}"


def describe(done: int, total: int | None, steps: int, seconds: float) -> str:
    """Return how far a job is, how fast it was for the last `steps`, and how long it will take.

    >>> describe(96, 200, 90, 60.0)
    '96 of 200 (48%), 1.5 a second, 1 min left'
    >>> describe(96, None, 96, 960.0)
    '96, 0.1 a second'
    """
    rate = steps / seconds if seconds > 0 else 0.0
    of = "" if total is None else f" of {total} ({done * 100 // max(total, 1)}%)"
    pace = f", {rate:.2g} a second" if 0 < rate < 10 else f", {rate:.0f} a second" if rate else ""
    left = f", {_duration((total - done) / rate)} left" if total is not None and rate else ""
    return f"{done}{of}{pace}{left}"


def _duration(seconds: float) -> str:
    """Return a length of time for people.

    >>> [_duration(each) for each in (5.4, 70, 4000, 400000)]
    ['5 s', '1 min', '1 h 6 min', '111 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(int(seconds) // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours} h"


@dataclass(frozen=True)
class Progress:
    """Progress of a job, by its name."""

    name: str

    @contextmanager
    def bar(
        self, total: int | None, done: int = 0, *, shown: bool = True, brief: bool = False
    ) -> Iterator[Bar]:
        """Show a bar of so many steps for the length of a block; nothing unless `shown`.

        A `brief` bar is for steps that are quick, and is drawn only if there is a second's worth of them.
        """
        view = _view(self.name, total, done, brief) if shown else None
        bar = Bar(self.name, total, done, view)
        try:
            yield bar
        finally:
            if view is not None:
                view.close(bar)


def _view(name: str, total: int | None, done: int, brief: bool) -> _View:
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        return _LineInPlace()
    return _RichBar(console, name, total, done, brief) if console.is_terminal else _Lines()


class _RichBar:
    """A bar on a terminal."""

    def __init__(
        self, console: rich.console.Console, name: str, total: int | None, done: int, brief: bool
    ) -> None:
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
        )
        # What is printed meanwhile goes above the bar, but only if both are on the terminal.
        to_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._shown = progress.Progress(*columns, console=console, redirect_stdout=to_terminal)
        self._task = self._shown.add_task(name, total=total, completed=done, note="")
        self._is_drawn = False
        if not brief:
            self._draw()

    def _draw(self) -> None:
        self._is_drawn = True
        self._shown.start()

    def update(self, bar: Bar) -> None:
        if not self._is_drawn and monotonic() - bar.begun >= _SHORT:
            self._draw()
        self._shown.update(self._task, completed=bar.done, total=bar.total)

    def note(self, bar: Bar, text: str) -> None:
        self._shown.update(self._task, note=text)

    def close(self, bar: Bar) -> None:
        if self._is_drawn:
            self._shown.stop()


@dataclass
class _Clock:
    """When the last line was printed, by whichever bar: many short bars print no more than a long one."""

    printed: float = 0.0
    seen: float = float("-inf")

    def begin(self) -> None:
        """Wait the whole time for the first line, unless a bar has just ended."""
        now = monotonic()
        if now - self.seen > _EVERY:
            self.printed = now
        self.seen = now

    def is_due(self) -> bool:
        """Return whether it is time for another line."""
        self.seen = monotonic()
        if self.seen - self.printed < _EVERY:
            return False
        self.printed = self.seen
        return True


_CLOCK = _Clock()


class _Lines:
    """A line now and then."""

    def __init__(self) -> None:
        _CLOCK.begin()

    def update(self, bar: Bar) -> None:
        if _CLOCK.is_due():
            _print(str(bar))

    def note(self, bar: Bar, text: str) -> None:
        _print(f"{bar.name}: {text}")

    def close(self, bar: Bar) -> None:
        pass


class _LineInPlace:
    """One line, written over again and again, where there is no terminal to draw on but people watch."""

    def __init__(self) -> None:
        self._printed = float("-inf")
        self._width = 0

    def update(self, bar: Bar) -> None:
        if monotonic() - self._printed >= _IN_PLACE:
            self._write(str(bar))

    def note(self, bar: Bar, text: str) -> None:
        self._write(f"{bar} {text}")

    def close(self, bar: Bar) -> None:
        self._write(str(bar))
        _print("")

    def _write(self, text: str) -> None:
        self._printed = monotonic()
        _print(f"\r{text:<{self._width}}", end="")
        self._width = len(text)


def _print(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)
