"""Decode inputs by several strategies, so that their lists can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from beamsplit import checks
from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import chunks, map_or_errors, try_in_batches
from beamsplit.jobs.lines import Input, InputKind
from beamsplit.model import StepModel
from beamsplit.ordering import reorder
from beamsplit.search.plan import Strategy
from beamsplit.selecting import choose
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec

__all__ = ["PreparedSearch", "Searcher", "batch_size_of", "kind_of_inputs", "rows_of", "without_name"]

_OPERATIONS = 10**12  # of a batch on a CPU, which take some five to thirty seconds


def kind_of_inputs(model: object) -> InputKind:
    """Return what the inputs of a model are."""
    if callable(getattr(model, "features", None)):
        return "pictures"
    reads = getattr(model, "kind", None) == "translator" or hasattr(model, "module")
    return "texts" if reads else "anything"


def rows_of(strategy: Strategy) -> int:
    """Return how many beams an input has."""
    plan = strategy.plan()
    return plan.groups * plan.beams_per_group


def batch_size_of(model: object, rows: int, max_length: int, most: int) -> int:
    """Return how many inputs of so many beams to decode at once: `most`, or fewer if that would be slow.

    A large language model on a CPU takes minutes for many inputs, which are lost if it is stopped.
    """
    module = getattr(model, "module", None)
    if not isinstance(module, nn.Module):
        return most
    weights = list(module.parameters())
    if any(each.device.type != "cpu" for each in weights):
        return most
    operations: int = 2 * sum(each.numel() for each in weights) * rows * max_length
    fewer = max(1, min(most, _OPERATIONS // operations))
    return most if fewer == most else 1 << fewer.bit_length() - 1  # shards of such batches are alike


class PreparedSearch(NamedTuple):
    """A strategy made for a model, and the model that it decodes, which may be a guided one."""

    spec: StrategySpec
    model: StepModel
    strategy: Strategy

    @property
    def rows(self) -> int:
        """How many beams an input has."""
        return rows_of(self.strategy)


@dataclass(frozen=True)
class Searcher:
    """A model, and the strategies by which it is decoded."""

    model: StepModel
    specs: tuple[StrategySpec, ...]
    options: dict[str, Any]
    """Options of `decode`."""
    seed: int = 0
    order: str = "log-prob"
    """What its lists are ordered by, see `beamsplit.ordering`, or "length-penalty X"; but see `order_of`."""
    reordered: bool = False
    """Whether lists have to be put into that order, since the search gives them another."""
    selected: tuple[int, str] | None = None
    """How many outputs of a list to choose, and how; None: all. See `beamsplit.selecting`."""
    progress: bool = False
    """Whether to show the steps of each batch."""
    searches: list[PreparedSearch] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        for spec in self.specs:
            search = PreparedSearch(spec, spec.guide(self.model), spec.make(self.model))
            # Raises what would be raised later.
            decode(search.model, [], search.strategy, **self.options_of(spec))
            self.searches.append(search)

    @property
    def takes(self) -> InputKind:
        """What its inputs are."""
        return kind_of_inputs(self.model)

    @property
    def description(self) -> dict[str, Any]:
        """What its lists depend on, beside the model, for a file."""
        options = {name: repr(value) for name, value in self.options.items()}
        order = {"order": self.order} if self.reordered else {}
        chosen = {"selected": self.selected} if self.selected else {}
        methods = [spec.description for spec in self.specs]
        return {"methods": methods, "seed": self.seed, **options, **order, **chosen}

    @property
    def asked(self) -> int:
        """How many outputs are asked for of each input, by the first of its strategies."""
        return self.specs[0].asked if self.selected is None else self.selected[0]

    def options_of(self, spec: StrategySpec) -> dict[str, Any]:
        """Return the options of `decode` for one of the strategies."""
        return {**self.options, **spec.decode_options}

    def order_of(self, spec: StrategySpec) -> str:
        """Return the order of the lists of one of the strategies: "choice" if it is the strategy's own."""
        return "choice" if STRATEGIES[spec.strategy].chooses and not self.reordered else self.order

    def finish(self, found: Hypotheses) -> Hypotheses:
        """Return a list of the search in the order that was asked for, or those that are chosen of it."""
        ordered = _in_order(found, self.order) if self.reordered else found
        if self.selected is None:
            return ordered
        count, by = self.selected
        return ordered.only(sorted(choose(ordered, count, by=by)), asked=count)

    def batch_size(self, most: int) -> int:
        """Return how many inputs to decode at once where nobody says: see `batch_size_of`."""
        return batch_size_of(self.model, self.rows, self.options["max_length"], most)

    @property
    def rows(self) -> int:
        """How many beams an input has, in all searches."""
        return sum(search.rows for search in self.searches)

    def search(
        self, inputs: Sequence[Input], numbers: Sequence[int], batch_size: int
    ) -> list[list[Hypotheses] | ArgumentError]:
        """Return for each input one list a strategy, or the error by which it is refused.

        A blank line has no lists. `numbers` are the places of these inputs among all of the job.
        """
        usable = [index for index, each in enumerate(inputs) if each.decodable]
        given, own_numbers = [inputs[index] for index in usable], [numbers[index] for index in usable]
        found = dict(zip(usable, self._search(given, own_numbers, batch_size), strict=True))
        return [found[index] if index in found else _unusable(each) for index, each in enumerate(inputs)]

    def _search(
        self, inputs: Sequence[Input], numbers: Sequence[int], batch_size: int
    ) -> list[list[Hypotheses] | ArgumentError]:
        parts = chunks(inputs, batch_size)
        values = [value for part in parts for value in map_or_errors(self.prepare, part)]
        taken = [index for index, value in enumerate(values) if not isinstance(value, ArgumentError)]
        lists = [self._lists(search, values, numbers, taken, batch_size) for search in self.searches]
        return [
            without_name(value, given.value)
            if isinstance(value, ArgumentError)
            else _all_or_error([each[index] for each in lists], given)
            for index, (value, given) in enumerate(zip(values, inputs, strict=True))
        ]

    def prepare(self, inputs: Sequence[Input]) -> Any:
        """Return what the model takes. Pictures are looked at once for all strategies."""
        values = [each.value for each in inputs]
        model: Any = self.model
        return model.features(values) if self._looks_at_pictures else values

    @property
    def _looks_at_pictures(self) -> bool:
        return self.takes == "pictures"

    def _lists(
        self,
        search: PreparedSearch,
        values: Sequence[Any],
        numbers: Sequence[int],
        taken: Sequence[int],
        batch_size: int,
    ) -> dict[int, Hypotheses | ArgumentError]:
        """Decode the inputs at the places that are taken; return their lists by place."""
        inputs: Any = [values[index] for index in taken]
        lists = try_in_batches(
            search.model,
            torch.stack(inputs) if inputs and self._looks_at_pictures else inputs,
            search.strategy,
            batch_size=batch_size,
            seed=self.seed,
            numbers=[numbers[index] for index in taken],
            progress=self.progress,
            **self.options_of(search.spec),
        )
        ordered = (each if isinstance(each, ArgumentError) else self.finish(each) for each in lists)
        return dict(zip(taken, ordered, strict=True))


def _in_order(found: Hypotheses, order: str) -> Hypotheses:
    name, _, power = order.partition(" ")
    if name != "length-penalty":
        return reorder(found, order)
    return found.sorted_by([each.log_prob / max(len(each.tokens), 1) ** float(power) for each in found])


def _unusable(given: Input) -> list[Hypotheses] | ArgumentError:
    return ArgumentError(given.fault) if given.fault else []


def _all_or_error(
    lists: Sequence[Hypotheses | ArgumentError], given: Input
) -> list[Hypotheses] | ArgumentError:
    found = []
    for each in lists:
        if isinstance(each, ArgumentError):
            return without_name(each, given.value)
        found.append(each)
    return found


def without_name(error: ArgumentError, value: Any) -> ArgumentError:
    """Return the error without the name that the model has for its only input: people know it by another."""
    text, shown = str(error), checks.short_repr(value)
    for prefix in ("text 0 ", "input 0 ", "pictures[0] ", f"{value!r} ", f"is {shown}, "):
        text = text.removeprefix(prefix)
    return ArgumentError(text)
