"""Make plans of studies, from lists in files or from two strategies and a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.evaluation import RunSettings, experiment_of
from beamsplit.evaluation.running import lists_of, prepare
from beamsplit.evaluation.tasks import is_task_file
from beamsplit.model import features_of
from beamsplit.study.pictures import Source, to_jpeg
from beamsplit.study.plan import NewItem, StudyPlan
from beamsplit.study.reading import clean, read_ids, read_sources, read_texts

__all__ = ["SHOWN", "ListPair", "check_items", "lists_from_files", "lists_from_strategies", "make_plan"]

SHOWN = 5
"""Outputs shown of each list. The paper does not say how many of its 20 were shown."""

Texts = Sequence[tuple[str, ...]]

_CHOOSE = "This line checks that people read: please choose this list."
_AVOID = "This line checks that people read: please choose the other list."


@dataclass(frozen=True)
class ListPair:
    """The lists of two methods for the same inputs, and what is known about the inputs."""

    methods: tuple[str, str]
    ids: tuple[str, ...]
    first: Texts
    second: Texts
    about: Sequence[Source]


# Lists


def lists_from_files(
    files: Mapping[str, Path], task: Path | None = None, limit: int | None = None
) -> ListPair:
    """Read lists from files, by method. The inputs are those of the task, or else of the first file."""
    one, other = _two_names(files)
    ids = list(read_sources(task)) if task is not None else read_ids(files[one])
    ids = [ids[index] for index in _spread(len(ids), limit)]
    first, second = (read_texts(path, ids) for path in files.values())
    known = [read_sources(path) for path in [*([task] if task else []), *files.values()]]
    return ListPair((one, other), tuple(ids), first, second, [_merge_sources(each, known) for each in ids])


def lists_from_strategies(content: Mapping[str, Any], settings: RunSettings) -> ListPair:
    """Decode the lists of two methods. `content` is what a TOML file for `beamsplit evaluate` contains."""
    one, other = _two_names(content["methods"])
    experiment = experiment_of(content, "the command")
    prepared = prepare(experiment, settings, scored=False)
    task = prepared.task
    first, second = (
        [tuple(map(clean, each.hypotheses)) for each in lists_of(method, prepared, experiment, settings)[0]]
        for method in experiment.methods
    )
    own = Path(experiment.task)
    looks = features_of(prepared.model) is not None
    known = [read_sources(own, pictures=looks) if is_task_file(own) else _task_sources(task)]
    return ListPair((one, other), task.ids, first, second, [_merge_sources(each, known) for each in task.ids])


def _two_names(methods: Mapping[str, Any]) -> tuple[str, str]:
    names = list(methods)
    if len(names) != 2:
        given = ", ".join(names) or "none"
        raise ArgumentError(f"a study compares two lists, and {len(names)} given: {given}")
    return names[0], names[1]


def _task_sources(task: Any) -> dict[str, Source]:
    difficulty = task.difficulty or [None] * len(task.ids)
    texts = [clean(each) if isinstance(each, str) else "" for each in task.inputs]
    rows = zip(task.ids, texts, difficulty, strict=True)
    return {name: Source(text=text, difficulty=number) for name, text, number in rows}


def _merge_sources(name: str, known: Sequence[Mapping[str, Source]]) -> Source:
    found = Source()
    for each in known:
        found = found.completed(each.get(name, Source()))
    return found


def _spread(whole: int, count: int | None) -> list[int]:
    """Return `count` indices, evenly spread."""
    count = whole if count is None else min(count, whole)
    return [number * whole // count for number in range(count)]


# Plans


def make_plan(
    lists: ListPair,
    *,
    shown: int = SHOWN,
    unique: bool = False,
    attention: int = 1,
    predicted: bool = False,
    **settings: Any,
) -> StudyPlan:
    """Return a plan for these lists. `settings` are those of `StudyPlan`."""
    checks.at_least("shown", shown, 1)
    checks.at_least("attention", attention, 0)
    sources = _predict_complexity(lists.about) if predicted else lists.about
    first, second = ([_cut(texts, shown, unique) for texts in each] for each in (lists.first, lists.second))
    items = tuple(map(_make_item, lists.ids, sources, first, second))
    _warn(items)
    one, other = lists.methods
    _warn_of_shortfalls(one, first, shown)
    _warn_of_shortfalls(other, second, shown)
    return StudyPlan(first=one, second=other, items=items, checks=check_items(items, attention), **settings)


def _cut(texts: tuple[str, ...], shown: int, unique: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts) if unique else texts)[:shown]


def _make_item(name: str, source: Source, first: tuple[str, ...], second: tuple[str, ...]) -> NewItem:
    return NewItem(
        name=name,
        input=source.text,
        picture=None if source.image is None else to_jpeg(source.image),
        first=first,
        second=second,
        complexity=source.complexity,
        difficulty=source.difficulty,
    )


def _predict_complexity(sources: Sequence[Source]) -> list[Source]:
    """Return the sources with the complexity that the model predicts from their pictures."""
    images = [each.image for each in sources if each.image is not None]
    if len(images) != len(sources):
        raise ArgumentError(
            f"complexity is predicted from pictures, and {len(sources) - len(images)} of {len(sources)} "
            'inputs have none: give all an "image", or numbers under "complexity"'
        )
    from beamsplit.models import Complexity

    scores = Complexity.load().predict(images).tolist()
    return [replace(each, complexity=score) for each, score in zip(sources, scores, strict=True)]


def _warn(items: Sequence[NewItem]) -> None:
    """Warn of items that will puzzle people."""
    bare = sum(not item.input and item.picture is None for item in items)
    same = sum(item.first == item.second for item in items)
    if bare:
        print(f"{bare} of {len(items)} items show nothing but their lists", file=sys.stderr)
    if same:
        print(
            f"{same} of {len(items)} items have the same list twice: votes on them are chance",
            file=sys.stderr,
        )


def _warn_of_shortfalls(method: str, lists: Texts, shown: int) -> None:
    """Warn of lists that have fewer outputs than are to be shown, and of lists that repeat themselves."""
    short = sum(len(each) < shown for each in lists)
    repetitive = sum(len(set(each)) < len(each) for each in lists)
    if short:
        print(
            f"{short} of {len(lists)} lists of {method} have fewer outputs than the {shown} to be shown",
            file=sys.stderr,
        )
    if repetitive:
        print(f"{repetitive} of {len(lists)} lists of {method} show a text twice", file=sys.stderr)


def check_items(items: Sequence[NewItem], count: int) -> tuple[NewItem, ...]:
    """Return attention checks: an input, the lists of another, and a line that says which list to choose."""
    made = []
    for number in range(count):
        seen = items[number * len(items) // count]
        texts = items[(number * len(items) // count + 1) % len(items)]
        answer = ("first", "second")[number % 2]
        lines = (_CHOOSE, _AVOID) if answer == "first" else (_AVOID, _CHOOSE)
        first, second = (_insert(t, line) for t, line in zip((texts.first, texts.second), lines, strict=True))
        name = f"check {number + 1}"
        made.append(
            NewItem(
                name=name, input=seen.input, picture=seen.picture, first=first, second=second, answer=answer
            )
        )
    return tuple(made)


def _insert(texts: tuple[str, ...], line: str) -> tuple[str, ...]:
    """Put the line in the middle, where only those who read find it."""
    middle = len(texts) // 2
    return (*texts[:middle], line, *texts[middle + 1 :])
