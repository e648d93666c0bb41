"""What a search did, as plain data: every branch that it tried, what each was worth, and what became of it.

recordings = record(model, inputs, strategy, max_length=20)      # one an input
recordings[0].hypotheses                                         # what decode would have returned
recordings[0].svg()                                              # the search as a picture
recordings[0].to_json()
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any, Literal, Unpack

import torch
from torch import Tensor

from beamsplit.decoding import steps
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel, to_text_of
from beamsplit.options import OptionArguments, shows_options
from beamsplit.search.plan import Strategy
from beamsplit.search.select import Selection
from beamsplit.search.step import Step

__all__ = ["Branch", "Fate", "Recorder", "Recording", "record"]

Fate = Literal["lives", "ended", "dropped"]
Spell = Callable[[tuple[int, ...]], str]

ROOT = -1


@dataclass(frozen=True, slots=True)
class Branch:
    """A token that a group put after a prefix, or thought of putting there."""

    parent: int
    """The branch that it goes on from, by its place in the recording; -1 if it is a first token."""
    group: int
    time: int
    token: int
    text: str
    """How it reads after its prefix: with a space before it where a new word begins."""
    log_prob: float
    """The model's, of the whole prefix."""
    score: float
    """What its group ranked it by, of the whole prefix."""
    cost: float
    """What its penalty took off the score, at this token alone."""
    fate: Fate
    """`lives`: it was a beam after this step; `ended`: it was complete; `dropped`: others were better."""


@dataclass(frozen=True)
class Recording:
    """One search for one input, from its first step to its last, or as far as it has come."""

    title: str
    branches: tuple[Branch, ...]
    hypotheses: Hypotheses

    @functools.cached_property
    def groups(self) -> int:
        return 1 + max((branch.group for branch in self.branches), default=-1)

    @functools.cached_property
    def ends(self) -> tuple[int | None, ...]:
        """For each of the hypotheses, its last branch."""
        return tuple(self._places.get((h.group, h.tokens)) for h in self.hypotheses)

    @functools.cached_property
    def kept(self) -> frozenset[int]:
        """The branches that some hypothesis goes through."""
        kept: set[int] = set()
        for end in self.ends:
            place = ROOT if end is None else end
            while place != ROOT and place not in kept:
                kept.add(place)
                place = self.branches[place].parent
        return frozenset(kept)

    def svg(self) -> str:
        """The search as a picture."""
        from beamsplit.tree import draw

        return draw([self])

    _repr_svg_ = svg

    def to_json(self, **options: Any) -> str:
        """As JSON; `options` go to `json.dumps`."""
        return json.dumps(self.as_dict(), **options)

    def as_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        return {
            "title": self.title,
            "branches": [asdict(branch) for branch in self.branches],
            "hypotheses": [asdict(hypothesis) for hypothesis in self.hypotheses],
        }

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """What `to_json` wrote."""
        try:
            content = json.loads(text)
            branches = _checked(tuple(Branch(**each) for each in content["branches"]))
            hypotheses = Hypotheses.from_json(json.dumps(content["hypotheses"]))
            return cls(content["title"], branches, hypotheses)
        except (ValueError, TypeError, KeyError) as error:
            raise ArgumentError(f"not the JSON of a recording: {' '.join(str(error).split())}") from error

    @functools.cached_property
    def _places(self) -> dict[tuple[int, tuple[int, ...]], int]:
        """Every branch by its group and its tokens."""
        spelled: list[tuple[int, ...]] = []
        for branch in self.branches:
            before = () if branch.parent == ROOT else spelled[branch.parent]
            spelled.append((*before, branch.token))
        return {
            (branch.group, tokens): i
            for i, (branch, tokens) in enumerate(zip(self.branches, spelled, strict=True))
        }


