"""Logits processors and stopping criteria of transformers, for a varying number of beams.

`generate` builds them for a fixed number of rows for each input. Here each row is a live beam, and `owner` is
the input that it belongs to. The few processors that count rows are adapted to it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from transformers.generation import logits_process, stopping_criteria

from beamsplit.errors import ArgumentError
from beamsplit.model import Guided, wide
from beamsplit.options import Stop

__all__ = ["Processors", "stop_by"]

_WARPERS = {  # and the setting for which `generate` adds each
    "TemperatureLogitsWarper": "temperature",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "MinPLogitsWarper": "min_p",
}
_TIED_TO_ROWS = (
    "UnbatchedClassifierFreeGuidanceLogitsProcessor",
    "ClassifierFreeGuidanceLogitsProcessor",
    "DiaClassifierFreeGuidanceLogitsProcessor",
    "SynthIDTextWatermarkLogitsProcessor",
)
_Process = Callable[[Tensor, Tensor, Tensor], Tensor]  # (sequences, scores, owner) -> scores


class Processors:
    """Logits processors, applied to log-probabilities as beam search in transformers does."""

    def __init__(self, processors: Iterable[Any] = (), *, sampled_by: Any = None) -> None:
        """Take processors. `sampled_by` is the generation config if the search samples."""
        self._all = [
            _by_owner(each)
            for each in processors
            if sampled_by is None or not _is_left_to_the_strategy(each, sampled_by)
        ]

    def __bool__(self) -> bool:
        return bool(self._all)

    def guide(self, logits: Tensor, sequences: Tensor, owner: Tensor) -> Guided:
        """Return logits [rows vocab] with guidance: what the processors add to the log-probabilities."""
        log_prob = torch.log_softmax(logits, dim=-1, dtype=wide(logits.dtype))
        scores = log_prob.clone()  # some processors write into what they are given
        for process in self._all:
            scores = process(sequences, scores, owner)
        # A token that the model rules out stays ruled out: -inf minus -inf is NaN.
        guidance = (scores - log_prob).masked_fill(log_prob == -torch.inf, 0.0)
        # A positive bias may raise totals, but transformers stops as if there were none.
        return Guided(logits, guidance, bounded=True)


def _is_left_to_the_strategy(processor: Any, config: Any) -> bool:
    """Tell whether `generate`, not the user, added it, for a setting that the strategy applies itself."""
    setting = _WARPERS.get(type(processor).__name__)
    return setting is not None and getattr(processor, setting) == getattr(config, setting, None)


def _by_owner(processor: Any) -> _Process:
    name = type(processor).__name__
    if name in _TIED_TO_ROWS:
        raise ArgumentError(
            f"{name} keeps a state for each row, and beams change rows at every step: leave it out"
        )
    if isinstance(processor, logits_process.PrefixConstrainedLogitsProcessor):
        return _prefix_constraint(processor._prefix_allowed_tokens_fn)
    if isinstance(processor, logits_process.EncoderRepetitionPenaltyLogitsProcessor):
        return _for_rows(processor, encoder_input_ids=lambda ids, owner: ids[owner])
    if isinstance(processor, logits_process.EncoderNoRepeatNGramLogitsProcessor):
        return _for_rows(
            processor,
            generated_ngrams=lambda ngrams, owner: [ngrams[i] for i in owner.tolist()],
            batch_size=lambda _, owner: len(owner),
        )
    return lambda sequences, scores, _: processor(sequences, scores)


def _prefix_constraint(allowed: Callable[[int, Tensor], list[int]]) -> _Process:
    def process(sequences: Tensor, scores: Tensor, owner: Tensor) -> Tensor:
        constrained = torch.full_like(scores, -torch.inf)
        for row, index in enumerate(owner.tolist()):
            tokens = torch.as_tensor(allowed(index, sequences[row]), dtype=torch.long, device=scores.device)
            if not len(tokens):
                raise ArgumentError(
                    f"prefix_allowed_tokens_fn allows no token for input {index} after "
                    f"{sequences[row].tolist()}: let it allow the end token at least"
                )
            constrained[row, tokens] = scores[row, tokens]
        return constrained

    return process


def _for_rows(processor: Any, **fields: Callable[[Any, Tensor], Any]) -> _Process:
    """Adapt a processor: these fields have an entry for each input, and get one for each row."""

    def process(sequences: Tensor, scores: Tensor, owner: Tensor) -> Tensor:
        fitted = copy.copy(processor)
        for name, fit in fields.items():
            setattr(fitted, name, fit(getattr(processor, name), owner))
        result: Tensor = fitted(sequences, scores)
        return result

    return process


def stop_by(criteria: Iterable[Any], prompts: Tensor) -> Stop | None:
    """Return stopping criteria as a rule for single outputs, given the prompts [batch time] before them.

    The search itself handles the length limit and the end tokens.
    """
    own = (stopping_criteria.MaxLengthCriteria, stopping_criteria.EosTokenCriteria)
    others = [each for each in criteria if not isinstance(each, own)]
    if not others:
        return None

    def stop(inputs: Tensor, tokens: Tensor) -> Tensor:
        sequences = torch.cat([prompts.to(tokens.device)[inputs], tokens], dim=1)
        stopped = torch.zeros_like(inputs, dtype=torch.bool)
        for criterion in others:
            stopped = stopped | torch.as_tensor(criterion(sequences, None), device=stopped.device)
        return stopped

    return stop
