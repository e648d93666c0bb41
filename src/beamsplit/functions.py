"""Models made of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError, ModelError
from beamsplit.model import Answer, State, as_tensor, read_answer, rows_of

__all__ = ["FunctionModel", "PrefixModel"]

_FIRST_AXIS = "the batch must be the first axis of every state tensor"
_RECURRENT = (
    "In a state of nn.LSTM or nn.GRU, (layers, batch, hidden), it is the second: return "
    "state.transpose(0, 1) from start and step, and begin step with state.transpose(0, 1).contiguous() "
    "(of an LSTM, both tensors)"
)
_AS_LISTS = "give a list of token ids for each input, such as [[5, 3, 8], [5, 9, 2]]"
_MISFITS = (RuntimeError, IndexError, ValueError)  # what a network raises that is given wrong shapes

StepFunction = Callable[[Any, State], tuple[Any, State]]
"""(tokens, state) -> (answer, state); the answer may be a numpy array too."""


class FunctionModel:
    """A model made of a plain function `step(tokens, state) -> (logits, state)`.

    The state is any nesting of tuples, lists and dicts of tensors (or numpy arrays) whose first axis is the
    batch. Leaves that are no tensors, or tensors without axes, are passed on untouched. The state of nn.LSTM
    and nn.GRU is (layers, batch, hidden): transpose it on the way in and on the way out of `step`.

    `keeps_earlier_steps=True` tells that a state is small, as that of a recurrent network is, so that a
    search may keep those of all steps. `LateBranching`, which returns to earlier steps, then asks less of the
    model. A cache that grows is better not kept.

    `start` is either the id of a begin-of-sequence token, in which case the inputs *are* the initial
    state; or a function `start(inputs) -> (logits, state)`.

    >>> table = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> bigram = FunctionModel(lambda tokens, state: (table[tokens], state), start=0)
    >>> logits, _ = bigram.start(torch.zeros(3, 1))
    >>> logits.shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        step: StepFunction,
        *,
        start: int | Callable[[Any], tuple[Any, State]],
        keeps_earlier_steps: bool = False,
    ) -> None:
        if not callable(step) or isinstance(step, type):
            raise ArgumentError(f"step must be a function of (tokens, state), not {checks.short_repr(step)}")
        if not callable(start):
            checks.whole_number("start", start, ": the id of the token that begins a sequence, or a function")
        self.keeps_earlier_steps = checks.true_or_false("keeps_earlier_steps", keeps_earlier_steps)
        self._step = step
        self._start = start
        self._is_batch_first = False  # as far as is known

    def start(self, inputs: Any) -> tuple[Answer, State]:
        if callable(self._start):
            logits, state = read_answer(self._start(inputs), "start")
            _check_batch_first(state, rows_of(logits), "start returned")
            return logits, state
        rows, device = _rows_and_device(inputs)
        _check_batch_first(inputs, rows, "inputs have")
        tokens = torch.full((rows,), self._start, dtype=torch.long, device=device)
        return self.step(tokens, inputs)

    def step(self, tokens: Tensor, state: State) -> tuple[Answer, State]:
        try:
            returned = self._step(tokens, state)
        except _MISFITS as error:
            error.add_note(_note_on_axes(tokens.shape[0], state))
            raise
        if not self._is_batch_first:
            self._is_batch_first = _tells_axes(state)
        logits, state = read_answer(returned, "step")
        _check_batch_first(state, tokens.shape[0], "step returned")
        return logits, state

    def select(self, state: State, rows: Tensor) -> State:
        if not self._is_batch_first and _may_be_layers_first(state, rows):
            self._try_one_row(state, rows)
        return map_tensors(lambda leaf: _select_rows(leaf, rows), state)

    def _try_one_row(self, state: State, rows: Tensor) -> None:
        """Raise if the first axis of the state is not the batch, though it is as long.

        With as many layers as rows, a state (layers, batch, hidden) has the right shape, and layers would be
        selected for rows without a word. A step on one row tells, and is taken once.
        """
        one = map_tensors(lambda leaf: _select_rows(leaf, rows[:1]), state)
        try:
            self._step(torch.zeros_like(rows[:1]), one)
        except _MISFITS as error:
            shape = next(list(leaf.shape) for leaf in _tensors(state) if _is_square(leaf))
            raise ModelError(
                f"step fails on one row of a state tensor of shape {shape}: {_FIRST_AXIS}. {_RECURRENT}"
            ) from error
        self._is_batch_first = True

    def join(self, states: Sequence[State]) -> State:
        return join_tensors(states)


