"""Methods that an experiment compares: strategies with their settings, or lists that were made elsewhere."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.diversity.names import make_term, read_term
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

__all__ = ["METHODS", "Method", "Saved", "check_keys", "methods_of"]

METHODS: dict[str, Any] = {
    "beam": BeamSearch,
    "diverse": DiverseBeamSearch,
    "siblings": DiverseSiblings,
    "divmbest": DivMBest,
    "sampling": Sampling,
    "diverse-sampling": DiverseSampling,
    "stochastic": StochasticBeamSearch,
}
SAVED = "lists"
RANDOM = ("sampling", "diverse-sampling", "stochastic")
OPTIONS = ("kind", "mmi", "unique", "vary")  # of a method, beside its strategy's settings


@dataclass(frozen=True, kw_only=True)
class Method:
    """A strategy with its settings, perhaps on a model that is guided away from what is said anyway."""

    name: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    diversity: Mapping[str, Any] | None = None
    mmi: Mapping[str, Any] | None = None
    unique: bool = False
    family: str = ""
    """What the methods that one table with `vary` stands for have in common."""
    varied: Mapping[str, Any] = field(default_factory=dict)

    def strategy(self, model: StepModel) -> Strategy:
        settings = dict(self.settings)
        if self.diversity is not None:
            settings["diversity"] = make_term(self.diversity, model, f"methods.{self.name}.diversity")
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
    def samples(self) -> bool:
        """Whether another seed gives other lists."""
        return self.kind in RANDOM

    @property
    def description(self) -> dict[str, Any]:
        """All that its lists depend on, for a file."""
        return {
            "kind": self.kind,
            "settings": dict(self.settings),
            "diversity": self.diversity,
            "mmi": self.mmi,
            # Said only if so, since caches know methods by their descriptions.
            **({"unique": True} if self.unique else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Lists in a file: lines of `{"id": ..., "hypotheses": [text, ...]}`."""

    name: str
    file: Path
    family: str = ""
    varied: Mapping[str, Any] = field(default_factory=dict)

    @property
    def description(self) -> dict[str, Any]:
        return {"kind": SAVED, "file": str(self.file)}


def methods_of(tables: Any, source: str, folder: Path = Path()) -> tuple[Method | Saved, ...]:
    """The methods that tables by name stand for; files of lists are looked for in the folder."""
    if not isinstance(tables, Mapping) or not tables:
        raise ArgumentError(f"methods in {source} must be tables such as [methods.BS], one at least")
    made: list[Method | Saved] = []
    for name, table in tables.items():
        where = f"methods.{name} in {source}"
        if not isinstance(table, Mapping) or "kind" not in table:
            raise ArgumentError(f"{where} has no 'kind': give one of {', '.join([*METHODS, SAVED])}")
        if table["kind"] == SAVED:
            made.append(_saved(name, table, where, folder))
        else:
            made += _methods(name, table, where)
    twice = next((name for name, count in Counter(each.name for each in made).items() if count > 1), None)
    if twice is not None:
        raise ArgumentError(f"methods in {source} has {twice!r} twice: give each a name of its own")
    return tuple(made)


def check_keys(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """A key that is not known is refused with the nearest that is."""
    for key in table:
        if key not in known:
            raise ArgumentError(f"{where} has a key {key!r}{_nearest(key, known)}")


def _saved(name: str, table: Mapping[str, Any], where: str, folder: Path) -> Saved:
    check_keys(table, ("kind", "file"), where)
    if not isinstance(table.get("file"), str):
        raise ArgumentError(f"{where} has no 'file': give the one that the lists are in")
    beside = folder / table["file"]
    return Saved(name=name, file=beside if beside.is_file() else Path(table["file"]))


def _methods(name: str, table: Mapping[str, Any], where: str) -> Iterator[Method]:
    kind = table["kind"]
    if str(kind) not in METHODS:
        raise ArgumentError(f"{where} has kind {kind!r}{_nearest(str(kind), [*METHODS, SAVED])}")
    allowed = {each.name for each in fields(METHODS[kind])}
    check_keys(table, allowed | set(OPTIONS), where)
    if "vary" not in table:
        yield _method(name, table, where)
        return
    several = _together(table["vary"], allowed | {"mmi", "unique"}, f"{where}: vary")
    said = [_said(*next(iter(varied.items()))) for varied in several]
    if len(set(said)) < len(said):  # the first setting alone does not tell them apart
        said = [_said(name, varied) for varied in several]
    for varied, told in zip(several, said, strict=True):
        made = _method(f"{name} {told}", {**table, **varied}, where)
        yield Method(**{**vars(made), "family": name, "varied": varied})


def _said(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_said(*each) for each in value.items())
    return f"{key}={value}"


def _together(vary: Any, allowed: Collection[str], where: str) -> list[dict[str, Any]]:
    """`{groups = [1, 2], beams_per_group = [4, 2]}`: the lists are gone through side by side."""
    lists = list(vary.values()) if isinstance(vary, Mapping) else []
    if not lists or not all(isinstance(each, list) and each for each in lists):
        raise ArgumentError(f"{where} must be lists by setting, such as {{ strength = [0.2, 0.5] }}")
    check_keys(vary, allowed, where)
    if len({len(each) for each in lists}) > 1:
        counts = " and ".join(str(len(each)) for each in lists)
        raise ArgumentError(f"{where} has lists of {counts} values: they must be of one length")
    return [dict(zip(vary, values, strict=True)) for values in zip(*lists, strict=True)]


def _method(name: str, table: Mapping[str, Any], where: str) -> Method:
    settings = {key: value for key, value in table.items() if key not in (*OPTIONS, "diversity")}
    diversity = table.get("diversity")
    if diversity is not None:
        diversity = read_term(diversity, f"{where}: diversity")
    mmi, unique = table.get("mmi"), table.get("unique", False)
    if mmi is not None:
        _check_mmi(mmi, f"{where}: mmi")
    if not isinstance(unique, bool):
        raise ArgumentError(f"{where}: unique must be true or false, not {unique!r}")
    _try(METHODS[table["kind"]], settings, where)
    return Method(
        name=name, kind=table["kind"], settings=settings, diversity=diversity, mmi=mmi, unique=unique
    )


def _try(make: Callable[..., object], settings: Mapping[str, Any], where: str) -> None:
    """Settings that would be refused are refused before hours of decoding."""
    try:
        make(**settings)
    except (ArgumentError, TypeError) as error:
        raise ArgumentError(f"{where}: {error}") from error


def _check_mmi(table: Any, where: str) -> None:
    if not isinstance(table, Mapping) or "strength" not in table:
        raise ArgumentError(f"{where} must be a table with a strength, such as {{ strength = 0.3 }}")
    known = inspect.signature(AntiLanguageModel).parameters
    check_keys(table, set(known) - {"model", "language_model"}, where)
    _try(AntiLanguageModel, {"model": None, "language_model": None, **table}, where)


def _nearest(word: str, known: Collection[str]) -> str:
    return ": " + checks.nearest(word, known, f"known are {', '.join(sorted(known))}")
