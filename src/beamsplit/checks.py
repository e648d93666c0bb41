"""Check settings: each function raises one line that names the setting, its value and the way out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from beamsplit.errors import ArgumentError

__all__ = [
    "at_least",
    "check_device",
    "fraction",
    "known_keys",
    "materialise",
    "nearest",
    "non_negative",
    "number",
    "positive",
    "reason",
    "short_repr",
    "strengths",
    "true_or_false",
    "whole_number",
]


def short_repr(value: object) -> str:
    """Return a value as text for an error message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else text[:97] + "..."


def reason(error: Exception) -> str:
    """Return why a file cannot be read, on one line and without the file's name.

    >>> reason(FileNotFoundError(2, "No such file or directory", "x.txt"))
    'No such file or directory'
    """
    if isinstance(error, UnicodeDecodeError):
        return f"it is no UTF-8 text ({error.reason} at byte {error.start})"
    return getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of an error message about a word that is not known.

    >>> nearest("strenght", ["groups", "strength"], "there are groups and strength")
    "did you mean 'strength'?"
    """
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def known_keys(table: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise if a table has a key that is not known; `where` says which table it is."""
    known = sorted(known)
    for key in table:
        if key not in known:
            hint = nearest(key, known, f"known are {', '.join(known)}")
            raise ArgumentError(f"{where} has a key {key!r}: {hint}")


def check_device(device: str | None) -> None:
    """Raise if torch cannot put anything on the device."""
    import torch  # which takes a while, and no other check needs it

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # whichever, depending on what is missing
        reason = " ".join(str(error).split())
        raise ArgumentError(f"device {device!r} cannot be used: {reason}"[:300]) from error


def materialise(values: object) -> Any:
    """Return values that may be looked at twice: tensors and arrays as numbers, iterators as a list."""
    if callable(tolist := getattr(values, "tolist", None)):
        return tolist()
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else values


def true_or_false(name: str, value: object) -> bool:
    """Return True or False. Raise if the value is neither."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, not {short_repr(value)}")
    return value


def at_least(name: str, value: object, least: int) -> int:
    """Return a whole number no smaller than `least`. Raise if the value is not one.

    >>> at_least("groups", 3, 1)
    3
    """
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a whole number of at least {least}, not {short_repr(value)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def whole_number(name: str, value: object, hint: str = "") -> int:
    """Return a whole number of any sign. Raise if the value is not one."""
    if not is_whole(value):
        raise ArgumentError(f"{name} must be a whole number{hint}, not {short_repr(value)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def positive(name: str, value: object, hint: str = "") -> float:
    """Return a finite number above zero. Raise if the value is not one."""
    if not _is_number(value) or not 0 < value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a finite number above 0, not {short_repr(value)}{hint}")
    return float(value)  # type: ignore[arg-type]


def fraction(name: str, value: object) -> float:
    """Return a number in (0, 1]. Raise if the value is not one."""
    if not _is_number(value) or not 0 < value <= 1:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be above 0 and at most 1, not {short_repr(value)}")
    return float(value)  # type: ignore[arg-type]


def non_negative(name: str, value: object) -> float:
    """Return a finite number of zero or more. Raise if the value is not one."""
    if not _is_number(value) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a finite number of 0 or more, not {short_repr(value)}")
    return float(value)  # type: ignore[arg-type]


def number(name: str, value: object) -> float:
    """Return a finite number of any sign. Raise if the value is not one."""
    if not _is_number(value) or not -math.inf < value < math.inf:  # type: ignore[operator]
        raise ArgumentError(f"{name} must be a finite number, not {short_repr(value)}")
    return float(value)  # type: ignore[arg-type]


def strengths(value: float | Sequence[float], groups: int, name: str = "strength") -> tuple[float, ...]:
    """Return one strength for each group, from one number or one number a group.

    >>> strengths(0.5, 3)
    (0.5, 0.5, 0.5)
    """
    value = materialise(value)
    if not isinstance(value, list):
        return (non_negative(name, value),) * groups
    if len(value) != groups:
        raise ArgumentError(
            f"{name} has {len(value)} values for {groups} groups: "
            f"give one number, or {groups} (the first group's is never used)"
        )
    return tuple(non_negative(f"{name}[{g}]", s) for g, s in enumerate(value))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
