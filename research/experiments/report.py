"""Renew the tables of a Markdown page from results: the text between two marks is replaced.

<!-- coco: oracle cider_d -->
<!-- end -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beamsplit.errors import ArgumentError
from beamsplit.evaluation import tables
from research.experiments.choice import choice_table

__all__ = ["renew_tables"]

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
}


def renew_tables(page: str, folder: Path) -> str:
    """Return the page with its tables made from the results FOLDER/NAME.json."""

    def block(match: re.Match[str]) -> str:
        name, (kind, *arguments) = match["name"], match["what"].split()
        if kind not in KINDS:
            raise ArgumentError(f"there is no table {kind!r}: there are {', '.join(KINDS)}")
        results = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        lines = KINDS[kind](results, *arguments)
        body = "\n".join(lines).strip("\n")
        return f"<!-- {name}: {match['what']} -->\n\n{body}\n\n<!-- end -->"

    return _BLOCK.sub(block, page)
