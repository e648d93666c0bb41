"""The figures of a study: which list people prefer, how sure that is, and how much people agree.

Preference is always that of the second list over the first.

votes      the share of votes, with a bootstrap interval that draws whole items: votes on one are dependent
items      the share of items where the majority prefers it, with Wilson's interval; ties are counted apart
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamsplit import extras
from beamsplit.study.bins import PAPER, Bin, Bins
from beamsplit.study.store import Store, Vote

__all__ = ["ReportItem", "StudyData", "collect_data", "figures"]

_LEVEL = 0.95
Figures = dict[str, Any]


@dataclass(frozen=True)
class ReportItem:
    """An item, and the numbers that may explain the votes on it."""

    name: str
    complexity: float | None = None
    difficulty: float | None = None


@dataclass(frozen=True)
class StudyData:
    """The data of a report."""

    first: str
    second: str
    votes_wanted: int
    items: tuple[ReportItem, ...]
    votes: tuple[Vote, ...]
    """All votes, attention checks included."""


def collect_data(store: Store) -> StudyData:
    """Return the data of a study, as it is now."""
    study = store.study
    items = tuple(ReportItem(*row) for row in store.items())
    return StudyData(study.first, study.second, study.rules.votes, items, tuple(store.votes()))


def figures(
    data: StudyData, *, bins: Bins = PAPER, include_failed: bool = False, draws: int = 1000, seed: int = 0
) -> Figures:
    """Return all figures, ready for JSON. Who failed an attention check is left out, unless asked for."""
    failed = {vote.annotator for vote in data.votes if not vote.passed}
    votes = [vote for vote in data.votes if not vote.check]
    kept = [vote for vote in votes if include_failed or vote.annotator not in failed]
    counts = _VoteCounts(kept, draws, seed)
    return {
        "first": data.first,
        "second": data.second,
        "items": len(data.items),
        "votes": len(kept),
        "votes_wanted": data.votes_wanted * len(data.items),
        "annotators": len({vote.annotator for vote in kept}),
        "left_out": {
            "annotators": [] if include_failed else sorted(failed, key=_number),
            "votes": len(votes) - len(kept),
        },
        "preference": counts.preference([item.name for item in data.items]),
        "spread": _spread(counts.by_item),
        "by": {
            key: _by(counts, data.items, key, bins)
            for key in ("complexity", "difficulty")
            if _known(data, key)
        },
        "agreement": {"krippendorff_alpha": _alpha(kept)},
        "left_side": _share(sum(vote.choice == vote.left for vote in kept), len(kept)),
        "attention": _attention(data.votes),
    }


def _number(annotator: str) -> int:
    return int(annotator.removeprefix("a"))


# Preference


class _VoteCounts:
    """The votes of each item: those for the second list, and all."""

    def __init__(self, votes: Sequence[Vote], draws: int, seed: int) -> None:
        self.by_item: dict[str, tuple[int, int]] = {}
        for vote in votes:
            seconds, count = self.by_item.get(vote.item, (0, 0))
            self.by_item[vote.item] = seconds + (vote.choice == "second"), count + 1
        self._draws, self._seed = draws, seed

    def preference(self, names: Sequence[str]) -> Figures:
        """Return the preference on the items with these names."""
        counts = [self.by_item[name] for name in names if name in self.by_item]
        won = sum(2 * seconds > count for seconds, count in counts)
        ties = sum(2 * seconds == count for seconds, count in counts)
        return {
            "items": {
                **_share(won, len(counts) - ties),
                "ties": ties,
                "without_votes": len(names) - len(counts),
            },
            "votes": _clustered(counts, self._draws, self._seed),
        }

    def shares(self, items: Sequence[ReportItem], key: str) -> tuple[list[float], list[float]]:
        """Return, of the items with votes, the number under `key` and the share of the second list."""
        rows = [(getattr(item, key), self.by_item[item.name]) for item in items if item.name in self.by_item]
        known = [(number, seconds / count) for number, (seconds, count) in rows if number is not None]
        return [number for number, _ in known], [share for _, share in known]


def _share(count: int, of: int) -> Figures:
    """Return a share with Wilson's interval."""
    if not of:
        return {"count": 0, "of": 0, "share": None, "low": None, "high": None}
    found = _need("scipy.stats").binomtest(count, of).proportion_ci(_LEVEL, method="wilson")
    return {"count": count, "of": of, "share": count / of, "low": float(found.low), "high": float(found.high)}


