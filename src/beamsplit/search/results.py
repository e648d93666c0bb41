"""From the tensors that a search ends with to the lists that a caller gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.scoring import LogProb, Scorer
from beamsplit.search.state import FinishedPool

__all__ = ["assemble", "final_scores", "rank_by"]


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: float
    slot: int  # in its group's pool
    hypothesis: Hypothesis


def assemble(
    pools: Iterable[tuple[Tensor, FinishedPool]],
    batch: int,
    scorer: Scorer,
    groups: int,
    per_group: int,
    unique: bool,
) -> list[Hypotheses]:
    """Return the caller's lists: the best `per_group` of each group, in the order of the whole list.

    `pools` are given with the inputs [n] of the caller's batch that they belong to.
    """
    asked = groups * per_group
    lists = [Hypotheses(asked=asked) for _ in range(batch)]
    choose = _choose_unique if unique else _choose
    for inputs, pool in pools:
        for index, found in zip(inputs.tolist(), _entries(pool, scorer), strict=True):
            chosen = sorted(choose(found, per_group), key=lambda entry: -entry.rank)
            ranks = [entry.slot for entry in chosen]
            lists[index] = Hypotheses.ordered([entry.hypothesis for entry in chosen], ranks, asked=asked)
    return lists


def rank_by(scorer: Scorer) -> Callable[[Hypothesis], float]:
    """Return what the whole list is ordered by: log-probability, as the scorer sees it, without penalties."""

    def rank(hypothesis: Hypothesis) -> float:
        log_prob = torch.tensor(hypothesis.log_prob, dtype=torch.double, device="cpu")
        return float(scorer.final(log_prob, len(hypothesis.tokens)))

    return rank


def _choose(groups: list[list[_Entry]], per_group: int) -> list[_Entry]:
    return [entry for group in groups for entry in group[:per_group]]


def _choose_unique(groups: list[list[_Entry]], per_group: int) -> list[_Entry]:
    """Return each group's best that no earlier group has, and fill up with the best of what is left."""
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


def _entries(pool: FinishedPool, scorer: Scorer) -> list[list[list[_Entry]]]:
    """[input][group][slot], without the empty slots."""
    lengths = (pool.tokens >= 0).sum(-1)
    rank = final_scores(scorer, pool.log_prob, lengths)
    certified = torch.ones_like(pool.ended) if pool.certified is None else pool.certified
    columns = (pool.tokens, lengths, pool.log_prob, pool.score, pool.ended, certified, rank)
    return [
        [_group_entries(g, zip(*slots, strict=True)) for g, slots in enumerate(zip(*groups, strict=True))]
        for groups in zip(*(column.tolist() for column in columns), strict=True)
    ]


def final_scores(scorer: Scorer, total: Tensor, lengths: Tensor) -> Tensor:
    """Return what the scorer makes of each total, the same for equals wherever they stand.

    Powers of a tensor of lengths may be rounded differently in different places. So lengths are taken one by
    one.
    """
    if isinstance(scorer, LogProb):
        return total
    final = torch.zeros_like(total)
    for length in torch.unique(lengths).tolist():
        final = torch.where(lengths == length, scorer.final(total, max(length, 1)), final)
    return final


def _group_entries(group: int, slots: Iterable[tuple[Any, ...]]) -> list[_Entry]:
    return [
        _Entry(rank, slot, Hypothesis(tuple(tokens[:length]), log_prob, score, group, ended, None, certified))
        for slot, (tokens, length, log_prob, score, ended, certified, rank) in enumerate(slots)
        if score > -torch.inf
    ]
