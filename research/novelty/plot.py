"""Draw quality against clusters of meaning, from docs/results/novelty: the plot of docs/novelty.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamsplit.evaluation.plots import content, style
from beamsplit.files import write_bytes
from research.novelty.choice import mean_of, reference_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_novelty", "look_of"]

Results = Mapping[str, Any]
FILE, COVERAGE = "quality.svg", "coverage.svg"

_LOOKS: dict[str, dict[str, Any]] = {
    "chunk-wise, tokens": {"color": "#7c2d12", "marker": "h", "linewidth": 2.4, "zorder": 5},
    "chunk-wise by beams": {"color": "#f97316", "marker": "p", "zorder": 5},
    "chunk-wise": {"color": "#c2410c", "marker": "o", "linewidth": 2.4, "zorder": 5},
    "nucleus": {"color": "#333333", "marker": "s"},
    "sampling": {"color": "#8a8a8a", "marker": "v"},
    "min-p": {"color": "#b45309", "marker": "P"},
    "arithmetic": {"color": "#a16207", "marker": "X"},
    "diverse sampling": {"color": "#be185d", "marker": "<"},
    "beam search": {"color": "#0f766e", "marker": "D"},
    "DBS hamming": {"color": "#1d4ed8", "marker": "o"},
    "DBS cumulative": {"color": "#3b82f6", "marker": "^"},
    "DBS ngram": {"color": "#6366f1", "marker": ">"},
    "DBS embedding": {"color": "#7c3aed", "marker": "d"},
    "default": {"color": "#1d4ed8", "marker": "*", "markersize": 11},
    "late": {"color": "#15803d", "marker": "o"},
}
_PANELS = {"as cheap as eight samples": 1.6, "four times as many rows": float("inf")}
"""Titles, and the cost up to which a setting belongs there, relative to the reference."""


def look_of(family: str) -> dict[str, Any]:
    """Return the colour and the marker of a family: by how its name begins."""
    return next((look for begin, look in _LOOKS.items() if family.startswith(begin)), {"color": "#000000"})


def draw_novelty(folder: Path, part: str = "test") -> None:
    """Write FOLDER/quality.svg and FOLDER/coverage.svg, if there is what they are made of."""
    for draw, name in ((_draw_quality, part), (_draw_coverage, f"pronounce-{part}")):
        file = folder / f"{name}.json"
        if file.exists():
            draw(json.loads(file.read_text(encoding="utf-8")), folder)


def _draw_coverage(results: Results, folder: Path) -> None:
    """Draw how many words have a pronunciation among the first k that are right, against k."""
    import matplotlib.pyplot as plt

    with style():
        figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
        for family, setting in results["settings"].items():
            values = [mean_of(setting, f"coverage@{k}") for k in results["ks"]]
            dash = "--" if "unique" in family else "-"
            axes.plot(results["ks"], values, label=family, linestyle=dash, **look_of(family))
        axes.set_xlabel("pronunciations that are looked at (k)")
        axes.set_ylabel("words of which one at least is right")
        axes.legend(fontsize=9.0)
        write_bytes(folder / COVERAGE, content(figure, "svg"))
    plt.close(figure)


def _draw_quality(results: Results, folder: Path) -> None:
    """Draw log-probability against clusters: cheap settings on the left, dear ones on the right."""
    import matplotlib.pyplot as plt

    reference = reference_of(results)
    with style():
        figure, panels = plt.subplots(
            1, 2, figsize=(13.4, 6.2), layout="constrained", sharey=True, sharex=True
        )
        least = 0.0
        for axes, (title, most) in zip(panels, _PANELS.items(), strict=True):
            chosen = {
                name: each
                for name, each in results["settings"].items()
                if least <= each["cost"] / reference["cost"] < most
            }
            _draw(axes, chosen, reference)
            axes.set_title(title)
            axes.set_xlabel("clusters of meaning among the readable ones of eight")
            least = most
        panels[0].set_ylabel("log-probability per word")
        handles = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9.0)
        write_bytes(folder / FILE, content(figure, "svg"))
    plt.close(figure)


def _draw(axes: Axes, settings: Mapping[str, Results], reference: Results) -> None:
    """Draw a line for each family, and lines where the reference is."""
    axes.axhline(mean_of(reference, "log_prob_word"), color="#333333", linewidth=0.8, linestyle=":")
    axes.axvline(mean_of(reference, "readable_50"), color="#333333", linewidth=0.8, linestyle=":")
    families: dict[str, list[Results]] = {}
    for setting in settings.values():
        families.setdefault(setting["family"], []).append(setting)
    for family, several in families.items():
        points = sorted((mean_of(each, "readable_50"), mean_of(each, "log_prob_word")) for each in several)
        axes.plot(*zip(*points, strict=True), label=family, linestyle=_dash(family), **look_of(family))


def _dash(family: str) -> str:
    """Return how the line of a family is drawn: families that begin alike differ in what they keep."""
    kept = {"dpp": "--", "MBR": "-.", "farthest": ":"}
    return next((dash for word, dash in kept.items() if word in family), "-")
