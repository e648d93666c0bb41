"""The output of `generate`, made from the result of a search.

From `scores` and `beam_indices`, `compute_transition_scores` finds the log-probability of every token. Row r
of `scores` is beam r % num_beams of input r // num_beams; the beams of a group are next to each other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.generation.utils import GenerateBeamDecoderOnlyOutput, GenerateBeamEncoderDecoderOutput

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.huggingface.model import Observer
from beamsplit.hypotheses import Hypothesis
from beamsplit.model import Guided, wide
from beamsplit.scoring import Scorer
from beamsplit.search.step import Step

__all__ = [
    "DiverseBeamDecoderOnlyOutput",
    "DiverseBeamEncoderDecoderOutput",
    "OutputRecorder",
    "Returned",
    "make_output",
]


@dataclass
class DiverseBeamDecoderOnlyOutput(GenerateBeamDecoderOnlyOutput):  # type: ignore[misc]
    """The output of beam search, and for each sequence the model's own log-probability and its group."""

    log_probs: Tensor | None = None
    groups: Tensor | None = None


@dataclass
class DiverseBeamEncoderDecoderOutput(GenerateBeamEncoderDecoderOutput):  # type: ignore[misc]
    """The output of beam search, and for each sequence the model's own log-probability and its group."""

    log_probs: Tensor | None = None
    groups: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """A hypothesis to be returned."""

    hypothesis: Hypothesis
    score: float  # with logits processors and length penalty, without diversity penalties
    beams: tuple[int, ...]  # the row of `scores` that each token comes from


@dataclass(frozen=True, slots=True)
class _StepLists:
    """One step in plain lists, [row][group][pick]."""

    row_of: dict[int, int]  # the row of each input that is still in the batch
    parent: list[list[list[int]]]
    token: list[list[list[int]]]
    beam: list[list[list[int]]]
    score: list[list[list[float]]]
    cost: list[list[list[float]]]

    @classmethod
    def of(cls, step: Step) -> _StepLists:
        (selection,) = step.selections
        picks = selection.picks
        columns = (picks.parent, picks.token, selection.beam, picks.score, picks.cost)
        row_of = {index: row for row, index in enumerate(step.inputs.tolist())}
        return cls(row_of, *(column.tolist() for column in columns))


