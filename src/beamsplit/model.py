"""The models that can be decoded: a protocol of three verbs, and two ways to get there from a function.

The search calls `start`, `step` and `select` and nothing else, so whatever can answer these can be
decoded: an RNN, a transformer with its cache, a table, a remote engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError, ModelError

__all__ = ["FunctionModel", "Guided", "JoinableModel", "Logits", "PrefixModel", "StepModel"]

State: TypeAlias = Any
"""Whatever a model wants to be given back. The search never looks inside."""


@dataclass(frozen=True, slots=True)
class Guided:
    """Logits [rows vocab], and `guidance` [rows vocab] that is added to a token's score alone.

    The search maximises log-probability plus guidance; `log_prob` in the results stays the model's.
    """

    logits: Tensor
    guidance: Tensor


Logits: TypeAlias = Tensor | Guided
"""What a model returns: plain logits, or logits with guidance."""


@runtime_checkable
class StepModel(Protocol):
    """A neural sequence model, as the search sees it.

    Rows are independent of each other: row i of the logits belongs to row i of the state. There is
    one row for each input after `start`, and one for each live beam later on.
    """

    def start(self, inputs: Any) -> tuple[Logits, State]:
        """Logits [batch vocab] of the first token, and the state behind them; a row an input."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Logits, State]:
        """Logits [rows vocab] of the token after `tokens` [rows], and the new state."""
        ...

    def select(self, state: State, rows: Tensor) -> State:
        """The state with these rows: repeated, permuted or dropped as `rows` says."""
        ...


@runtime_checkable
class JoinableModel(StepModel, Protocol):
    """A model that can also put states together. Only the staggered schedule needs it."""

    def join(self, states: Sequence[State]) -> State:
        """One state with the rows of all of these, in order."""
        ...


def joinable(model: StepModel) -> JoinableModel:
    """The model, if its states can be put together."""
    if not isinstance(model, JoinableModel):
        raise ArgumentError(
            f"schedule='staggered' needs a model with a join method, and {type(model).__name__} has none: "
            "add one or use schedule='lockstep'"
        )
    return model


StepFunction = Callable[[Tensor, State], tuple[Logits, State]]


class FunctionModel:
    """A model made of a plain function `step(tokens, state) -> (logits, state)`.

    The state is any nesting of tuples, lists and dicts of tensors whose first axis is the batch.
    Leaves that are no tensors, or tensors without axes, are passed on untouched.

    `start` is either the id of a begin-of-sequence token, in which case the inputs *are* the initial
    state; or a function `start(inputs) -> (logits, state)`.

    >>> table = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> bigram = FunctionModel(lambda tokens, state: (table[tokens], state), start=0)
    >>> logits, _ = bigram.start(torch.zeros(3, 1))
    >>> logits.shape
    torch.Size([3, 2])
    """

    def __init__(self, step: StepFunction, *, start: int | Callable[[Any], tuple[Logits, State]]) -> None:
        self._step = step
        self._start = start

    def start(self, inputs: Any) -> tuple[Logits, State]:
        if callable(self._start):
            logits, state = self._start(inputs)
            _check_batch_first(state, plain(logits).shape[0], "start")
            return logits, state
        rows, device = _rows_and_device(inputs)
        tokens = torch.full((rows,), self._start, dtype=torch.long, device=device)
        return self.step(tokens, inputs)

    def step(self, tokens: Tensor, state: State) -> tuple[Logits, State]:
        logits, state = self._step(tokens, state)
        _check_batch_first(state, tokens.shape[0], "step")
        return logits, state

    def select(self, state: State, rows: Tensor) -> State:
        return map_tensors(lambda leaf: leaf.index_select(0, rows), state)

    def join(self, states: Sequence[State]) -> State:
        return join_tensors(states)


class PrefixModel:
    """A model that keeps no state: a function from all tokens so far [rows time] to logits [rows vocab].

    Inputs are prompts [batch time] of equal length; every step calls the function on prompt and output.
    """

    def __init__(self, function: Callable[[Tensor], Logits]) -> None:
        self._function = function

    def start(self, inputs: Tensor) -> tuple[Logits, Tensor]:
        return self._function(inputs), inputs

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Logits, Tensor]:
        prefix = torch.cat([state, tokens.unsqueeze(1)], dim=1)
        return self._function(prefix), prefix

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)


def plain(logits: Logits) -> Tensor:
    """The logits alone."""
    return logits.logits if isinstance(logits, Guided) else logits


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type log-probabilities are kept in: float32, or float64 if the logits are."""
    return torch.promote_types(dtype, torch.float32)


def map_tensors(function: Callable[[Tensor], Tensor], state: State) -> State:
    """The same nesting, with `function` of every tensor that has a first axis."""
    if isinstance(state, Tensor):
        return function(state) if state.dim() else state
    if isinstance(state, dict):
        return {key: map_tensors(function, value) for key, value in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):  # a named tuple
        return type(state)(*(map_tensors(function, value) for value in state))
    if isinstance(state, tuple | list):
        return type(state)(map_tensors(function, value) for value in state)
    return state


def join_tensors(states: Sequence[State]) -> State:
    """One nesting whose tensors are those of all states, one below the other."""
    leaves = iter(zip(*(_tensors(state) for state in states), strict=True))
    return map_tensors(lambda _: _stack_rows(next(leaves)), states[0])


def _stack_rows(leaves: tuple[Tensor, ...]) -> Tensor:
    shapes = {tuple(leaf.shape[1:]) for leaf in leaves}
    if len(shapes) > 1:
        raise ModelError(
            f"the staggered schedule joins rows of different age, but this model's state has rows of shape "
            f"{' and '.join(map(str, sorted(shapes)))} (a cache that grows?): use schedule='lockstep'"
        )
    return torch.cat(leaves)


def _tensors(state: State) -> list[Tensor]:
    found: list[Tensor] = []

    def note(leaf: Tensor) -> Tensor:
        found.append(leaf)
        return leaf

    map_tensors(note, state)
    return found


def _rows_and_device(inputs: Any) -> tuple[int, torch.device | None]:
    for leaf in _tensors(inputs):
        return leaf.shape[0], leaf.device
    if isinstance(inputs, Sized):
        return len(inputs), None
    raise ModelError(
        f"cannot tell the batch size from inputs of type {type(inputs).__name__}: "
        "give tensors or a list, or FunctionModel(start=function)"
    )


def _check_batch_first(state: State, rows: int, verb: str) -> None:
    for leaf in _tensors(state):
        if leaf.shape[0] != rows:
            raise ModelError(
                f"{verb} returned a state tensor of shape {list(leaf.shape)} for {rows} rows: "
                f"the batch must be the first axis of every state tensor (transpose it inside {verb})"
            )
