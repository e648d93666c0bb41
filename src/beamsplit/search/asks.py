"""The requests of a search. It does no I/O of its own: it yields these, and is sent the answers.

    Start(room)               -> the model's first answer, one row an input
    Advance(tokens, parents)  -> its answer after these tokens, one row a token
    Widen(rows, width)        -> longer candidate lists for some rows of the last answer
    Keep(rows)                -> nothing: the states of these rows are kept for a Recall
    Recall(rows, sources)     -> whether states that were kept are the model's last ones from now on
    Forget(before)            -> nothing: states kept before this one are not needed any more
    Draw(rows, prefixes, how) -> chunks that a model draws by itself, a list for each prefix
    Fix(batch, room, device)  -> a step of a fixed number of rows, or None if the model has none
    Step(...)                 -> nothing: the step is done, for whoever watches

`beamsplit.search.drivers` has the two loops that answer, a synchronous and an asynchronous one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from beamsplit.model import (
    Drawing,
    Room,
    StepModel,
    WideningModel,
    has_fixed_rows,
    keeps_earlier_steps,
    to_text_of,
    word_vectors_of,
)
from beamsplit.options import DecodeOptions
from beamsplit.search.plan import Strategy
from beamsplit.search.step import Step

__all__ = [
    "LAST",
    "Abilities",
    "Advance",
    "Ask",
    "Draw",
    "ExtensibleStrategy",
    "Fix",
    "Forget",
    "Keep",
    "Recall",
    "ResumingStrategy",
    "Search",
    "SearchingStrategy",
    "Start",
    "Widen",
]

LAST = -1  # the newest answer, as a source


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a search has to know of a model before it starts."""

    widens: bool = False
    """Whether it can be asked for longer lists."""
    fixed_rows: bool = False
    """Whether it wants the same number of rows at every step."""
    draws: bool = False
    """Whether it draws chunks by itself."""
    returns: bool = False
    """Whether a search may return to states that it has left."""
    to_text: Callable[[tuple[int, ...]], str] | None = None
    """How tokens read, if the model can tell."""
    word_vectors: Callable[[], Tensor | None] = lambda: None
    """Returns the vectors of the model's tokens, if it has any."""

    @classmethod
    def of(cls, model: StepModel) -> Abilities:
        return cls(
            widens=isinstance(model, WideningModel),
            fixed_rows=has_fixed_rows(model),
            draws=callable(getattr(model, "draw", None)),
            returns=keeps_earlier_steps(model),
            to_text=to_text_of(model),
            word_vectors=lambda: word_vectors_of(model),
        )


@dataclass(frozen=True, slots=True)
class Start:
    """Start the model on the inputs, anew if need be."""

    room: Room
    keeps: Literal["last", "first", "all"] = "last"
    """Which answers' states the search may return to, beside the last."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Go on from some rows of the last answer, by one token each."""

    tokens: Tensor  # [rows]
    parents: Tensor | None  # [rows] the row that each goes on from; None: all rows, in their order
    sources: tuple[int, ...] = (LAST,)
    """The answers whose rows `parents` counts, one below the other: 0 is the first, -1 the last."""


@dataclass(frozen=True, slots=True)
class Widen:
    """List more candidates of these rows."""

    rows: Tensor
    width: int
    sources: tuple[int, ...] = (LAST,)
    """The answers whose rows `rows` counts, as in `Advance`."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Make a step of a fixed number of rows, which goes on from the first answer."""

    batch: int  # inputs
    room: Room
    device: torch.device


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the states of these rows of the last answer. The first that is kept has number 0."""

    rows: Tensor


@dataclass(frozen=True, slots=True)
class Recall:
    """Let rows that were kept be the rows of the last answer, which may have been left at different steps.

    The reply is False if the model cannot put such rows together: then nothing has changed. What was kept by
    one `Keep` alone can always be recalled.
    """

    rows: Tensor
    """[rows] counted through the rows of all sources, one below the other."""
    sources: tuple[int, ...]
    """The numbers of what was kept."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget what was kept before the number `before`."""

    before: int


@dataclass(frozen=True, slots=True)
class Draw:
    """Draw chunks that may follow these outputs of the inputs in these rows."""

    rows: tuple[int, ...]
    prefixes: tuple[tuple[int, ...], ...]
    drawing: Drawing


Ask: TypeAlias = Start | Advance | Widen | Fix | Keep | Recall | Forget | Draw
Search: TypeAlias = Generator[Ask | Step, Any, None]
"""Yields what it asks and what it has done, and is sent the answers."""


@runtime_checkable
class SearchingStrategy(Strategy, Protocol):
    """A strategy that searches in its own way: in several runs, or back and forth."""

    @property
    def kept_per_group(self) -> int:
        """How many hypotheses a group of its result holds."""
        ...

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        """Return the search. `plan` is only looked at for what the strategy needs."""
        ...


@runtime_checkable
class ExtensibleStrategy(Strategy, Protocol):
    """A strategy whose groups do not depend on later ones, so that more can be added when it is done.

    One that searches in its own way must be a `ResumingStrategy` too.
    """

    @property
    def group_count(self) -> int:
        """How many groups its result has."""
        ...

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> ExtensibleStrategy:
        """Return the same strategy with so many groups more.

        `strength` is theirs: one number, or one for each. By default it is that of the others.
        """
        ...


@runtime_checkable
class ResumingStrategy(SearchingStrategy, Protocol):
    """A strategy that searches in its own way, and can go on where another search has ended."""

    def resume(self, options: DecodeOptions, abilities: Abilities, memory: Any) -> Search:
        """Return the search for the groups that the memory does not have; its steps tell of all groups.

        `memory` is what `memory()` of the last step returned, of the search that is gone on with.
        """
        ...
