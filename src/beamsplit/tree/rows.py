"""Which row of its lane each cell stands in.

What leads to the best hypothesis goes straight on. The others part from it to rows of their own, which are
kept free up to the margin. Branches that died stand below what they come from, wherever there is room.
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
    """The row of each cell of a group; the root is in row 0."""
    children = _children(cells)
    rows = [0] * len(cells)
    taken: list[list[Span]] = []
    waiting = [
        (first, 0) for first in children[ROOT][:1]
    ]  # a stack: what parts from a path goes before the rest
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
    """Those of each cell, the one that goes straight on first."""
    children: dict[int, list[int]] = {i: [] for i in range(ROOT, len(cells))}
    for i, cell in enumerate(cells):
        children[cell.parent].append(i)
    best, reach = _prospects(cells)
    for each in children.values():
        each.sort(key=lambda i: (best[i], -reach[i]))
    return children


def _prospects(cells: Sequence[Cell]) -> tuple[list[float], list[int]]:
    """The best hypothesis that each cell leads to, and the last column."""
    best = [float(cell.last.place or math.inf) for cell in cells]
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
    """What parts from a path, the next to find a place last.

    Dead branches come before others, to stand close to where they come from; and what parts later comes
    before what parts earlier, so that lines down to the latter need not cross it.
    """
    on_path = set(path)
    parting = [child for cell in path for child in reversed(children[cell]) if child not in on_path]
    return sorted(parting, key=lambda i: (not cells[i].kept, cells[i].column))


def _free_row(taken: list[list[Span]], span: Span, highest: int) -> int:
    """The first row from `highest` on in which a span is free; it is taken now."""
    for row in itertools.count(highest):
        while row >= len(taken):
            taken.append([])
        if all(span[1] < first or last < span[0] for first, last in taken[row]):
            taken[row].append(span)
            return row
    raise AssertionError("rows have no end")
