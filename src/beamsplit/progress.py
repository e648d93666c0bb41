"""Progress for people: a bar on a terminal, a line an epoch elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    import rich.progress

__all__ = ["Bar", "Progress"]


class Bar:
    """How far something is."""

    def __init__(self, name: str, shown: rich.progress.Progress, total: int, done: int) -> None:
        self._name = name
        self._shown = shown
        self._task = shown.add_task(name, total=total, completed=done, losses="")
        self._loss = float("nan")

    def advance(self, loss: Tensor | None = None) -> None:
        """A step further. Reading a loss waits for the GPU, so the loop hands over few."""
        if loss is not None:
            self._loss = float(loss)
        self._shown.advance(self._task)

    def epoch(self, number: int, valid_loss: float) -> None:
        losses = f"loss {self._loss:.3f}, validation {valid_loss:.3f}"
        self._shown.update(self._task, losses=losses)
        if self._shown.disable:
            print(f"{self._name}: epoch {number}, {losses}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Progress:
    """What is under way, by name."""

    name: str

    @contextmanager
    def bar(self, total: int, done: int = 0) -> Iterator[Bar]:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[losses]}"),
        )
        with progress.Progress(*columns, console=console, disable=not console.is_terminal) as shown:
            yield Bar(self.name, shown, total, done)
