"""Draw results as pictures, for reports and pages; which there are depends on what was measured.

oracle           the best of k against k
tradeoff         quality against diversity
complexity       gains over the first method, by complexity of the picture
sweep-DBS        what comes of the setting that the methods of the family DBS vary

Without references there is no quality: the tradeoff is that of likelihood against diversity, and gains are
those in diversity.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beamsplit import extras
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.blocks import BY, NAMES, RunResults, has_references, text_metrics
from beamsplit.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.transforms import BboxBase

__all__ = ["content", "plots", "save", "style"]

Found = Mapping[str, Any]  # one figure: its value, and where it may lie as well
ByMethod = Mapping[str, Found]
Label = tuple[float, float, str, str]  # where, what, and in which colour
Positions = NDArray[np.float64]

# Okabe and Ito's, for the colour-blind too; grey stands for their yellow, which is too light for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one fewer, so that a colour comes back with another marker
_DARK = "#444444"
_DASHED: dict[str, Any] = {"color": _DARK, "linestyle": "--", "linewidth": 1.2}
# Where a label may be beside its point, in points of type, the best first; and how many times as far off.
_SIDES = ((7, 0), (-7, 0), (0, 7), (0, -7), (5, 5), (-5, 5), (5, -5), (-5, -5))
_FAR = (1, 2, 3, 4, 5)
_WIDTH = 8.0  # inches; 800 pixels where a page shows 100 to the inch
_APART = 1 / 14  # of an axis: what is between the numbers written along it, at least
_METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}
_STYLE = {
    "font.family": ["sans-serif"],
    # What comes with matplotlib, one as wide that readers may have, and whatever there is.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "figure.titlesize": 12.5,
    "legend.frameon": False,
    "text.parse_math": False,  # names may have dollars
    "svg.fonttype": "none",
    "svg.hashsalt": "beamsplit",
    "savefig.dpi": 200,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _DARK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
}


def plots(results: RunResults) -> dict[str, Figure]:
    """Return the plots that these results allow, by name."""
    with style():
        made = {
            "oracle": _oracle(results),
            "tradeoff": _tradeoff(results),
            "complexity": _complexity(results),
        }
        made |= {f"sweep-{each.name}": _sweep(results, each) for each in _series(results) if each.key}
    return {name: figure for name, figure in made.items() if figure is not None}


def save(results: RunResults, folder: Path, stem: str, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write the plots as files, and return their paths. The same results make the same bytes."""
    for each in formats:
        if each not in _METADATA:
            raise ArgumentError(f"formats has {each!r}: there are {', '.join(_METADATA)}")
    written = []
    for name, figure in plots(results).items():
        # A family may have any name, and a file may not.
        file = re.sub(r"[^\w.-]+", "-", name)
        for each in formats:
            written.append(folder / f"{stem}-{file}.{each}")
            write_bytes(written[-1], content(figure, each))
    return written


def content(figure: Figure, kind: str) -> bytes:
    """Return a figure as the content of a file. The same figure makes the same bytes."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    return buffer.getvalue()


def style() -> AbstractContextManager[None]:
    """Use our settings of matplotlib for the length of a block."""
    ours: AbstractContextManager[None] = _need("matplotlib.style").context(["default", _STYLE])
    return ours


def _need(module: str) -> Any:
    return extras.need(module, "beamsplit.evaluation.plots", "evaluate")


# What is drawn


@dataclass(frozen=True)
class _Measured:
    """The figures of one metric, and what a reader calls it."""

    title: str
    by_method: ByMethod


@dataclass(frozen=True)
class _Series:
    """A method, or a family of methods with what they vary and its values."""

    name: str
    methods: list[str]
    key: str
    values: list[Any]

    @property
    def labels(self) -> list[str]:
        return [_shown(value) for value in self.values] if self.key else [self.name]


def _series(results: RunResults) -> list[_Series]:
    members: dict[str, list[str]] = {}
    for name, method in results["methods"].items():
        members.setdefault(method["family"] or name, []).append(name)
    found = []
    for series, names in members.items():
        # Of settings that vary together, the first stands for all, as it does in the methods' names.
        varied = [_first_varied(results["methods"][name]["varied"]) for name in names]
        found.append(_Series(series, names, varied[0][0], [value for _, value in varied]))
    return found


def _first_varied(varied: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the first setting that varies: of `{"mmi": {"strength": 0.1}}`, the strength."""
    key, value = next(iter(varied.items()), ("", None))
    return _first_varied(value) if isinstance(value, Mapping) and len(value) == 1 else (key, value)


