"""Checks of settings: each raises one line that names the setting, its value and the way out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real

from beamsplit.errors import ArgumentError

__all__ = ["at_least", "fraction", "positive", "strengths"]


def at_least(name: str, value: object, least: int) -> int:
    """A whole number no smaller than `least`.

    >>> at_least("groups", 3, 1)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def positive(name: str, value: object, hint: str = "") -> float:
    """A finite number above zero."""
    if not _is_number(value) or not 0 < value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a finite number above 0, not {value!r}{hint}")
    return float(value)  # type: ignore[arg-type]


def fraction(name: str, value: object) -> float:
    """A number in (0, 1]."""
    if not _is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
        raise ArgumentError(f"{name} must lie above 0 and at most at 1, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def non_negative(name: str, value: object) -> float:
    """A finite number of zero or more."""
    if not _is_number(value) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a finite number of 0 or more, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def strengths(value: float | Sequence[float], groups: int) -> tuple[float, ...]:
    """One strength for each group, from one number or one number a group.

    >>> strengths(0.5, 3)
    (0.5, 0.5, 0.5)
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (non_negative("strength", value),) * groups
    if len(value) != groups:
        raise ArgumentError(
            f"strength has {len(value)} values for {groups} groups: "
            f"give one number, or {groups} (the first group's is never used)"
        )
    return tuple(non_negative(f"strength[{g}]", s) for g, s in enumerate(value))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
