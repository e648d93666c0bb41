"""Write results as tidy CSV: a row for each method and figure, as data frames like it.

pandas.read_csv("results.csv").pivot(index="method", columns="figure", values="value")
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beamsplit.evaluation.blocks import RunResults

__all__ = ["COLUMNS", "to_csv", "write_rows"]

COLUMNS = (
    "task",
    "model",
    "by",  # how inputs were split, such as "predicted"; empty for all inputs
    "part",  # which part of them, such as "simple"
    "items",
    "method",
    "figure",
    "value",
    "low",
    "high",
    "difference",  # from the first method
    "difference_low",
    "difference_high",
    "p",
    "signature",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for one


def to_csv(results: RunResults) -> str:
    """Return all figures, one a row. What is not known is left empty."""
    return write_rows(COLUMNS, _rows(results))


def write_rows(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV under these columns. Keep spreadsheets from taking a text for a formula."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _rows(results: RunResults) -> Iterator[dict[str, Any]]:
    signatures = results.get("signatures", {})
    about = {"task": results["task"], "model": results["model"], "items": results["items"]}
    for row in _of_figures(results["figures"], signatures):
        yield about | row
    for by, parts in results["parts"].items():
        for part, found in parts.items():
            for row in _of_figures(found["figures"], signatures):
                yield about | {"by": by, "part": part, "items": found["items"]} | row
    for row in _of_cost(results.get("cost", {"methods": {}})):
        yield about | {"items": results["cost"]["inputs"]} | row


def _of_figures(figures: Mapping[str, Any], signatures: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, by_method in figures.items():
        for method, figure in by_method.items():
            yield {
                "method": method,
                "figure": name,
                **{key: figure[key] for key in ("value", "low", "high") if key in figure},
                **_against(figure.get("against_first", {})),
                "signature": signatures.get(name, ""),
            }


def _against(against: Mapping[str, float]) -> dict[str, float]:
    names = {"difference": "difference", "low": "difference_low", "high": "difference_high", "p": "p"}
    return {column: against[key] for key, column in names.items() if key in against}


def _of_cost(cost: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield time, tokens read and memory. The interval of a ratio is from the first to the third quartile."""
    for method, found in cost["methods"].items():
        ratio = found["ratio"]
        yield {"method": method, "figure": "seconds", "value": found["seconds"]}
        yield {
            "method": method,
            "figure": "time_ratio",
            "value": ratio["median"],
            "low": ratio["low"],
            "high": ratio["high"],
        }
        for figure in ("tokens", "peak_megabytes"):
            if figure in found:
                yield {"method": method, "figure": figure, "value": found[figure]}
