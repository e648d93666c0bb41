"""The plot of a report: preference by bins, and a line at 50%."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beamsplit import extras
from beamsplit.evaluation.plots import content, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_plot"]

Figures = Mapping[str, Any]
Bar = tuple[str, Figures]  # a label, and a share with its interval

_TWO_COLUMNS = 8.0  # inches of width from which the legend has two columns
_DARK = "#444444"
_ITEMS, _VOTES = "#0072B2", "#D55E00"  # Okabe and Ito's, for the colour-blind too


def draw_plot(report: Figures, kind: str = "svg") -> bytes:
    """Return the content of the plot's file. The same figures give the same bytes."""
    extras.need("matplotlib", "the plot of a study", "study")
    with style():
        figure = _figure(report)
    return content(figure, kind)


def _figure(report: Figures) -> Figure:
    panels = _panels(report)
    widths = [1 + len(bars) for _, bars in panels]
    size = (max(5.5, 1.1 * sum(widths) + 1.5), 4.2)
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, (title, bars) in zip(all_axes, panels, strict=True):
        _draw(axes, title, bars)
    label = f"{report['second']} preferred to {report['first']}"
    all_axes[0].set_ylabel("\n".join(textwrap.wrap(label, 45)))
    columns = 2 if size[0] >= _TWO_COLUMNS else 1
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    return figure


def _panels(report: Figures) -> list[tuple[str, list[Bar]]]:
    by = [
        (f"By {key}", [(f"{b['range']}\n({b['items']})", b["preference"]) for b in part["bins"]])
        for key, part in report["by"].items()
    ]
    return [("All", [(f"all\n({report['items']})", report["preference"])]), *by]


def _draw(axes: Axes, title: str, bars: Sequence[Bar]) -> None:
    _points(axes, "share of items, by majority (Wilson)", -0.12, _ITEMS, "o", [b["items"] for _, b in bars])
    _points(axes, "share of votes (bootstrap over items)", 0.12, _VOTES, "s", [b["votes"] for _, b in bars])
    axes.axhline(50, color=_DARK, linestyle="--", linewidth=1.2)
    axes.set_xticks(range(len(bars)), [name for name, _ in bars])
    axes.set_xlim(-0.6, len(bars) - 0.4)
    axes.set_ylim(-3, 103)
    axes.set_yticks(range(0, 101, 25), [f"{each}%" for each in range(0, 101, 25)])
    axes.xaxis.grid(visible=False)
    axes.set_title(title)


def _points(
    axes: Axes, name: str, offset: float, colour: str, marker: str, shares: Sequence[Figures]
) -> None:
    known = [(index + offset, share) for index, share in enumerate(shares) if share["share"] is not None]
    middle = [100 * share["share"] for _, share in known]
    below = [_distance(share, "low") for _, share in known]
    above = [_distance(share, "high") for _, share in known]
    x = [position for position, _ in known]
    axes.errorbar(x, middle, [below, above], fmt=marker, color=colour, capsize=4, label=name)


def _distance(share: Figures, bound: str) -> float:
    """Return the distance of a bound from its share, at least 0: rounding may put it on the wrong side."""
    if share[bound] is None:
        return 0.0
    distance = share["share"] - share["low"] if bound == "low" else share["high"] - share["share"]
    return max(0.0, 100 * float(distance))
