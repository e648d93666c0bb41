"""Train a small network on data and on a few large networks, its teachers, which are deleted afterwards.

Large networks translate and describe better, but are too large to ship. The mean of their distributions is
smoother than the one token that the data has, so a small network that learns from both is better than one
that learns from data alone, and has more alternatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from research.training.loop import Examples, Recipe, fit, imitation
from research.training.progress import TrainingProgress

__all__ = ["Apprenticeship", "Stage"]


N = TypeVar("N", bound=Any)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The sizes of a network and the recipe of its training."""

    sizes: Any
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Apprenticeship(Generic[N]):
    """A student and its teachers; unfinished work is in the folder `work`."""

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
        """Train teacher `number`; one that is complete is only read. Several processes may each train one."""
        path = self._teacher(number)
        name = f"{self.name}'s teacher {number}"
        self._train(name, self.teacher, self.seed + 1 + number, path.stem).save(path)

    def train(self) -> N:
        """Train the teachers that are missing, then the student, and return the student."""
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
            progress=TrainingProgress(name),
            about={"smoothing": self.smoothing, "teachers": len(teachers or ())},
        )
        return model
