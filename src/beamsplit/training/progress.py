"""Progress for people: a bar on a terminal, a line an epoch elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

__all__ = ["Bar", "Progress"]


class Bar(Protocol):
    def advance(self, loss: Tensor | None) -> None: ...
    def epoch(self, number: int, valid_loss: float) -> None: ...


@dataclass(frozen=True)
class Progress:
    """What is under way, by name."""

    name: str

    @contextmanager
    def bar(self, total: int, done: int) -> Iterator[Bar]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
        )
        with RichProgress(*columns, console=console, disable=not console.is_terminal) as shown:
            task = shown.add_task(self.name, total=total, completed=done, losses="")

            class _Bar:
                loss = float("nan")

                def advance(self, loss: Tensor | None) -> None:
                    # Reading a loss waits for the GPU, so the loop hands over few.
                    if loss is not None:
                        self.loss = float(loss)
                    shown.advance(task)

                def epoch(self, number: int, valid_loss: float) -> None:
                    shown.update(task, losses=f"loss {self.loss:.3f}, validation {valid_loss:.3f}")
                    if not console.is_terminal:
                        print(
                            f"{self_name}: epoch {number}, loss {self.loss:.3f}, validation {valid_loss:.3f}",
                            file=sys.stderr,
                            flush=True,
                        )

            self_name = self.name
            yield _Bar()
