"""The layout of a picture: lanes of rows from top to bottom, columns of steps from left to right."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from beamsplit.tree import text
from beamsplit.tree.cells import Cell, cells_of
from beamsplit.tree.nodes import ROOT, Node
from beamsplit.tree.recording import Recording
from beamsplit.tree.rows import rows_of

__all__ = ["Lane", "Layout", "Panel", "Scale", "lay_out", "least_height"]

WORD, SMALL, TITLE = 12.0, 9.0, 14.0  # font sizes
MARGIN = 14.0
PAD = 3.0  # on either side of a label, so that lines do not touch it
END = 6.0  # the side of an end mark
ROOT_SPACE = 8.0
LANE_GAP, PANEL_GAP = 7.0, 16.0
TITLE_HEIGHT, AXIS_HEIGHT, LEGEND_HEIGHT = 24.0, 18.0, 18.0
_ROW, _TALL_ROW = 18.0, 29.0  # without and with penalties
_FORK, _STRAIGHT = 26.0, 10.0  # between two columns
_LIST_GAP = 14.0
LIST_NAME = "log P"
_TITLE_ROOM = 300.0  # the least width that a title gets
_LETTER = 6.2  # the width of a typical letter
_LONGEST_RUN = 8  # a run of tokens is shown at most this many times as long as a token


@dataclass(frozen=True)
class Lane:
    """One group of one search, or all of them in one tree."""

    group: int
    cells: tuple[Cell, ...]
    rows: tuple[int, ...]

    @functools.cached_property
    def heights(self) -> tuple[float, ...]:
        """The height of each row: more where a penalty is shown."""
        heights = [_ROW] * (1 + max(self.rows))
        for cell, row in zip(self.cells, self.rows, strict=True):
            if text.penalty(cell.cost):
                heights[row] = _TALL_ROW
        return tuple(heights)

    @functools.cached_property
    def tops(self) -> tuple[float, ...]:
        return tuple(accumulate(self.heights, initial=0.0))

    @property
    def height(self) -> float:
        return self.tops[-1]

    def row(self, cell: int) -> int:
        """Return the row of a cell, or of the root."""
        return 0 if cell == ROOT else self.rows[cell]


@dataclass(frozen=True)
class Panel:
    """One search."""

    recording: Recording
    lanes: tuple[Lane, ...]
    missing: int
    """The number of branches that are not drawn."""

    @property
    def title(self) -> str:
        return text.clean(self.recording.title).strip()

    @property
    def note(self) -> str:
        if not self.lanes:
            return "nothing was recorded"
        branches = "branch" if self.missing == 1 else "branches"
        return f"+{self.missing} dropped {branches} not drawn" if self.missing else ""

    @property
    def head(self) -> float:
        """The height of title and axis."""
        return TITLE_HEIGHT * bool(self.title or self.note) + AXIS_HEIGHT * bool(self.lanes)

    @property
    def height(self) -> float:
        gaps = LANE_GAP * max(len(self.lanes) - 1, 0)
        return self.head + sum(lane.height for lane in self.lanes) + gaps

    @property
    def has_names(self) -> bool:
        return self.recording.groups > 1 and not self.recording.one_tree


@dataclass(frozen=True)
class Scale:
    """The horizontal positions, the same for all searches of a picture."""

    letters: int
    """About how many letters of a token are shown."""
    columns: tuple[range, ...]
    root: float
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    ranks: float
    """The right edge of the ranks of the hypotheses. Their log-probabilities come after it."""
    right: float

    @property
    def width(self) -> float:
        return self.right + MARGIN


@dataclass(frozen=True)
class Layout:
    """A whole picture."""

    panels: tuple[Panel, ...]
    scale: Scale

    @functools.cached_property
    def width(self) -> float:
        """The width of the trees, or of the text above and below them if that is more."""
        heads = [_bold(self.title(panel)) + WORD + text.width(panel.note, SMALL) for panel in self.panels]
        return max(
            self.scale.width, *(2 * MARGIN + each for each in [*heads, text.width(self.legend, SMALL)])
        )

    @property
    def height(self) -> float:
        panels = sum(panel.height + PANEL_GAP for panel in self.panels)
        return MARGIN + panels + LEGEND_HEIGHT

    def title(self, panel: Panel) -> str:
        room = max(self.scale.width - 2 * MARGIN - WORD - text.width(panel.note, SMALL), _TITLE_ROOM)
        return text.shorten(panel.title, TITLE, room / text.BOLD)

    @property
    def legend(self) -> str:
        """The explanation of those signs that occur in this picture."""
        cells = [cell for panel in self.panels for lane in panel.lanes for cell in lane.cells]
        occurs = {
            "coloured: in the result": any(cell.kept for cell in cells),
            "grey: dropped": not all(cell.kept for cell in cells),
            "below a word: the penalty it paid": any(text.penalty(cell.cost) for cell in cells),
            "square: the end": any(cell.last.ended for cell in cells),
        }
        return "; ".join(words for words, does in occurs.items() if does)


def _bold(title: str) -> float:
    return text.BOLD * text.width(title, TITLE)


def least_height(trees: Sequence[Sequence[Node]]) -> float:
    """Return a lower bound on the height of a picture: at each step, every node takes a row of its own."""
    fullest = (max(Counter(node.depth for node in nodes).values(), default=0) for nodes in trees)
    return _ROW * sum(fullest)


def lay_out(
    recordings: Sequence[Recording],
    trees: Sequence[Sequence[Node]],
    missing: Sequence[int],
    columns: Sequence[range],
    letters: int,
) -> Layout:
    """Return the layout of a picture. `missing` is the number of branches of each tree that are not drawn."""
    panels = tuple(
        Panel(recording, _lanes(nodes, columns), left_out)
        for recording, nodes, left_out in zip(recordings, trees, missing, strict=True)
    )
    return Layout(panels, _scale(panels, columns, letters))


def _lanes(nodes: Sequence[Node], columns: Sequence[range]) -> tuple[Lane, ...]:
    lanes = cells_of(nodes, columns)
    return tuple(Lane(group, cells, rows_of(cells)) for group, cells in lanes.items())


def _scale(panels: Sequence[Panel], columns: Sequence[range], letters: int) -> Scale:
    lanes = [lane for panel in panels for lane in panel.lanes]
    widths = [_column_width(lanes, column, letters) for column in range(len(columns))]
    names = [name(lane.group) for panel in panels if panel.has_names for lane in panel.lanes]
    root = MARGIN + max((text.width(each, SMALL + 2) + PAD for each in names), default=0.0) + ROOT_SPACE
    starts, x = [], root
    for column, width in enumerate(widths):
        starts.append(x + (_FORK if not column or _forks(lanes, column) else _STRAIGHT))
        x = starts[-1] + width
    ends = [start + width for start, width in zip(starts, widths, strict=True)]
    ranks = x + _LIST_GAP + _rank_width(lanes)
    return Scale(letters, tuple(columns), root, tuple(starts), tuple(ends), ranks, ranks + _list_width(lanes))


def name(group: int) -> str:
    return f"group {group}"


def _column_width(lanes: Sequence[Lane], column: int, letters: int) -> float:
    cells = [cell for lane in lanes for cell in lane.cells if cell.column == column]
    widths = [max(cell_width(cell, letters), _cost_width(cell)) for cell in cells]
    return round(2 * PAD + max(widths, default=0.0), 1)


def shown(cell: Cell, letters: int) -> str:
    """Return a cell's label, shortened if necessary."""
    steps = min(sum(node.size for node in cell.nodes), _LONGEST_RUN)
    shorten = text.shorten if steps == 1 else text.shorten_middle
    return shorten(cell.label, WORD, letters * _LETTER * steps)


