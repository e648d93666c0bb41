"""Choose settings on validation data: of each family of methods, the one with the best oracle score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beamsplit.evaluation.tables import aligned, text_metrics, title

__all__ = ["best_of_families", "choice_table", "deciding"]


def deciding(results: Mapping[str, Any]) -> str:
    """Return the name of the deciding figure: the first metric's oracle score of the longest list."""
    metric = text_metrics(results)[0]
    of_metric: list[str] = [name for name in results["figures"] if name.startswith(f"oracle_{metric}@")]
    return max(of_metric, key=lambda name: int(name.rpartition("@")[2]))


def best_of_families(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the best method of each family."""
    found = results["figures"][deciding(results)]
    best: dict[str, str] = {}
    for name, about in results["methods"].items():
        family = about["family"] or name
        if family not in best or found[name]["value"] > found[best[family]]["value"]:
            best[family] = name
    return best


def choice_table(results: Mapping[str, Any]) -> list[str]:
    """Return a table of the best of each family, with the quality and diversity of its lists."""
    columns = [deciding(results), "list_distinct_2", "unique"]
    rows = [
        [family, _settings(results["methods"][name]["varied"]), *(_cell(results, c, name) for c in columns)]
        for family, name in best_of_families(results).items()
    ]
    return aligned(["", "best", *map(title, columns)], rows)


def _settings(varied: Mapping[str, Any]) -> str:
    return ", ".join(
        _settings(value) if isinstance(value, Mapping) else f"{key} {value}" for key, value in varied.items()
    )


def _cell(results: Mapping[str, Any], column: str, name: str) -> str:
    return f"{results['figures'][column][name]['value']:.{2 if 'bleu' in column else 3}f}"
