"""Score each text once for each input, however many methods have found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from beamsplit.evaluation.workers import Workers
from beamsplit.metrics import Example, TextMetric

__all__ = ["ListsByMethod", "ScoresByText", "TextPool", "pool_texts"]

ListsByMethod: TypeAlias = Mapping[str, Sequence[Sequence[Example]]]
"""By method: the lists of all inputs, once for each seed."""

ScoresByText: TypeAlias = list[dict[str, float]]
"""For each input: the scores of its texts."""


@dataclass(frozen=True)
class TextPool:
    """Some methods whose inputs have the same references, and all of their texts."""

    methods: tuple[str, ...]
    examples: tuple[Example, ...]
    """For each input: the texts of all methods, each once."""

    def scores(self, metric: TextMetric, workers: Workers) -> ScoresByText:
        """Score all texts, in parts if the metric allows that."""
        in_parts = getattr(metric, "in_parts", None)
        if in_parts is None:
            lists = metric.scores(self.examples)
        else:
            parts = in_parts(self.examples)
            lists = workers.map_parts(parts.scores, parts.examples)
        return [
            dict(zip(example.hypotheses, scores, strict=True))
            for example, scores in zip(self.examples, lists, strict=True)
        ]


def pool_texts(lists: ListsByMethod) -> list[TextPool]:
    """Return the pools of all texts; one, unless methods disagree about references."""
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, runs in lists.items():
        alike.setdefault(tuple(each.references for each in runs[0]), []).append(name)
    return [
        TextPool(tuple(names), _united(references, [run for name in names for run in lists[name]]))
        for references, names in alike.items()
    ]


def _united(references: Sequence[tuple[str, ...]], runs: Sequence[Sequence[Example]]) -> tuple[Example, ...]:
    texts: list[dict[str, None]] = [{} for _ in references]
    for run in runs:
        for found, example in zip(texts, run, strict=True):
            found.update(dict.fromkeys(example.hypotheses))
    return tuple(Example(tuple(found), each) for found, each in zip(texts, references, strict=True))