class OutputRecorder:
    """Records as much of a search as the output needs."""

    def __init__(self, beams: int, groups: int, guided: bool, scorer: Scorer, config: Any) -> None:
        self._beams = beams
        self._per_group = beams // groups
        self._scorer = scorer
        self.padding = _padding(config)
        self.as_dict = bool(config.return_dict_in_generate)
        self._wants_scores = self.as_dict and bool(config.output_scores)
        self._wants_logits = self.as_dict and bool(config.output_logits)
        for name in ("output_attentions", "output_hidden_states"):
            if self.as_dict and getattr(config, name, False):
                raise ArgumentError(
                    f"{name}=True is not possible here, since beams that are done leave the "
                    "batch: call the model on the sequences that you get"
                )
        self._guided = guided
        self._traces = self.as_dict or guided
        self._steps: list[Step] = []
        self._log_probs: list[Tensor] = []  # after logits processors, one for each step
        self._logits: list[Tensor] = []  # of the model, likewise

    @property
    def observer(self) -> Observer | None:
        """A function to call with each answer of the model, if answers are to be recorded."""
        return self._observe if self._wants_scores or self._wants_logits else None

    def _observe(self, plain: Tensor, logits: Tensor | Guided) -> None:
        if self._wants_scores:
            self._log_probs.append(_log_prob(plain, logits))
        if self._wants_logits:
            self._logits.append(plain.to(torch.float32, copy=True))  # a view would keep all of the prompt's

    def keep(self, step: Step) -> None:
        """Record a step."""
        if self._traces:
            self._steps.append(step)

    def trace(self, hypothesis: Hypothesis, input_index: int) -> Returned:
        """Return a hypothesis with its score and the beams that it went through, if these are recorded."""
        if not self._traces:
            return Returned(hypothesis, self._final(hypothesis.log_prob, hypothesis), ())
        beams, total = self._follow(hypothesis, input_index)
        total = total if self._guided else hypothesis.log_prob  # without penalties already
        return Returned(hypothesis, self._final(total, hypothesis), beams)

    def _final(self, total: float, hypothesis: Hypothesis) -> float:
        total_ = torch.tensor(total, dtype=torch.double)
        return float(self._scorer.final(total_, len(hypothesis.tokens)))

    @functools.cached_property
    def _step_lists(self) -> list[_StepLists]:
        return [_StepLists.of(step) for step in self._steps]

    def _follow(self, hypothesis: Hypothesis, input_index: int) -> tuple[tuple[int, ...], float]:
        """Return the beams that a hypothesis went through, and its total without penalties.

        Groups that sample may hold one prefix twice; then either path is right.
        """
        first = input_index * self._beams + hypothesis.group * self._per_group
        paths: dict[int, tuple[tuple[int, ...], float]] = dict.fromkeys(range(self._per_group), ((), 0.0))
        for step, token in zip(self._step_lists, hypothesis.tokens, strict=False):
            row, group = step.row_of[input_index], hypothesis.group
            extended = {}
            columns = (step.parent, step.token, step.beam, step.score, step.cost)
            for parent, picked, beam, score, cost in zip(*(c[row][group] for c in columns), strict=True):
                if picked == token and parent in paths and score > -torch.inf:
                    beams, paid = paths[parent]
                    extended[beam] = ((*beams, first + parent), paid + cost)
                    total = score + paid + cost
            paths = extended
        (beams, _), *_ = paths.values()
        return beams, total

    def scores(self, batch: int) -> tuple[Tensor, ...] | None:
        """Return log-probabilities after logits processors: a tensor [batch*num_beams vocab] a step."""
        return self._for_all_beams(self._log_probs, batch) if self._wants_scores else None

    def logits(self, batch: int) -> tuple[Tensor, ...] | None:
        """Return the model's logits, likewise."""
        return self._for_all_beams(self._logits, batch) if self._wants_logits else None

    def _for_all_beams(self, answers: list[Tensor], batch: int) -> tuple[Tensor, ...]:
        for number in range(len(answers)):  # one by one, so that few are held twice
            answers[number] = self._spread(answers[number], number, batch)
        return tuple(answers)

    def _spread(self, answer: Tensor, number: int, batch: int) -> Tensor:
        """Turn rows of live beams into a row for every beam, -inf for those that do not live."""
        if not number:
            return answer.repeat_interleave(self._beams, dim=0)
        if len(answer) == batch * self._beams:  # every beam is live
            return answer
        before = self._steps[number - 1]
        (selection,) = before.selections
        live = selection.live.flatten(1)
        rows = before.inputs.unsqueeze(1) * self._beams + torch.arange(self._beams, device=live.device)
        spread = answer.new_full((batch * self._beams, answer.shape[1]), -torch.inf)
        spread[rows[live]] = answer
        return spread


def _log_prob(plain: Tensor, logits: Tensor | Guided) -> Tensor:
    log_prob = torch.log_softmax(plain, dim=-1, dtype=wide(plain.dtype))
    return log_prob + logits.guidance if isinstance(logits, Guided) else log_prob


def make_output(
    model: Any, prompts: Tensor, returned: Sequence[Sequence[Returned]], recorder: OutputRecorder
) -> Any:
    """Return the sequences alone, or with scores and the rest if a dict is asked for."""
    flat = [each for found in returned for each in found]
    sequences = _sequences(prompts, returned, recorder.padding)
    if not recorder.as_dict:
        return sequences
    device, batch = sequences.device, len(returned)
    kind = (
        DiverseBeamEncoderDecoderOutput if model.config.is_encoder_decoder else DiverseBeamDecoderOnlyOutput
    )
    return kind(
        sequences=sequences,
        sequences_scores=torch.tensor([each.score for each in flat], device=device),
        scores=recorder.scores(batch),
        logits=recorder.logits(batch),
        beam_indices=_table([each.beams for each in flat], -1, device),
        log_probs=torch.tensor([each.hypothesis.log_prob for each in flat], device=device),
        groups=torch.tensor([each.hypothesis.group for each in flat], device=device),
    )


def _sequences(ids: Tensor, returned: Sequence[Sequence[Returned]], padding: int) -> Tensor:
    """Return prompts and outputs, filled up with the padding token: [sequences time]."""
    counts = torch.tensor([len(found) for found in returned], device=ids.device)
    tokens = [each.hypothesis.tokens for found in returned for each in found]
    return torch.cat([ids.repeat_interleave(counts, 0), _table(tokens, padding, ids.device)], 1)


def _padding(config: Any) -> int:
    """Return the token that `generate` pads with: the padding token, or else the first end token."""
    for name in ("_pad_token_tensor", "pad_token_id", "_eos_token_tensor", "eos_token_id"):
        value = checks.materialise(getattr(config, name, None))
        if value is not None:
            return int(value[0] if isinstance(value, list) else value)
    return 0


def _table(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
