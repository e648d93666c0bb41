"""Recordings of searches as plain data: every branch that was tried, its scores, and what became of it.

recordings = record(model, inputs, strategy, max_length=20)      # one for each input
recordings[0].hypotheses                                         # what decode would have returned
recordings[0].svg()                                              # the search as a picture
recordings[0].to_json()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Unpack

import torch
from torch import Tensor

from beamsplit.decoding import steps
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel, to_text_of
from beamsplit.options import OptionArguments, shows_options
from beamsplit.search.plan import Strategy
from beamsplit.search.select import Selection
from beamsplit.search.step import Step
from beamsplit.tree.recording import ROOT, Branch, Fate, Recording

__all__ = ["Branch", "Fate", "Recorder", "Recording", "record"]

ToText = Callable[[tuple[int, ...]], str]


@dataclass(frozen=True, slots=True)
class _GroupPicks:
    """The picks of one group for one input in one step, in plain lists."""

    group: int
    time: int
    beams: int
    parent: list[int]
    tokens: list[tuple[int, ...]]  # that each adds
    log_prob: list[float]
    score: list[float]
    cost: list[float]
    fate: list[int]


class Recorder:
    """Records a search for one of its inputs, step by step."""

    def __init__(self, to_text: ToText | None = None, title: str = "", input_index: int = 0) -> None:
        self._to_text = to_text
        self._title = title
        self._input = input_index
        self._branches: list[Branch] = []
        self._tokens: list[tuple[int, ...]] = []  # the sequence of each branch
        self._beams: dict[int, list[int]] = {}  # by group: the branch of each beam
        self._step: Step | None = None

    def add(self, step: Step) -> None:
        """Record a step."""
        self.add_picks(step, _picks_by_input(step).get(self._input, []))

    def add_picks(self, step: Step, picks: Iterable[_GroupPicks]) -> None:
        """Record a step, given the picks of the groups for this input."""
        self._step = step
        for of_group in picks:
            self._add_group(of_group)

    @property
    def recording(self) -> Recording:
        """The recording so far."""
        hypotheses = Hypotheses() if self._step is None else self._step.hypotheses[self._input]
        one_tree = self._step is not None and self._step.one_tree
        so_far = Recording(self._title, tuple(self._branches), hypotheses, one_tree)
        return replace(so_far, branches=_with_last_beams(so_far))

    def _add_group(self, picks: _GroupPicks) -> None:
        beams = self._beams.get(picks.group, []) if picks.time else []
        new_beams: dict[int, int] = {}
        columns = (picks.parent, picks.tokens, picks.log_prob, picks.score, picks.cost, picks.fate)
        for parent, tokens, log_prob, score, cost, fate in zip(*columns, strict=True):
            if score == -float("inf"):
                continue
            if fate >= 0:
                new_beams[fate] = len(self._branches)
            before = beams[parent] if picks.time else ROOT
            self._add_branch(before, picks.group, picks.time, tokens, (log_prob, score, cost), fate)
        self._beams[picks.group] = [new_beams.get(beam, ROOT) for beam in range(picks.beams)]

    def _add_branch(
        self,
        parent: int,
        group: int,
        time: int,
        tokens: tuple[int, ...],
        scores: tuple[float, float, float],
        fate: int,
    ) -> None:
        prefix = () if parent == ROOT else self._tokens[parent]
        self._tokens.append(prefix + tokens)
        text = (
            f"{' ' * bool(prefix)}{' '.join(map(str, tokens))}"
            if self._to_text is None
            else addition(self._to_text, prefix, tokens)
        )
        name: Fate = "lives" if fate >= 0 else "ended" if fate == _ENDED else "dropped"
        several = tokens if len(tokens) > 1 else ()
        self._branches.append(Branch(parent, group, time, tokens[-1], text, *scores, name, several))


def _with_last_beams(recording: Recording) -> tuple[Branch, ...]:
    """Return the branches, with those that were cut off at max_length marked as living, not as dropped."""
    branches = list(recording.branches)
    for end in recording.ends:
        if end is not None and branches[end].fate == "dropped":
            branches[end] = replace(branches[end], fate="lives")
    return tuple(branches)


def _picks_by_input(step: Step) -> dict[int, list[_GroupPicks]]:
    """Return the picks of all groups in a step, by input. Tensors are read once for the whole batch."""
    by_input: dict[int, list[_GroupPicks]] = {index: [] for index in step.inputs.tolist()}
    for selection in step.selections:
        picks, beams = selection.picks, selection.live.shape[2]
        added = picks.token.unsqueeze(3) if selection.chunks is None else selection.chunks
        columns = [picks.parent, added, picks.log_prob, picks.score, picks.cost, _fates(selection)]
        for index, *of_input in zip(by_input, *(column.tolist() for column in columns), strict=True):
            for group, parent, chunks, *of_group in zip(selection.groups, *of_input, strict=True):
                tokens = [tuple(token for token in chunk if token != _NOTHING) for chunk in chunks]
                by_input[index].append(_GroupPicks(group, selection.time, beams, parent, tokens, *of_group))
    return by_input


_NOTHING = -1  # fills up chunks that are shorter than others


_DROPPED, _ENDED = -1, -2


def _fates(selection: Selection) -> Tensor:
    """Return the beam that each pick has become, -1 if it was dropped, -2 if it ended: [batch group pick]."""
    beam = selection.beam
    # An end counts only among the best picks, as many as there are beams.
    among = torch.arange(beam.shape[2], device=beam.device) < selection.live.shape[2]
    return torch.where(selection.ended & among, _ENDED, beam)


def addition(to_text: ToText, prefix: tuple[int, ...], tokens: tuple[int, ...]) -> str:
    """Return the text that tokens add, wherever in the text: a model may end every text with a "?".

    >>> to_text = lambda tokens: " ".join("abc"[i] for i in tokens) + "?"
    >>> addition(to_text, (0, 1), (2,))
    ' c'
    """
    before, after = to_text(prefix) if prefix else "", to_text(prefix + tokens)
    same = _alike(before, after)
    tail = _alike(before[same:][::-1], after[same:][::-1])
    return after[same : len(after) - tail]


def _alike(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    return next((i for i, (a, b) in enumerate(zip_longest(one, other)) if a != b), len(one))


@shows_options
def record(
    model: StepModel,
    inputs: Any,
    strategy: Strategy,
    *,
    title: str | None = None,
    **options: Unpack[OptionArguments],
) -> list[Recording]:
    """Search as `decode` does, and return a recording for each input."""
    recorders: list[Recorder] = []
    name = type(strategy).__name__ if title is None else title
    for step in steps(model, inputs, strategy, **options):
        if not recorders:
            to_text = to_text_of(model)
            recorders = [Recorder(to_text, name, index) for index in range(len(step.inputs))]
        for index, picks in _picks_by_input(step).items():
            recorders[index].add_picks(step, picks)
        last = step
    # The last step has the lists of all inputs, also of those that were done before.
    for recorder in recorders:
        recorder.add_picks(last, [])
    return [recorder.recording for recorder in recorders]
