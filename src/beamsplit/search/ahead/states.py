"""A step of a fixed number of rows for any model whose state is made of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from beamsplit.model import Room, State, StepModel, read_answer
from beamsplit.search.capturing import Repeated

__all__ = ["StateStep"]


@dataclass(frozen=True)
class _Parts:
    """The parts of a model's state, and which of them a step changes."""

    form: TreeSpec
    first: list[Any]  # before the first step of so many rows
    moving: list[int]  # those of which every step returns others
    stores: list[Tensor]  # [slots + inputs ...] of each of them: what it is after every step, and at first


class StateStep:
    """The step of a model, with the states of all steps in one store.

    What `step` returns as it was given, such as an encoded input, is the same for all steps of a row.
    Everything else in a state is kept in its slot.
    """

    def __init__(self, model: StepModel, parts: _Parts, owner: Tensor, room: Room) -> None:
        """Make one for rows of these inputs: `owner` [rows] says whose a row is."""
        rows, device = len(owner), owner.device
        self.tokens = torch.zeros_like(owner)
        self.parents = rows * room.length + owner
        self.table = torch.zeros(rows, room.length, dtype=torch.int32, device=device)
        self.time = torch.zeros(1, dtype=torch.long, device=device)
        self.kept: dict[Any, Any] = {}
        self._model, self._parts = model, parts
        self._rows = torch.arange(rows, device=device)
        self._step = Repeated(self._run, device)

    @classmethod
    def of(
        cls, model: StepModel, state: State, batch: int, room: Room, device: torch.device
    ) -> StateStep | None:
        """Return the step of a model after `start`; None if its steps change what is no tensor."""
        owner = torch.arange(batch, device=device).repeat_interleave(room.beams)
        parts = _parts_of(model, state, owner, room.length)
        return None if parts is None else cls(model, parts, owner, room)

    def run(self) -> Tensor:
        return self._step()

    def close(self) -> None:
        """Do nothing: the next search has other inputs, and a step of its own."""

    def _run(self) -> Tensor:
        parts, leaves = self._parts, list(self._parts.first)
        for index, store in zip(parts.moving, parts.stores, strict=True):
            leaves[index] = store.index_select(0, self.parents)
        logits, after = _answer(self._model, self.tokens, tree_unflatten(leaves, parts.form))
        slots = self.time * len(self._rows) + self._rows
        for index, store in zip(parts.moving, parts.stores, strict=True):
            store.index_copy_(0, slots, tree_flatten(after)[0][index])
        return logits


def _parts_of(model: StepModel, state: State, owner: Tensor, steps: int) -> _Parts | None:
    """Take a step to see what it changes. None if that is no tensor."""
    roots = tree_flatten(state)[0]
    first, form = tree_flatten(model.select(state, owner))
    after, form_after = tree_flatten(_answer(model, torch.zeros_like(owner), tree_unflatten(first, form))[1])
    if form_after != form:
        return None
    moving = [index for index, now in enumerate(after) if now is not first[index]]
    if not all(isinstance(each, Tensor) for index in moving for each in (roots[index], after[index])):
        return None
    stores = [_store(roots[index], after[index], len(owner) * steps) for index in moving]
    return _Parts(form, first, moving, stores)


def _answer(model: StepModel, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    logits, after = read_answer(model.step(tokens.clone(), state), "step")
    assert isinstance(logits, Tensor), "a search runs ahead with logits alone"
    return logits, after


def _store(roots: Tensor, like: Tensor, slots: int) -> Tensor:
    """Return a slot for every state there may be, and below them the states of the inputs."""
    return torch.cat([like.new_zeros(slots, *like.shape[1:]), roots.to(like.dtype)])
