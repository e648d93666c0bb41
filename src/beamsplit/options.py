"""The options of a decode that are not its strategy's, written once for every entrance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.scoring import LogProb, Scorer

__all__ = ["DecodeOptions", "OptionArguments", "Stop", "shows_options"]

Stop: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Which of some outputs are complete: (inputs [n], tokens [n time]) -> bool [n]."""


class OptionArguments(TypedDict, total=False):
    """The fields of `DecodeOptions`, for type checkers to know the keyword arguments by."""

    max_length: int
    end: int | Sequence[int] | Literal["model"] | None
    min_length: int
    no_repeat_ngram: int | None
    model_temperature: float
    stop: Stop | None
    scorer: Scorer | None
    unique: bool
    return_per_group: int | None
    seed: int | Sequence[int]
    numbers: Sequence[int] | None
    list_width: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """The options of a decode that are not its strategy's; see `decode` for what they mean."""

    max_length: int
    end: int | Sequence[int] | Literal["model"] | None = "model"
    min_length: int = 0
    no_repeat_ngram: int | None = None
    model_temperature: float = 1.0
    stop: Stop | None = None
    scorer: Scorer | None = None
    unique: bool = False
    return_per_group: int | None = None
    seed: int | Sequence[int] = 0
    numbers: Sequence[int] | None = None
    list_width: int | None = None

    @classmethod
    def of(cls, arguments: OptionArguments, model_end: int | Sequence[int] | None = None) -> DecodeOptions:
        """Make options of keyword arguments. `model_end` is used unless an end is given."""
        known = {field.name: field for field in fields(cls)}
        for name in arguments:
            if name not in known:
                hint = checks.nearest(name, known, f"there are {', '.join(known)}")
                raise ArgumentError(f"there is no option {name!r}: {hint}")
        if "max_length" not in arguments:
            raise ArgumentError("max_length is missing: give the most tokens that an output may have")
        made = cls(**arguments)
        return replace(made, end=model_end) if made._names_no_end else made

    def __post_init__(self) -> None:
        checks.at_least("max_length", self.max_length, 1)
        checks.at_least("min_length", self.min_length, 0)
        if self.min_length > self.max_length:
            raise ArgumentError(
                f"min_length={self.min_length} is more than max_length={self.max_length}: no length fits both"
            )
        object.__setattr__(self, "end", checks.materialise(self.end))
        object.__setattr__(self, "seed", checks.materialise(self.seed))
        object.__setattr__(self, "numbers", checks.materialise(self.numbers))
        object.__setattr__(self, "scorer", _checked_scorer(self.scorer))
        _ = self.ends
        if self.stop is not None and not callable(self.stop):
            raise ArgumentError(
                f"stop must be a function of (inputs, tokens), not {checks.short_repr(self.stop)}"
            )
        checks.true_or_false("unique", self.unique)
        checks.positive("model_temperature", self.model_temperature)
        for name in ("list_width", "no_repeat_ngram", "return_per_group"):
            if getattr(self, name) is not None:
                checks.at_least(name, getattr(self, name), 1)

    @property
    def ranking(self) -> Scorer:
        """The scorer that ranks hypotheses; by default, log-probability does."""
        return LogProb() if self.scorer is None else self.scorer

    @property
    def ends(self) -> list[int]:
        """The end tokens' ids; none if hypotheses end by max_length alone."""
        if self.end is None or self._names_no_end:
            return []
        if isinstance(self.end, str) or not isinstance(self.end, Iterable):
            return [checks.whole_number("end", self.end, ", several or None")]
        return [checks.whole_number(f"end[{i}]", end) for i, end in enumerate(self.end)]

    @property
    def _names_no_end(self) -> bool:
        """Whether the end is still to be asked of a model."""
        return isinstance(self.end, str) and self.end == "model"

    @property
    def ends_per_beam(self) -> int:
        """How many extensions of one beam are reckoned to be complete at most."""
        return len(self.ends) or int(self.stop is not None)

    def check_vocabulary(self, size: int) -> None:
        """Raise if an end is no token of a vocabulary of this size."""
        for end in self.ends:
            if not 0 <= end < size:
                raise ArgumentError(
                    f"end={end} is no token of the model: its vocabulary has ids 0 to {size - 1}"
                )

    def input_seeds(self, batch: int) -> list[tuple[int, int]]:
        """Return the seed and the number of each input: its noise is a function of these two.

        One seed holds for all inputs, whose numbers are their places in the batch unless they are given.
        Where every input has a seed of its own, its number is 0 unless it is given.
        """
        numbers = self._per_input("numbers", self.numbers, batch)
        if isinstance(self.seed, str) or not isinstance(self.seed, Iterable):
            seed = checks.whole_number("seed", self.seed, ", or one an input")
            return [(seed, number) for number in (range(batch) if numbers is None else numbers)]
        seeds = self._per_input("seed", self.seed, batch) or []
        return list(zip(seeds, [0] * batch if numbers is None else numbers, strict=True))

    @staticmethod
    def _per_input(name: str, values: Iterable[int] | None, batch: int) -> list[int] | None:
        if values is None:
            return None
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ArgumentError(f"{name} must be one number an input, not {checks.short_repr(values)}")
        found = [checks.whole_number(f"{name}[{i}]", value) for i, value in enumerate(values)]
        if len(found) != batch:
            way_out = "give one number, or one an input" if name == "seed" else "give one an input"
            raise ArgumentError(f"{name} has {len(found)} values for {batch} inputs: {way_out}")
        return found


def _checked_scorer(scorer: Scorer | None) -> Scorer | None:
    if scorer is not None and (isinstance(scorer, type) or not callable(getattr(scorer, "final", None))):
        raise ArgumentError(
            f"scorer must be one such as LengthNormalised(alpha=1.0), not {checks.short_repr(scorer)}"
        )
    return scorer


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shows_options(function: _Function) -> _Function:
    """Show the options one by one where a function takes them as `**options`: in `help` and in editors."""
    own = inspect.signature(function)
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(DecodeOptions)
        if field.name not in own.parameters
    ]
    function.__signature__ = own.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
    return function