def _checked(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    for i, branch in enumerate(branches):
        if branch.parent not in range(ROOT, i):
            raise ValueError(f"branch {i} goes on from {branch.parent}, which is none before it")
    return branches


@dataclass(frozen=True, slots=True)
class _Move:
    """What one group did for one input in one step, in plain lists: an entry for each pick."""

    group: int
    time: int
    beams: int
    parent: list[int]
    token: list[int]
    log_prob: list[float]
    score: list[float]
    cost: list[float]
    fate: list[int]


class Recorder:
    """Writes down, step by step, what a search does for one of its inputs."""

    def __init__(self, to_text: Spell | None = None, title: str = "", input_index: int = 0) -> None:
        self._spell = to_text
        self._title = title
        self._input = input_index
        self._branches: list[Branch] = []
        self._tokens: list[tuple[int, ...]] = []  # of each branch, with those before it
        self._beams: dict[int, list[int]] = {}  # of each group: the branch that each beam is
        self._step: Step | None = None

    def add(self, step: Step) -> None:
        """Write down what happened in this step."""
        self.add_moves(step, _moves(step).get(self._input, []))

    def add_moves(self, step: Step, moves: Iterable[_Move]) -> None:
        """Do the same, given what the groups did for this input."""
        self._step = step
        for move in moves:
            self._add_move(move)

    @property
    def recording(self) -> Recording:
        """The search so far."""
        hypotheses = Hypotheses() if self._step is None else self._step.hypotheses[self._input]
        so_far = Recording(self._title, tuple(self._branches), hypotheses)
        return replace(so_far, branches=_with_last_beams(so_far))

    def _add_move(self, move: _Move) -> None:
        beams = self._beams.get(move.group, []) if move.time else []
        born: dict[int, int] = {}
        columns = (move.parent, move.token, move.log_prob, move.score, move.cost, move.fate)
        for parent, token, log_prob, score, cost, fate in zip(*columns, strict=True):
            if score == -float("inf"):
                continue
            if fate >= 0:
                born[fate] = len(self._branches)
            before = beams[parent] if move.time else ROOT
            self._add_branch(before, move.group, move.time, token, (log_prob, score, cost), fate)
        self._beams[move.group] = [born.get(beam, ROOT) for beam in range(move.beams)]

    def _add_branch(
        self, parent: int, group: int, time: int, token: int, worth: tuple[float, float, float], fate: int
    ) -> None:
        prefix = () if parent == ROOT else self._tokens[parent]
        self._tokens.append((*prefix, token))
        text = f"{' ' * bool(prefix)}{token}" if self._spell is None else addition(self._spell, prefix, token)
        word: Fate = "lives" if fate >= 0 else "ended" if fate == _ENDED else "dropped"
        self._branches.append(Branch(parent, group, time, token, text, *worth, word))


def _with_last_beams(recording: Recording) -> tuple[Branch, ...]:
    """No beam lives on after the last step, but what has run into max_length there was not dropped."""
    branches = list(recording.branches)
    for end in recording.ends:
        if end is not None and branches[end].fate == "dropped":
            branches[end] = replace(branches[end], fate="lives")
    return tuple(branches)


def _moves(step: Step) -> dict[int, list[_Move]]:
    """Return what the groups did in a step, by input: tensors are read once for the whole batch."""
    moves: dict[int, list[_Move]] = {index: [] for index in step.inputs.tolist()}
    for selection in step.selections:
        picks, beams = selection.picks, selection.live.shape[2]
        columns = [picks.parent, picks.token, picks.log_prob, picks.score, picks.cost, _fates(selection)]
        for index, *of_input in zip(moves, *(column.tolist() for column in columns), strict=True):
            for group, *of_group in zip(selection.groups, *of_input, strict=True):
                moves[index].append(_Move(group, selection.time, beams, *of_group))
    return moves


_DROPPED, _ENDED = -1, -2


def _fates(selection: Selection) -> Tensor:
    """[batch group pick]: the beam that a pick has become, -1 if it was dropped, -2 if it is complete."""
    beam = selection.beam
    # An end counts among the best picks alone, as many as there are beams.
    among = torch.arange(beam.shape[2], device=beam.device) < selection.live.shape[2]
    return torch.where(selection.ended & among, _ENDED, beam)


def addition(to_text: Spell, prefix: tuple[int, ...], token: int) -> str:
    """What a token adds to a text, wherever in it: some models write a question mark after every prefix.

    >>> said = lambda tokens: " ".join("abc"[i] for i in tokens) + "?"
    >>> addition(said, (0, 1), 2)
    ' c'
    """
    before, after = to_text(prefix) if prefix else "", to_text((*prefix, token))
    same = _alike(before, after)
    tail = _alike(before[same:][::-1], after[same:][::-1])
    return after[same : len(after) - tail]


def _alike(one: str, other: str) -> int:
    """How many letters they begin with alike."""
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
    """Search as `decode` does, and write everything down."""
    recorders: list[Recorder] = []
    name = type(strategy).__name__ if title is None else title
    for step in steps(model, inputs, strategy, **options):
        if not recorders:
            to_text = to_text_of(model)
            recorders = [Recorder(to_text, name, index) for index in range(len(step.inputs))]
        for index, moves in _moves(step).items():
            recorders[index].add_moves(step, moves)
        last = step
    # The last step has the lists of all inputs, also of those that were done before.
    for recorder in recorders:
        recorder.add_moves(last, [])
    return [recorder.recording for recorder in recorders]
