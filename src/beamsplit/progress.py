"""Show progress to people: a bar on a terminal, always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

__all__ = ["Bar", "Progress"]


class Bar:
    """A bar on a terminal; elsewhere, nothing."""

    def __init__(self, name: str, shown: rich.progress.Progress, total: int, done: int) -> None:
        self._name = name
        self._shown = shown
        self._task = shown.add_task(name, total=total, completed=done, note="")

    def advance(self, steps: int = 1) -> None:
        """Move so many steps further."""
        self._shown.advance(self._task, steps)

    def note(self, text: str) -> None:
        """Show a text beside the bar; where there is no bar, print it as a line."""
        self._shown.update(self._task, note=text)
        if self._shown.disable:
            print(f"{self._name}: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Progress:
    """Progress of a job, by its name."""

    name: str

    @contextmanager
    def bar(self, total: int, done: int = 0) -> Iterator[Bar]:
        """Show a bar of so many steps for the length of a block."""
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
        )
        with progress.Progress(*columns, console=console, disable=not console.is_terminal) as shown:
            yield Bar(self.name, shown, total, done)
