"""Results as people read them: Markdown tables like the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["markdown"]

NAMES = {
    "cider_d": "CIDEr-D",
    "meteor": "METEOR",
    "bleu_4": "BLEU-4",
    "sentence_bleu": "BLEU",
    "chrf": "chrF",
    "rouge_l": "ROUGE-L",
    "spice": "SPICE",
}


def markdown(results: dict[str, Any]) -> str:
    """All tables of an experiment."""
    lines = [f"## {results['title']}", ""]
    refused = f"; {results['refused']} that it does not take are left out" if results["refused"] else ""
    lines += [f"{results['items']} inputs of {results['task']}, model {results['model']}{refused}.", ""]
    lines += _table(results["figures"])
    for by, parts in results.get("parts", {}).items():
        lines += ["", f"### By image complexity, {_by(by)}", ""]
        for part, found in parts.items():
            lines += [f"{part.capitalize()}, {found['items']} pictures (gain over the first in brackets)", ""]
            lines += [*_table(found["figures"], gain=True), ""]
    for name, reason in results["unavailable"].items():
        lines += ["", f"Without {name}: {reason}"]
    return "\n".join(lines).rstrip() + "\n"


def _by(by: str) -> str:
    return {"people": "as people found it", "predicted": "as predicted"}[by]


def _table(figures: dict[str, Any], gain: bool = False) -> list[str]:
    columns = list(figures)
    methods = list(next(iter(figures.values())))
    rows = [[name, *(_cell(column, figures[column][name], gain) for column in columns)] for name in methods]
    return _lines(["", *(_title(column) for column in columns)], rows)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def _cell(column: str, figure: dict[str, Any], gain: bool) -> str:
    digits = 3 if "distinct" in column or "cider" in column else 2
    shown = f"{figure['value']:.{digits}f}"
    against = figure.get("against_first")
    if against is None:
        return shown
    # A star where the interval of the difference leaves out 0.
    star = "*" if against["low"] > 0 or against["high"] < 0 else ""
    return f"{shown}{star} ({against['difference']:+.{digits}f})" if gain else shown + star


def _title(column: str) -> str:
    """`oracle_cider_d@5` is "CIDEr-D @5", and the best of one is the top-1."""
    if column.startswith("oracle_"):
        name, k = column.removeprefix("oracle_").split("@")
        return f"{NAMES.get(name, name)} {'top-1' if k == '1' else '@' + k}"
    return column.replace("_", "-").replace("list-distinct", "distinct").replace("corpus-", "corpus ")
