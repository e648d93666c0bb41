"""Pictures of recorded searches: the tree of branches, from left to right, as SVG.

draw([recording])                                    # one search
draw([of_beam_search, of_diverse_beam_search])       # one above the other, to compare
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from beamsplit.errors import ArgumentError
from beamsplit.tree.cells import fold as folded
from beamsplit.tree.cells import single
from beamsplit.tree.drawing import picture
from beamsplit.tree.layout import Layout, lay_out, least_height
from beamsplit.tree.nodes import Node, nodes_of, only
from beamsplit.tree.recording import Recording

__all__ = ["draw"]

_MAX_WIDTH, _MAX_HEIGHT = 2000, 1200  # pixels: beyond these, details are left out

Wanted = Callable[[Node], bool]
Columns = Callable[[Sequence[Sequence[Node]]], list[range]]

# What to try, one after the other, for each value of `dropped` and of `fold`.
_ALL, _LIVED, _KEPT = (lambda _: True), attrgetter("lived"), attrgetter("kept")
_BRANCHES: dict[bool | None, list[Wanted]] = {
    None: [_ALL, _LIVED, _KEPT],
    True: [_ALL],
    False: [_KEPT],
}
_COLUMNS: dict[bool | None, list[Columns]] = {None: [single, folded], True: [folded], False: [single]}


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much of the searches to draw."""

    wanted: Wanted
    columns: Columns
    letters: int  # the most to show of a token


def draw(recordings: Sequence[Recording], *, dropped: bool | None = None, fold: bool | None = None) -> str:
    """Draw searches as one picture, one above the other, on one scale of steps.

    Args:
        recordings: the searches to draw.
        dropped: whether to draw branches that lead to no hypothesis. By default, those that fit.
        fold: whether to draw steps in which nothing forks or ends as one. By default, if it is too wide.
    """
    _check(recordings)
    whole = [nodes_of(recording) for recording in recordings]
    *details, last = _details(dropped, fold)
    for detail in details:
        trees = [only(nodes, detail.wanted) for nodes in whole]
        if least_height(trees) <= _MAX_HEIGHT:
            layout = _lay_out(recordings, whole, trees, detail)
            if layout.width <= _MAX_WIDTH and layout.height <= _MAX_HEIGHT:
                return picture(layout)
    return picture(_lay_out(recordings, whole, [only(nodes, last.wanted) for nodes in whole], last))


def _details(dropped: bool | None, fold: bool | None) -> list[_Detail]:
    """Return the levels of detail, from the most to the least, which is drawn if none is small enough."""
    branches, columns = _BRANCHES[dropped], _COLUMNS[fold]
    details = [_Detail(wanted, each, 16) for wanted in branches for each in columns]
    return details + [_Detail(branches[-1], columns[-1], letters) for letters in (12, 9, 6)]


def _check(recordings: object) -> None:
    if isinstance(recordings, Recording):
        raise ArgumentError("draw takes a list of recordings: write draw([recording])")
    if isinstance(recordings, Sequence) and not recordings:
        raise ArgumentError("there is nothing to draw: no recordings")
    if not isinstance(recordings, Sequence) or not all(isinstance(each, Recording) for each in recordings):
        raise ArgumentError(
            f"draw takes a list of recordings, such as record returns, not {recordings!r:.60}"
        )


def _lay_out(
    recordings: Sequence[Recording],
    whole: Sequence[Sequence[Node]],
    trees: Sequence[Sequence[Node]],
    detail: _Detail,
) -> Layout:
    missing = [len(every) - len(some) for every, some in zip(whole, trees, strict=True)]
    return lay_out(recordings, trees, missing, detail.columns(trees), detail.letters)
