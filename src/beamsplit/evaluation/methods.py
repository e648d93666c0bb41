"""Methods that an experiment compares: strategies with their settings, or lists that were made elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.model import StepModel
from beamsplit.models import storage
from beamsplit.ordering import SELECTION
from beamsplit.selecting import Similarity, check_selection, choose, word_overlap, word_vector_similarity
from beamsplit.strategies import Strategy
from beamsplit.strategies.names import STRATEGIES, check_strategy_name, strategy_fields
from beamsplit.strategies.spec import OPTIONS, StrategySpec

__all__ = ["SIMILARITIES", "Method", "Saved", "Selection", "read_methods"]

_VARY, _FILE, _SELECT = "vary", "file", "select"
_BEFORE = {"beam": "bs", "diverse": "dbs"}  # what files called these strategies before


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How to choose outputs of a list that has more than are wanted; see `beamsplit.selecting`."""

    count: int
    by: str = SELECTION
    diversity: float = 0.5
    similarity: str = "words"
    """By shared words, or by "vectors" of English words."""
    unique: bool = True
    """Whether no text is chosen twice."""

    @classmethod
    def of_table(cls, table: Any, where: str) -> Selection:
        """Return the selection that a table such as `{ count = 20, by = "dpp" }` stands for."""
        if not isinstance(table, Mapping) or "count" not in table:
            raise ArgumentError(f'{where}: select must be a table such as {{ count = 20, by = "dpp" }}')
        checks.known_keys(table, [each.name for each in fields(cls)], f"{where}: select")
        made = cls(**table)
        try:
            check_selection(made.count, made.by, made.diversity)
            checks.true_or_false("unique", made.unique)
        except ArgumentError as error:
            raise ArgumentError(f"{where}: select: {error}") from error
        if made.similarity not in SIMILARITIES:
            raise ArgumentError(
                f"{where}: select: there is no similarity {checks.short_repr(made.similarity)}: "
                f"there are {', '.join(SIMILARITIES)}"
            )
        return made

    def of_list(self, found: Hypotheses) -> Hypotheses:
        """Return the outputs that are chosen, in the order of the list."""
        chosen = choose(
            found,
            self.count,
            by=self.by,
            diversity=self.diversity,
            similarity=SIMILARITIES[self.similarity](),
            unique=self.unique,
        )
        return found.only(sorted(chosen), asked=self.count)


@lru_cache(1)
def _english() -> Similarity:
    return word_vector_similarity(*storage.english_vectors())


