"""A small network learns from people and from a few large ones, which are thrown away afterwards.

Large networks translate and describe better, but do not ship. Averaged over several, their opinion of what
may come next is smoother than the one thing a person happened to say, so a small network that imitates both
comes out better than from the data alone, and with more alternatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from beamsplit.progress import Progress
from beamsplit.training.loop import Examples, Recipe, fit, imitation

__all__ = ["Apprenticeship", "Stage"]


N = TypeVar("N", bound=Any)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A network's sizes and how it is trained."""

    sizes: Any
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Apprenticeship(Generic[N]):
    """A student and its teachers; what is under way lies in the folder `work`."""

    name: str
    build: Callable[[Stage], N]
    load: Callable[[Path], N]
    examples: Callable[[Recipe, int], Examples]  # with this seed
    student: Stage
    teacher: Stage
    teachers: int
    smoothing: float
    seed: int
    device: torch.device
    work: Path

    def train_teacher(self, number: int) -> None:
        """Teacher `number`; one that is complete is only read again. Several processes may each train one."""
        path = self._teacher(number)
        name = f"{self.name}'s teacher {number}"
        self._train(name, self.teacher, self.seed + 1 + number, path.stem).save(path)

    def train(self) -> N:
        """The student, after those of its teachers that are missing."""
        for number in range(self.teachers):
            self.train_teacher(number)
        teachers = [self.load(self._teacher(number)).to(self.device) for number in range(self.teachers)]
        return self._train(self.name, self.student, self.seed, "student", teachers)

    def _teacher(self, number: int) -> Path:
        return self.work / f"teacher-{number}.safetensors"

    def _train(self, name: str, stage: Stage, seed: int, stem: str, teachers: list[Any] | None = None) -> N:
        torch.manual_seed(seed)
        model = self.build(stage)
        fit(
            model,
            self.examples(stage.recipe, seed),
            stage.recipe,
            loss=imitation(smoothing=self.smoothing, teachers=teachers or ()),
            state=self.work / f"{stem}.state",
            seed=seed,
            device=self.device,
            progress=Progress(name),
            about={"smoothing": self.smoothing, "teachers": len(teachers or ())},
        )
        return model
