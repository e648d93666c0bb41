"""A round as a step: the chunks that groups chose among, as picks of groups of one beam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.search.chunks.choosing import Choice
from beamsplit.search.chunks.paths import Path
from beamsplit.search.select import Picks, Selection
from beamsplit.search.state import Beams

__all__ = ["assembled", "selection_of"]

_NOTHING = -1


def assembled(paths: Sequence[Sequence[Path]]) -> Callable[[], list[Hypotheses]]:
    """Return a function that returns the lists of this moment, in the order of the groups."""
    now = [tuple(of_input) for of_input in paths]

    def lists() -> list[Hypotheses]:
        return [
            Hypotheses.ordered(
                [_hypothesis(path, group) for group, path in enumerate(of_input) if path.tokens],
                asked=len(of_input),
            )
            for of_input in now
        ]

    return lists


def _hypothesis(path: Path, group: int) -> Hypothesis:
    return Hypothesis(path.tokens, path.log_prob, path.score, group, path.finished, None, path.certified)


def selection_of(choices: Sequence[Sequence[Choice | None]], groups: range, time: int) -> Selection:
    """Return what the groups of some inputs did, as a selection. None: the group was done before."""
    shape = (len(choices), len(groups), max(_size(choice) for row in choices for choice in row))
    made = _Columns(shape, _longest(choices))
    for index, row in enumerate(choices):
        for group, choice in enumerate(row):
            if choice is not None:
                made.put(index, group, choice)
    return made.selection(groups, time)


def _size(choice: Choice | None) -> int:
    return 1 if choice is None else max(1, len(choice.candidates))


def _longest(choices: Sequence[Sequence[Choice | None]]) -> int:
    return max(
        (len(each.tokens) for row in choices for choice in row if choice for each in choice.candidates),
        default=1,
    )


class _Columns:
    """The tensors of a selection, to be filled."""

    def __init__(self, shape: tuple[int, int, int], longest: int) -> None:
        self._chunk = torch.full((*shape, longest), _NOTHING, device="cpu")
        self._token = torch.zeros(shape, dtype=torch.long, device="cpu")
        self._log_prob, self._cost = torch.zeros(2, *shape, dtype=torch.double, device="cpu")
        self._score = torch.full(shape, -torch.inf, dtype=torch.double, device="cpu")
        self._ended = torch.zeros(shape, dtype=torch.bool, device="cpu")
        self._lives = torch.zeros(shape[:2], dtype=torch.bool, device="cpu")
        self._doubt = torch.zeros(shape[:2], dtype=torch.bool, device="cpu")

    def put(self, index: int, group: int, choice: Choice) -> None:
        """Fill in the choice of a group. The chosen chunk stands first."""
        for pick, (candidate, cost) in enumerate(zip(choice.candidates, choice.costs, strict=True)):
            path, said = candidate.path, candidate.tokens
            at = (index, group, pick)
            self._chunk[(*at, slice(len(said)))] = torch.tensor(said, device="cpu")
            self._token[at] = said[-1]
            self._log_prob[at], self._score[at], self._cost[at] = path.log_prob, path.score, cost
            if not pick:
                self._ended[at], self._lives[index, group] = path.done, not path.done
                self._doubt[index, group] = not path.certified

    def selection(self, groups: range, time: int) -> Selection:
        picks = Picks(
            parent=torch.zeros_like(self._token),
            token=self._token,
            log_prob=self._log_prob,
            score=self._score,
            cost=self._cost,
            order=self._score,
        )
        live = self._score[..., :1].masked_fill(~self._lives.unsqueeze(2), -torch.inf)
        return Selection(
            groups=groups,
            time=time,
            picks=picks,
            ended=self._ended,
            survivors=replace(picks.first(1), score=live, order=live),
            width=picks.token.shape[2],
            any_end=bool(self._ended.any()),
            doubt=self._doubt if bool(self._doubt.any()) else None,
            beams_after=Beams(self._chunk[:, :, :1], self._log_prob[..., :1], live),
            chunks=self._chunk,
        )