class PrefixModel:
    """A model that keeps no state: a function from all tokens so far [rows time] to logits [rows vocab].

    Inputs are prompts [batch time] of token ids, all of one length: a tensor, an array, or a list of lists.
    Every step calls the function on prompt and output.
    """

    keeps_earlier_steps = True  # a state is the tokens so far

    def __init__(self, function: Callable[[Tensor], Answer]) -> None:
        self._function = function

    def start(self, inputs: Any) -> tuple[Answer, Tensor]:
        prompts = _prompts(inputs)
        try:
            return self._function(prompts), prompts
        except _MISFITS as error:
            if prompts.shape[1]:
                raise
            raise ArgumentError(
                "prompts are empty, and the function fails on that: begin each with a token, such as the one "
                "that begins a sequence"
            ) from error

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Answer, Tensor]:
        prefix = torch.cat([state, tokens.unsqueeze(1)], dim=1)
        return self._function(prefix), prefix

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return state.index_select(0, rows)

    def join(self, states: Sequence[Tensor]) -> Tensor:
        if len({state.shape[1] for state in states}) > 1:
            raise ArgumentError(
                f"schedule='staggered' cannot join rows of {type(self).__name__}, which differ in length and "
                "have no padding: use schedule='lockstep'"
            )
        return torch.cat(list(states))


def _prompts(inputs: Any) -> Tensor:
    """Return prompts [batch time] of token ids; raise if these are none, or differ in length."""
    if isinstance(inputs, list | tuple):
        prompts = [_token_ids(prompt, index) for index, prompt in enumerate(inputs)]
        _check_lengths([len(prompt) for prompt in prompts])
        return torch.tensor(prompts, dtype=torch.long)
    if not _is_array(inputs):
        raise ArgumentError(
            f"PrefixModel takes prompts of token ids, not {checks.short_repr(inputs)}: {_AS_LISTS}"
        )
    tokens = as_tensor(inputs)
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        kind = str(tokens.dtype).removeprefix("torch.")
        raise ArgumentError(
            f"PrefixModel takes prompts [batch time] of token ids, not {kind} of shape "
            f"{list(tokens.shape)}: {_AS_LISTS}"
        )
    return tokens.long()


def _token_ids(prompt: Any, index: int) -> list[int]:
    ids = checks.materialise(prompt)
    if not isinstance(ids, list):
        raise ArgumentError(f"prompt {index} is {checks.short_repr(prompt)}, not a list: {_AS_LISTS}")
    for token in ids:
        if not checks.is_whole(token):
            raise ArgumentError(f"prompt {index} has {checks.short_repr(token)} for a token: {_AS_LISTS}")
    return ids


def _check_lengths(lengths: list[int]) -> None:
    for index, length in enumerate(lengths):
        if length != lengths[0]:
            raise ArgumentError(
                f"prompt 0 has {lengths[0]} tokens and prompt {index} has {length}: PrefixModel takes "
                "prompts of one length, since it has no padding. Decode those of each length in a call of "
                "their own, or write a model with start, step and select that knows of padding"
            )


def map_tensors(function: Callable[[Any], Any], state: State) -> State:
    """Return the same nesting, with `function` of every tensor or array that has a first axis."""
    if _is_array(state):
        return function(state) if _has_rows(state) else state
    if isinstance(state, dict):
        return {key: map_tensors(function, value) for key, value in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):  # a named tuple
        return type(state)(*(map_tensors(function, value) for value in state))
    if isinstance(state, tuple | list):
        return type(state)(map_tensors(function, value) for value in state)
    return state


def join_tensors(states: Sequence[State]) -> State:
    """Return one nesting whose tensors are those of all states, one below the other."""
    for others in zip(*(_leaves(state) for state in states), strict=True):
        if not _has_rows(others[0]) and any(bool(other != others[0]) for other in others[1:]):
            raise ModelError(
                "the staggered schedule joins rows of different age, but this model's state holds "
                f"{checks.short_repr(others[0])} for some and {checks.short_repr(others[1])} for others "
                "(a counter?): make it a tensor with a row for each, or use schedule='lockstep'"
            )
    leaves = iter(zip(*(_tensors(state) for state in states), strict=True))
    return map_tensors(lambda _: _stack_rows(next(leaves)), states[0])


