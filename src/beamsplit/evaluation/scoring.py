"""Score lists: by metrics that have the names that experiments use, with a cache for the slow ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beamsplit import metrics
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.experiment import Experiment
from beamsplit.evaluation.kept import KeptScores
from beamsplit.evaluation.pooling import ListsByMethod, ScoresByText, pool_texts
from beamsplit.evaluation.workers import ALONE, Workers
from beamsplit.metrics import DistinctN, Example, Metric, Oracle, Score, TextMetric, resamples
from beamsplit.metrics.base import score_of
from beamsplit.metrics.oracle import Precomputed
from beamsplit.models import storage
from beamsplit.progress import Progress

__all__ = ["LIST_METRICS", "TEXT_METRICS", "ListsByMethod", "Measured", "check_metrics", "measured"]

TEXT_METRICS: dict[str, Callable[[], TextMetric]] = {
    "bleu": lambda: metrics.SentenceBLEU(normalise=True),
    "chrf": metrics.ChrF,
    "bleu4": metrics.Bleu4,
    "rouge": metrics.RougeL,
    "cider": metrics.CiderD,
    "meteor": metrics.Meteor,
    "spice": metrics.Spice,
}
"""Metrics of single texts, by name."""

_WHOLES: tuple[Literal["list", "corpus"], ...] = ("list", "corpus")

LIST_METRICS: dict[str, Callable[[Experiment], list[Metric]]] = {
    "distinct": lambda of: [DistinctN(n=n, of=whole) for whole in _WHOLES for n in of.distinct],
    "unique": lambda _: [metrics.UniqueFraction()],
    "self-bleu": lambda _: [metrics.SelfBLEU()],
    "vendi": lambda _: [metrics.Vendi()],
    "spread": lambda _: [
        metrics.EmbeddingSpread(vectors=storage.english_vectors(), words=metrics.Words(lower=True))
    ],
    "ead": lambda of: [
        metrics.ExpectationAdjustedDistinct(n=n, of=whole) for whole in _WHOLES for n in of.distinct
    ],
    "compression": lambda _: [metrics.CompressionRatio(of=whole) for whole in _WHOLES],
    "self-repetition": lambda _: [metrics.SelfRepetition(of=whole) for whole in _WHOLES],
    "length": lambda _: [metrics.MeanLength()],
    "log-prob": lambda _: [metrics.TopLogProb()],
}
"""Metrics of whole lists, by name."""

_SLOW = ("meteor", "spice")  # which are kept; they look at one text at a time, as CIDEr-D does not
_AT_ONCE = 4000  # texts that a slow metric is asked about before their scores are written


@dataclass(frozen=True)
class Measured:
    """A metric, and its scores by method, one a seed."""

    metric: Metric
    scores: Mapping[str, Sequence[Score]]


def check_metrics(experiment: Experiment) -> None:
    """Raise if a metric is not known or cannot be used: hours of decoding may follow."""
    for name in (*experiment.metrics, *([experiment.mbr] if experiment.mbr else [])):
        _check_known(name, TEXT_METRICS)
        _ = TEXT_METRICS[name]().signature  # which says so if a package is missing
    for name in experiment.lists:
        _check_known(name, LIST_METRICS)


def _check_known(name: str, known: Collection[str]) -> None:
    if name not in known:
        raise ArgumentError(f"there is no metric {name!r}: there are {', '.join(known)}")


def measured(
    experiment: Experiment,
    lists: ListsByMethod,
    cache: Path,
    unavailable: dict[str, str],
    workers: Workers = ALONE,
) -> Iterator[Measured]:
    """Yield the scores of all metrics of an experiment; put down in `unavailable` why some cannot be had."""
    known = _score_texts(experiment, lists, cache, unavailable, workers)
    for each in known.values():
        yield from each.oracles(lists, experiment.oracle)
    if experiment.mbr:
        yield from _by_risk(experiment, lists, known, unavailable, workers)
    yield from _of_lists(experiment, lists, unavailable, workers)


# Texts


@dataclass(frozen=True)
class _ScoredTexts:
    """A metric of texts, and the scores that it gave: by method, those of each input's texts."""

    metric: TextMetric
    scores: Mapping[str, ScoresByText]

    def oracles(
        self, lists: ListsByMethod, ks: Sequence[int], named: Callable[[TextMetric], TextMetric] | None = None
    ) -> Iterator[Measured]:
        """Yield the scores of the best of the first k, for several k, under another name if one is given."""
        metric = self.metric if named is None else named(self.metric)
        found = {
            method: [metrics.oracles(self._for_run(metric, method, run), ks, run) for run in runs]
            for method, runs in lists.items()
        }
        for index, k in enumerate(ks):
            scores = {method: [run[index] for run in runs] for method, runs in found.items()}
            yield Measured(Oracle(metric, k), scores)

    def _for_run(self, metric: TextMetric, method: str, run: Sequence[Example]) -> TextMetric:
        of_inputs = zip(run, self.scores[method], strict=True)
        known = [[scores[text] for text in example.hypotheses] for example, scores in of_inputs]
        return Precomputed(metric.name, metric.signature, known)


