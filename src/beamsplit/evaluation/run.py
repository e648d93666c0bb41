"""From an experiment to figures: decode, measure, compare with the first method."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import beamsplit
from beamsplit import metrics
from beamsplit.data import data_folder
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.decoding import Cache, decoded
from beamsplit.evaluation.experiment import Experiment
from beamsplit.evaluation.tasks import Task, read_task
from beamsplit.hypotheses import Hypotheses
from beamsplit.metrics import DistinctN, Example, MeanLength, Metric, Oracle, Score, TextMetric, TopLogProb
from beamsplit.model import StepModel
from beamsplit.models import Complexity, load
from beamsplit.models.complexity import split

__all__ = ["TEXT_METRICS", "Settings", "run"]

TEXT_METRICS: dict[str, Callable[[], TextMetric]] = {
    "bleu": lambda: metrics.SentenceBLEU(normalise=True),
    "chrf": metrics.ChrF,
    "bleu4": metrics.Bleu4,
    "rouge": metrics.RougeL,
    "cider": metrics.CiderD,
    "meteor": metrics.Meteor,
    "spice": metrics.Spice,
}
"""Metrics of single texts, by the names that experiments use."""

PARTS = ("simple", "average", "complex")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where things are, and how hard to look."""

    data: str | None = None
    cache: Path = Path(".beamsplit-cache")
    limit: int | None = None
    draws: int = 1000
    batch_size: int = 32


def run(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    """All figures of an experiment, ready for JSON."""
    task = read_task(experiment.task, lambda: data_folder(settings.data)).some(
        settings.limit or experiment.limit
    )
    for name in experiment.metrics:
        _text_metric(name)  # before hours of decoding
    model: Any = load(experiment.model)
    accepted = _accepted(model, task)
    refused, task = len(task.ids) - len(accepted), task.only(accepted)
    lists = {name: _examples(task, found) for name, found in _decode(experiment, model, task, settings)}
    found: dict[str, Any] = {
        "title": experiment.title or experiment.task,
        "task": experiment.task,
        "model": experiment.model,
        "items": len(task.ids),
        "refused": refused,
        "beamsplit": beamsplit.__version__,
        "methods": {method.name: method.description for method in experiment.methods},
        "unavailable": {},
    }
    everything = range(len(task.ids))
    measured = list(_measured(experiment, lists, found["unavailable"]))
    found["figures"] = _figures(measured, everything, settings.draws)
    if experiment.split:
        found["parts"] = {
            by: _by_part(measured, names, settings.draws) for by, names in _complexities(task).items()
        }
    return found


def _accepted(model: Any, task: Task) -> list[int]:
    """The inputs that the model takes: one too long for it must not stop an experiment."""
    accepts = getattr(model, "accepts", None)
    places = range(len(task.ids))
    accepted = [place for place in places if accepts is None or accepts(task.inputs[place])]
    if not accepted:
        raise ArgumentError(f"{type(model).__name__} takes none of the {len(task.ids)} inputs of {task.name}")
    return accepted


def _decode(
    experiment: Experiment, model: StepModel, task: Task, settings: Settings
) -> Iterator[tuple[str, list[Hypotheses]]]:
    cache = Cache(settings.cache)
    for method in experiment.methods:
        yield (
            method.name,
            decoded(
                model,
                task.inputs,
                method,
                max_length=experiment.max_length,
                cache=cache,
                seed=experiment.seed,
                batch_size=settings.batch_size,
            ),
        )


def _examples(task: Task, lists: Sequence[Hypotheses]) -> list[Example]:
    return [
        Example(
            tuple(h.text or "" for h in found),
            references,
            tuple(h.log_prob for h in found),
        )
        for found, references in zip(lists, task.references, strict=True)
    ]


@dataclass(frozen=True)
class _Measured:
    """A metric, and its scores by method."""

    metric: Metric
    scores: dict[str, Score]


def _measured(
    experiment: Experiment, lists: dict[str, list[Example]], unavailable: dict[str, str]
) -> Iterator[_Measured]:
    chosen = {name: _text_metric(name) for name in experiment.metrics}
    # Method by method, since several metrics look at the same tokens of a method's texts.
    scores: dict[str, dict[str, list[Score]]] = {name: {} for name in chosen}
    for method, examples in lists.items():
        for name, metric in chosen.items():
            try:
                if name not in unavailable:
                    scores[name][method] = metrics.oracles(metric, experiment.oracle, examples)
            except metrics.Unavailable as error:
                # What can be measured is; the reason goes to the reader and into the results.
                print(f"without {name}: {error}", file=sys.stderr)
                unavailable[name] = str(error)
    for name, metric in chosen.items():
        for place, k in enumerate(experiment.oracle if name not in unavailable else ()):
            yield _Measured(Oracle(metric, k), {each: found[place] for each, found in scores[name].items()})
    for whole in _of_lists(experiment):
        yield _Measured(whole, {name: metrics.measure(whole, examples) for name, examples in lists.items()})


def _text_metric(name: str) -> TextMetric:
    if name not in TEXT_METRICS:
        raise ArgumentError(f"there is no metric {name!r}: there are {', '.join(TEXT_METRICS)}")
    return TEXT_METRICS[name]()


def _of_lists(experiment: Experiment) -> list[Metric]:
    distinct = [DistinctN(n=n) for n in experiment.distinct]
    of_corpus = [DistinctN(n=n, of="corpus") for n in experiment.distinct]
    return [*distinct, *of_corpus, MeanLength(), TopLogProb()]


def _figures(measured: Sequence[_Measured], rows: Sequence[int], draws: int) -> dict[str, Any]:
    """By metric and method: the figure for these inputs, its interval, and how it compares with the first."""
    return {each.metric.name: _of_methods(each, rows, draws) for each in measured}


def _of_methods(measured: _Measured, rows: Sequence[int], draws: int) -> dict[str, Any]:
    part = {name: _part(score, measured.metric, rows) for name, score in measured.scores.items()}
    first = next(iter(part.values()))
    return {
        name: {"signature": score.signature, "value": score.value}
        | _uncertainty(score, first, measured.metric, draws)
        for name, score in part.items()
    }


def _uncertainty(score: Score, first: Score, metric: Metric, draws: int) -> dict[str, Any]:
    if not getattr(metric, "resamples", True):
        return {}
    around = asdict(metrics.interval(score, metric, draws=draws))
    if score is first:
        return around
    return {**around, "against_first": asdict(metrics.compare(first, score, metric, draws=draws))}


def _part(score: Score, metric: Metric, rows: Sequence[int]) -> Score:
    statistics = score.statistics[list(rows)]
    return Score(score.name, float(metric.score(statistics.sum(0))), score.signature, statistics)


# By image complexity


def _complexities(task: Task) -> dict[str, list[str]]:
    """The part that each picture is in, by people's scores where there are any, and by predicted ones."""
    if not isinstance(task.inputs, Tensor):
        raise ArgumentError(f"split is for pictures, and {task.name} has none: leave it out")
    found = {"predicted": split(Complexity.load().predict(task.inputs))}
    if task.difficulty is not None:
        found["people"] = split(torch.tensor(task.difficulty))
    return found


def _by_part(measured: Sequence[_Measured], parts: Sequence[str], draws: int) -> dict[str, Any]:
    found = {}
    # A corpus figure of a part would have to be measured anew.
    usable = [each for each in measured if getattr(each.metric, "resamples", True)]
    for part in PARTS:
        rows = [place for place, name in enumerate(parts) if name == part]
        if rows:
            found[part] = {"items": len(rows), "figures": _figures(usable, rows, draws)}
    return found
