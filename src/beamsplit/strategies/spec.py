"""Strategies as plain data: by short name, with their settings, before there is a model.

StrategySpec.of_widths("dbs", Widths(groups=3, beams_per_group=2, strength=1.5, diversity="cumulative"))
StrategySpec.of_table({"strategy": "nucleus", "samples": 6, "top_p": 0.8})
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from beamsplit import checks
from beamsplit.diversity.names import make_term, read_term, write_term
from beamsplit.errors import ArgumentError
from beamsplit.strategies.names import (
    STRATEGIES,
    check_strategy_name,
    own_settings,
    strategy_class,
    strategy_fields,
)

if TYPE_CHECKING:
    from beamsplit.model import StepModel
    from beamsplit.search.plan import Strategy

__all__ = ["OPTIONS", "StrategySpec", "Widths", "strategy_named_by", "table_of_widths"]

OPTIONS = ("strategy", "mmi", "unique", "model_temperature")
"""The keys of a strategy's table that are not settings of its class."""


@dataclass(frozen=True, kw_only=True)
class Widths:
    """What all strategies are given alike: how many outputs, and how the diverse ones are divided.

    Strategies without groups have as many outputs as the diverse ones, so that they can be compared.
    """

    groups: int
    beams_per_group: int
    strength: float
    diversity: str

    @classmethod
    def divide(cls, beams: int, groups: int | None, strength: float, diversity: str) -> Widths:
        """Return so many beams in so many groups, or each in a group of its own. Raise if they do not divide.

        >>> Widths.divide(20, 5, 0.5, "hamming").beams_per_group
        4
        """
        checks.at_least("beams", beams, 1)
        groups = beams if groups is None else checks.at_least("groups", groups, 1)
        if beams % groups:
            fitting = ", ".join(str(n) for n in range(1, beams + 1) if beams % n == 0)
            raise ArgumentError(
                f"{beams} beams cannot be divided into {groups} equal groups: give one of {fitting}"
            )
        return cls(groups=groups, beams_per_group=beams // groups, strength=strength, diversity=diversity)

    @property
    def beams(self) -> int:
        """The number of outputs."""
        return checks.at_least("groups", self.groups, 1) * checks.at_least(
            "beams_per_group", self.beams_per_group, 1
        )


_OF_GROUPS = ("groups", "beams_per_group", "diversity", "return_per_group")


def strategy_named_by(given: Collection[str], default: str) -> str:
    """Return the strategy where none is named: settings of diverse beam search ask for it.

    >>> strategy_named_by(["max_length"], default="branching"), strategy_named_by(["groups"], "branching")
    ('branching', 'dbs')
    """
    return "dbs" if any(name in given for name in _OF_GROUPS) else default


def table_of_widths(name: str, widths: Widths) -> dict[str, Any]:
    """Return the table that an experiment would have for a strategy of these widths."""
    entry = STRATEGIES[check_strategy_name(name)]
    if entry.per_group:
        size = {entry.width: widths.groups, entry.per_group: widths.beams_per_group}
    else:
        size = {entry.width: widths.beams}
    penalty = {"strength": widths.strength, "diversity": widths.diversity} if entry.diverse else {}
    return {"strategy": name, **size, **entry.preset, **penalty}


@dataclass(frozen=True, kw_only=True)
class StrategySpec:
    """A strategy by its short name with its settings: checked, and ready to be made for any model."""

    strategy: str
    settings: Mapping[str, Any]
    """Settings of the strategy's class, but for its diversity."""
    diversity: Mapping[str, Any] | None = None
    """The term as a table; None is the one that the class has by default."""
    mmi: Mapping[str, Any] | None = None
    """Settings of `AntiLanguageModel`, if the model is guided by that."""
    unique: bool = False
    """Whether groups leave out what an earlier one has found."""
    model_temperature: float = 1.0
    """What the model's logits are divided by, before the strategy sees them."""
    return_per_group: int | None = None
    """How many outputs of each group are returned; None: all."""

    @classmethod
    def of_table(cls, table: Mapping[str, Any], where: str = "") -> StrategySpec:
        """Read a table such as an experiment has. Raise if it cannot be made; `where` begins the message."""
        with _located(where):
            name = check_strategy_name(table.get("strategy"))
            _check_settings(name, table, strategy_fields(name) | set(OPTIONS))
            entry, diversity = STRATEGIES[name], table.get("diversity")
            settings = {key: value for key, value in table.items() if key not in (*OPTIONS, "diversity")}
            made = cls(
                strategy=name,
                settings=settings | {key: entry.preset[key] for key in entry.preset if key not in settings},
                diversity=None if diversity is None else read_term(diversity),
                mmi=table.get("mmi", entry.mmi),
                unique=table.get("unique", False),
                model_temperature=table.get("model_temperature", 1.0),
            )
            made._check()
        return made

    @classmethod
    def of_widths(
        cls,
        name: str,
        widths: Widths,
        settings: Mapping[str, Any] | None = None,
        *,
        unique: bool = False,
        model_temperature: float = 1.0,
        return_per_group: int | None = None,
    ) -> StrategySpec:
        """Return a strategy of these widths; `settings` are its own, such as temperature or rate.

        A strategy without groups returns as many outputs as all groups of the others.
        """
        if return_per_group is not None and return_per_group > widths.beams_per_group:
            raise ArgumentError(
                f"a group of {widths.beams_per_group} cannot return {return_per_group} outputs: "
                "give more beams per group, or return fewer"
            )
        entry = STRATEGIES[check_strategy_name(name)]
        one_a_group = entry.one_a_group
        if one_a_group:
            widths = replace(widths, beams_per_group=return_per_group or widths.beams_per_group)
        _check_settings(name, settings or {}, own_settings(name))
        alike = {"unique": unique, "model_temperature": model_temperature}
        made = cls.of_table({**table_of_widths(name, widths), **(settings or {}), **alike})
        if return_per_group is None or one_a_group:
            return made
        count = return_per_group if entry.per_group else return_per_group * widths.groups
        return replace(made, return_per_group=count)

    def make(self, model: object, where: str = "") -> Strategy:
        """Make the strategy for a model, whose word vectors its term may need."""
        settings = dict(self.settings)
        with _located(where):
            if self.diversity is not None:
                settings["diversity"] = make_term(self.diversity, model)
            made: Strategy = strategy_class(self.strategy)(**settings)
        return made

    def guide(self, model: StepModel, where: str = "") -> StepModel:
        """Return the model that is decoded: this one, or this one guided away from its language model."""
        if self.mmi is None:
            return model
        from beamsplit.guidance import AntiLanguageModel
        from beamsplit.model import language_model_of

        language_model = language_model_of(model)
        if language_model is None:
            with _located(where):
                raise ArgumentError(
                    "mmi needs a model that can also run without its input, as its language_model, and "
                    f"{type(model).__name__} has no language_model: leave mmi out"
                )
        return AntiLanguageModel(model, language_model, **self.mmi)

    @property
    def decode_options(self) -> dict[str, Any]:
        """The options of `decode` that belong to it."""
        return {
            "unique": self.unique,
            "model_temperature": self.model_temperature,
            "return_per_group": self.return_per_group,
        }

    @property
    def samples(self) -> bool:
        """Whether another seed gives other outputs."""
        return STRATEGIES[self.strategy].samples

    @property
    def outputs(self) -> int:
        """The number of outputs that each input has before any are left out: see `asked`."""
        entry = STRATEGIES[self.strategy]
        return int(self.settings[entry.width]) * int(self.settings.get(entry.per_group, 1))

    @property
    def rows(self) -> int:
        """How many rows of a model an input takes at most."""
        made: Any = strategy_class(self.strategy)(**self.settings)
        several = (getattr(made, name, None) or 1 for name in ("proposals", "first_proposals"))
        return self.outputs * max(several)

    @property
    def asked(self) -> int:
        """The number of outputs that are asked for of each input."""
        if self.return_per_group is None:
            return self.outputs
        entry = STRATEGIES[self.strategy]
        return self.return_per_group * (int(self.settings[entry.width]) if entry.per_group else 1)

    @property
    def description(self) -> dict[str, Any]:
        """All that its outputs depend on, for a file."""
        return {
            "strategy": self.strategy,
            "settings": dict(self.settings),
            "diversity": self.diversity,
            "mmi": self.mmi,
            # Only if so, since caches know strategies by their descriptions.
            **({"unique": True} if self.unique else {}),
            **({} if self.model_temperature == 1 else {"model_temperature": self.model_temperature}),
            **({} if self.return_per_group is None else {"return_per_group": self.return_per_group}),
        }

    @property
    def title(self) -> str:
        """Its name and settings, for people.

        >>> StrategySpec.of_widths("dbs", Widths.divide(6, 3, strength=1.5, diversity="hamming")).title
        'diverse beam search: 3 groups of 2, strength 1.5, hamming'
        """
        entry, settings = STRATEGIES[self.strategy], dict(self.settings)
        parts = []
        if entry.per_group in settings:
            parts.append(f"{_count(settings.pop('groups'), 'groups')} of {settings.pop(entry.per_group)}")
        strength = settings.pop("strength", None)
        parts += [_setting(key, value) for key, value in settings.items()]
        if strength is not None:
            parts.append(
                f"strength {strength:g}" if isinstance(strength, int | float) else f"strength {strength}"
            )
        if self.diversity is not None:
            parts.append(write_term(self.diversity))
        if self.model_temperature != 1:
            parts.append(f"model temperature {self.model_temperature:g}")
        if self.return_per_group is not None:
            best = "the best" if self.return_per_group == 1 else f"the best {self.return_per_group}"
            parts.append(f"{best} of each group" if entry.per_group else best)
        return f"{entry.title}: {', '.join(parts)}" if parts else entry.title

    def _check(self) -> None:
        """Raise what would be raised later: hours of decoding may lie between."""
        if self.mmi is not None:
            _check_mmi(self.mmi)
        if not isinstance(self.unique, bool):
            raise ArgumentError(f"unique must be true or false, not {self.unique!r}")
        checks.positive("model_temperature", self.model_temperature)
        if self.model_temperature != 1 and STRATEGIES[self.strategy].exact_sampling:
            raise ArgumentError(
                f"{self.strategy} draws the model's own samples, which model_temperature="
                f"{self.model_temperature:g} would change: leave it out, or use sampling"
            )
        for each in fields(strategy_class(self.strategy)):
            required = each.default is MISSING and each.default_factory is MISSING
            if required and each.name not in self.settings:
                raise ArgumentError(f"{self.strategy} needs {each.name}: give a number")
        strategy_class(self.strategy)(**self.settings)


def _check_settings(name: str, given: Collection[str], known: set[str]) -> None:
    for key in given:
        if key not in known:
            raise ArgumentError(f"{name} has no setting {key!r}: {_whose(key, known)}")


def _whose(key: str, known: set[str]) -> str:
    """Return the end of a message about a setting: which strategies have it, or what was meant."""
    penalty = {"strength", "diversity"}
    others = [
        other
        for other, entry in STRATEGIES.items()
        if key in own_settings(other) or (entry.diverse and key in penalty)
    ]
    if others:
        return f"it is for {', '.join(others)}"
    settings = sorted(known - set(OPTIONS))
    return checks.nearest(key, known, f"it has {', '.join(settings)}" if settings else "leave it out")


def _check_mmi(table: object) -> None:
    from beamsplit.guidance import AntiLanguageModel

    if not isinstance(table, Mapping) or "strength" not in table:
        raise ArgumentError("mmi must be a table with a strength, such as { strength = 0.3 }")
    known = inspect.signature(AntiLanguageModel).parameters
    checks.known_keys(table, set(known) - {"model", "language_model"}, "mmi")
    nothing: Any = None
    with _located("mmi"):
        AntiLanguageModel(nothing, nothing, **table)


def _setting(key: str, value: Any) -> str:
    return _count(value, key) if key in _COUNTED else f"{key} {value}"


_COUNTED = ("beams", "samples", "runs", "outputs", "groups", "proposals")


def _count(number: int, things: str) -> str:
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Let error messages begin with where the mistake is, if that is known."""
    try:
        yield
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}" if where else str(error)) from error
