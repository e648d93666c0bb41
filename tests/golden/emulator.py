"""Diverse beam search as transformers 4.55.4 did it, written slowly, with its quirks as switches.

One input at a time, one group after another, the whole vocabulary in front of every group. Only the
arithmetic is that of the original, float32 where it used float32, so that ties fall as they did there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

__all__ = ["AS_4_55_4", "Found", "LogProbs", "Process", "Settings", "Switches", "emulate"]

Tokens = tuple[int, ...]

LogProbs = Callable[[int, Sequence[Tokens]], Tensor]
"""(input, prefixes of one length without the prompt) -> log-softmax of the logits [prefix vocabulary]"""

Process = Callable[[int, Sequence[Tokens], Tensor], Tensor]
"""(input, prefixes, rows [prefix vocabulary]) -> the rows after all other logits processors"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the search is told."""

    groups: int
    beams: int  # a group
    strength: float
    length_penalty: float
    early_stopping: bool | Literal["never"]
    max_new_tokens: int
    pad: int
    ends: Tokens


@dataclass(frozen=True, kw_only=True)
class Switches:
    """Where opinions differ."""

    later_groups_see: Literal["live", "best"] = "live"
    """The tokens of the beams that go on, so no end is seen and what took its place is ("live"), or those of
    as many best candidates as there are beams, ends included and replacements not ("best")."""
    finished_groups_say_pad: bool = True
    """Whether a group that has finished says the padding token with each of its beams from then on."""
    penalty_comes: Literal["first", "last"] = "first"
    """Before or after the other processors: it matters where they scale or overwrite."""


AS_4_55_4 = Switches()


@dataclass(frozen=True)
class Found:
    """A hypothesis, both scores divided by length ** length_penalty."""

    tokens: Tokens  # generated ones, the end included
    score: float  # with the penalties
    log_prob: float  # without them
    group: int


@dataclass(frozen=True)
class _Beam:
    tokens: Tokens
    score: float
    log_prob: float


@dataclass
class _Group:
    number: int
    live: list[_Beam]
    found: list[Found] = field(default_factory=list)
    done: bool = False

    @property
    def worst(self) -> float:
        return min(found.score for found in self.found)


def emulate(
    inputs: int, log_probs: LogProbs, process: Process, settings: Settings, switches: Switches = AS_4_55_4
) -> list[list[Found]]:
    """What is found for each input, all groups pooled, best penalised score first."""
    return [_Search(i, log_probs, process, settings, switches).run() for i in range(inputs)]


@dataclass
class _Search:
    input: int
    log_probs: LogProbs
    process: Process
    settings: Settings
    switches: Switches

    def run(self) -> list[Found]:
        # The beams of a group all start from one: copies of it are worth nothing.
        groups = [_Group(g, [_Beam((), 0.0, 0.0)]) for g in range(self.settings.groups)]
        for length in range(1, self.settings.max_new_tokens + 1):
            self._step(groups, length)
            if all(group.done for group in groups):
                break
        for group in groups:
            self._finalise(group)
        pooled = [found for group in groups for found in group.found]
        return sorted(pooled, key=lambda found: found.score)[::-1]

    def _step(self, groups: list[_Group], length: int) -> None:
        said: list[int] = []
        rows = iter(self._rows(groups))
        for group in groups:
            if group.done:
                said += [self.settings.pad] * self.settings.beams * self.switches.finished_groups_say_pad
            else:
                said += self._step_group(group, next(rows), said, length)

    def _rows(self, groups: list[_Group]) -> list[Tensor]:
        """The model's log-probabilities for each group that is not done: [beam vocabulary]."""
        live = [group.live for group in groups if not group.done]
        rows = self.log_probs(self.input, [beam.tokens for beams in live for beam in beams])
        return list(torch.split(rows, [len(beams) for beams in live]))

    def _step_group(self, group: _Group, rows: Tensor, said: list[int], length: int) -> list[int]:
        """Extends the beams of a group, and returns what it says to later groups."""
        candidates = self._candidates(group, rows, said)
        going_on: list[_Beam] = []
        for rank, beam in enumerate(candidates):
            if beam.tokens[-1] in self.settings.ends:
                if rank < self.settings.beams:  # an end that would not have survived is none
                    self._add(group, beam)
            else:
                going_on.append(beam)
            if len(going_on) == self.settings.beams:
                break
        group.live = going_on
        group.done = self._is_done(group, candidates[0].score, length)
        if self.switches.later_groups_see == "live":
            return [beam.tokens[-1] for beam in going_on]
        best = candidates[: self.settings.beams]
        return [beam.tokens[-1] for beam in best if beam.score > -torch.inf]

    def _candidates(self, group: _Group, rows: Tensor, said: list[int]) -> list[_Beam]:
        """The best extensions: enough of them that with all ends taken away a full group is left."""
        prefixes = [beam.tokens for beam in group.live]
        free = self.process(self.input, prefixes, rows)
        paid = free if group.number == 0 else self._penalised(prefixes, rows, free, said)
        score = paid + torch.tensor([[beam.score] for beam in group.live])
        log_prob = free + torch.tensor([[beam.log_prob] for beam in group.live])
        count = max(2, 1 + len(self.settings.ends)) * self.settings.beams
        values, places = score.flatten().topk(count)
        extended = zip(values.tolist(), places.tolist(), log_prob.flatten()[places].tolist(), strict=True)
        vocabulary = rows.shape[1]
        return [_Beam((*prefixes[at // vocabulary], at % vocabulary), s, p) for s, at, p in extended]

    def _penalised(self, prefixes: list[Tokens], rows: Tensor, free: Tensor, said: list[int]) -> Tensor:
        times = torch.bincount(torch.tensor(said, dtype=torch.long), minlength=rows.shape[1])
        penalty = self.settings.strength * times
        if self.switches.penalty_comes == "last":
            return free - penalty
        return self.process(self.input, prefixes, rows - penalty)

    def _add(self, group: _Group, beam: _Beam) -> None:
        """Keeps a hypothesis if there is room or it beats the worst, which then goes."""
        divisor = len(beam.tokens) ** self.settings.length_penalty
        new = Found(beam.tokens, beam.score / divisor, beam.log_prob / divisor, group.number)
        if len(group.found) < self.settings.beams:
            group.found.append(new)
        elif new.score > group.worst:
            group.found.remove(min(group.found, key=lambda found: found.score))
            group.found.append(new)

    def _is_done(self, group: _Group, best: float, length: int) -> bool:
        """Whether a group stops: `best` is its best candidate of this step, even if that ended."""
        if len(group.found) < self.settings.beams:
            return False
        if self.settings.early_stopping is True:
            return True
        if self.settings.early_stopping == "never" and self.settings.length_penalty > 0:
            length = self.settings.max_new_tokens
        attainable: float = best / length**self.settings.length_penalty
        return group.worst >= attainable

    def _finalise(self, group: _Group) -> None:
        """Beams that ran into the maximal length count as hypotheses, unless their group was done."""
        if not group.done:
            for beam in group.live:
                self._add(group, beam)