def _clustered(counts: Sequence[tuple[int, int]], draws: int, seed: int) -> Figures:
    """Return the share of votes with a bootstrap interval that draws items, with all their votes.

    Where all items have the same share, draws say nothing about how sure it is, and there is no interval.
    """
    seconds, totals = np.array(counts, dtype=float).reshape(-1, 2).T
    count, of = int(seconds.sum()), int(totals.sum())
    if len(set(seconds / totals)) < 2:
        return {"count": count, "of": of, "share": count / of if of else None, "low": None, "high": None}
    drawn = np.random.default_rng(seed).multinomial(len(totals), [1 / len(totals)] * len(totals), draws)
    low, high = np.quantile(drawn @ seconds / (drawn @ totals), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return {"count": count, "of": of, "share": count / of, "low": float(low), "high": float(high)}


def _spread(counts: Mapping[str, tuple[int, int]]) -> Figures:
    """Return how many items have 5 of 5 votes for the second list, how many 4 of 5, ..."""
    items = Counter(counts.values())
    return {
        f"{seconds}/{count}": items[seconds, count]
        for seconds, count in sorted(items, key=lambda c: (-c[1], -c[0]))
    }


# By complexity


def _known(data: StudyData, key: str) -> bool:
    return any(getattr(item, key) is not None for item in data.items)


def _by(counts: _VoteCounts, items: Sequence[ReportItem], key: str, bins: Bins) -> Figures:
    values = {item.name: getattr(item, key) for item in items if getattr(item, key) is not None}
    return {
        "bins": [_of_bin(counts, values, each) for each in bins.over(list(values.values()))],
        "spearman": _spearman(*counts.shares(items, key)),
    }


def _of_bin(counts: _VoteCounts, values: Mapping[str, float], part: Bin) -> Figures:
    names = [name for name, value in values.items() if part.holds(value)]
    return {"range": part.name, "items": len(names), "preference": counts.preference(names)}


def _spearman(numbers: Sequence[float], shares: Sequence[float]) -> Figures:
    """Return the rank correlation between an item's number and its share of votes for the second list."""
    if len(numbers) < 3 or len(set(numbers)) == 1 or len(set(shares)) == 1:
        return {"items": len(numbers), "rho": None, "p": None}
    found = _need("scipy.stats").spearmanr(numbers, shares)
    return {"items": len(numbers), "rho": float(found.statistic), "p": float(found.pvalue)}


# People


def _alpha(votes: Sequence[Vote]) -> float | None:
    """Return Krippendorff's alpha for nominal data: 1 is full agreement, 0 is chance."""
    people = {name: row for row, name in enumerate(dict.fromkeys(vote.annotator for vote in votes))}
    columns = {name: column for column, name in enumerate(dict.fromkeys(vote.item for vote in votes))}
    table = np.full((len(people), len(columns)), math.nan)
    for vote in votes:
        table[people[vote.annotator], columns[vote.item]] = vote.choice == "second"
    several = (~np.isnan(table)).sum(0) > 1
    if len(np.unique(table[:, several][~np.isnan(table[:, several])])) < 2:
        return None  # nobody to agree with, or nothing to disagree about
    alpha: Callable[..., float] = _need("krippendorff").alpha
    return float(alpha(reliability_data=table, level_of_measurement="nominal"))


def _attention(votes: Sequence[Vote]) -> Figures:
    checks = [vote for vote in votes if vote.check]
    passed = Counter(vote.annotator for vote in checks if vote.passed)
    people = sorted({vote.annotator for vote in checks}, key=_number)
    total = Counter(vote.annotator for vote in checks)
    return {
        "passed": sum(vote.passed for vote in checks),
        "failed": sum(not vote.passed for vote in checks),
        "annotators": {
            name: {"passed": passed[name], "failed": total[name] - passed[name]} for name in people
        },
    }


def _need(module: str) -> Any:
    return extras.need(module, "beamsplit.study.report", "study")
