"""The model of this comparison: its rows are counted, and its matrix products are in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from beamsplit.huggingface import load
from beamsplit.model import Answer, Shortlist, State, StepModel, end_of, plain, to_text_of

__all__ = ["Counted", "Listing", "halve", "load_halved"]


class Counted:
    """A model that counts the rows that it computes: one for each token of each output, kept or not.

    It has the three verbs and nothing else that could compute, so that no search can pass the count by. A
    prompt counts as one row, since it is read once for all outputs of an input.
    """

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self.end = end_of(model)
        self.to_text = to_text_of(model)
        self.rows = 0

    def start(self, inputs: Any) -> tuple[Answer, State]:
        answer, state = self.model.start(inputs)
        self.rows += _rows_of(answer)
        return answer, state

    def step(self, tokens: Tensor, state: State) -> tuple[Answer, State]:
        self.rows += len(tokens)
        return self.model.step(tokens, state)

    def select(self, state: State, rows: Tensor) -> State:
        return self.model.select(state, rows)


def _rows_of(answer: Answer) -> int:
    return len(answer.tokens if isinstance(answer, Shortlist) else plain(answer))


@dataclass(frozen=True, slots=True)
class _Listed:
    state: State
    log_prob: Tensor
    """[rows vocab]"""


class Listing:
    """A model that lists its likeliest tokens, and more of them if asked: results are the same.

    To truncate, a sampler sorts what it is given. A list takes a fraction of the time of a vocabulary.
    """

    def __init__(self, model: StepModel, width: int) -> None:
        self.model = model
        self.width = width
        self.end = end_of(model)
        self.to_text = to_text_of(model)

    def start(self, inputs: Any) -> tuple[Shortlist, _Listed]:
        return self._listed(*self.model.start(inputs))

    def step(self, tokens: Tensor, state: _Listed) -> tuple[Shortlist, _Listed]:
        return self._listed(*self.model.step(tokens, state.state))

    def select(self, state: _Listed, rows: Tensor) -> _Listed:
        return _Listed(self.model.select(state.state, rows), state.log_prob[rows])

    def widen(self, state: _Listed, rows: Tensor, width: int) -> Shortlist:
        return _likeliest(state.log_prob[rows], width)

    def _listed(self, answer: Answer, state: State) -> tuple[Shortlist, _Listed]:
        assert isinstance(answer, Tensor)
        log_prob = answer.log_softmax(-1)
        return _likeliest(log_prob, self.width), _Listed(state, log_prob)


def _likeliest(log_prob: Tensor, width: int) -> Shortlist:
    vocabulary = log_prob.shape[-1]
    values, tokens = log_prob.topk(min(width, vocabulary))
    rest = values[:, -1] if width < vocabulary else torch.full_like(values[:, -1], -torch.inf)
    return Shortlist(tokens, values, rest)


def load_halved(folder: str) -> Any:
    """Load a model of transformers, in float32 but for its matrix products."""
    model = load(folder)
    halve(model.module)
    return model


def halve(module: nn.Module) -> None:
    """Do the matrix products of a network in bfloat16, in which its weights were published.

    On a CPU that knows bfloat16 that is three times as fast. Everything else stays in float32.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, _Halved(child))
        else:
            halve(child)


class _Halved(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        assert linear.bias is None, "a Llama has none"
        self.weight = linear.weight
        self._half: Tensor = linear.weight.detach().bfloat16()

    def forward(self, values: Tensor) -> Tensor:
        return nn.functional.linear(values.bfloat16(), self._half).to(values.dtype)
