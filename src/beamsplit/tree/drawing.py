"""A layout as SVG."""

from __future__ import annotations

from collections.abc import Iterator

from beamsplit.hypotheses import blank_sign, text_of
from beamsplit.tree import svg, text
from beamsplit.tree.cells import Cell
from beamsplit.tree.layout import (
    AXIS_HEIGHT,
    END,
    LANE_GAP,
    LIST_NAME,
    MARGIN,
    PAD,
    PANEL_GAP,
    SMALL,
    TITLE,
    TITLE_HEIGHT,
    WORD,
    Lane,
    Layout,
    Panel,
    Scale,
    cell_width,
    name,
    shown,
)
from beamsplit.tree.nodes import ROOT
from beamsplit.tree.recording import Recording

__all__ = ["COLOURS", "DASHES", "picture"]

# Okabe and Ito's colours, darkened until text in them can be read on white; two are too light for that.
COLOURS = ("#0072B2", "#C65300", "#005F46", "#AD588B", "#664600", "#000000")
DASHES = ("", "6 3", "2 2")  # once all colours have been used, they start again with the next dashes

_MIDDLE = 9.0  # the middle of a row's text, below the top of the row
_BASELINE = 4.0  # the baseline of text, below its middle
_COST = 15.5  # the baseline of the penalty, below the middle of the text


def picture(layout: Layout) -> str:
    """Return the whole picture as an SVG document."""
    parts: list[str] = []
    top = MARGIN
    for panel in layout.panels:
        parts += _panel(panel, layout, top)
        top += panel.height + PANEL_GAP
    if layout.legend:
        parts.append(_faint(MARGIN, layout.height - MARGIN + 4, layout.legend))
    return svg.document(layout.width, layout.height, _title(layout), _description(layout), parts)


def _panel(panel: Panel, layout: Layout, top: float) -> Iterator[str]:
    yield from _heading(panel, layout, top)
    if panel.lanes:
        yield from _axis(layout.scale, top + panel.head - AXIS_HEIGHT + 10)
    y = top + panel.head
    for index, lane in enumerate(panel.lanes):
        if index:
            yield _rule(layout, y - LANE_GAP / 2)
        yield svg.group(_lane(lane, panel, layout.scale, y), **_colours(lane.group))
        y += lane.height + LANE_GAP


def _heading(panel: Panel, layout: Layout, top: float) -> Iterator[str]:
    x, baseline = MARGIN, top + TITLE_HEIGHT - 12
    title = layout.title(panel)
    if title:
        yield svg.words(x, baseline, title, TITLE, font_weight="bold", kind="bs-text", fill=svg.TEXT)
        x += text.BOLD * text.width(title, TITLE) + WORD
    if panel.note:
        yield _faint(x, baseline, panel.note)


def _axis(scale: Scale, baseline: float) -> Iterator[str]:
    yield _faint(MARGIN, baseline, "step")
    for start, steps in zip(scale.starts, scale.columns, strict=True):
        yield _faint(start + PAD, baseline, text.steps(steps))
    if scale.right > scale.ranks:
        yield _faint(scale.right - text.width(LIST_NAME, SMALL), baseline, LIST_NAME)


def _faint(x: float, baseline: float, content: str) -> str:
    return svg.words(x, baseline, content, SMALL, kind="bs-faint", fill=svg.FAINT_TEXT)


def _rule(layout: Layout, y: float) -> str:
    return svg.line(MARGIN, layout.scale.right, y, stroke=svg.RULE, kind="bs-rule")


def _colours(group: int) -> dict[str, str]:
    colour = group % len(COLOURS)
    return {"kind": f"bs-group bs-colour-{colour + 1}", "color": COLOURS[colour]}


# One group


def _lane(lane: Lane, panel: Panel, scale: Scale, top: float) -> Iterator[str]:
    middles = [top + each + _MIDDLE for each in lane.tops]
    if panel.has_names:
        label = name(lane.group)
        yield svg.words(MARGIN, middles[0] + _BASELINE, label, SMALL + 2, kind="bs-name", fill="currentColor")
    yield svg.dot(scale.root, middles[0], 3.0, kind="bs-root", fill="currentColor")
    # Kept branches are drawn over the others, and those that stay in their row over those that leave it.
    for i in sorted(range(len(lane.cells)), key=lambda i: (lane.cells[i].kept, _is_straight(lane, i))):
        yield from _coloured(lane, lane.cells[i], [_edge(lane, i, scale, middles)])
    for i, cell in enumerate(lane.cells):
        yield from _coloured(lane, cell, list(_cell(cell, scale, middles[lane.rows[i]])))


def _coloured(lane: Lane, cell: Cell, parts: list[str]) -> list[str]:
    """Return the parts of a cell, in its own colour if that is not the lane's."""
    differs = cell.kept and cell.last.colour != lane.group
    return [svg.group(parts, **_colours(cell.last.colour))] if differs else parts


