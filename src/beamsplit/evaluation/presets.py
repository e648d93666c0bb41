"""Strategies by short names, for those who compare without writing a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["PRESETS", "Widths", "tables_of"]


@dataclass(frozen=True, kw_only=True)
class Widths:
    """What all strategies are given alike: so many outputs, and how the diverse ones are divided."""

    beams: int = 20
    groups: int | None = None
    strength: float = 0.5
    diversity: str = "hamming"

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 1)
        if self.groups is not None and self.beams % checks.at_least("groups", self.groups, 1):
            fitting = ", ".join(str(n) for n in range(1, self.beams + 1) if self.beams % n == 0)
            raise ArgumentError(
                f"{self.beams} beams cannot be divided into {self.groups} groups alike: give one of {fitting}"
            )

    def divided(self, of_each: str) -> dict[str, Any]:
        groups = self.groups or self.beams
        return {
            "groups": groups,
            of_each: self.beams // groups,
            "strength": self.strength,
            "diversity": self.diversity,
        }


PRESETS: dict[str, tuple[str, Callable[[Widths], dict[str, Any]]]] = {
    "bs": ("beam search", lambda w: {"kind": "beam", "beams": w.beams}),
    "dbs": ("diverse beam search", lambda w: {"kind": "diverse", **w.divided("beams_per_group")}),
    "siblings": ("Li & Jurafsky 2016", lambda w: {"kind": "siblings", "beams": w.beams, "rate": 0.5}),
    "mmi": ("Li et al. 2015", lambda w: {"kind": "beam", "beams": w.beams, "mmi": {"strength": 0.3}}),
    "divmbest": (
        "Gimpel et al. 2013, searches of width 2",
        lambda w: {
            "kind": "divmbest",
            "runs": w.beams,
            "beams": 2,
            "strength": w.strength,
            "diversity": w.diversity,
        },
    ),
    "sampling": ("ancestral sampling", lambda w: {"kind": "sampling", "samples": w.beams}),
    "nucleus": ("sampling with top_p 0.9", lambda w: {"kind": "sampling", "samples": w.beams, "top_p": 0.9}),
    "diverse-sampling": (
        "groups that sample",
        lambda w: {"kind": "diverse-sampling", **w.divided("samples_per_group")},
    ),
    "stochastic": ("Kool et al. 2019", lambda w: {"kind": "stochastic", "beams": w.beams}),
}


def tables_of(names: Sequence[str], widths: Widths) -> dict[str, dict[str, Any]]:
    """The tables that a file would have for these."""
    for name in names:
        if name not in PRESETS:
            hint = checks.nearest(name, PRESETS, f"there are {', '.join(PRESETS)}")
            raise ArgumentError(f"there is no strategy {name!r}: {hint}")
    return {name: PRESETS[name][1](widths) for name in names}
