"""Cells of a tree: a cell holds one node, or a run of nodes in which nothing forks or ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from beamsplit.tree import text
from beamsplit.tree.nodes import ROOT, Node

__all__ = ["Cell", "cells_of", "fold", "single"]


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of one row of one column."""

    column: int
    parent: int
    """The index of its parent among the cells of its lane; parents come before their children."""
    nodes: tuple[Node, ...]

    @property
    def last(self) -> Node:
        return self.nodes[-1]

    @property
    def kept(self) -> bool:
        return self.last.kept

    @property
    def cost(self) -> float:
        return sum(node.cost for node in self.nodes)

    @property
    def label(self) -> str:
        """Its full text. Empty for an end; any other cell without text gets a sign."""
        full = "".join(node.text for node in self.nodes)
        return text.label(full, self.nodes[0].before) or ("" if self.last.ended or self.last.extra else "∅")


def single(trees: Iterable[Sequence[Node]]) -> list[range]:
    """Return a column for every step."""
    return [range(t, t + 1) for t in range(_length(trees))]


def fold(trees: Iterable[Sequence[Node]]) -> list[range]:
    """Return columns, with several steps in one where every node of every tree has exactly one child."""
    trees = list(trees)
    length = _length(trees)
    busy = {t for nodes in trees for t in _busy(nodes)}
    starts = [0, *(t + 1 for t in range(length - 1) if t in busy)] if length else []
    return [range(a, b) for a, b in pairwise([*starts, length])]


def _length(trees: Iterable[Sequence[Node]]) -> int:
    return max((node.depth + 1 for nodes in trees for node in nodes), default=0)


def _busy(nodes: Sequence[Node]) -> set[int]:
    """Return the steps after which something forks or ends."""
    children = Counter(node.parent for node in nodes)
    return {node.depth for i, node in enumerate(nodes) if children[i] != 1 or node.rank}


def cells_of(nodes: Sequence[Node], columns: Sequence[range]) -> dict[int, tuple[Cell, ...]]:
    """Return the cells of each lane."""
    column_of = {t: column for column, steps in enumerate(columns) for t in steps}
    runs: list[tuple[int, list[Node]]] = []  # the run before it, and its nodes
    run_of: dict[int, int] = {ROOT: ROOT}
    for i in sorted(range(len(nodes)), key=lambda i: nodes[i].depth):
        node = nodes[i]
        before = run_of[node.parent]
        if before != ROOT and column_of[runs[before][1][-1].depth] == column_of[node.depth]:
            runs[before][1].append(node)
            run_of[i] = before
        else:
            run_of[i] = len(runs)
            runs.append((before, [node]))
    return _by_lane([Cell(column_of[run[0].depth], before, tuple(run)) for before, run in runs])


def _by_lane(cells: Sequence[Cell]) -> dict[int, tuple[Cell, ...]]:
    lanes: dict[int, list[Cell]] = {lane: [] for lane in sorted({cell.last.lane for cell in cells})}
    new = {ROOT: ROOT}
    for i, cell in enumerate(cells):
        lane = lanes[cell.last.lane]
        new[i] = len(lane)
        lane.append(Cell(cell.column, new[cell.parent], cell.nodes))
    return {lane: tuple(each) for lane, each in lanes.items()}
