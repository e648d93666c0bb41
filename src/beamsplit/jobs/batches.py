"""Decode in batches, with results that do not depend on the batches.

There is one rule for seeds: the noise of an input is a function of the seed and of the input's number. The
number is the input's place among all inputs of the job, unless the job gives numbers of its own. So
`decode_in_batches(..., seed=7)` returns what `decode(..., seed=7)` would, whatever the batches are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, Unpack

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.decoding import decode
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.messages import text_length
from beamsplit.model import StepModel
from beamsplit.options import DecodeOptions, OptionArguments, Stop, shows_options
from beamsplit.progress import Progress
from beamsplit.search.plan import Strategy
from beamsplit.strategies.defaults import BATCH_SIZE

__all__ = ["OnBatch", "by_length", "chunks", "decode_in_batches", "map_or_errors", "try_in_batches"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

OnBatch = Callable[[Sequence[int], Sequence[Hypotheses]], None]
"""What is called after each batch: with the places of its inputs among all, and with their lists."""


@shows_options
def decode_in_batches(
    model: StepModel,
    inputs: Sequence[Any] | Tensor,
    strategy: Strategy,
    *,
    batch_size: int = BATCH_SIZE,
    on_batch: OnBatch | None = None,
    progress: bool = False,
    **options: Unpack[OptionArguments],
) -> Results:
    """Decode more inputs than there is memory for at once; return what `decode` would, in the same order.

    Texts of like length go into one batch, since a batch takes as long as its longest. `on_batch` is called
    after each, to keep what is found. `progress` shows on stderr how many inputs are done. The other options
    are those of `decode`.
    """
    job = _Job.of(model, inputs, strategy, options)
    found: dict[int, Hypotheses] = {}
    shown = checks.true_or_false("progress", progress)
    with Progress("decode").bar(len(job.seeds), shown=shown) as bar:
        for indices in job.batches(batch_size):
            lists = job.decode(indices)
            found.update(zip(indices, lists, strict=True))
            if on_batch is not None:
                on_batch(indices, lists)
            bar.advance(len(indices))
    return Results(found[index] for index in range(len(found)))


@shows_options
def try_in_batches(
    model: StepModel,
    inputs: Sequence[Any] | Tensor,
    strategy: Strategy,
    *,
    batch_size: int = BATCH_SIZE,
    progress: bool = False,
    **options: Unpack[OptionArguments],
) -> list[Hypotheses | ArgumentError]:
    """Do what `decode_in_batches` does, but return an error in the place of an input that is refused.

    `progress` shows the steps of each batch.
    """
    job = _Job.of(model, inputs, strategy, options)
    found: dict[int, Hypotheses | ArgumentError] = {}
    for indices in job.batches(batch_size):
        work = functools.partial(job.decode, progress=progress)
        found.update(zip(indices, map_or_errors(work, indices), strict=True))
    return [found[index] for index in range(len(found))]


def map_or_errors(
    work: Callable[[Sequence[_Item]], Iterable[_Result]], items: Sequence[_Item]
) -> list[_Result | ArgumentError]:
    """Do the work for all items at once; if that is refused, for one at a time, and return errors for some.

    >>> map_or_errors(lambda items: [1 / item for item in items], [1, 2, 4])
    [1.0, 0.5, 0.25]
    """
    try:
        return list(work(items))
    except ArgumentError as error:
        if len(items) == 1:
            return [error]
    return [map_or_errors(work, [item])[0] for item in items]


def chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of this size, the last of which may be shorter.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def by_length(inputs: Iterable[Any]) -> list[int]:
    """Return the places of inputs from the shortest text to the longest; what is no text stays in order.

    >>> by_length(["ccc", "a", "bb", "d"])
    [1, 3, 2, 0]
    """
    lengths = [text_length(each) for each in inputs]
    return sorted(range(len(lengths)), key=lengths.__getitem__)


@dataclass(frozen=True)
class _Job:
    """What is to be decoded, and how; the seed and the number of each input."""

    model: StepModel
    inputs: Any
    strategy: Strategy
    options: OptionArguments
    seeds: list[tuple[int, int]]

    @classmethod
    def of(cls, model: StepModel, inputs: Any, strategy: Strategy, options: OptionArguments) -> _Job:
        """Check all that can be checked before anything is decoded."""
        if isinstance(inputs, str | bytes) or not (isinstance(inputs, Sequence) or _is_array(inputs)):
            raise ArgumentError(f"inputs must be a list or a tensor, not {checks.short_repr(inputs)}")
        seeds = DecodeOptions.of(options).input_seeds(len(inputs))
        rest: Any = {name: value for name, value in options.items() if name not in ("seed", "numbers")}
        decode(model, [], strategy, **rest)
        return cls(model, inputs, strategy, rest, seeds)

    def batches(self, size: int) -> Iterator[list[int]]:
        """Yield the places of the inputs of each batch."""
        return chunks(by_length(self.inputs), checks.at_least("batch_size", size, 1))

    def decode(self, indices: Sequence[int], *, progress: bool = False) -> Results:
        """Decode the inputs at these places."""
        array, options = _is_array(self.inputs), self.options.copy()
        part = self.inputs[list(indices)] if array else [self.inputs[index] for index in indices]
        options["seed"] = [self.seeds[index][0] for index in indices]
        options["numbers"] = [self.seeds[index][1] for index in indices]
        if (stop := options.get("stop")) is not None:
            options["stop"] = _stop_in_batch(stop, indices)
        return decode(self.model, part, self.strategy, progress=progress, **options)


def _is_array(inputs: Any) -> bool:
    """Return whether this is a tensor or an array, of which several rows can be taken at once."""
    return hasattr(inputs, "shape") and hasattr(inputs, "__getitem__")


def _stop_in_batch(stop: Stop, indices: Sequence[int]) -> Stop:
    """Tell the rule the places of inputs among all, where the search tells those in the batch."""

    def stop_in_batch(inputs: Tensor, tokens: Tensor) -> Tensor:
        return stop(torch.tensor(indices, device=inputs.device)[inputs], tokens)

    return stop_in_batch