def _texts(results: RunResults) -> list[str]:
    return [metric for metric in text_metrics(results) if not metric.startswith("mbr_")]


def _oracles(figures: Mapping[str, ByMethod], metric: str) -> dict[int, ByMethod]:
    """Return the oracle figures of a metric by k, the smallest first."""
    before = f"oracle_{metric}@"
    found = {
        int(name.removeprefix(before)): each for name, each in figures.items() if name.startswith(before)
    }
    return dict(sorted(found.items()))


def _quality(results: RunResults) -> _Measured | None:
    """Return the oracle figure of the largest k by the first metric, also for a part of the results."""
    metrics = _texts(results)
    if not metrics:
        return None
    *_, (k, by_method) = _oracles(results["figures"], metrics[0]).items()
    return _Measured(f"{_named(metrics[0])}, {_best_of(k)}", by_method)


def _likelihood(results: RunResults) -> _Measured | None:
    """Return the log-probability of first outputs, which stands for quality if there are no references."""
    name = "top_log_prob"
    if has_references(results) or name not in results["figures"]:
        return None
    return _Measured("mean log-probability of the first output", results["figures"][name])


def _diversity(results: RunResults) -> _Measured | None:
    names = [name for name in results["figures"] if "_distinct_" in name]
    if not names:
        return None
    name = "list_distinct_2" if "list_distinct_2" in names else names[0]
    return _Measured(_named(name), results["figures"][name])


def _few(results: RunResults) -> bool:
    """Return whether each method can have a colour of its own."""
    return len(results["methods"]) <= len(_COLOURS)


# Words


def _named(metric: str) -> str:
    of, distinct, n = metric.partition("_distinct_")
    if distinct:
        return f"{'corpus ' * (of == 'corpus')}distinct-{n} (different {n}-grams per word)"
    return NAMES.get(metric, metric.replace("_", " "))


def _best_of(k: int) -> str:
    return "top-1" if k == 1 else f"best of {k}"


def _shown(value: Any) -> str:
    """Return the text of a value that was varied, which may be a table such as that of a term."""
    if _is_number(value):
        return f"{value:g}"
    return " ".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# The pictures


def _oracle(results: RunResults) -> Figure | None:
    found = {metric: _oracles(results["figures"], metric) for metric in _texts(results)}
    # One k makes no line.
    found = {metric: by_k for metric, by_k in found.items() if len(by_k) > 1}
    if not found or not _few(results):
        return None
    figure, panels = _panels(results, len(found))
    for axes, (metric, by_k) in zip(panels, found.items(), strict=True):
        for series_index, name in enumerate(results["methods"]):
            _line(axes, list(by_k), [by_method[name] for by_method in by_k.values()], name, series_index)
        _scale(axes, list(by_k))
        axes.set(title=_named(metric), xlabel="best of k")
    _legend(figure, panels[0].lines)
    return figure


def _tradeoff(results: RunResults) -> Figure | None:
    quality, diversity = _quality(results) or _likelihood(results), _diversity(results)
    if quality is None or diversity is None:
        return None
    figure, [axes] = _panels(results, 1, height=5.4)
    axes.set(xlabel=diversity.title, ylabel=quality.title)
    axes.margins(0.1)
    labels: list[Label] = []
    for series_index, series in enumerate(_series(results)):
        x, y = ([of.by_method[name] for name in series.methods] for of in (diversity, quality))
        _points(axes, x, y, series, series_index)
        for across, up, text in zip(x, y, series.labels, strict=True):
            labels.append((across["value"], up["value"], text, _look(series_index)["color"]))
    families = [line for line, series in zip(axes.lines, _series(results), strict=True) if series.key]
    if families:
        _legend(figure, families)
    _write(figure, axes, labels)
    return figure


def _complexity(results: RunResults) -> Figure | None:
    gained = _quality if has_references(results) else _diversity
    found = {by: [gained(part) for part in parts.values()] for by, parts in results["parts"].items()}
    measured = {by: [each for each in parts if each] for by, parts in found.items() if any(parts)}
    first, *others = results["methods"]
    if not measured or not others or not _few(results):
        return None
    figure, panels = _panels(results, len(measured), height=4.0, sharey=True)
    for axes, (by, parts) in zip(panels, measured.items(), strict=True):
        _gains(axes, others, [part.by_method for part in parts])
        names = [f"{name}\n({part['items']})" for name, part in results["parts"][by].items()]
        axes.set_xticks(range(len(names)), names)
        axes.set_title(f"By {BY.get(by, by)}")
        axes.set_ylabel(f"{parts[0].title}:\ngain over {first}")
        axes.label_outer()
    _legend(figure, panels[0].lines[1:])
    return figure


