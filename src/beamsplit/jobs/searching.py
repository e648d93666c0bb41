"""Decode inputs by several strategies, so that their lists can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import chunks, map_or_errors, try_in_batches
from beamsplit.jobs.lines import Input, InputKind
from beamsplit.model import StepModel
from beamsplit.models import Translator
from beamsplit.models.pictures import PictureModel
from beamsplit.recording import Recording, record
from beamsplit.search.plan import Strategy
from beamsplit.strategies.spec import StrategySpec

__all__ = ["Searcher"]


class _Search(NamedTuple):
    model: StepModel
    strategy: Strategy
    unique: bool


@dataclass(frozen=True)
class Searcher:
    """A model, and the strategies by which it is decoded."""

    model: StepModel
    specs: tuple[StrategySpec, ...]
    options: dict[str, Any]
    """Options of `decode`."""
    seed: int = 0
    _searches: list[_Search] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        for spec in self.specs:
            search = _Search(spec.guide(self.model), spec.make(self.model), spec.unique)
            decode(search.model, [], search.strategy, **self.options)  # raises what would be raised later
            self._searches.append(search)

    @property
    def takes(self) -> InputKind:
        """What its inputs are."""
        if isinstance(self.model, PictureModel):
            return "pictures"
        return "texts" if isinstance(self.model, Translator) or hasattr(self.model, "module") else "anything"

    @property
    def description(self) -> dict[str, Any]:
        """What its lists depend on, beside the model, for a file."""
        options = {name: repr(value) for name, value in self.options.items()}
        return {"methods": [spec.description for spec in self.specs], "seed": self.seed, **options}

    def search(
        self, inputs: Sequence[Input], numbers: Sequence[int], batch_size: int
    ) -> list[list[Hypotheses] | ArgumentError]:
        """Return for each input one list a strategy, or the error by which the model refuses it.

        `numbers` are the places of these inputs among all of the job.
        """
        parts = chunks(inputs, batch_size)
        values = [value for part in parts for value in map_or_errors(self._prepared, part)]
        taken = [index for index, value in enumerate(values) if not isinstance(value, ArgumentError)]
        lists = [self._lists(search, values, numbers, taken, batch_size) for search in self._searches]
        return [
            _renamed(value, given)
            if isinstance(value, ArgumentError)
            else _all_or_error([each[index] for each in lists], given)
            for index, (value, given) in enumerate(zip(values, inputs, strict=True))
        ]

    def record(self, given: Input) -> list[Recording]:
        """Return one recording a strategy."""
        values = self._prepared([given])
        return [
            record(
                search.model,
                values,
                search.strategy,
                title=spec.title,
                seed=self.seed,
                unique=search.unique,
                **self.options,
            )[0]
            for spec, search in zip(self.specs, self._searches, strict=True)
        ]

    def _lists(
        self,
        search: _Search,
        values: Sequence[Any],
        numbers: Sequence[int],
        taken: Sequence[int],
        batch_size: int,
    ) -> dict[int, Hypotheses | ArgumentError]:
        """Decode the inputs at the places that are taken; return their lists by place."""
        inputs: Any = [values[index] for index in taken]
        lists = try_in_batches(
            search.model,
            torch.stack(inputs) if inputs and isinstance(self.model, PictureModel) else inputs,
            search.strategy,
            batch_size=batch_size,
            seed=self.seed,
            numbers=[numbers[index] for index in taken],
            unique=search.unique,
            **self.options,
        )
        return dict(zip(taken, lists, strict=True))

    def _prepared(self, inputs: Sequence[Input]) -> Any:
        """Return what the model takes. Pictures are looked at once for all strategies."""
        values = [each.value for each in inputs]
        return self.model.features(values) if isinstance(self.model, PictureModel) else values


def _all_or_error(
    lists: Sequence[Hypotheses | ArgumentError], given: Input
) -> list[Hypotheses] | ArgumentError:
    found = []
    for each in lists:
        if isinstance(each, ArgumentError):
            return _renamed(each, given)
        found.append(each)
    return found


def _renamed(error: ArgumentError, given: Input) -> ArgumentError:
    """Return the error without the name that the model has for its only input: people know it by another."""
    text = str(error)
    for prefix in ("text 0 ", "pictures[0] ", f"{given.value!r} "):
        text = text.removeprefix(prefix)
    return ArgumentError(text)
