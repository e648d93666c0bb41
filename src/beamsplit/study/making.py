"""Plans of studies: from lists in files, or from two strategies and a model."""

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
from beamsplit.study.pictures import Source, jpeg
from beamsplit.study.plan import NewItem, Plan
from beamsplit.study.reading import clean, ids_of, read_about, read_texts

__all__ = ["SHOWN", "Lists", "check_items", "plan_of", "with_decoded", "with_saved"]

SHOWN = 5
"""Outputs of each list that people are shown. The paper does not say how many of its 20 they saw."""

Texts = Sequence[tuple[str, ...]]

_CHOOSE = "This line checks that people read: please choose this list."
_AVOID = "This line checks that people read: please choose the other list."


@dataclass(frozen=True)
class Lists:
    """The lists of two methods for the same inputs, and what is known of these."""

    methods: tuple[str, str]
    ids: tuple[str, ...]
    first: Texts
    second: Texts
    about: Sequence[Source]


# Where lists come from


def with_saved(files: Mapping[str, Path], task: Path | None = None, limit: int | None = None) -> Lists:
    """Of files, by the names of their methods; the inputs are the task's, or else the first file's."""
    one, other = _two(files)
    ids = list(read_about(task)) if task is not None else ids_of(files[one])
    ids = [ids[place] for place in _spread(len(ids), limit)]
    first, second = (read_texts(path, ids) for path in files.values())
    known = [read_about(path) for path in [*([task] if task else []), *files.values()]]
    return Lists((one, other), tuple(ids), first, second, [_about(each, known) for each in ids])


def with_decoded(content: Mapping[str, Any], settings: RunSettings) -> Lists:
    """Of an experiment with two methods: what a TOML file for `beamsplit evaluate` would say."""
    one, other = _two(content["methods"])
    experiment = experiment_of(content, "the command")
    prepared = prepare(experiment, settings, scored=False)
    task = prepared.task
    first, second = (
        [tuple(map(clean, each.hypotheses)) for each in lists_of(method, prepared, experiment, settings)[0]]
        for method in experiment.methods
    )
    own = Path(experiment.task)
    known = [read_about(own)] if own.suffix == ".jsonl" else [_texts_of(task)]
    return Lists((one, other), task.ids, first, second, [_about(each, known) for each in task.ids])


def _two(methods: Mapping[str, Any]) -> tuple[str, str]:
    names = list(methods)
    if len(names) != 2:
        given = ", ".join(names) or "none"
        raise ArgumentError(f"a study compares two lists, and {len(names)} given: {given}")
    return names[0], names[1]


def _texts_of(task: Any) -> dict[str, Source]:
    difficulty = task.difficulty or [None] * len(task.ids)
    texts = [clean(each) if isinstance(each, str) else "" for each in task.inputs]
    rows = zip(task.ids, texts, difficulty, strict=True)
    return {name: Source(text=text, difficulty=number) for name, text, number in rows}


def _about(name: str, known: Sequence[Mapping[str, Source]]) -> Source:
    found = Source()
    for each in known:
        found = found.completed(each.get(name, Source()))
    return found


def _spread(whole: int, count: int | None) -> list[int]:
    """So many places, evenly spread."""
    count = whole if count is None else min(count, whole)
    return [place * whole // count for place in range(count)]


# From lists to a plan


def plan_of(
    lists: Lists,
    *,
    shown: int = SHOWN,
    unique: bool = False,
    attention: int = 1,
    predicted: bool = False,
    **settings: Any,
) -> Plan:
    """A plan of a study about these lists, less repeats if wanted; `settings` are those of `Plan`."""
    checks.at_least("shown", shown, 1)
    checks.at_least("attention", attention, 0)
    about = _with_complexity(lists.about) if predicted else lists.about
    first, second = ([_cut(texts, shown, unique) for texts in each] for each in (lists.first, lists.second))
    items = tuple(map(_item, lists.ids, about, first, second))
    _warn(items)
    one, other = lists.methods
    return Plan(first=one, second=other, items=items, checks=check_items(items, attention), **settings)


def _cut(texts: tuple[str, ...], shown: int, unique: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts) if unique else texts)[:shown]


def _item(name: str, about: Source, first: tuple[str, ...], second: tuple[str, ...]) -> NewItem:
    return NewItem(
        name=name,
        input=about.text,
        picture=None if about.image is None else jpeg(about.image),
        first=first,
        second=second,
        complexity=about.complexity,
        difficulty=about.difficulty,
    )


def _with_complexity(about: Sequence[Source]) -> list[Source]:
    """As the network for it sees the pictures."""
    images = [each.image for each in about if each.image is not None]
    if len(images) != len(about):
        raise ArgumentError(
            f"complexity is predicted from pictures, and {len(about) - len(images)} of {len(about)} inputs "
            'have none: give all an "image", or numbers under "complexity"'
        )
    from beamsplit.models import Complexity

    scores = Complexity.load().predict(images).tolist()
    return [replace(each, complexity=score) for each, score in zip(about, scores, strict=True)]


def _warn(items: Sequence[NewItem]) -> None:
    """Of what people will wonder about."""
    bare = sum(not item.input and item.picture is None for item in items)
    same = sum(item.first == item.second for item in items)
    if bare:
        print(f"{bare} of {len(items)} items show nothing but their lists", file=sys.stderr)
    if same:
        print(
            f"{same} of {len(items)} items have the same list twice: votes on them are chance",
            file=sys.stderr,
        )


def check_items(items: Sequence[NewItem], count: int) -> tuple[NewItem, ...]:
    """Checks of attention: an input of the study, lists of another, and a line that says which to choose."""
    made = []
    for number in range(count):
        seen = items[number * len(items) // count]
        texts = items[(number * len(items) // count + 1) % len(items)]
        answer = ("first", "second")[number % 2]
        lines = (_CHOOSE, _AVOID) if answer == "first" else (_AVOID, _CHOOSE)
        first, second = (_amid(t, line) for t, line in zip((texts.first, texts.second), lines, strict=True))
        name = f"check {number + 1}"
        made.append(
            NewItem(
                name=name, input=seen.input, picture=seen.picture, first=first, second=second, answer=answer
            )
        )
    return tuple(made)


def _amid(texts: tuple[str, ...], line: str) -> tuple[str, ...]:
    """In the middle, where only those who read find it."""
    middle = len(texts) // 2
    return (*texts[:middle], line, *texts[middle + 1 :])
