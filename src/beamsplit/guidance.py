"""Models that steer another model: what the search maximises changes, `log_prob` does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ModelError
from beamsplit.model import Guided, Logits, State, StepModel, joinable, wide
from beamsplit.model import plain as as_plain

__all__ = ["AntiLanguageModel"]


class AntiLanguageModel:
    """Maximum mutual information decoding: score log P(y|x) - strength * log U(y) (Li et al., 2015).

    `language_model` gives U and is started with the same inputs, which it is free to ignore. With
    `first=n` only the first n tokens are compared with it, as Li et al. do to keep the ends fluent.
    A token that U holds to be impossible is left as it is rather than rewarded without limit.

    Lists are ordered by log P(y|x), as everywhere; the winner by the combined score is `groups[0][0]`.
    """

    def __init__(
        self,
        model: StepModel,
        language_model: StepModel,
        *,
        strength: float,
        first: int | None = None,
    ) -> None:
        self._model = model
        self._language_model = language_model
        self._strength = checks.non_negative("strength", strength)
        self._first = first if first is None else checks.at_least("first", first, 0)

        # What the model knows of ends and words holds for the combination too.
        self.end = getattr(model, "end", None)
        self.to_text = getattr(model, "to_text", None)

    def start(self, inputs: Any) -> tuple[Guided, State]:
        logits, state = self._model.start(inputs)
        against, against_state = self._language_model.start(inputs)
        plain = as_plain(logits)
        age = torch.zeros(plain.shape[0], dtype=torch.long, device=plain.device)
        return self._guide(logits, as_plain(against), age), (state, against_state, age)

    def step(self, tokens: Tensor, state: State) -> tuple[Guided, State]:
        model_state, against_state, age = state
        logits, model_state = self._model.step(tokens, model_state)
        against, against_state = self._language_model.step(tokens, against_state)
        age = age + 1
        return self._guide(logits, as_plain(against), age), (model_state, against_state, age)

    def select(self, state: State, rows: Tensor) -> State:
        model_state, against_state, age = state
        return (
            self._model.select(model_state, rows),
            self._language_model.select(against_state, rows),
            age.index_select(0, rows),
        )

    def join(self, states: Sequence[State]) -> State:
        model_states, against_states, ages = zip(*states, strict=True)
        return (
            joinable(self._model).join(model_states),
            joinable(self._language_model).join(against_states),
            torch.cat(ages),
        )

    def _guide(self, logits: Logits, against: Tensor, age: Tensor) -> Guided:
        plain = as_plain(logits)
        if against.shape != plain.shape:
            raise ModelError(
                f"the language model's logits are {list(against.shape)} and the model's {list(plain.shape)}: "
                "AntiLanguageModel needs two models over one vocabulary"
            )
        log_u = torch.log_softmax(against, dim=-1, dtype=wide(against.dtype))
        guidance = -self._strength * log_u.masked_fill(log_u == -torch.inf, 0.0)
        if self._first is not None:
            guidance = guidance * (age < self._first).unsqueeze(1)
        if isinstance(logits, Guided):
            guidance = guidance + logits.guidance
        return Guided(plain, guidance)
