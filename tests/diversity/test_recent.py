"""Rows that are kept: they are made once while there is room, and whoever copies a term copies none."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from beamsplit.diversity import recent
from beamsplit.diversity.recent import Recent, Rows


class Table:
    """Whose row n is n, n, n."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []

    def __call__(self, names: Tensor) -> Tensor:
        self.made.append(names.tolist())
        return names.float().unsqueeze(1).expand(-1, 3).clone()


def values_of(parts: tuple[Rows, ...], name: int) -> list[float]:
    (row,) = [rows.values[rows.names == name] for rows in parts if bool((rows.names == name).any())]
    return [float(each) for each in row.flatten()]


def ask(kept: Recent, table: Table, *names: int) -> tuple[Rows, ...]:
    return tuple(kept.get(torch.tensor(names, dtype=torch.long), table))


def test_rows_are_made_once() -> None:
    kept, table = Recent(), Table()
    ask(kept, table, 3, 5)
    found = ask(kept, table, 5, 7)
    assert table.made == [[3, 5], [7]]
    assert [values_of(found, name) for name in (3, 5, 7)] == [[3.0] * 3, [5.0] * 3, [7.0] * 3]
    ask(kept, table)
    assert len(table.made) == 2


def test_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_ROOM", 7)  # two rows of three
    kept, table = Recent(), Table()
    ask(kept, table, 1)
    ask(kept, table, 2)
    found = ask(kept, table, 3)
    assert values_of(found, 1) == [1.0] * 3, "what was there may still be used now"
    ask(kept, table, 2, 3)
    assert table.made == [[1], [2], [3]]
    ask(kept, table, 1)
    assert table.made == [[1], [2], [3], [1]]
    found = ask(kept, table, 4, 5, 6)
    assert [values_of(found, name) for name in (4, 5, 6)] == [[4.0] * 3, [5.0] * 3, [6.0] * 3]


def test_many_parts_become_one() -> None:
    kept, table = Recent(), Table()
    for name in range(20):
        found = ask(kept, table, name)
        assert len(found) <= recent._PARTS + 1
    assert values_of(found, 0) == [0.0] * 3
    assert len(table.made) == 20


def test_copies_begin_with_nothing() -> None:
    kept, table = Recent(), Table()
    ask(kept, table, 1)
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        other.get(torch.tensor([1]), table)
    assert table.made == [[1], [1], [1]]