def _sweep(results: RunResults, series: _Series) -> Figure | None:
    metric, diversity = next(iter(_texts(results)), None), _diversity(results)
    by_k = _oracles(results["figures"], metric) if metric else {}
    if not by_k and not diversity:
        return None
    figure, panels = _panels(results, bool(by_k) + bool(diversity), height=4.0)
    # What the sweep is compared with, if there is a method of which nothing was varied.
    first = next((each.name for each in _series(results) if not each.key), None)
    lines = [
        _swept(panels[0], series, _Measured(_best_of(k), by_method), series_index, first)
        for series_index, (k, by_method) in enumerate(by_k.items())
    ]
    if metric:
        panels[0].set_title(_named(metric))
    if diversity:
        _swept(panels[-1], series, diversity, len(by_k), first)
        panels[-1].set_title(diversity.title)
    if first:
        lines.append(_need("matplotlib.lines").Line2D([], [], label=first, **_DASHED))
    for axes in panels:
        axes.set_xlabel(f"{_words(series.key)} of {series.name}")
    if lines:
        _legend(figure, lines)
    return figure


# Parts of pictures


def _panels(
    results: RunResults, count: int, *, height: float | None = None, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Make so many panels in rows, beneath the title."""
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = math.ceil(count / columns)
    height = height or {1: 4.5, 2: 3.1 * rows + 1, 3: 2.6 * rows + 1}[columns]
    figure: Figure = _need("matplotlib.figure").Figure(figsize=(_WIDTH, height), layout="constrained")
    # Without a canvas, one would be made for every label that is measured.
    _need("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    figure.suptitle(textwrap.fill(results["title"], 75), x=0.012, ha="left", weight="bold")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def _look(series_index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[series_index % len(_COLOURS)],
        "marker": _MARKERS[series_index % len(_MARKERS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "markersize": 7.5,
    }


def _line(axes: Axes, x: Sequence[float], found: Sequence[Found], label: str, series_index: int) -> Line2D:
    """Draw a line of values, with a band for their intervals."""
    [line] = axes.plot(x, [each["value"] for each in found], label=label, **_look(series_index))
    if all("low" in each for each in found):
        axes.fill_between(x, *_ends(found), color=line.get_color(), alpha=0.13, linewidth=0)
    return line


def _points(axes: Axes, x: Sequence[Found], y: Sequence[Found], series: _Series, series_index: int) -> None:
    """Draw points with their intervals, and a line through those of a family."""
    look = _look(series_index)
    across, up = ([each["value"] for each in found] for found in (x, y))
    thin = {"colors": look["color"], "linewidth": 0.8, "alpha": 0.5}
    if all("low" in each for each in x):
        axes.hlines(up, *_ends(x), **thin)
    if all("low" in each for each in y):
        axes.vlines(across, *_ends(y), **thin)
    label = f"{series.name}, by {_words(series.key)}" if series.key else series.name
    axes.plot(across, up, label=label, **look)


def _gains(axes: Axes, others: Sequence[str], parts: Sequence[ByMethod]) -> None:
    """Draw the gains of methods side by side, for each part."""
    axes.axhline(0, color=_DARK, linewidth=1)
    axes.grid(visible=False, axis="x")
    step = min(0.16, 0.8 / len(others))
    for series_index, name in enumerate(others):
        found = [part[name]["against_first"] for part in parts]
        x = [part + (series_index - (len(others) - 1) / 2) * step for part in range(len(parts))]
        # The first method has a colour too, elsewhere.
        look = _look(series_index + 1) | {"markeredgewidth": 0}  # which would hide short intervals
        axes.vlines(x, *_ends(found), colors=look["color"], linewidth=1.4)
        axes.plot(x, [each["difference"] for each in found], linestyle="none", label=name, **look)
    axes.set_xlim(-0.5, len(parts) - 0.5)


def _swept(axes: Axes, series: _Series, measured: _Measured, series_index: int, first: str | None) -> Line2D:
    """Draw figures against what was varied, beside that of the first method."""
    values, order = series.values, list(range(len(series.values)))
    if all(map(_is_number, values)):
        order.sort(key=values.__getitem__)
        _scale(axes, values)
    else:
        values = order
        axes.set_xticks(values, series.labels)
    found = [measured.by_method[series.methods[each]] for each in order]
    line = _line(axes, [values[each] for each in order], found, measured.title, series_index)
    if first:
        axes.axhline(measured.by_method[first]["value"], label=first, **_DASHED | {"color": line.get_color()})
    return line


def _ends(found: Sequence[Found]) -> tuple[list[float], list[float]]:
    return [each["low"] for each in found], [each["high"] for each in found]


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Make the axis linear or logarithmic, whichever keeps values apart; its numbers do not overlap."""
    straight, logs = sorted(values), [math.log(value) if value > 0 else -math.inf for value in sorted(values)]
    logarithmic = straight[0] > 0 and _nearest(logs) > _nearest(straight)
    if logarithmic:
        axes.set_xscale("log")
    positions = logs if logarithmic else straight
    kept = [0]
    for each in range(1, len(positions)):
        if positions[each] - positions[kept[-1]] >= _APART * (positions[-1] - positions[0]):
            kept.append(each)
    ticks = [straight[each] for each in kept]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _nearest(positions: Sequence[float]) -> float:
    """Return the smallest gap, as a part of the whole."""
    whole = positions[-1] - positions[0]
    return min((b - a for a, b in pairwise(positions)), default=0.0) / whole if whole else 0.0


def _legend(figure: Figure, lines: Sequence[Line2D]) -> None:
    names = [str(line.get_label()) for line in lines]
    # A letter is about 0.6 of the type's size wide, sample and space are 4.8, and the picture 56.
    fitting = max(1, int(56 / (4.8 + 0.62 * max(map(len, names)))))
    # Rows as even as they can be.
    columns = math.ceil(len(names) / math.ceil(len(names) / fitting))
    figure.legend(lines, names, loc="outside lower center", ncols=columns)


# Labels beside points


def _write(figure: Figure, axes: Axes, labels: Sequence[Label]) -> None:
    """Write each label on the side of its point where it covers least."""
    figure.draw_without_rendering()  # only now is it known where things are
    drawn = _drawn(axes)
    taken: list[BboxBase] = []
    for x, y, text, colour in labels:
        note = axes.annotate(text, (x, y), (0, 0), textcoords="offset points", fontsize=9.5)
        note.set_color(_darker(colour))
        note.set_in_layout(False)  # things must stay where they were when the labels' places were found
        sides = [(across * far, up * far) for far in _FAR for across, up in _SIDES]
        # To be nearer, a label may cover a bit of a line.
        costs = [_covered(_moved(note, s), axes.bbox, drawn, taken) + 0.7 * math.hypot(*s) for s in sides]
        taken.append(_moved(note, sides[costs.index(min(costs))]))


def _darker(colour: str) -> str:
    """Return a darker colour for letters, which are thinner than markers."""
    return "#" + "".join(f"{int(colour[at : at + 2], 16) * 3 // 4:02x}" for at in (1, 3, 5))


def _moved(note: Annotation, side: tuple[float, float]) -> BboxBase:
    """Return where a label is, in pixels, if it is moved so far."""
    across, up = side
    note.set_position(side)
    note.set_horizontalalignment("left" if across > 0 else "right" if across < 0 else "center")
    note.set_verticalalignment("bottom" if up > 0 else "top" if up < 0 else "center")
    return note.get_window_extent()


def _drawn(axes: Axes) -> Positions:
    """Return where there are lines, intervals or points: many positions in pixels, [n 2]."""
    paths = [np.asarray(line.get_xydata()) for line in axes.lines]
    paths += [np.asarray(path.vertices) for each in axes.collections for path in each.get_paths()]
    along = np.linspace(0, 1, 40)[:, None, None]
    found = []
    for path in paths:
        corners = axes.transData.transform(path)
        found += [corners, (corners[:-1] + along * np.diff(corners, axis=0)).reshape(-1, 2)]
    return np.concatenate(found)


def _covered(box: BboxBase, inside: BboxBase, drawn: Positions, taken: Sequence[BboxBase]) -> int:
    """Return how much a label covers; other labels, and leaving the plot, count most."""
    box = box.padded(1)
    beneath = int(((drawn > box.min) & (drawn < box.max)).all(1).sum())
    outside = not (inside.contains(*box.min) and inside.contains(*box.max))
    return beneath + 1000 * (sum(box.overlaps(other) for other in taken) + outside)