SIMILARITIES: dict[str, Callable[[], Similarity]] = {"words": lambda: word_overlap, "vectors": _english}
"""How alike two outputs are, by name."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A strategy under the name that an experiment gives it."""

    name: str
    spec: StrategySpec
    select: Selection | None = None
    """How to choose of what the strategy finds; all of it, unless an experiment says so."""
    family: str = ""
    """What the methods that one table with `vary` stands for have in common."""
    varied: Mapping[str, Any] = field(default_factory=dict)

    def make(self, model: StepModel) -> tuple[StepModel, Strategy]:
        """Return the model that is decoded, which may be a guided one, and the strategy."""
        where = f"methods.{self.name}"
        return self.spec.guide(model, where), self.spec.make(model, where)

    @property
    def asked(self) -> int:
        """How many outputs are asked for of each input."""
        return self.spec.asked if self.select is None else self.select.count

    @property
    def description(self) -> dict[str, Any]:
        """All that its lists depend on, for a file."""
        return self.spec.description | ({} if self.select is None else {"select": asdict(self.select)})


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Lists in a file: lines of `{"id": ..., "hypotheses": [text, ...]}`."""

    name: str
    file: Path
    family: str = ""
    varied: Mapping[str, Any] = field(default_factory=dict)

    @property
    def description(self) -> dict[str, Any]:
        return {"file": str(self.file)}


def read_methods(tables: Any, source: str, folder: Path = Path()) -> tuple[Method | Saved, ...]:
    """Return the methods that tables by name stand for; files of lists are looked for in the folder."""
    if not isinstance(tables, Mapping) or not tables:
        raise ArgumentError(f"methods in {source} must be tables such as [methods.BS], one at least")
    made: list[Method | Saved] = []
    for name, table in tables.items():
        where = f"methods.{name} in {source}"
        _check_table(table, where)
        made += [_saved(name, table, where, folder)] if _FILE in table else _methods(name, table, where)
    twice = next((name for name, count in Counter(each.name for each in made).items() if count > 1), None)
    if twice is not None:
        raise ArgumentError(f"methods in {source} has {twice!r} twice: give each a name of its own")
    return tuple(made)


def _check_table(table: Any, where: str) -> None:
    if not isinstance(table, Mapping):
        raise ArgumentError(f"{where} must be a table, with a strategy such as dbs")
    if "kind" in table:
        raise ArgumentError(f"{where} has kind = {_quoted(table['kind'])}: {_instead(table['kind'])}")
    if "strategy" not in table and _FILE not in table:
        raise ArgumentError(
            f"{where} has no 'strategy': give one of {', '.join(STRATEGIES)}; or a 'file' of lists"
        )


def _instead(kind: object) -> str:
    """Return what a file is to say now, where it labels `kind` before."""
    if kind == "lists":
        return "leave it out, since a 'file' is enough"
    return f"write strategy = {_quoted(_BEFORE.get(str(kind), kind))}"


def _quoted(value: object) -> str:
    return f'"{value}"'


def _saved(name: str, table: Mapping[str, Any], where: str, folder: Path) -> Saved:
    checks.known_keys(table, (_FILE,), where)
    if not isinstance(table[_FILE], str):
        raise ArgumentError(f"{where} has no path under 'file': give that of a file of lists")
    beside = folder / table[_FILE]
    return Saved(name=name, file=beside if beside.is_file() else Path(table[_FILE]))


def _methods(name: str, table: Mapping[str, Any], where: str) -> Iterator[Method]:
    if _VARY not in table:
        yield _method(name, table, where)
        return
    fixed = {key: value for key, value in table.items() if key != _VARY}
    several = _together(table[_VARY], _may_vary(fixed, where), f"{where}: vary")
    labels = [_setting_text(*next(iter(varied.items()))) for varied in several]
    if len(set(labels)) < len(labels):  # the first setting alone does not tell them apart
        labels = [_setting_text(name, varied) for varied in several]
    for varied, label in zip(several, labels, strict=True):
        made = _method(f"{name} {label}", {**fixed, **varied}, where)
        yield replace(made, family=name, varied=varied)


def _method(name: str, table: Mapping[str, Any], where: str) -> Method:
    strategy = {key: value for key, value in table.items() if key != _SELECT}
    chosen = Selection.of_table(table[_SELECT], where) if _SELECT in table else None
    return Method(name=name, spec=StrategySpec.of_table(strategy, where), select=chosen)


def _may_vary(table: Mapping[str, Any], where: str) -> set[str]:
    try:
        name = check_strategy_name(table["strategy"])
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}") from error
    return strategy_fields(name) | set(OPTIONS) - {"strategy"} | {_SELECT}


def _setting_text(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_setting_text(*each) for each in value.items())
    return f"{key}={value}"


def _together(vary: Any, allowed: Collection[str], where: str) -> list[dict[str, Any]]:
    """Return the settings that vary, side by side: of `{groups = [1, 2], beams_per_group = [4, 2]}`, two."""
    lists = list(vary.values()) if isinstance(vary, Mapping) else []
    if not lists or not all(isinstance(each, list) and each for each in lists):
        raise ArgumentError(f"{where} must be lists by setting, such as {{ strength = [0.2, 0.5] }}")
    checks.known_keys(vary, allowed, where)
    if len({len(each) for each in lists}) > 1:
        counts = " and ".join(str(len(each)) for each in lists)
        raise ArgumentError(f"{where} has lists of {counts} values: they must be of one length")
    return [dict(zip(vary, values, strict=True)) for values in zip(*lists, strict=True)]