def _score_texts(
    experiment: Experiment,
    lists: ListsByMethod,
    cache: Path,
    unavailable: dict[str, str],
    workers: Workers,
) -> dict[str, _ScoredTexts]:
    """Score all texts by all metrics that can be had."""
    found: dict[str, _ScoredTexts] = {}
    if not experiment.metrics:
        return found  # without a bar of nothing
    pools = pool_texts(lists)
    with Progress("scoring").bar(len(experiment.metrics)) as bar:
        for name in experiment.metrics:
            metric, by_method = _kept(name, cache), dict[str, ScoresByText]()
            try:
                for pool in pools:
                    by_method |= dict.fromkeys(pool.methods, pool.scores(metric, workers))
                found[name] = _ScoredTexts(metric, by_method)
            except metrics.Unavailable as error:
                _do_without(name, error, unavailable)
            bar.advance()
    return found


def _kept(name: str, cache: Path) -> TextMetric:
    metric = TEXT_METRICS[name]()
    return KeptScores(metric, cache / "scores", _AT_ONCE) if name in _SLOW else metric


def _do_without(name: str, error: metrics.Unavailable, unavailable: dict[str, str]) -> None:
    """Print why a metric is left out, and put it down for the results."""
    print(f"without {name}: {error}", file=sys.stderr)
    unavailable[name] = str(error)


def _by_risk(
    experiment: Experiment,
    lists: ListsByMethod,
    known: Mapping[str, _ScoredTexts],
    unavailable: dict[str, str],
    workers: Workers,
) -> Iterator[Measured]:
    """Yield scores of lists that are ordered by minimum Bayes risk instead of log-probability."""
    order = partial(_ordered, experiment.mbr)
    try:
        ordered = {name: [workers.map_parts(order, run) for run in runs] for name, runs in lists.items()}
    except metrics.Unavailable as error:
        _do_without("mbr", error, unavailable)
        return
    for name, each in known.items():
        if name not in _SLOW:
            yield from each.oracles(ordered, experiment.oracle, partial(_Risk, utility=experiment.mbr))


def _ordered(utility: str, examples: Sequence[Example]) -> list[Example]:
    return metrics.mbr_order(examples, TEXT_METRICS[utility]())


@dataclass(frozen=True)
class _Risk:
    """A metric of texts whose lists are in another order, as its name and signature say."""

    metric: TextMetric
    utility: str

    @property
    def name(self) -> str:
        return f"mbr_{self.metric.name}"

    @property
    def signature(self) -> str:
        return f"order:mbr-{self.utility}|{self.metric.signature}"

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return self.metric.scores(examples)


# Whole lists


def _of_lists(
    experiment: Experiment, lists: ListsByMethod, unavailable: dict[str, str], workers: Workers
) -> Iterator[Measured]:
    probable = all(e.log_probs for runs in lists.values() for examples in runs for e in examples)
    if "log-prob" in experiment.lists and not probable:
        unavailable["log-prob"] = (
            'not all lists have log-probabilities (in files: {"text": ..., "log_prob": ...})'
        )
    asked = _Asked(tuple(name for name in experiment.lists if name not in unavailable), experiment.distinct)
    found = iter(_statistics(asked, [run for runs in lists.values() for run in runs], workers))
    by_method = {method: [next(found) for _ in runs] for method, runs in lists.items()}
    for index, metric in enumerate(asked.metrics()):
        scores = {
            method: [score_of(metric, of_run[index]) for of_run in of_runs]
            for method, of_runs in by_method.items()
        }
        yield Measured(metric, scores)


@dataclass(frozen=True)
class _Asked:
    """Metrics of lists by their names, which are less to send to another process than the metrics."""

    names: tuple[str, ...]
    distinct: tuple[int, ...]

    @lru_cache(1)  # noqa: B019 (one of them is kept, on purpose: word vectors take a while to read)
    def metrics(self) -> list[Metric]:
        blank = Experiment(task="", methods=(), distinct=self.distinct)
        return [metric for name in self.names for metric in LIST_METRICS[name](blank)]


def _statistics(asked: _Asked, runs: Sequence[Sequence[Example]], workers: Workers) -> list[list[Tensor]]:
    """Return the statistics of each run by each metric: [inputs d]."""
    parts = [workers.parts(run) for run in runs]
    of_parts = workers.map(partial(_of_part, asked), [part for of_run in parts for part in of_run])
    by_part = [[next(of_parts) for _ in of_run] for of_run in parts]
    of_wholes = workers.map(partial(_of_whole, asked), runs)
    return [
        [
            torch.from_numpy(np.concatenate(rows) if resamples(metric) else next(whole))
            for metric, rows in zip(asked.metrics(), zip(*of_run, strict=True), strict=True)
        ]
        for of_run, whole in zip(by_part, map(iter, of_wholes), strict=True)
    ]


def _of_part(asked: _Asked, examples: Sequence[Example]) -> list[NDArray[np.float64]]:
    """Return the statistics of some inputs; nothing for metrics that look at all inputs together."""
    return [
        metric.statistics(examples).double().numpy() if resamples(metric) else np.empty(0)
        for metric in asked.metrics()
    ]


def _of_whole(asked: _Asked, examples: Sequence[Example]) -> list[NDArray[np.float64]]:
    """Return the statistics of metrics that look at all inputs together."""
    return [
        metric.statistics(examples).double().numpy() for metric in asked.metrics() if not resamples(metric)
    ]
