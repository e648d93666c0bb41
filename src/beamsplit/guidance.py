"""Models that steer another model: what the search maximises changes, `log_prob` does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ModelError
from beamsplit.model import (
    Answer,
    Guided,
    Shortlist,
    State,
    StepModel,
    end_of,
    is_normalised,
    joinable,
    keeps_earlier_steps,
    log_softmax,
    plain,
    read_answer,
    rows_of,
    to_text_of,
)

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
        self.end = end_of(model)
        self.to_text = to_text_of(model)
        self.keeps_earlier_steps = keeps_earlier_steps(model) and keeps_earlier_steps(language_model)

    def start(self, inputs: Any) -> tuple[Guided, State]:
        answer, state = read_answer(self._model.start(inputs), "start")
        other, other_state = read_answer(self._language_model.start(inputs), "start")
        age = torch.zeros(rows_of(answer), dtype=torch.long, device=_logits(answer).device)
        return self._guide(answer, other, age), (state, other_state, age)

    def step(self, tokens: Tensor, state: State) -> tuple[Guided, State]:
        model_state, other_state, age = state
        answer, model_state = read_answer(self._model.step(tokens, model_state), "step")
        other, other_state = read_answer(self._language_model.step(tokens, other_state), "step")
        age = age + 1
        return self._guide(answer, other, age), (model_state, other_state, age)

    def select(self, state: State, rows: Tensor) -> State:
        model_state, other_state, age = state
        return (
            self._model.select(model_state, rows),
            self._language_model.select(other_state, rows),
            age.index_select(0, rows),
        )

    def join(self, states: Sequence[State]) -> State:
        model_states, other_states, ages = zip(*states, strict=True)
        return (
            joinable(self._model).join(model_states),
            joinable(self._language_model).join(other_states),
            torch.cat(ages),
        )

    def _guide(self, answer: Answer, other: Answer, age: Tensor) -> Guided:
        logits, other_logits = _logits(answer), _logits(other)
        if other_logits.shape != logits.shape:
            raise ModelError(
                f"the language model's logits are {list(other_logits.shape)} and the model's "
                f"{list(logits.shape)}: AntiLanguageModel needs two models over one vocabulary"
            )
        log_u = log_softmax(other)  # type: ignore[arg-type]  # no Shortlist: see _logits
        guidance = -self._strength * log_u.masked_fill(log_u == -torch.inf, 0.0)
        if self._first is not None:
            guidance = guidance * (age < self._first).unsqueeze(1)
        if isinstance(answer, Guided):
            guidance = guidance + answer.guidance
        return Guided(logits, guidance, normalised=is_normalised(answer))


def _logits(answer: Answer) -> Tensor:
    if isinstance(answer, Shortlist):
        raise ModelError(
            "AntiLanguageModel compares whole vocabularies, and one of its models answers with candidate "
            "lists: use models that return logits"
        )
    return plain(answer)
