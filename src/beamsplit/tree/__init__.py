"""A recorded search as a picture: its tree of branches from left to right, as SVG.

draw([recording])                                    # one search
draw([of_beam_search, of_diverse_beam_search])       # one above the other, to compare
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from beamsplit.errors import ArgumentError
from beamsplit.recording import Recording
from beamsplit.tree.cells import fold as folded
from beamsplit.tree.cells import single
from beamsplit.tree.drawing import picture
from beamsplit.tree.layout import Layout, lay_out, least_height
from beamsplit.tree.nodes import Node, nodes_of, only

__all__ = ["draw"]

_WIDEST, _HIGHEST = 2000, 1200  # pixels, before details are left out

Wanted = Callable[[Node], bool]
Columns = Callable[[Sequence[Sequence[Node]]], list[range]]

# By what the caller says of `dropped` and `fold`: what to try, one after the other.
_EVERY, _LIVED, _KEPT = (lambda _: True), attrgetter("lived"), attrgetter("kept")
_BRANCHES: dict[bool | None, list[Wanted]] = {
    None: [_EVERY, _LIVED, _KEPT],
    True: [_EVERY],
    False: [_KEPT],
}
_COLUMNS: dict[bool | None, list[Columns]] = {None: [single, folded], True: [folded], False: [single]}


@dataclass(frozen=True, slots=True)
class _Way:
    """How much of the searches to draw, and how."""

    wanted: Wanted
    columns: Columns
    letters: int  # of a token, at most


def draw(recordings: Sequence[Recording], *, dropped: bool | None = None, fold: bool | None = None) -> str:
    """The searches as a picture, one above the other, on one scale of steps.

    Args:
        recordings: those to draw.
        dropped: whether to draw branches that lead to no hypothesis; by default, those there is room for.
        fold: whether to draw steps in which nothing forks or ends as one; by default, if it gets too wide.
    """
    _check(recordings)
    whole = [nodes_of(recording) for recording in recordings]
    *ways, last = _ways(dropped, fold)
    for way in ways:
        trees = [only(nodes, way.wanted) for nodes in whole]
        if least_height(trees) <= _HIGHEST:
            layout = _laid_out(recordings, whole, trees, way)
            if layout.width <= _WIDEST and layout.height <= _HIGHEST:
                return picture(layout)
    return picture(_laid_out(recordings, whole, [only(nodes, last.wanted) for nodes in whole], last))


def _ways(dropped: bool | None, fold: bool | None) -> list[_Way]:
    """From the richest to the plainest, which is to do if none is small enough."""
    branches, columns = _BRANCHES[dropped], _COLUMNS[fold]
    ways = [_Way(wanted, each, 16) for wanted in branches for each in columns]
    return ways + [_Way(branches[-1], columns[-1], letters) for letters in (12, 9, 6)]


def _check(recordings: object) -> None:
    if isinstance(recordings, Recording):
        raise ArgumentError("draw takes a list of recordings: write draw([recording])")
    if isinstance(recordings, Sequence) and not recordings:
        raise ArgumentError("there is nothing to draw: no recordings")
    if not isinstance(recordings, Sequence) or not all(isinstance(each, Recording) for each in recordings):
        raise ArgumentError(
            f"draw takes a list of recordings, such as record returns, not {recordings!r:.60}"
        )


def _laid_out(
    recordings: Sequence[Recording],
    whole: Sequence[Sequence[Node]],
    trees: Sequence[Sequence[Node]],
    way: _Way,
) -> Layout:
    missing = [len(every) - len(some) for every, some in zip(whole, trees, strict=True)]
    return lay_out(recordings, trees, missing, way.columns(trees), way.letters)
