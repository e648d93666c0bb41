"""What `generate` returns, made of what the search found.

`scores` and `beam_indices` let `compute_transition_scores` find the log-probability of every token. Row r of
`scores` is beam r modulo num_beams of input r // num_beams; the beams of a group stand side by side.
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
    "Recorder",
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
    """A hypothesis on its way out."""

    hypothesis: Hypothesis
    score: float  # without any penalty for sameness, with logits processors and length penalty
    beams: tuple[int, ...]  # the row of `scores` that each token comes from


@dataclass(frozen=True, slots=True)
class _Turn:
    """One step in plain lists, [input][group][pick]."""

    place: dict[int, int]  # of each input still there
    parent: list[list[list[int]]]
    token: list[list[list[int]]]
    beam: list[list[list[int]]]
    score: list[list[list[float]]]
    cost: list[list[list[float]]]

    @classmethod
    def of(cls, step: Step) -> _Turn:
        (selection,) = step.selections
        picks = selection.picks
        columns = (picks.parent, picks.token, selection.beam, picks.score, picks.cost)
        place = {index: at for at, index in enumerate(step.inputs.tolist())}
        return cls(place, *(column.tolist() for column in columns))


class Recorder:
    """Follows a search, as closely as what is to be returned calls for."""

    def __init__(self, beams: int, groups: int, guided: bool, scorer: Scorer, config: Any) -> None:
        self._beams = beams
        self._per_group = beams // groups
        self._scorer = scorer
        self.padding = _padding(config)
        self.as_dict = bool(config.return_dict_in_generate)
        self._scores = self.as_dict and bool(config.output_scores)
        self._logits = self.as_dict and bool(config.output_logits)
        for name in ("output_attentions", "output_hidden_states"):
            if self.as_dict and getattr(config, name, False):
                raise ArgumentError(
                    f"{name}=True is not possible here, since beams that are done leave the "
                    "batch: call the model on the sequences that you get"
                )
        self._guided = guided
        self._traces = self.as_dict or guided
        self._steps: list[Step] = []
        self._said: list[Tensor] = []  # log-probabilities after processors, a step each, if they are wanted
        self._heard: list[Tensor] = []  # logits, likewise

    @property
    def observer(self) -> Observer | None:
        return self._observe if self._scores or self._logits else None

    def _observe(self, plain: Tensor, logits: Tensor | Guided) -> None:
        if self._scores:
            self._said.append(_log_prob(plain, logits))
        if self._logits:
            self._heard.append(plain.to(torch.float32, copy=True))  # not a view of all of the prompt's

    def keep(self, step: Step) -> None:
        if self._traces:
            self._steps.append(step)

    def trace(self, hypothesis: Hypothesis, place: int) -> Returned:
        if not self._traces:
            return Returned(hypothesis, self._final(hypothesis.log_prob, hypothesis), ())
        beams, total = self._follow(hypothesis, place)
        total = total if self._guided else hypothesis.log_prob  # which no penalty has touched
        return Returned(hypothesis, self._final(total, hypothesis), beams)

    def _final(self, total: float, hypothesis: Hypothesis) -> float:
        total_ = torch.tensor(total, dtype=torch.double)
        return float(self._scorer.final(total_, len(hypothesis.tokens)))

    @functools.cached_property
    def _turns(self) -> list[_Turn]:
        return [_Turn.of(step) for step in self._steps]

    def _follow(self, hypothesis: Hypothesis, place: int) -> tuple[tuple[int, ...], float]:
        """The beams that a hypothesis went through, and its total without penalties.

        Groups that sample may hold one prefix twice; then either way through will do.
        """
        first = place * self._beams + hypothesis.group * self._per_group
        ways: dict[int, tuple[tuple[int, ...], float]] = dict.fromkeys(range(self._per_group), ((), 0.0))
        for turn, token in zip(self._turns, hypothesis.tokens, strict=False):
            at, group = turn.place[place], hypothesis.group
            onward = {}
            columns = (turn.parent, turn.token, turn.beam, turn.score, turn.cost)
            for parent, said, beam, score, cost in zip(*(c[at][group] for c in columns), strict=True):
                if said == token and parent in ways and score > -torch.inf:
                    beams, paid = ways[parent]
                    onward[beam] = ((*beams, first + parent), paid + cost)
                    total = score + paid + cost
            ways = onward
        (beams, _), *_ = ways.values()
        return beams, total

    def scores(self, batch: int) -> tuple[Tensor, ...] | None:
        """Log-probabilities after the logits processors, a tensor [batch*num_beams vocab] a step."""
        return self._laid_out(self._said, batch) if self._scores else None

    def logits(self, batch: int) -> tuple[Tensor, ...] | None:
        """What the model said, likewise."""
        return self._laid_out(self._heard, batch) if self._logits else None

    def _laid_out(self, answers: list[Tensor], batch: int) -> tuple[Tensor, ...]:
        for at in range(len(answers)):  # one by one, so that few are held twice
            answers[at] = self._in_place(answers[at], at, batch)
        return tuple(answers)

    def _in_place(self, answer: Tensor, at: int, batch: int) -> Tensor:
        """Rows of live beams -> a row for every beam, -inf for those that are no more."""
        if not at:
            return answer.repeat_interleave(self._beams, dim=0)
        if len(answer) == batch * self._beams:  # every beam is live
            return answer
        before = self._steps[at - 1]
        (selection,) = before.selections
        live = selection.live.flatten(1)
        rows = before.inputs.unsqueeze(1) * self._beams + torch.arange(self._beams, device=live.device)
        placed = answer.new_full((batch * self._beams, answer.shape[1]), -torch.inf)
        placed[rows[live]] = answer
        return placed


def _log_prob(plain: Tensor, logits: Tensor | Guided) -> Tensor:
    log_prob = torch.log_softmax(plain, dim=-1, dtype=wide(plain.dtype))
    return log_prob + logits.guidance if isinstance(logits, Guided) else log_prob


def make_output(
    model: Any, prompts: Tensor, returned: Sequence[Sequence[Returned]], recorder: Recorder
) -> Any:
    """Sequences, or all of it."""
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
    """[sequences time] prompts and outputs, filled up with the padding token."""
    counts = torch.tensor([len(found) for found in returned], device=ids.device)
    tokens = [each.hypothesis.tokens for found in returned for each in found]
    return torch.cat([ids.repeat_interleave(counts, 0), _table(tokens, padding, ids.device)], 1)


def _padding(config: Any) -> int:
    """What `generate` pads with: the padding token, or else the first end token."""
    for name in ("_pad_token_tensor", "pad_token_id", "_eos_token_tensor", "eos_token_id"):
        value = checks.materialise(getattr(config, name, None))
        if value is not None:
            return int(value[0] if isinstance(value, list) else value)
    return 0


def _table(rows: Sequence[Sequence[int]], filler: int, device: torch.device) -> Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
