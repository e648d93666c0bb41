"""Turn scores into figures: values, their intervals, and how they compare with the first method's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from beamsplit.evaluation.scoring import Measured
from beamsplit.metrics import Metric, Score, resamples
from beamsplit.metrics.significance import comparison_of, drawn_scores, interval_of

__all__ = ["by_part", "figures", "signatures"]


def figures(measured: Iterable[Measured], rows: Sequence[int], draws: int) -> dict[str, Any]:
    """Return figures for these inputs by metric and method: value, interval, comparison with the first."""
    return {each.metric.name: _of_methods(each, rows, draws) for each in measured}


def by_part(measured: Sequence[Measured], parts: Mapping[str, Sequence[int]], draws: int) -> dict[str, Any]:
    """Return the figures for parts of the inputs."""
    # A corpus figure of a part would have to be measured anew.
    usable = [each for each in measured if resamples(each.metric)]
    return {
        name: {"items": len(rows), "figures": figures(usable, rows, draws)}
        for name, rows in parts.items()
        if rows
    }


def signatures(measured: Iterable[Measured]) -> dict[str, str]:
    """Return the signature of each metric, which says how it was measured."""
    return {each.metric.name: next(iter(each.scores.values()))[0].signature for each in measured}


def _of_methods(measured: Measured, rows: Sequence[int], draws: int) -> dict[str, Any]:
    metric = measured.metric
    part = {name: _mean(runs, metric, rows) for name, runs in measured.scores.items()}
    uncertainty = (
        _uncertainty(list(part.values()), metric, draws) if resamples(metric) else [{} for _ in part]
    )
    return {
        name: {"value": score.value} | _by_seed(measured.scores[name], metric, rows) | around
        for (name, score), around in zip(part.items(), uncertainty, strict=True)
    }


def _mean(runs: Sequence[Score], metric: Metric, rows: Sequence[int]) -> Score:
    """Return the score of these inputs, the mean over seeds."""
    statistics = torch.stack([run.statistics[list(rows)] for run in runs]).mean(0)
    return Score(runs[0].name, float(metric.score(statistics.sum(0))), runs[0].signature, statistics)


def _by_seed(runs: Sequence[Score], metric: Metric, rows: Sequence[int]) -> dict[str, Any]:
    if len(runs) == 1:
        return {}
    return {"by_seed": [float(metric.score(run.statistics[list(rows)].sum(0))) for run in runs]}


def _uncertainty(scores: Sequence[Score], metric: Metric, draws: int) -> list[dict[str, Any]]:
    """Return the interval of each score, and of all but the first how it compares with that."""
    first, drawn = scores[0], [drawn_scores(score, metric, draws) for score in scores]
    found = [asdict(interval_of(each)) for each in drawn]
    for index in range(1, len(scores)):
        comparison = comparison_of(first, scores[index], drawn[0], drawn[index])
        found[index]["against_first"] = asdict(comparison)
    return found
