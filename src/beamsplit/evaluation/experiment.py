"""An experiment as a small file: which task and model, which methods, which figures.

title = "Captions of COCO pictures"
task = "coco.test"
model = "captioner"
metrics = ["cider", "meteor"]

[methods.BS]
kind = "beam"
beams = 20

[methods.DBS]
kind = "diverse"
groups = 20
strength = 0.5
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.diversity import Cumulative, Diversity, Embedding, Hamming, NGram
from beamsplit.errors import ArgumentError
from beamsplit.guidance import AntiLanguageModel
from beamsplit.model import StepModel
from beamsplit.strategies import (
    BeamSearch,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    Sampling,
    StochasticBeamSearch,
    Strategy,
)

__all__ = ["METHODS", "TERMS", "Experiment", "Method", "experiment_of", "read_experiment"]

METHODS: dict[str, Any] = {
    "beam": BeamSearch,
    "diverse": DiverseBeamSearch,
    "siblings": DiverseSiblings,
    "divmbest": DivMBest,
    "sampling": Sampling,
    "diverse-sampling": DiverseSampling,
    "stochastic": StochasticBeamSearch,
}

TERMS: dict[str, Any] = {
    "hamming": Hamming,
    "cumulative": Cumulative,
    "ngram": NGram,
    "embedding": Embedding,
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A strategy with its settings, perhaps on a model that is guided away from what is said anyway."""

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    diversity: Mapping[str, Any] | None = None
    mmi: Mapping[str, Any] | None = None

    def strategy(self, model: StepModel) -> Strategy:
        settings = dict(self.settings)
        if self.diversity is not None:
            settings["diversity"] = _term(self.diversity, model, f"methods.{self.name}.diversity")
        made: Strategy = METHODS[self.kind](**settings)
        return made

    def guided(self, model: StepModel) -> StepModel:
        """The model that is decoded."""
        if self.mmi is None:
            return model
        language_model = getattr(model, "language_model", None)
        if language_model is None:
            raise ArgumentError(
                f"methods.{self.name}.mmi needs a model that does without its input, and "
                f"{type(model).__name__} has no language_model: leave mmi out"
            )
        return AntiLanguageModel(model, language_model, **self.mmi)

    @property
    def description(self) -> dict[str, Any]:
        """All that its lists depend on, for a file."""
        return {
            "kind": self.kind,
            "settings": dict(self.settings),
            "diversity": self.diversity,
            "mmi": self.mmi,
        }


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to decode and what to measure."""

    task: str
    model: str
    methods: tuple[Method, ...]
    """The first is what the others are compared with."""
    title: str = ""
    metrics: tuple[str, ...] = ()
    """Of texts, by name; of each the top-1 and the oracle figures are taken."""
    oracle: tuple[int, ...] = (1, 5, 10, 20)
    distinct: tuple[int, ...] = (1, 2, 3, 4)
    limit: int | None = None
    max_length: int = 20
    seed: int = 0
    split: bool = False
    """Whether to give figures by image complexity, too."""


def read_experiment(path: Path) -> Experiment:
    """An experiment from its file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArgumentError(f"there is no file {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} is no TOML: {' '.join(str(error).split())}") from error
    return experiment_of(content, str(path))


def experiment_of(content: Mapping[str, Any], source: str = "the experiment") -> Experiment:
    """The same from what such a file says."""
    known = {each.name for each in fields(Experiment)}
    _check_keys(content, known, source)
    for each in fields(Experiment):
        if each.default is MISSING and each.name not in content:
            raise ArgumentError(f"{source} has no {each.name!r}: every experiment needs one")
    methods = content["methods"]
    if not isinstance(methods, Mapping) or not methods:
        raise ArgumentError(f"methods in {source} must be tables such as [methods.BS], one at least")
    read: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
    }
    read["methods"] = tuple(_method(name, table, source) for name, table in methods.items())
    made = Experiment(**read)
    _check(made, source)
    return made


def _check(made: Experiment, source: str) -> None:
    for name in ("task", "model", "title"):
        if not isinstance(getattr(made, name), str):
            raise ArgumentError(f"{name} in {source} must be text, not {checks.shown(getattr(made, name))}")
    for name in ("oracle", "distinct"):
        for value in getattr(made, name):
            checks.at_least(f"{name} in {source}", value, 1)
    checks.at_least(f"max_length in {source}", made.max_length, 1)
    if made.limit is not None:
        checks.at_least(f"limit in {source}", made.limit, 1)


def _method(name: str, table: Any, source: str) -> Method:
    where = f"methods.{name} in {source}"
    if not isinstance(table, Mapping) or "kind" not in table:
        raise ArgumentError(f"{where} has no 'kind': give one of {', '.join(METHODS)}")
    kind = table["kind"]
    if kind not in METHODS:
        raise ArgumentError(f"{where} has kind {kind!r}{_nearest(kind, METHODS)}")
    allowed = {each.name for each in fields(METHODS[kind])} | {"kind", "mmi"}
    _check_keys(table, allowed, where)
    settings = {key: value for key, value in table.items() if key not in ("kind", "mmi", "diversity")}
    diversity = table.get("diversity")
    if isinstance(diversity, str):
        diversity = {"term": diversity}
    if diversity is not None:
        _check_term(diversity, f"{where}: diversity")
    made = Method(name=name, kind=kind, settings=settings, diversity=diversity, mmi=table.get("mmi"))
    _try(made, where)
    return made


def _try(method: Method, where: str) -> None:
    """Settings that a strategy refuses are refused before hours of decoding."""
    try:
        METHODS[method.kind](**method.settings)
    except (ArgumentError, TypeError) as error:
        raise ArgumentError(f"{where}: {error}") from error


def _check_term(table: Mapping[str, Any], where: str) -> None:
    term = table.get("term")
    if term not in TERMS:
        raise ArgumentError(f"{where} has term {term!r}{_nearest(str(term), TERMS)}")
    allowed = {each.name for each in fields(TERMS[term]) if each.init} - {"vectors"} | {"term"}
    _check_keys(table, allowed, where)


def _term(table: Mapping[str, Any], model: StepModel, where: str) -> Diversity:
    settings = {key: value for key, value in table.items() if key != "term"}
    if table["term"] == "embedding":
        vectors = getattr(model, "word_vectors", None)
        if vectors is None:
            raise ArgumentError(f"{where} needs word vectors, and {type(model).__name__} has no word_vectors")
        settings["vectors"] = vectors
        if "of" in settings:
            settings["of"] = _term({"term": settings["of"]}, model, where)
    made: Diversity = TERMS[table["term"]](**settings)
    return made


def _check_keys(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ArgumentError(f"{where} has a key {key!r}{_nearest(key, known)}")


def _nearest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean {near[0]!r}?" if near else f": known are {', '.join(sorted(known))}"
