"""Run an experiment from beginning to end: read, decode, measure, compare."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

import beamsplit
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.cost import cost
from beamsplit.evaluation.datasets import data_folder
from beamsplit.evaluation.decoding import Cache, decode_cached, fingerprint
from beamsplit.evaluation.experiment import Experiment
from beamsplit.evaluation.figures import by_part, figures, signatures
from beamsplit.evaluation.methods import Method, Saved
from beamsplit.evaluation.saved import read_lists
from beamsplit.evaluation.scoring import ListsByMethod, check_metrics, measured
from beamsplit.evaluation.tasks import Task, read_task
from beamsplit.evaluation.workers import ALONE, Workers
from beamsplit.hypotheses import Hypotheses
from beamsplit.loading import load_model
from beamsplit.metrics import Example
from beamsplit.metrics.coco import keeping_programs
from beamsplit.model import StepModel, accepts_of, end_of, features_of
from beamsplit.models import Complexity
from beamsplit.models.complexity import split
from beamsplit.strategies import Strategy
from beamsplit.strategies.defaults import BATCH_SIZE

__all__ = [
    "PARTS",
    "Prepared",
    "RunSettings",
    "decode_method",
    "lists_of",
    "model_name",
    "prepare",
    "run",
]

PARTS = ("simple", "average", "complex")
LENGTHS = ("short", "average", "long")  # what the same parts are called where lengths divide inputs


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How to run an experiment: where its data and its cache are, on what device, and how much of it."""

    data: str | None = None
    cache: Path = Path(".beamsplit-cache")
    limit: int | None = None
    draws: int = 1000
    batch_size: int = BATCH_SIZE
    device: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A task and the model for it, without the inputs that the model does not take."""

    task: Task
    model: StepModel | None
    refused: int


def run(
    experiment: Experiment,
    settings: RunSettings,
    model: StepModel | None = None,
    workers: Workers = ALONE,
) -> dict[str, Any]:
    """Return all figures of an experiment, ready for JSON. A `model` replaces the one that it names.

    With workers, lists are scored in several processes. Figures do not depend on their number.
    """
    check_metrics(experiment)
    prepared = prepare(experiment, settings, model)
    task = prepared.task
    parts = _parts(task, experiment.split) if experiment.split else {}
    chosen = _examples_to_show(experiment.show, task, parts)
    settings.cache.mkdir(parents=True, exist_ok=True)  # if that is refused, better now
    lists = {method.name: lists_of(method, prepared, experiment, settings) for method in experiment.methods}
    experiment = replace(experiment, oracle=_oracles(experiment.oracle, lists))
    unavailable: dict[str, str] = {}
    with keeping_programs(workers.jobs):
        scores = list(measured(experiment, lists, settings.cache, unavailable, workers))
    found: dict[str, Any] = {
        "title": experiment.title or experiment.task,
        "task": Path(experiment.task).name,
        "model": model_name(experiment.model) or "none",
        "beamsplit": beamsplit.__version__,
        "items": len(task.ids),
        "refused": prepared.refused,
        "references": _extremes(map(len, task.references)),
        # Only if there is one, so that results are as they were before there was a least length.
        **({"min_length": experiment.min_length} if experiment.min_length else {}),
        "seeds": list(experiment.seeds),
        "methods": {
            method.name: {**method.description, "family": method.family, "varied": dict(method.varied)}
            for method in experiment.methods
        },
        **_widths(experiment, prepared.model),
        "unavailable": unavailable,
        "lengths": {
            name: _extremes(len(example.hypotheses) for run in runs for example in run)
            for name, runs in lists.items()
        },
        "shortfalls": {method.name: _shortfall(method, lists[method.name]) for method in experiment.methods},
        "signatures": signatures(scores),
        "figures": figures(scores, range(len(task.ids)), settings.draws),
        "parts": {by: by_part(scores, rows, settings.draws) for by, rows in parts.items()},
        "examples": _shown_examples(chosen, task, lists),
    }
    if experiment.cost is not None:
        # Only what has a name can be loaded in a process of its own.
        named = experiment if model is None else replace(experiment, model="")
        found["cost"] = _cost(named, prepared, settings)
    return found


def _widths(experiment: Experiment, model: StepModel | None) -> dict[str, Any]:
    """Return what methods cost the model, if some choose of longer lists: how many beams an input has."""
    methods = [method for method in experiment.methods if isinstance(method, Method)]
    if model is None or all(method.select is None for method in methods):
        return {}
    return {"widths": {method.name: _width(method.make(model)[1]) for method in methods}}


def _width(strategy: Strategy) -> int:
    plan, runs = strategy.plan(), getattr(strategy, "runs", 1)
    return int(runs * plan.groups * plan.beams_per_group)


def model_name(model: str) -> str:
    """Return the model as results name it: a file without its folder, which says nothing to others."""
    return Path(model).name if Path(model).suffix == ".safetensors" else model


def _cost(experiment: Experiment, prepared: Prepared, settings: RunSettings) -> dict[str, Any]:
    if prepared.model is None:
        raise ArgumentError(
            "cost is for methods that decode, and all of these are lists in files: leave it out"
        )
    return cost(experiment, prepared.model, prepared.task.inputs, settings.device)


# Inputs


def prepare(
    experiment: Experiment, settings: RunSettings, model: StepModel | None = None, *, scored: bool = True
) -> Prepared:
    """Read the task and load the model; the task needs no references if nothing is scored."""
    whole = read_task(experiment.task, lambda: data_folder(settings.data), scored=scored)
    if scored and not whole.has_references:
        _check_unscored(experiment)
    task = whole.some(settings.limit or experiment.limit)
    if all(isinstance(method, Saved) for method in experiment.methods):
        return Prepared(task, None, 0)
    model = model or load_model(experiment.model, settings.device)
    for method in experiment.methods:
        if isinstance(method, Method):
            # Raise now if the model lacks what a method needs, not when its turn comes.
            method.make(model)
    if task.folder is not None and features_of(model) is not None:
        task = task.as_pictures()
    if task.pictures:
        task = _looked_at(task, model)
    accepted = _accepted(model, task)
    if fingerprint(model) is None:
        print(
            f"lists of {type(model).__name__} are not kept for later runs: give the model a `fingerprint`, "
            "a text that changes whenever its outputs may change",
            file=sys.stderr,
        )
    return Prepared(task.only(accepted), model, len(task.ids) - len(accepted))


def _check_unscored(experiment: Experiment) -> None:
    """Raise if a figure was asked for that needs references."""
    metrics = ", ".join([*experiment.metrics, *(["mbr"] if experiment.mbr else [])])
    if metrics:
        raise ArgumentError(
            f"{experiment.task} has no references, which metrics of quality need ({metrics}): "
            "give references, or leave these metrics out"
        )


def _looked_at(task: Task, model: Any) -> Task:
    features = features_of(model)
    if features is None:
        raise ArgumentError(
            f"{task.name} has pictures, and {type(model).__name__} takes no pictures: "
            "give another model, such as captioner"
        )
    return replace(task, inputs=features(list(task.inputs)).cpu(), keys=None, pictures=False)


def _accepted(model: Any, task: Task) -> list[int]:
    """Return the indices of the inputs that the model takes: one that is too long must not stop all."""
    accepts = accepts_of(model)
    inputs = enumerate(task.inputs)
    accepted = [index for index, each in inputs if accepts is None or accepts(each)]
    if not accepted:
        raise ArgumentError(
            f"{type(model).__name__} accepts none of the {len(task.ids)} inputs of {task.name}: "
            "give other inputs, or another model"
        )
    return accepted


def _parts(task: Task, ways: bool | tuple[str, ...]) -> dict[str, dict[str, list[int]]]:
    """Return the inputs of each part, by each way to divide them; True is by complexity, as far as known."""
    known = {
        "predicted": isinstance(task.inputs, Tensor),
        "people": task.difficulty is not None,
        "length": task.has_references,
    }
    if not isinstance(ways, tuple):
        ways = tuple(by for by in ("predicted", "people") if known[by])
        if not ways:
            raise ArgumentError(
                f"split is for pictures or inputs with a difficulty, and {task.name} has neither: "
                "leave it out"
            )
    for by in ways:
        if not known[by]:
            raise ArgumentError(f"split names {by!r}, which is not known of {task.name}: leave it out")
    return {by: _parts_by(by, task) for by in ways}


def _parts_by(by: str, task: Task) -> dict[str, list[int]]:
    match by:
        case "predicted":
            names = split(Complexity.load().predict(task.inputs))
        case "people":
            names = split(torch.tensor(task.difficulty))
        case _:
            names = split([fmean(len(text.split()) for text in texts) for texts in task.references])
    labels = dict(zip(PARTS, LENGTHS if by == "length" else PARTS, strict=True))
    return {
        label: [index for index, name in enumerate(names) if name == part] for part, label in labels.items()
    }


# Lists


def lists_of(
    method: Method | Saved, prepared: Prepared, experiment: Experiment, settings: RunSettings
) -> list[list[Example]]:
    """Return a method's lists for all inputs, once for each seed."""
    task = prepared.task
    if isinstance(method, Saved):
        return [read_lists(method.file, task.ids, task.references)]
    found = []
    for lists in decode_method(method, prepared, experiment, settings):
        ends = end_of(prepared.model) not in (None, [])
        _warn(method, lists, experiment.max_length if ends else None)
        chosen = lists if method.select is None else list(map(method.select.of_list, lists))
        found.append(_examples(task, chosen))
    return found


