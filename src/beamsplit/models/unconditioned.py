"""A conditional model without its condition: the language model U(y) for `AntiLanguageModel`."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, Protocol

from torch import Tensor

from beamsplit.model import JoinableModel, keeps_earlier_steps

__all__ = ["Unconditioned"]


class Conditional(JoinableModel, Protocol):
    """A model that also works without its condition, which was left out at times in training."""

    end: int

    def start_without(self, count: int) -> tuple[Tensor, Any]: ...
    def to_text(self, tokens: Sequence[int]) -> str: ...


class Unconditioned:
    """The same network, without its condition: only the number of inputs matters."""

    def __init__(self, model: Conditional) -> None:
        self._model = model
        self.end = model.end
        self.to_text = model.to_text
        self.keeps_earlier_steps = keeps_earlier_steps(model)

    def start(self, inputs: Sized) -> tuple[Any, Any]:
        return self._model.start_without(len(inputs))

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        return self._model.step(tokens, state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self._model.join(states)
