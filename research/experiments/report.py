"""Renew the tables of a Markdown page from results: the text between two marks is replaced.

<!-- coco: oracle cider_d -->
<!-- end -->

A table of several results has their names behind the columns:

<!-- gains: DBS oracle_cider_d@5,oracle_cider_d@20 coco vqg -->
<!-- end -->

<!-- overview: coco vqg -->
<!-- end -->
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beamsplit.errors import ArgumentError
from beamsplit.evaluation import tables
from beamsplit.evaluation.tables import aligned
from research.experiments.causes import similarity_table, sureness_table
from research.experiments.choice import choice_table
from research.novelty.report import KINDS as OF_ANSWERS

__all__ = ["renew_tables", "replace_blocks"]

Results = Mapping[str, Any]
_BLOCK = re.compile(r"<!-- (?P<name>[\w/-]+): (?P<what>[^\n]*) -->\n.*?<!-- end -->", re.DOTALL)

KINDS: dict[str, Callable[..., list[str]]] = {
    "about": lambda results: tables.about(results),
    "oracle": lambda results, metric, *distinct: tables.oracle_table(results, metric, bool(distinct)),
    "lists": tables.list_table,
    "parts": lambda results, by, metric: tables.parts_table(results, by, metric),
    "cost": tables.cost_table,
    "examples": lambda results, count, *methods: tables.examples(results, int(count), methods),
    "chosen": choice_table,
    "columns": lambda results, *columns: tables.column_table(results, columns),
    "sureness": sureness_table,
    "similarity": similarity_table,
    **OF_ANSWERS,
}


def gains_table(folder: Path, method: str, columns: str, *names: str) -> list[str]:
    """Return what a method gains over the first one, in percent of that, in each of these results."""
    chosen = columns.split(",")
    rows = []
    for name in names:
        results = _read(folder, name)
        first = next(iter(results["methods"]))
        cells = [_gain(results["figures"][column], first, method) for column in chosen]
        rows.append(
            [name.rpartition("/")[2], results["task"], results["model"].removesuffix(".safetensors"), *cells]
        )
    return aligned(["", "task", "model", *map(tables.title, chosen)], rows)


def _gain(figure: Results, first: str, method: str) -> str:
    """Return the two values, and the difference in percent, with a star if it is beyond chance."""
    before, after = figure[first]["value"], figure[method]["value"]
    against = figure[method]["against_first"]
    star = "" if against["low"] <= 0 <= against["high"] else "\\*"
    digits = 3 if max(before, after) < 10 else 1
    return f"{before:.{digits}f}, {after:.{digits}f}: {100 * (after / before - 1):+.1f}%{star}"


def overview_table(folder: Path, *names: str) -> list[str]:
    """Return how late branching and DBS compare with beam search, in quality and in diversity."""
    late, methods = "late branching", ("BS", "DBS", "late branching")
    rows = []
    for name in names:
        results = _read(folder, name)
        figures, metric = results["figures"], tables.text_metrics(results)[0]
        gains = [_percent(figures[f"oracle_{metric}@{k}"], late) for k in (1, 5, 20)]
        of_dbs = _percent(figures[f"oracle_{metric}@20"], "DBS")
        distinct = [f"{figures['list_distinct_2'][each]['value']:.3f}" for each in methods]
        unique = [f"{100 * figures['unique'][each]['value']:.1f}%" for each in methods]
        rows.append([f"{results['task']} ({results['items']})", *gains, of_dbs, *distinct, *unique])
    titles = ["first", "best of 5", "best of 20", "DBS: best of 20"]
    titles += [f"distinct-2: {each}" for each in methods] + [f"different: {each}" for each in methods]
    return aligned(["test data (inputs)", *titles], rows)


def _percent(figure: Results, method: str) -> str:
    """Return what a method gains over beam search, in percent, with a star if it is beyond chance."""
    against = figure[method]["against_first"]
    star = "" if against["low"] <= 0 <= against["high"] else "\\*"
    return f"{100 * (figure[method]['value'] / figure['BS']['value'] - 1):+.1f}%{star}"


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


OF_MANY: dict[str, Callable[..., list[str]]] = {"gains": gains_table, "overview": overview_table}
"""Tables of several results."""


def renew_tables(page: str, folder: Path) -> str:
    """Return the page with its tables made from the results FOLDER/NAME.json."""

    def lines(name: str, arguments: list[str]) -> list[str]:
        of_many = OF_MANY.get(name)
        return of_many(folder, *arguments) if of_many else _lines(folder, name, *arguments)

    return replace_blocks(page, lines)


def replace_blocks(page: str, lines: Callable[[str, list[str]], list[str]]) -> str:
    """Return the page with new lines between its marks, by each mark's name and arguments."""

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        body = "\n".join(lines(name, shlex.split(match["what"]))).strip("\n")
        return f"<!-- {name}: {match['what']} -->\n\n{body}\n\n<!-- end -->"

    return _BLOCK.sub(block, page)


def _lines(folder: Path, name: str, kind: str, *arguments: str) -> list[str]:
    if kind not in KINDS:
        raise ArgumentError(f"there is no table {kind!r}: there are {', '.join(KINDS)}")
    return KINDS[kind](_read(folder, name), *arguments)
