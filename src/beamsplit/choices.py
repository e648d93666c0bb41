"""Strategies as people ask for them, on the command line or the web: by name, so many groups, so strong.

Choice(strategy="dbs", groups=3, beams_per_group=2, strength=1.5, diversity="cumulative:temperature=2")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from beamsplit import checks
from beamsplit.diversity.names import read_term
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.methods import METHODS, Method, methods_of
from beamsplit.evaluation.presets import Widths, tables_of

__all__ = ["SUITABLE", "TITLES", "Choice"]

_SOURCE = "a choice"

TITLES = {
    "bs": "beam search",
    "dbs": "diverse beam search",
    "siblings": "diverse siblings",
    "mmi": "anti-language model",
    "divmbest": "DivMBest",
    "sampling": "sampling",
    "nucleus": "nucleus sampling",
    "diverse-sampling": "diverse sampling",
    "stochastic": "stochastic beam search",
}
"""Strategies by the short names that `evaluate` knows them by."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A strategy by its short name, and what it is given.

    All strategies return as many outputs as the diverse one has beams, so that they can be compared.
    """

    strategy: str = "dbs"
    groups: int = 6
    beams_per_group: int = 1
    strength: float = 0.5
    diversity: str = "hamming"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the strategy's own: temperature, top_k, top_p, min_p, rate, ..."""
    unique: bool = False

    @property
    def beams(self) -> int:
        return checks.at_least("groups", self.groups, 1) * checks.at_least(
            "beams_per_group", self.beams_per_group, 1
        )

    @property
    def method(self) -> Method:
        """Checked, and ready for any model."""
        widths = Widths(beams=self.beams, groups=self.groups, strength=self.strength)
        table = tables_of([self.strategy], widths)[self.strategy] | dict(self.settings)
        self._check_settings(METHODS[table["kind"]])
        if "diversity" in table:
            table["diversity"] = read_term(self.diversity)
        if self.unique:
            table["unique"] = True
        try:
            (method,) = methods_of({self.strategy: table}, _SOURCE)
        except ArgumentError as error:  # of which the start says where in a file, and there is none
            raise ArgumentError(str(error).removeprefix(f"methods.{self.strategy} in {_SOURCE}: ")) from error
        assert isinstance(method, Method)
        return method

    def _check_settings(self, strategy: type) -> None:
        known = _own_settings(strategy)
        for key in self.settings:
            if key not in known:
                raise ArgumentError(f"{self.strategy} has no setting {key!r}: {_whose(key, known)}")

    @property
    def title(self) -> str:
        """For people.

        >>> Choice(groups=3, beams_per_group=2, strength=1.5).title
        'diverse beam search: 3 groups of 2, strength 1.5, hamming'
        """
        name, table = TITLES[self.strategy], self.method.settings
        parts = [_said(key, table[key]) for key in table if key not in ("groups", "strength", *_OF_EACH)]
        if "groups" in table:
            each = next(table[key] for key in _OF_EACH if key in table)
            parts.insert(0, f"{_count(table['groups'], 'groups')} of {each}")
        if "strength" in table:
            parts += [f"strength {table['strength']:g}", self.diversity]
        return f"{name}: {', '.join(parts)}" if parts else name

    def beside(self) -> Choice:
        """Beam search of the same width."""
        return replace(self, strategy="bs", settings={})


def _own_settings(strategy: type) -> set[str]:
    """Those that are no widths, and no diversity."""
    return {each.name for each in fields(strategy)} - {*_COMMON}


def _whose(key: str, known: set[str]) -> str:
    """The end of a message about a setting: who else has it, or what was meant."""
    kinds = tables_of(list(TITLES), Widths(beams=1))
    others = [name for name, table in kinds.items() if key in _own_settings(METHODS[table["kind"]])]
    has = f"it has {', '.join(sorted(known))}" if known else "leave it out"
    return f"it is for {', '.join(others)}" if others else checks.nearest(key, known, has)


_OF_EACH = ("beams_per_group", "samples_per_group")
_COMMON = ("groups", *_OF_EACH, "beams", "samples", "runs", "strength", "diversity", "schedule")


def _said(key: str, value: Any) -> str:
    return _count(value, key) if key in ("beams", "samples", "runs") else f"{key} {value}"


def _count(number: int, things: str) -> str:
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


SUITABLE: dict[str, Choice] = {
    # Translations differ in a word or two, and what follows is the same: a term that fades suits them.
    "translator": Choice(groups=3, beams_per_group=2, strength=3.0, diversity="cumulative:temperature=2"),
    "captioner": Choice(),
    "questioner": Choice(),
    "transformers": Choice(groups=3, beams_per_group=2, strength=1.0),
}
"""What suits a kind of model, unless one says otherwise."""
