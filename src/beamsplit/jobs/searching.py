"""Decoding of what a command was given: in batches, and one bad input costs no other its result."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from beamsplit.cli.inputs import Input
from beamsplit.cli.lines import Kind
from beamsplit.cli.search_options import SearchOptions
from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError, BeamsplitError, ModelError
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel
from beamsplit.models import Translator
from beamsplit.models.pictures import PictureModel
from beamsplit.recording import Recording, record
from beamsplit.strategies.defaults import defaults_of
from beamsplit.strategies.spec import StrategySpec

__all__ = ["Searcher", "failing", "in_batches"]

_Each = TypeVar("_Each")


@dataclass(frozen=True)
class Searcher:
    """A model, and the strategies by which it is decoded."""

    model: StepModel
    specs: tuple[StrategySpec, ...]
    limits: dict[str, Any]
    seed: int = 0
    _searches: list[tuple[StepModel, Any, bool]] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        for spec in self.specs:  # what is refused is refused before anything is decoded
            model, strategy = spec.guide(self.model), spec.make(self.model)
            decode(model, [], strategy, **self.limits)
            self._searches.append((model, strategy, spec.unique))

    @classmethod
    def of(cls, model: StepModel, search: SearchOptions, compared: bool) -> Searcher:
        """As asked; where that is silent, as suits the model."""
        defaults = defaults_of(model)
        specs = search.specs(defaults.widths, compared=compared)
        return cls(model, specs, search.limits(defaults.max_length), search.seed)

    @property
    def takes(self) -> Kind:
        """What its inputs are."""
        if isinstance(self.model, PictureModel):
            return "pictures"
        return "texts" if isinstance(self.model, Translator) or hasattr(self.model, "module") else "anything"

    @property
    def about(self) -> dict[str, Any]:
        """What its lists depend on, beside the model; for a file."""
        limits = {name: repr(value) for name, value in self.limits.items()}
        return {"methods": [spec.description for spec in self.specs], "seed": self.seed, **limits}

    def search(
        self, inputs: Sequence[Input], numbers: Sequence[int]
    ) -> list[list[Hypotheses] | ArgumentError]:
        """For each input one list a strategy, or why there is none; `numbers` are their places among all."""
        try:
            return list(self._lists(inputs, numbers))
        except ArgumentError as error:
            if len(inputs) == 1:
                return [_about_it(error, inputs[0])]
        return [self.search([each], [number])[0] for each, number in zip(inputs, numbers, strict=True)]

    def record(self, given: Input) -> list[Recording]:
        """One recording a strategy."""
        inputs = self._prepared([given])
        return [
            record(model, inputs, strategy, title=spec.title, seed=[self.seed], unique=unique, **self.limits)[
                0
            ]
            for spec, (model, strategy, unique) in zip(self.specs, self._searches, strict=True)
        ]

    def _lists(self, inputs: Sequence[Input], numbers: Sequence[int]) -> Iterator[list[Hypotheses]]:
        prepared = self._prepared(inputs)
        # A seed of an input's own: what it gets must not depend on its batch.
        seeds = [self.seed + number for number in numbers]
        lists = [
            decode(model, prepared, strategy, seed=seeds, unique=unique, **self.limits)
            for model, strategy, unique in self._searches
        ]
        return (list(each) for each in zip(*lists, strict=True))

    def _prepared(self, inputs: Sequence[Input]) -> Any:
        """Pictures are looked at once for all strategies."""
        values = [each.value for each in inputs]
        return self.model.features(values) if isinstance(self.model, PictureModel) else values


def _about_it(error: ArgumentError, given: Input) -> ArgumentError:
    """What a model says of the first of its inputs, where there is but one, and its name is known."""
    said = str(error)
    for prefix in ("text 0 ", "pictures[0] ", f"{given.value!r} "):
        said = said.removeprefix(prefix)
    return ArgumentError(said)


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Models of others may raise anything: one line says which, what and where."""
    try:
        yield
    except (BeamsplitError, ImportError, OSError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        if ":" not in name:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        where = f"{Path(place.filename).name}, line {place.lineno}"
        raise ModelError(
            f"{name} failed: {reason[:200]} ({where}); its inputs are a list of texts"
        ) from error


def in_batches(items: Iterable[_Each], size: int) -> Iterator[list[_Each]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
