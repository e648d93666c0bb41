"""Read experiments, which are small files: which task and model, which methods, which figures.

title = "Captions of COCO pictures"
task = "coco.test"
model = "captioner"
metrics = ["cider", "meteor"]

[methods.BS]
strategy = "bs"
beams = 20

[methods.DBS]
strategy = "dbs"
groups = 20
vary = { strength = [0.2, 0.5, 0.8] }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.methods import Method, Saved, read_methods
from beamsplit.loading import warn_of_code
from beamsplit.strategies.defaults import DEFAULTS

__all__ = ["LISTS", "SPLITS", "Experiment", "experiment_of", "read_experiment", "read_toml"]

LISTS = ("distinct", "unique", "self-bleu", "vendi", "length", "log-prob")
"""Figures of whole lists that are taken unless an experiment says which."""


SPLITS = ("predicted", "people", "length")
"""Ways to divide inputs: by predicted complexity, by people's scores, by the mean length of references."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to decode and what to measure."""

    task: str
    methods: tuple[Method | Saved, ...]
    """The first is what the others are compared with."""
    model: str = ""
    """Not needed if all methods are lists in files."""
    title: str = ""
    metrics: tuple[str, ...] = ()
    """Of texts, by name; of each the top-1 and the oracle figures are taken."""
    lists: tuple[str, ...] = LISTS
    """Of whole lists, by name."""
    mbr: str = ""
    """A metric of texts by whose minimum Bayes risk lists are put into another order, for figures of that."""
    oracle: tuple[int, ...] = (1, 5, 10, 20)
    distinct: tuple[int, ...] = (1, 2, 3, 4)
    limit: int | None = None
    max_length: int = DEFAULTS["experiment"].max_length
    min_length: int = 0
    """The fewest tokens of an output."""
    seeds: tuple[int, ...] = (0,)
    """Methods that sample are run once for each, and their figures are the means."""
    split: bool | tuple[str, ...] = False
    """Whether to give figures by image complexity, too; or the ways to divide inputs, of `SPLITS`."""
    show: tuple[str, ...] | int = 0
    """Inputs whose lists go into the results, by their ids, or so many; with split, so many of each part."""
    cost: Mapping[str, int] | None = None
    """Whether to measure time and memory as well: how many `inputs`, how many `turns`."""


def read_experiment(path: Path) -> Experiment:
    """Return the experiment of a file. Warn if the model that it names is code, which will be run."""
    content = read_toml(path)
    warn_of_code(content.get("model"), path)
    return experiment_of(content, str(path), path.parent)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArgumentError(f"there is no file {path}") from error
    except (OSError, ValueError, RecursionError) as error:  # also of too many digits, or brackets
        raise ArgumentError(f"{path} is no TOML: {' '.join(str(error).split())}") from error


def experiment_of(
    content: Mapping[str, Any], source: str = "the experiment", folder: Path = Path()
) -> Experiment:
    """Return the experiment of a file's content; files that it names are looked for in the folder."""
    checks.known_keys(content, {each.name for each in fields(Experiment)}, source)
    for each in fields(Experiment):
        if each.default is MISSING and each.name not in content:
            raise ArgumentError(f"{source} has no {each.name!r}: every experiment needs one")
    read: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
    }
    for name in ("task", "model"):
        # Beside the file, if it is there: an experiment and its data are moved together.
        if isinstance(read.get(name), str) and (folder / read[name]).is_file():
            read[name] = str(folder / read[name])
    read["methods"] = read_methods(content["methods"], source, folder)
    made = Experiment(**read)
    _check(made, source)
    return made


def _check(made: Experiment, source: str) -> None:
    _check_kinds(made, source)
    for name, least in (("oracle", 1), ("distinct", 1), ("seeds", 0)):
        for value in getattr(made, name):
            checks.at_least(f"{name} in {source}", value, least)
    _check_lengths(made, source)
    if made.limit is not None:
        checks.at_least(f"limit in {source}", made.limit, 1)
    if not made.seeds:
        raise ArgumentError(f"seeds in {source} is empty: give one at least")
    if not made.model and any(isinstance(method, Method) for method in made.methods):
        raise ArgumentError(f"{source} has no 'model': every experiment that decodes needs one")
    _check_cost(made.cost, source)


def _check_lengths(made: Experiment, source: str) -> None:
    checks.at_least(f"max_length in {source}", made.max_length, 1)
    checks.at_least(f"min_length in {source}", made.min_length, 0)
    if made.min_length > made.max_length:
        raise ArgumentError(
            f"min_length in {source} is {made.min_length}, and max_length is {made.max_length}: "
            "give a smaller min_length or a larger max_length"
        )


def _check_kinds(made: Experiment, source: str) -> None:
    for name in ("task", "model", "title", "mbr"):
        if not isinstance(getattr(made, name), str):
            raise ArgumentError(
                f"{name} in {source} must be text, not {checks.short_repr(getattr(made, name))}"
            )
    for name in ("metrics", "lists", "oracle", "distinct", "seeds"):
        if not isinstance(getattr(made, name), tuple):
            raise ArgumentError(
                f"{name} in {source} must be a list, not {checks.short_repr(getattr(made, name))}"
            )
    _check_split(made.split, source)
    if not isinstance(made.show, tuple):
        checks.at_least(f"show in {source}", made.show, 0)


def _check_split(split: Any, source: str) -> None:
    if isinstance(split, tuple):
        for each in split:
            if each not in SPLITS:
                raise ArgumentError(
                    f"split in {source} names {checks.short_repr(each)}: there are {', '.join(SPLITS)}"
                )
    elif not isinstance(split, bool):
        raise ArgumentError(
            f"split in {source} must be true, false or a list of {', '.join(SPLITS)}, "
            f"not {checks.short_repr(split)}"
        )


def _check_cost(cost: Any, source: str) -> None:
    if cost is None:
        return
    if not isinstance(cost, Mapping):
        raise ArgumentError(f"cost in {source} must be a table such as {{ inputs = 32, turns = 7 }}")
    checks.known_keys(cost, ("inputs", "turns"), f"cost in {source}")
    for key, value in cost.items():
        checks.at_least(f"cost.{key} in {source}", value, 1)