def decode_method(
    method: Method, prepared: Prepared, experiment: Experiment, settings: RunSettings, *, shown: bool = True
) -> Iterator[list[Hypotheses]]:
    """Yield what a method finds for all inputs, once for each seed; what the cache lacks is decoded."""
    assert prepared.model is not None
    for seed in experiment.seeds if method.spec.samples else experiment.seeds[:1]:
        yield decode_cached(
            prepared.model,
            prepared.task.inputs,
            method,
            max_length=experiment.max_length,
            min_length=experiment.min_length,
            cache=Cache(settings.cache),
            seed=seed,
            batch_size=settings.batch_size,
            keys=prepared.task.keys,
            shown=shown,
        )


def _warn(method: Method, lists: Sequence[Hypotheses], max_length: int | None) -> None:
    """Warn of what makes figures worse than they need be."""
    outputs = [h for found in lists for h in found]
    cut = sum(not h.finished for h in outputs)
    if max_length is not None and cut > len(outputs) / 100:
        share = f"{cut} of {len(outputs)} outputs of {method.name}"
        print(f"{share} were cut off at max_length {max_length}: should it be larger?", file=sys.stderr)
    if outputs and outputs[0].text is None:
        print(f"outputs of {method.name} are numbers: the model has no `to_text`", file=sys.stderr)