def _is_straight(lane: Lane, i: int) -> bool:
    return lane.rows[i] == lane.row(lane.cells[i].parent)


def _edge(lane: Lane, i: int, scale: Scale, middles: list[float]) -> str:
    cell = lane.cells[i]
    start, turn = _leaving(lane, cell.parent, scale)
    end = scale.starts[cell.column]
    y1, y2 = middles[lane.row(cell.parent)], middles[lane.rows[i]]
    looks = _strong(cell.last.colour) if cell.kept else _weak()
    if y1 == y2:
        return svg.line(start, end, y1, **looks)
    return svg.curve((start, y1), turn, (end, y2), **looks)


def _leaving(lane: Lane, cell: int, scale: Scale) -> tuple[float, float]:
    """Return where a line to a cell's children begins, and where it may turn."""
    if cell == ROOT:
        return scale.root, scale.root
    return _right(lane.cells[cell], scale), scale.ends[lane.cells[cell].column]


def _right(cell: Cell, scale: Scale) -> float:
    return scale.starts[cell.column] + 2 * PAD + cell_width(cell, scale.letters)


def _strong(group: int) -> dict[str, str]:
    dashes = DASHES[group // len(COLOURS) % len(DASHES)]
    looks = {"stroke": "currentColor", "stroke_width": "1.8", "kind": "bs-kept"}
    return looks | ({"stroke_dasharray": dashes} if dashes else {})


def _weak() -> dict[str, str]:
    return {"stroke": svg.FAINT_LINE, "stroke_width": "0.8", "kind": "bs-dropped"}


def _cell(cell: Cell, scale: Scale, middle: float) -> Iterator[str]:
    x = scale.starts[cell.column] + PAD
    label = shown(cell, scale.letters)
    looks = (
        {"kind": "bs-text", "fill": svg.TEXT} if cell.kept else {"kind": "bs-faint", "fill": svg.FAINT_TEXT}
    )
    if label:
        yield svg.words(x, middle + _BASELINE, label, WORD, _tip(cell), **looks)
    if cell.last.ended:
        fill = {"kind": "bs-end", "fill": "currentColor"} if cell.kept else looks
        yield svg.square(_right(cell, scale) - PAD - END, middle, END, **fill)
    paid = text.penalty(cell.cost)
    if paid:
        yield svg.words(x, middle + _COST, paid, SMALL, kind="bs-faint", fill=svg.FAINT_TEXT)
    if cell.last.rank:
        yield from _outcome(cell, scale, middle)


def _tip(cell: Cell) -> str:
    """Return the text that appears when one points at a cell."""
    paid = f", penalty −{cell.cost:.3g}" if cell.cost > 0 else ""
    fate = "" if cell.kept else ", dropped"
    return f"{cell.label}: {LIST_NAME} {text.logarithm(cell.last.log_prob)}{paid}{fate}"


def _outcome(cell: Cell, scale: Scale, middle: float) -> Iterator[str]:
    """Draw a hypothesis's rank in the list and its log-probability, and a dotted line that leads there."""
    rank, log_prob = str(cell.last.rank), text.logarithm(cell.last.final_log_prob)
    x = scale.ranks - text.width(rank, WORD)
    dotted = {"stroke": svg.FAINT_LINE, "stroke_width": "0.8", "stroke_dasharray": "1 3", "kind": "bs-leader"}
    yield svg.line(_right(cell, scale), x - PAD, middle, **dotted)
    baseline = middle + _BASELINE
    yield svg.words(x, baseline, rank, WORD, kind="bs-place", fill="currentColor")
    yield svg.words(
        scale.right - text.width(log_prob, WORD), baseline, log_prob, WORD, kind="bs-text", fill=svg.TEXT
    )


# The description in words


def _title(layout: Layout) -> str:
    names = [panel.title for panel in layout.panels if panel.title]
    return " and ".join(names) or "search tree"


def _description(layout: Layout) -> str:
    parts = [_in_words(panel.recording) for panel in layout.panels]
    return " ".join(
        ["Steps of a search from left to right, a branch for every prefix that it tried.", *parts]
    )


def _in_words(recording: Recording) -> str:
    groups = "1 group" if recording.groups == 1 else f"{recording.groups} groups"
    groups = "one tree" if recording.one_tree else groups
    found = [
        f"{rank}. {blank_sign(text_of(each)) or text_of(each)} ({text.logarithm(each.log_prob)})"
        for rank, each in enumerate(recording.hypotheses, start=1)
    ]
    title = f"{recording.title}: " if recording.title else ""
    return f"{title}{groups}, {len(recording.branches)} branches. {' '.join(found)}".rstrip()
