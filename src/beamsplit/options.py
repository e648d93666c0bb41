"""What bounds a search, whatever its strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from beamsplit import checks, noise
from beamsplit.errors import ArgumentError
from beamsplit.scoring import LogProb, Scorer
from beamsplit.strategies.plan import Plan

__all__ = ["Limits", "Stop"]

Stop: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Which of some outputs are complete: (inputs [n], tokens [n time]) -> bool [n]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The settings of a decode that are not its strategy's."""

    max_length: int
    min_length: int
    end: int | Sequence[int] | None
    stop: Stop | None
    scorer: Scorer
    unique: bool
    return_per_group: int | None
    seed: int | Sequence[int]
    list_width: int | None

    def __post_init__(self) -> None:
        if self.min_length > self.max_length:
            raise ArgumentError(
                f"min_length={self.min_length} is more than max_length={self.max_length}: no length fits both"
            )
        _ = self.ends
        if self.stop is not None and not callable(self.stop):
            raise ArgumentError(f"stop must be a function of (inputs, tokens), not {checks.shown(self.stop)}")
        if not isinstance(self.unique, bool):
            raise ArgumentError(f"unique must be True or False, not {checks.shown(self.unique)}")
        for name in ("list_width", "return_per_group"):
            if getattr(self, name) is not None:
                checks.at_least(name, getattr(self, name), 1)

    @property
    def ends(self) -> list[int]:
        """The end tokens' ids; none if hypotheses end by max_length alone."""
        if self.end is None:
            return []
        if isinstance(self.end, str) or not isinstance(self.end, Iterable):
            return [checks.whole_number("end", self.end, ", several or None")]
        return [checks.whole_number(f"end[{i}]", end) for i, end in enumerate(self.end)]

    @property
    def ends_per_beam(self) -> int:
        """How many extensions of one beam are reckoned to be complete at most."""
        return len(self.ends) or int(self.stop is not None)

    def check_strategy(self, name: str, plan: Plan, kept: int) -> None:
        """Raise if a strategy that keeps so many hypotheses a group cannot work within these limits."""
        if self.return_per_group is not None and self.return_per_group > kept:
            raise ArgumentError(
                f"return_per_group={self.return_per_group}, but {name} keeps {kept} a group: ask for no more"
            )
        if plan.rule.normalised and not isinstance(self.scorer, LogProb):
            raise ArgumentError(
                f"{name} samples sequences by log-probability, which {type(self.scorer).__name__} would "
                "change: leave scorer out and rescore the result"
            )

    def check_vocabulary(self, size: int) -> None:
        for end in self.ends:
            if not 0 <= end < size:
                raise ArgumentError(
                    f"end={end} is no token of the model: its vocabulary has ids 0 to {size - 1}"
                )

    def seeds(self, batch: int, device: torch.device) -> Tensor:
        """[batch] a number for each input: its seed, or the one seed and its place in the batch."""
        if isinstance(self.seed, str) or not isinstance(self.seed, Iterable):
            seed = checks.whole_number("seed", self.seed, ", or one an input")
            return noise.input_keys([seed] * batch, device) + torch.arange(batch, device=device)
        seeds = [checks.whole_number(f"seed[{i}]", seed) for i, seed in enumerate(self.seed)]
        if len(seeds) != batch:
            raise ArgumentError(
                f"seed has {len(seeds)} values for {batch} inputs: give one number, or one an input"
            )
        return noise.input_keys(seeds, device)
