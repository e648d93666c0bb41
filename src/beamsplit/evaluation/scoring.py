"""Score lists: by metrics that have the names that experiments use, with a cache for the slow ones."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from beamsplit import metrics
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.experiment import Experiment
from beamsplit.files import write_bytes
from beamsplit.metrics import DistinctN, Example, Metric, Oracle, Score, TextMetric
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

LIST_METRICS: dict[str, Callable[[Experiment], list[Metric]]] = {
    "distinct": lambda of: [DistinctN(n=n, of=whole) for whole in ("list", "corpus") for n in of.distinct],
    "unique": lambda _: [metrics.UniqueFraction()],
    "self-bleu": lambda _: [metrics.SelfBLEU()],
    "vendi": lambda _: [metrics.Vendi()],
    "spread": lambda _: [metrics.EmbeddingSpread(vectors=_english(), words=metrics.Words(lower=True))],
    "length": lambda _: [metrics.MeanLength()],
    "log-prob": lambda _: [metrics.TopLogProb()],
}
"""Metrics of whole lists, by name."""

ListsByMethod = Mapping[str, Sequence[Sequence[Example]]]
"""By method: the lists of all inputs, once for each seed."""

_SLOW = ("meteor", "spice")  # which are kept; they look at one text at a time, as CIDEr-D does not
_AT_ONCE = 20_000  # texts that a slow metric is asked about before their scores are written


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
    experiment: Experiment, lists: ListsByMethod, cache: Path, unavailable: dict[str, str]
) -> Iterator[Measured]:
    """Yield the scores of all metrics of an experiment; put down in `unavailable` why some cannot be had."""
    yield from _of_texts(experiment, lists, cache, unavailable)
    if experiment.mbr:
        yield from _by_risk(experiment, lists, unavailable)
    probable = all(e.log_probs for runs in lists.values() for examples in runs for e in examples)
    for name in experiment.lists:
        if name == "log-prob" and not probable:
            unavailable[name] = (
                'not all lists have log-probabilities (in files: {"text": ..., "log_prob": ...})'
            )
            continue
        for metric in LIST_METRICS[name](experiment):
            scores = {
                method: [metrics.measure(metric, examples) for examples in runs]
                for method, runs in lists.items()
            }
            yield Measured(metric, scores)


def _of_texts(
    experiment: Experiment, lists: ListsByMethod, cache: Path, unavailable: dict[str, str]
) -> Iterator[Measured]:
    chosen = {name: _kept(name, cache) for name in experiment.metrics}
    if not chosen:
        return  # without a bar of nothing
    # Method by method, since several metrics look at the same tokens of a method's texts.
    scores: dict[str, dict[str, list[list[Score]]]] = {name: {} for name in chosen}
    with Progress("scoring").bar(len(lists) * len(chosen)) as bar:
        for method, runs in lists.items():
            for name, metric in chosen.items():
                try:
                    if name not in unavailable:
                        scores[name][method] = [
                            metrics.oracles(metric, experiment.oracle, examples) for examples in runs
                        ]
                except metrics.Unavailable as error:
                    _do_without(name, error, unavailable)
                bar.advance()
    for name, metric in chosen.items():
        for index, k in enumerate(experiment.oracle if name not in unavailable else ()):
            yield Measured(
                Oracle(metric, k),
                {method: [run[index] for run in runs] for method, runs in scores[name].items()},
            )


def _do_without(name: str, error: metrics.Unavailable, unavailable: dict[str, str]) -> None:
    """Print why a metric is left out, and put it down for the results."""
    print(f"without {name}: {error}", file=sys.stderr)
    unavailable[name] = str(error)


def _by_risk(experiment: Experiment, lists: ListsByMethod, unavailable: dict[str, str]) -> Iterator[Measured]:
    """Yield scores of lists that are ordered by minimum Bayes risk instead of log-probability."""
    utility = TEXT_METRICS[experiment.mbr]()
    try:
        ordered = {
            name: [metrics.mbr_order(examples, utility) for examples in runs] for name, runs in lists.items()
        }
    except metrics.Unavailable as error:
        _do_without("mbr", error, unavailable)
        return
    for name in experiment.metrics:
        if name in _SLOW or name in unavailable:
            continue
        metric = _Risk(TEXT_METRICS[name](), experiment.mbr)
        found = {
            method: [metrics.oracles(metric, experiment.oracle, examples) for examples in runs]
            for method, runs in ordered.items()
        }
        for index, k in enumerate(experiment.oracle):
            scores = {method: [run[index] for run in runs] for method, runs in found.items()}
            yield Measured(Oracle(metric, k), scores)


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


# Kept scores


def _kept(name: str, cache: Path) -> TextMetric:
    metric = TEXT_METRICS[name]()
    return _Kept(metric, cache) if name in _SLOW else metric


class _Kept:
    """A metric whose scores are kept in a file."""

    def __init__(self, metric: TextMetric, cache: Path) -> None:
        self._metric = metric
        self._folder = cache / "scores"
        self._known: dict[str, float] | None = None

    @property
    def name(self) -> str:
        return self._metric.name

    @property
    def signature(self) -> str:
        return self._metric.signature

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        known = self._read() if self._known is None else self._known
        keys = [_keys(example) for example in examples]
        new = [
            Example(tuple(t for t, key in of.items() if key not in known), example.references)
            for example, of in zip(examples, keys, strict=True)
        ]
        for part in _parts([each for each in new if each.hypotheses]):
            self._add(part, self._metric.scores(part))
        return [[known[of[text]] for text in e.hypotheses] for e, of in zip(examples, keys, strict=True)]

    def _read(self) -> dict[str, float]:
        self._known = {}
        if self._path.exists():
            # A run that was killed may have left half a line.
            for line in self._path.read_text(encoding="utf-8").split("\n")[:-1]:
                key, _, score = line.partition(" ")
                self._known[key] = float(score)
        return self._known

    def _add(self, examples: Sequence[Example], scores: Sequence[Sequence[float]]) -> None:
        known = self._known if self._known is not None else self._read()
        for example, found in zip(examples, scores, strict=True):
            known |= zip(_keys(example).values(), found, strict=True)
        lines = "".join(f"{key} {score!r}\n" for key, score in known.items())
        write_bytes(self._path, lines.encode())

    @property
    def _path(self) -> Path:
        return self._folder / f"{_digest(self.signature)}.txt"


def _keys(example: Example) -> dict[str, str]:
    """Return a key for each text, made of the text and its references."""
    references = _digest(json.dumps(example.references))
    return {text: _digest(references + text) for text in example.hypotheses}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _parts(examples: Sequence[Example]) -> Iterator[list[Example]]:
    part: list[Example] = []
    texts = 0
    for example in examples:
        part.append(example)
        texts += len(example.hypotheses)
        if texts >= _AT_ONCE:
            yield part
            part, texts = [], 0
    if part:
        yield part


def _english() -> tuple[list[str], torch.Tensor]:
    tensors, description = storage.read(storage.WEIGHTS / "words.safetensors")
    return description["words"], tensors["vectors"]
