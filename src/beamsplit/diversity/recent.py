"""Rows of a large table that are made when they are asked for, and kept while there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Recent", "Rows"]

_ROOM = 2**24  # numbers that are kept: 64 megabytes
_PARTS = 8  # that are kept apart; more are made one


class Rows(NamedTuple):
    """Some rows of the table."""

    names: Tensor  # [n] what they are the rows of
    values: Tensor  # [n width]


class Recent:
    """Keeps rows, the latest ones. Copies of it, and what comes out of a pickle, begin with none.

    Several threads may ask at the same time: what is kept is never changed, but replaced.
    """

    def __init__(self) -> None:
        self._kept: tuple[Rows, ...] = ()

    def get(self, names: Tensor, make: Callable[[Tensor], Tensor]) -> Sequence[Rows]:
        """Return rows among which are those of these names [m]. `make` makes those that are not kept."""
        kept = self._kept
        for rows in kept:
            names = names[~torch.isin(names, rows.names)]
        if not len(names):
            return kept
        found = (*kept, Rows(names, make(names)))
        self._kept = _merged(_latest(found))
        return found

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        return Recent, ()


def _latest(parts: tuple[Rows, ...]) -> tuple[Rows, ...]:
    """Return the latest parts for which there is room."""
    room = _ROOM
    for number, rows in enumerate(reversed(parts)):
        room -= rows.values.numel()
        if room < 0:
            return parts[len(parts) - number :]
    return parts


def _merged(parts: tuple[Rows, ...]) -> tuple[Rows, ...]:
    if len(parts) <= _PARTS:
        return parts
    columns = zip(*parts, strict=True)
    return (Rows(*(torch.cat(column) for column in columns)),)
