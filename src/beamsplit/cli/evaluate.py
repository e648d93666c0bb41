"""`beamsplit evaluate`: run an experiment, and print its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.engine_options import EngineOptions, with_engine_options
from beamsplit.cli.options import (
    FILE,
    LONGEST,
    MIN_LENGTH,
    MODEL,
    MODEL_TEMPERATURE,
    named_files,
    show,
    with_format,
    with_settings,
    write_formats,
)
from beamsplit.cli.search_options import strategy_tables, with_strategies
from beamsplit.errors import ArgumentError
from beamsplit.extras import need
from beamsplit.strategies.names import STRATEGIES

if TYPE_CHECKING:
    from beamsplit.evaluation import Experiment, RunSettings

__all__ = ["evaluate"]


@click.command(short_help="Compare strategies on a task: tables, JSON and plots.")
@click.argument("experiment", type=click.Path(path_type=Path), required=False)
@click.option(
    "--task",
    type=FILE,
    metavar="TASK",
    help="A .jsonl file of inputs, with references or without; a .txt file with an input a line; or the name "
    "of a task.",
)
@click.option(
    "--model",
    type=MODEL,
    metavar="MODEL",
    help="A model of ours (en-fr, captioner, questioner) or a file of one; a Hugging Face model by its name "
    "or folder; or FILE.py:NAME or MODULE:NAME for a StepModel of your own, whose code is run.",
)
@with_engine_options
@with_strategies(f"Strategies to compare, with commas: {', '.join(STRATEGIES)}.")
@click.option(
    "--unique",
    is_flag=True,
    help="Leave out outputs that an earlier group has found, in all methods. Late branching never repeats "
    "one.",
)
@MODEL_TEMPERATURE
@click.option(
    "--lists",
    "saved",
    metavar="NAME=FILE",
    multiple=True,
    help="Compare lists that were made elsewhere; repeatable.",
)
@click.option(
    "--metrics",
    metavar="LIST",
    help="Metrics of texts, with commas: bleu, chrf, bleu4, rouge, cider, meteor, spice. They need "
    "references (default: bleu,chrf if there are any, or as the file says).",
)
@click.option(
    "--k",
    "oracle",
    metavar="LIST",
    help="Score the best of the first k outputs, for these k (default: 1,5,10,20).",
)
@click.option(
    "--show", type=click.IntRange(min=0), metavar="N", help="Show the lists of N inputs side by side."
)
@click.option(
    "--max-length",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Maximum number of tokens in an output (default: {LONGEST}, or as the file says).",
)
@MIN_LENGTH
@with_settings
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write NAME.md, NAME.tex, NAME.csv, NAME.json and plots (SVG and PNG) to this folder.",
)
@with_format
def evaluate(
    experiment: Path | None,
    out: Path | None,
    kind: str,
    settings: RunSettings,
    engine: EngineOptions,
    **asked: Any,
) -> None:
    """Run the experiment in the file EXPERIMENT, or the one that the options describe, and print tables.

    All methods are compared with the first; a star marks a difference whose 95% interval (paired bootstrap)
    does not include 0. A run that was stopped is resumed when it is started again. Without references,
    diversity, length and likelihood are measured, and quality is not.

    \b
    beamsplit evaluate experiment.toml --limit 200
    beamsplit evaluate experiment.toml --out results/
    beamsplit evaluate --task my.jsonl --model en-fr --strategies bs,branching,dbs
    beamsplit evaluate --task prompts.txt --model path/to/a/transformers/model --strategies bs,dbs
    beamsplit evaluate --task prompts.txt --engine http://localhost:8000 --strategies bs,branching
    beamsplit evaluate --task my.jsonl --lists mine=lists.jsonl --lists theirs=others.jsonl --format latex

    \b
    my.jsonl has lines of    {"input": "...", "references": ["...", ...]}    ("image": a path, for pictures)
    lists.jsonl has lines of {"id": "...", "hypotheses": ["...", ...]}       (ids: the task's, or 0, 1, ...)
    """  # noqa: D301 (click wants the character)
    from beamsplit.evaluation import latex, markdown, run, to_csv

    if out is not None:  # what is refused or missing had better be so now than after all the work
        out.mkdir(parents=True, exist_ok=True)
        need("matplotlib", "--out", "evaluate")
    model = None if engine.url is None else engine.connect(asked["model"], settings.device)
    if model is not None:
        asked["model"] = model.served_name
    found = run(_experiment(experiment, asked), settings, model)
    formats = {
        "markdown": markdown(found),
        "latex": latex(found),
        "csv": to_csv(found),
        "json": json.dumps(found, indent=1, ensure_ascii=False) + "\n",
    }
    if out is not None:
        from beamsplit.evaluation.plots import save
        from beamsplit.evaluation.tasks import task_stem

        stem = experiment.stem if experiment is not None else task_stem(asked["task"] or "")
        write_formats(formats, out, stem)
        save(found, out, stem)
    show(formats[kind], is_markdown=kind == "markdown")


def _experiment(path: Path | None, asked: dict[str, Any]) -> Experiment:
    """Return the experiment of the file, changed by the options that were given."""
    from beamsplit.evaluation.experiment import experiment_of, read_toml
    from beamsplit.loading import warn_of_code

    methods = _methods(asked)
    content = _without_file(asked, methods) if path is None else read_toml(path)
    source = str(path) if path is not None else "the command"
    if path is not None and asked["model"] is None:
        warn_of_code(content.get("model"), path)
    for name in ("task", "model", "max_length", "min_length", "show"):
        if asked[name] is not None:
            content[name] = asked[name]
    if asked["metrics"] is not None:
        content["metrics"] = [name.strip() for name in asked["metrics"].split(",")]
    if asked["oracle"] is not None:
        content["oracle"] = _numbers("--k", asked["oracle"])
    if methods:
        content["methods"] = methods
    if asked["unique"]:
        content["methods"] = _in_all("--unique", content.get("methods"), {"unique": True})
    if (temperature := asked["model_temperature"]) != 1:
        softened = {"model_temperature": temperature}
        content["methods"] = _in_all("--model-temperature", content.get("methods"), softened)
    return experiment_of(content, source, path.parent if path is not None and not methods else Path())


def _without_file(asked: dict[str, Any], methods: dict[str, Any]) -> dict[str, Any]:
    """Return what an experiment has where nothing is said. Metrics of quality need references."""
    from beamsplit.evaluation.tasks import has_references

    if asked["task"] is None or not methods:
        raise ArgumentError(
            "give an EXPERIMENT file, or --task with --model and --strategies, or --task with --lists"
        )
    content: dict[str, Any] = {"max_length": LONGEST}
    if asked["metrics"] is None and has_references(asked["task"]):
        content["metrics"] = ["bleu", "chrf"]
    elif asked["metrics"] is None and asked["oracle"] is not None:
        raise ArgumentError(
            f"--k is for metrics that need references, and {asked['task']} has none: leave it out"
        )
    return content


def _in_all(option: str, methods: Any, setting: dict[str, Any]) -> Any:
    """Return the methods with this setting for all that decode; `option` asks for it."""
    if not isinstance(methods, Mapping) or not all(isinstance(table, Mapping) for table in methods.values()):
        return methods  # which is refused where experiments are read
    if all("file" in table for table in methods.values()):
        raise ArgumentError(f"{option} is for methods that decode, and all of these are lists in files")
    return {name: table if "file" in table else {**table, **setting} for name, table in methods.items()}


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise ArgumentError(f"{name} is {text!r}: give whole numbers, such as 1,5,20") from error


def _methods(asked: dict[str, Any]) -> dict[str, Any]:
    methods: dict[str, Any] = strategy_tables(asked)
    for name, file in named_files(asked["saved"], taken=methods).items():
        methods[name] = {"file": file}
    return methods