def cell_width(cell: Cell, letters: int) -> float:
    """Return the width of a cell's label and its end mark."""
    label = shown(cell, letters)
    mark = END + PAD * bool(label) if cell.last.ended else 0.0
    return text.width(label, WORD) + mark


def _cost_width(cell: Cell) -> float:
    return text.width(text.penalty(cell.cost), SMALL)


def _forks(lanes: Sequence[Lane], column: int) -> bool:
    """Tell whether a line goes to another row before this column."""
    return any(
        lane.row(i) != lane.row(cell.parent)
        for lane in lanes
        for i, cell in enumerate(lane.cells)
        if cell.column == column
    )


def _outcomes(lanes: Sequence[Lane]) -> list[Node]:
    return [cell.last for lane in lanes for cell in lane.cells if cell.last.rank]


def _rank_width(lanes: Sequence[Lane]) -> float:
    return max((text.width(str(node.rank), WORD) for node in _outcomes(lanes)), default=0.0)


def _list_width(lanes: Sequence[Lane]) -> float:
    texts = [text.logarithm(node.final_log_prob) for node in _outcomes(lanes)]
    widths = [text.width(each, WORD) + 3 * PAD for each in texts]
    return max([*widths, text.width(LIST_NAME, SMALL) if texts else 0.0])