def _examples(task: Task, lists: Sequence[Hypotheses]) -> list[Example]:
    return [
        Example(tuple(_text(h.text, h.tokens) for h in found), references, tuple(h.log_prob for h in found))
        for found, references in zip(lists, task.references, strict=True)
    ]


def _text(text: str | None, tokens: tuple[int, ...]) -> str:
    """Return the text, or token ids where the model has no words."""
    return " ".join(map(str, tokens)) if text is None else text


def _extremes(counts: Iterable[int]) -> dict[str, int]:
    found = list(counts)
    return {"fewest": min(found), "most": max(found)}


def _shortfall(method: Method | Saved, runs: Sequence[Sequence[Example]]) -> dict[str, int | None]:
    """Return how many of a method's lists have fewer outputs than were asked for, and how many have repeats.

    What was asked for is not known of lists that were made elsewhere.
    """
    asked = method.asked if isinstance(method, Method) else None
    lists = [example.hypotheses for run in runs for example in run]
    return {
        "asked": asked,
        "lists": len(lists),
        "short": 0 if asked is None else sum(len(each) < asked for each in lists),
        "repetitive": sum(len(set(each)) < len(each) for each in lists),
    }


def _oracles(asked: Sequence[int], lists: ListsByMethod) -> tuple[int, ...]:
    """Return the k that were asked for, but none larger than the longest list."""
    longest = max(len(example.hypotheses) for runs in lists.values() for run in runs for example in run)
    return tuple(dict.fromkeys(min(k, longest) for k in asked))


# Lists to look at


def _shown_examples(
    chosen: Sequence[tuple[int, str]], task: Task, lists: ListsByMethod
) -> list[dict[str, Any]]:
    return [
        {
            "id": task.ids[index],
            "part": part,
            "input": task.inputs[index] if isinstance(task.inputs[index], str) else "",
            "references": list(task.references[index]),
            "lists": {name: _lines(runs[0][index]) for name, runs in lists.items()},
        }
        for index, part in chosen
    ]


def _examples_to_show(
    show: tuple[str, ...] | int, task: Task, parts: Mapping[str, Mapping[str, Sequence[int]]]
) -> list[tuple[int, str]]:
    if isinstance(show, int):
        # By people's scores rather than by predicted ones; spread, so that nobody chose them.
        by = parts.get("people") or parts.get("predicted") or {"": range(len(task.ids))}
        return [(index, part) for part, rows in by.items() for index in _spread(rows, show)]
    names = [str(each) for each in show]
    unknown = [each for each in names if each not in task.ids]
    if unknown:
        raise ArgumentError(f"show names the id {unknown[0]!r}, which {task.name} does not have")
    return [(task.ids.index(each), "") for each in names]


def _spread(rows: Sequence[int], count: int) -> list[int]:
    """Return so many rows, evenly spread."""
    count = min(count, len(rows))
    return [rows[(2 * index + 1) * len(rows) // (2 * count)] for index in range(count)]


def _lines(example: Example) -> list[dict[str, Any]]:
    log_probs: Sequence[float | None] = example.log_probs or [None] * len(example.hypotheses)
    return [{"text": t, "log_prob": p} for t, p in zip(example.hypotheses, log_probs, strict=True)]
