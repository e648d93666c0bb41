"""From the tensors a search ends with to the lists a caller gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.beams import Found
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.scoring import Scorer

__all__ = ["Outcome", "assemble", "rank_by"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What some inputs' groups have found, and which inputs of the caller's batch these are."""

    inputs: Tensor  # [batch]
    found: Found


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: float
    hypothesis: Hypothesis


def assemble(
    outcomes: Iterable[Outcome], batch: int, scorer: Scorer, per_group: int, unique: bool
) -> list[Hypotheses]:
    """The caller's lists: the best `per_group` of each group, in the order of the whole list."""
    lists = [Hypotheses([]) for _ in range(batch)]
    choose = _choose_unique if unique else _choose
    for outcome in outcomes:
        for index, groups in zip(outcome.inputs.tolist(), _entries(outcome.found, scorer), strict=True):
            chosen = sorted(choose(groups, per_group), key=lambda entry: -entry.rank)
            lists[index] = Hypotheses.ordered(entry.hypothesis for entry in chosen)
    return lists


def rank_by(scorer: Scorer) -> Callable[[Hypothesis], float]:
    """How the whole list is ordered: by log-probability, seen through the scorer, without penalties."""

    def rank(hypothesis: Hypothesis) -> float:
        log_prob = torch.tensor(hypothesis.log_prob, dtype=torch.double)
        return float(scorer.final(log_prob, len(hypothesis.tokens)))

    return rank


def _choose(groups: list[list[_Entry]], per_group: int) -> list[_Entry]:
    return [entry for group in groups for entry in group[:per_group]]


def _choose_unique(groups: list[list[_Entry]], per_group: int) -> list[_Entry]:
    """Each group's best that no earlier group has; then, while there is room, the best of what is left."""
    seen: set[tuple[int, ...]] = set()
    chosen: list[_Entry] = []
    spare: list[_Entry] = []
    for group in groups:
        fresh = [entry for entry in group if entry.hypothesis.tokens not in seen]
        fresh = list({entry.hypothesis.tokens: entry for entry in reversed(fresh)}.values())[::-1]
        chosen += fresh[:per_group]
        spare += fresh[per_group:]
        seen.update(entry.hypothesis.tokens for entry in fresh[:per_group])
    for entry in sorted(spare, key=lambda e: -e.rank):
        if len(chosen) < per_group * len(groups) and entry.hypothesis.tokens not in seen:
            seen.add(entry.hypothesis.tokens)
            chosen.append(entry)
    return chosen


def _entries(found: Found, scorer: Scorer) -> list[list[list[_Entry]]]:
    """[input][group][place], without the empty places."""
    lengths = (found.tokens >= 0).sum(-1)
    rank = scorer.final(found.log_prob, lengths.clamp(min=1))
    columns = (found.tokens, lengths, found.log_prob, found.score, found.ended, rank)
    return [
        [
            [
                _Entry(rank, Hypothesis(tuple(tokens[:length]), log_prob, score, g, ended))
                for tokens, length, log_prob, score, ended, rank in zip(*places, strict=True)
                if score > -torch.inf
            ]
            for g, places in enumerate(zip(*groups, strict=True))
        ]
        for groups in zip(*(column.tolist() for column in columns), strict=True)
    ]
