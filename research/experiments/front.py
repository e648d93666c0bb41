"""Draw quality against diversity on all test sets, from docs/results/front: the plot of docs/choosing.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamsplit.evaluation.plots import content, style
from beamsplit.files import write_bytes
from research.experiments.choice import deciding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_front"]

Results = Mapping[str, Any]
PANELS = {
    "coco": "COCO captions",
    "pascal50s": "PASCAL-50S captions",
    "vqg": "VQG questions",
    "newstest2013": "news 2013",
    "newstest2014": "news 2014",
    "multi30k": "Multi30k descriptions",
    "tatoeba": "Tatoeba sentences",
}
LOOKS: dict[str, dict[str, Any]] = {
    "BS": {"color": "#333333", "marker": "s"},
    "late branching": {"color": "#c2410c", "marker": "o", "linewidth": 2.4, "zorder": 5},
    "DBS": {"color": "#1d4ed8", "marker": "o"},
    "Li & Jurafsky": {"color": "#7c3aed", "marker": "^"},
    "DivMBest": {"color": "#0f766e", "marker": "D"},
    "sampling": {"color": "#8a8a8a", "marker": "v"},
}
FILE = "front.svg"


def draw_front(folder: Path) -> None:
    """Write FOLDER/front.svg from FOLDER/front/*.json, if they are all there."""
    files = {name: folder / "front" / f"{name}.json" for name in PANELS}
    if not all(file.exists() for file in files.values()):
        return
    import matplotlib.pyplot as plt

    with style():
        figure, grid = plt.subplots(2, 4, figsize=(12.6, 6.4), layout="constrained")
        panels = list(grid.flat)
        for axes, (name, file) in zip(panels, files.items(), strict=False):
            _draw(axes, json.loads(file.read_text(encoding="utf-8")))
            axes.set_title(PANELS[name])
        for axes in grid[:, 0]:
            axes.set_ylabel("best of 20, gain over beam search, %")
        for axes in grid[1, :-1]:
            axes.set_xlabel("distinct-2")
        panels[-1].axis("off")
        panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center", fontsize=11.5)
        write_bytes(folder / FILE, content(figure, "svg"))
    plt.close(figure)


def _draw(axes: Axes, results: Results) -> None:
    """Draw a line for each family of methods, from its lowest to its highest strength."""
    quality, diversity = results["figures"][deciding(results)], results["figures"]["list_distinct_2"]
    first = quality["BS"]["value"]
    families: dict[str, list[str]] = {}
    for name, about in results["methods"].items():
        families.setdefault(about["family"] or name, []).append(name)
    axes.axhline(0, color="#333333", linewidth=0.8, linestyle=":")
    for family, names in families.items():
        x = [diversity[name]["value"] for name in names]
        y = [100 * (quality[name]["value"] / first - 1) for name in names]
        axes.plot(x, y, label=family, **LOOKS[family])
    # Samples at low temperatures may be far below all others, who would be squeezed into a line.
    axes.set_ylim(bottom=max(axes.get_ylim()[0], -15))