def _select_rows(leaf: Any, rows: Tensor) -> Any:
    return leaf.index_select(0, rows) if isinstance(leaf, Tensor) else leaf[rows.cpu().numpy()]


def _stack_rows(leaves: tuple[Any, ...]) -> Any:
    shapes = {tuple(leaf.shape[1:]) for leaf in leaves}
    if len(shapes) > 1:
        raise ModelError(
            f"the staggered schedule joins rows of different age, but this model's state has rows of shape "
            f"{' and '.join(map(str, sorted(shapes)))} (a cache that grows?): use schedule='lockstep'"
        )
    if isinstance(leaves[0], Tensor):
        return torch.cat(leaves)
    import numpy as np

    return np.concatenate(leaves)


def _leaves(state: State) -> Iterator[Any]:
    """Yield whatever is no tuple, list or dict, in the order of `map_tensors`."""
    if isinstance(state, dict):
        state = tuple(state.values())
    if isinstance(state, tuple | list):
        for part in state:
            yield from _leaves(part)
    else:
        yield state


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) or (hasattr(leaf, "__array__") and hasattr(leaf, "shape"))


def _has_rows(leaf: Any) -> bool:
    return _is_array(leaf) and len(leaf.shape) > 0


def _tensors(state: State) -> list[Any]:
    return [leaf for leaf in _leaves(state) if _has_rows(leaf)]


def _rows_and_device(inputs: Any) -> tuple[int, torch.device | None]:
    for leaf in _tensors(inputs):
        return leaf.shape[0], leaf.device if isinstance(leaf, Tensor) else None
    if isinstance(inputs, list | range):
        return len(inputs), None
    raise ModelError(
        f"cannot tell the batch size from inputs of type {type(inputs).__name__} without a tensor: "
        "give tensors or a list, or FunctionModel(start=function)"
    )


def _check_batch_first(state: State, rows: int, source: str) -> None:
    for leaf in _leaves(state):
        if _has_rows(leaf) and leaf.shape[0] != rows:
            is_second = len(leaf.shape) > 1 and leaf.shape[1] == rows
            cure = f". {_RECURRENT}" if is_second else " (transpose it inside step)"
            raise ModelError(
                f"{source} a state tensor of shape {list(leaf.shape)} for {rows} rows: {_FIRST_AXIS}{cure}"
            )
        if not _is_array(leaf) and not isinstance(leaf, bool | int | float | str | None):
            raise ModelError(
                f"{source} a {type(leaf).__name__} in the state, whose rows cannot be selected: "
                "use tensors in tuples, lists and dicts, or write a class with start, step and select"
            )


def _note_on_axes(rows: int, state: State) -> str:
    """Return what to say of a step that failed."""
    shapes = [list(leaf.shape) for leaf in _tensors(state)]
    given = f"state tensors of shape {', '.join(map(str, shapes))}" if shapes else "as many rows of state"
    cure = f". {_RECURRENT}" if any(len(shape) > 2 for shape in shapes) else ""
    return f"beamsplit called step with tokens [{rows}] and {given}: {_FIRST_AXIS}{cure}"


def _is_square(leaf: Any) -> bool:
    """Tell whether a tensor has as many rows as its second axis is long, so that either may be the batch."""
    return len(leaf.shape) > 2 and leaf.shape[0] == leaf.shape[1]


def _tells_axes(state: State) -> bool:
    """Tell whether a step on this state would fail if the batch were the second axis."""
    deep = [leaf for leaf in _tensors(state) if len(leaf.shape) > 2]
    return bool(deep) and not any(map(_is_square, deep))


def _may_be_layers_first(state: State, rows: Tensor) -> bool:
    """Tell whether rows are selected from a state in a way that would go unnoticed on the wrong axis."""
    return any(_is_square(leaf) and leaf.shape[0] == len(rows) for leaf in _tensors(state)) and (
        rows.tolist() != list(range(len(rows)))
    )
