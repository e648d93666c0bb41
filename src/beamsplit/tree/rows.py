"""Rows of cells within a lane.

The path to the best hypothesis is a straight line. Paths to other hypotheses branch off to rows of their own,
which are kept free up to the right margin. Dropped branches go below their parents, wherever there is room.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from beamsplit.tree.cells import Cell
from beamsplit.tree.nodes import ROOT

__all__ = ["rows_of"]

Span = tuple[int, float]  # the first column and the last


def rows_of(cells: Sequence[Cell]) -> tuple[int, ...]:
    """Return the row of each cell of a group. The root is in row 0."""
    children = _children(cells)
    rows = [0] * len(cells)
    taken: list[list[Span]] = []
    waiting = [
        (first, 0) for first in children[ROOT][:1]
    ]  # a stack: what branches off a path goes before the rest
    while waiting:
        first, highest = waiting.pop()
        path = _straight_on(first, cells, children)
        row = _free_row(taken, _span(path, cells), highest)
        for cell in path:
            rows[cell] = row
        stem = path if row else [ROOT, *path]
        waiting += [(side, row + 1) for side in _sides(stem, cells, children)]
    return tuple(rows)


def _children(cells: Sequence[Cell]) -> dict[int, list[int]]:
    """Return the children of each cell, first the one that stays in its row."""
    children: dict[int, list[int]] = {i: [] for i in range(ROOT, len(cells))}
    for i, cell in enumerate(cells):
        children[cell.parent].append(i)
    best, reach = _prospects(cells)
    for each in children.values():
        each.sort(key=lambda i: (best[i], -reach[i]))
    return children


def _prospects(cells: Sequence[Cell]) -> tuple[list[float], list[int]]:
    """Return the best rank and the last column that each cell leads to."""
    best = [float(cell.last.rank or math.inf) for cell in cells]
    reach = [cell.column for cell in cells]
    for i in reversed(range(len(cells))):
        parent = cells[i].parent
        if parent != ROOT:
            best[parent] = min(best[parent], best[i])
            reach[parent] = max(reach[parent], reach[i])
    return best, reach


def _straight_on(first: int, cells: Sequence[Cell], children: dict[int, list[int]]) -> list[int]:
    path = [first]
    while children[path[-1]] and cells[children[path[-1]][0]].kept == cells[first].kept:
        path.append(children[path[-1]][0])
    return path


def _span(path: Sequence[int], cells: Sequence[Cell]) -> Span:
    return cells[path[0]].column, math.inf if cells[path[0]].kept else cells[path[-1]].column


def _sides(path: Sequence[int], cells: Sequence[Cell], children: dict[int, list[int]]) -> list[int]:
    """Return what branches off a path. The last one is given a row first.

    Dropped branches get their rows before others, to be close to their parents. What branches off later gets
    its row before what branches off earlier, so that lines do not cross.
    """
    on_path = set(path)
    branching = [child for cell in path for child in reversed(children[cell]) if child not in on_path]
    return sorted(branching, key=lambda i: (not cells[i].kept, cells[i].column))


def _free_row(taken: list[list[Span]], span: Span, highest: int) -> int:
    """Find the first row, from `highest` on, in which a span is free, and take it."""
    for row in itertools.count(highest):
        while row >= len(taken):
            taken.append([])
        if all(span[1] < first or last < span[0] for first, last in taken[row]):
            taken[row].append(span)
            return row
    raise AssertionError("rows have no end")
