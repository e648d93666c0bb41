"""Show the progress of a training: steps, and the losses of the last epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from beamsplit.progress import Bar, Progress

__all__ = ["TrainingBar", "TrainingProgress"]


class TrainingBar:
    """A bar with losses."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._loss = float("nan")

    def advance(self, loss: Tensor | None = None) -> None:
        """Move one step further. Reading a loss waits for the GPU, so the loop gives few."""
        if loss is not None:
            self._loss = float(loss)
        self._bar.advance()

    def epoch(self, number: int, valid_loss: float) -> None:
        """Show the losses at the end of an epoch."""
        self._bar.note(f"epoch {number}, loss {self._loss:.3f}, validation {valid_loss:.3f}")


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training, by its name."""

    name: str

    @contextmanager
    def bar(self, total: int, done: int = 0) -> Iterator[TrainingBar]:
        """Show a bar of so many steps for the length of a block."""
        with Progress(self.name).bar(total, done) as bar:
            yield TrainingBar(bar)
