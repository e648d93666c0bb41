"""The models that can be decoded: a protocol of three verbs, and two ways to get there from a function.

The search calls `start`, `step` and `select` and nothing else (`join` too, where groups are staggered), so
whatever can answer these can be decoded: an RNN, a transformer with its cache, a table, a remote engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError, ModelError

__all__ = ["FunctionModel", "Guided", "JoinableModel", "Logits", "PrefixModel", "StepModel"]

State: TypeAlias = Any
"""Whatever a model wants to be given back. The search never looks inside."""


@dataclass(frozen=True, slots=True)
class Guided:
    """Logits [rows vocab], and `guidance` [rows vocab] that is added to a token's score alone.

    The search maximises log-probability plus guidance; `log_prob` in the results stays the model's.
    Since guidance may raise a total, groups go on to `max_length`, unless `bounded` says that no token
    ever adds more than 0 in all.
    """

    logits: Tensor
    guidance: Tensor
    bounded: bool = False


Logits: TypeAlias = Tensor | Guided
"""What a model returns: plain logits, or logits with guidance."""


@runtime_checkable
class StepModel(Protocol):
    """A neural sequence model, as the search sees it.

    Rows are independent of each other: row i of the logits belongs to row i of the state. There is
    one row for each input after `start`, and one for each live beam later on. Logits are read before
    the next call, so their memory may be used again; none is written to.

    A model that knows its own end may have an attribute `end`, one id or several, for `decode` to use; one
    that knows words may have a method `to_text(tokens) -> str`, and hypotheses then come with their text.
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
        if not callable(step) or isinstance(step, type):
            raise ArgumentError(f"step must be a function of (tokens, state), not {checks.shown(step)}")
        if not callable(start):
            checks.whole_number("start", start, ": the id of the token that begins a sequence, or a function")
        self._step = step
        self._start = start

    def start(self, inputs: Any) -> tuple[Logits, State]:
        if callable(self._start):
            logits, state = answer(self._start(inputs), "start")
            _check_batch_first(state, plain(logits).shape[0], "start returned")
            return logits, state
        rows, device = _rows_and_device(inputs)
        _check_batch_first(inputs, rows, "inputs have")
        tokens = torch.full((rows,), self._start, dtype=torch.long, device=device)
        return self.step(tokens, inputs)

    def step(self, tokens: Tensor, state: State) -> tuple[Logits, State]:
        try:
            logits, state = answer(self._step(tokens, state), "step")
        except (RuntimeError, IndexError) as error:
            error.add_note(
                f"beamsplit called step with tokens [{tokens.shape[0]}] and as many rows of state: "
                "the batch must be the first axis of every state tensor"
            )
            raise
        _check_batch_first(state, tokens.shape[0], "step returned")
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


def copied(logits: Logits) -> Logits:
    """The same in memory of their own."""
    if isinstance(logits, Guided):
        return replace(logits, logits=logits.logits.clone(), guidance=logits.guidance.clone())
    return logits.clone()


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type log-probabilities are kept in: float32, or float64 if the logits are."""
    return torch.promote_types(dtype, torch.float32)


def score_type(logits: Logits) -> torch.dtype:
    """The type that scores are kept in."""
    if isinstance(logits, Guided):
        return torch.promote_types(wide(logits.logits.dtype), logits.guidance.dtype)
    return wide(logits.dtype)


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
    for others in zip(*(_leaves(state) for state in states), strict=True):
        if not _has_rows(others[0]) and any(bool(other != others[0]) for other in others[1:]):
            raise ModelError(
                "the staggered schedule joins rows of different age, but this model's state holds "
                f"{checks.shown(others[0])} for some and {checks.shown(others[1])} for others (a counter?): "
                "make it a tensor with a row for each, or use schedule='lockstep'"
            )
    leaves = iter(zip(*(_tensors(state) for state in states), strict=True))
    return map_tensors(lambda _: _stack_rows(next(leaves)), states[0])


def answer(value: Any, verb: str) -> tuple[Logits, State]:
    """What `start` or `step` returned, if it is the pair it should be."""
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], Tensor | Guided):
        kind = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
        if isinstance(value, tuple) and len(value) == 2:
            kind = f"({type(value[0]).__name__}, ...)"
        raise ModelError(f"{verb} must return (logits, state), the logits a tensor, not {kind}")
    return value


def _stack_rows(leaves: tuple[Tensor, ...]) -> Tensor:
    shapes = {tuple(leaf.shape[1:]) for leaf in leaves}
    if len(shapes) > 1:
        raise ModelError(
            f"the staggered schedule joins rows of different age, but this model's state has rows of shape "
            f"{' and '.join(map(str, sorted(shapes)))} (a cache that grows?): use schedule='lockstep'"
        )
    return torch.cat(leaves)


def _leaves(state: State) -> Iterator[Any]:
    """Whatever is no tuple, list or dict, in the order of `map_tensors`."""
    if isinstance(state, dict):
        state = tuple(state.values())
    if isinstance(state, tuple | list):
        for part in state:
            yield from _leaves(part)
    else:
        yield state


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def _tensors(state: State) -> list[Tensor]:
    return [leaf for leaf in _leaves(state) if _has_rows(leaf)]


def _rows_and_device(inputs: Any) -> tuple[int, torch.device | None]:
    for leaf in _tensors(inputs):
        return leaf.shape[0], leaf.device
    if isinstance(inputs, list | range):
        return len(inputs), None
    raise ModelError(
        f"cannot tell the batch size from inputs of type {type(inputs).__name__} without a tensor: "
        "give tensors or a list, or FunctionModel(start=function)"
    )


def _check_batch_first(state: State, rows: int, source: str) -> None:
    for leaf in _leaves(state):
        if _has_rows(leaf) and leaf.shape[0] != rows:
            raise ModelError(
                f"{source} a state tensor of shape {list(leaf.shape)} for {rows} rows: "
                "the batch must be the first axis of every state tensor (transpose it inside step)"
            )
        if not isinstance(leaf, Tensor | bool | int | float | str | None):
            raise ModelError(
                f"{source} a {type(leaf).__name__} in the state, whose rows cannot be selected: "
                "use tensors in tuples, lists and dicts, or write a class with start, step and select"
            )
