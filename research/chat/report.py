"""The figures as tables in Markdown."""

from __future__ import annotations

from statistics import mean, median
from typing import TypeAlias

import numpy as np
from scipy.stats import bootstrap

from beamsplit.ordering import ORDERS
from research.chat.settings import CHOSEN

__all__ = ["markdown"]

Figures: TypeAlias = dict[str, dict[str, list[float]]]
"""By setting and by figure, a value for each prompt; under "seconds", one for each turn."""

_COLUMNS = {
    "meanings": ("different in meaning", 1),
    "likeness": ("alike", 2),
    "overlap": ("shared words", 2),
    "relevance": ("fit", 2),
    "best_relevance": ("fit of the best", 2),
    "log_prob": ("log-prob a token", 2),
    "loops": ("loops", 2),
    "stubs": ("stubs", 2),
    "length": ("tokens", 0),
}
_FIRST = {"relevance": ("fit", 2), "words": ("words", 0), "stub": ("stubs", 2)}


def markdown(figures: Figures) -> str:
    """Return the table of all settings, and the table of what comes first by each order."""
    return f"{_settings(figures)}\n{_orders(figures)}"


def _settings(figures: Figures) -> str:
    """Return a row for each setting; a star marks a difference from the chosen one that is not by chance."""
    own = median(figures[CHOSEN]["seconds"])
    rows = []
    for name, row in figures.items():
        cells = [_cell(row[key], figures[CHOSEN][key], digits) for key, (_, digits) in _COLUMNS.items()]
        label = f"**{name}**" if name == CHOSEN else name
        rows.append([label, *cells, f"{median(row['seconds']) / own:.1f}"])
    return _table(["", *(title for title, _ in _COLUMNS.values()), "time"], rows)


def _orders(figures: Figures) -> str:
    chosen = figures[CHOSEN]
    rows = [
        [f"`{order}`", *(f"{mean(chosen[f'first_{key}_{order}']):.{n}f}" for key, (_, n) in _FIRST.items())]
        for order in ORDERS
    ]
    return _table(["the first answer by", *(title for title, _ in _FIRST.values())], rows)


def _cell(values: list[float], chosen: list[float], digits: int) -> str:
    return f"{mean(values):.{digits}f}" + "*" * _differ(values, chosen)


def _differ(first: list[float], second: list[float]) -> bool:
    """Tell whether the 95% interval of the paired difference, by the bootstrap, leaves out 0."""
    differences = np.subtract(first, second)
    if np.ptp(differences) == 0:
        return bool(differences[0])
    found = bootstrap((differences,), np.mean, method="percentile", rng=np.random.default_rng(0))
    return not found.confidence_interval.low <= 0 <= found.confidence_interval.high


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
