"""Lists for people and for machines: tables on a terminal, JSON Lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from beamsplit.columns import Column

__all__ = ["entry", "for_people", "show_columns", "show_json"]

WIDE = 100
"""Terminals of fewer letters show one list below the other."""

# The colours of groups; as in pictures, a number goes with each.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def for_people(as_json: bool, as_table: bool) -> bool:
    """Whether to print tables: as asked, and otherwise if there is a terminal."""
    return as_table or (not as_json and sys.stdout.isatty())


def entry(identity: str, shown: str, columns: Sequence[Column]) -> dict[str, Any]:
    """A line of JSON: the list that was asked for, and beside it the one that it is compared with."""
    *others, asked = columns
    line = {"id": identity, "input": shown, **_plain(asked)}
    return {**line, "beside": _plain(others[0])} if others else line


def show_json(line: dict[str, Any]) -> None:
    click.echo(json.dumps(line, ensure_ascii=False))


def show_columns(shown: str, columns: Sequence[Column]) -> None:
    """Print the lists for one input, side by side where there is room."""
    console = Console(highlight=False)
    console.print(Text(shown, style="bold"))
    lists = [_table(column, compared=len(columns) > 1) for column in columns]
    if console.width >= WIDE and len(lists) > 1:
        beside = Table.grid(padding=(0, 3), expand=True)
        for _ in lists:
            beside.add_column(ratio=1)
        beside.add_row(*lists)
        console.print(beside)
    else:
        console.print(Group(*lists))


def _plain(column: Column) -> dict[str, Any]:
    found = column.as_dict()
    return {"strategy": found.pop("title"), **found}


def _table(column: Column, compared: bool) -> RenderableType:
    several = len(column.hypotheses.groups) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=True)
    table.add_column("log p", justify="right", no_wrap=True)
    if several:
        table.add_column("group", justify="right", no_wrap=True)
    table.add_column(_title(column.title), ratio=1)
    for hypothesis, spans, alone in zip(column.hypotheses, column.differs, column.alone, strict=True):
        text = _marked(hypothesis.text or " ".join(map(str, hypothesis.tokens)), spans)
        if not hypothesis.finished:
            text.append(" …", style="dim")
        if compared and alone:
            text.append(" +", style="bold dim")
        group = [_group(hypothesis.group)] if several else []
        table.add_row(f"{hypothesis.log_prob:.2f}", *group, text)
    return Group(table, Text(_figures(column), style="dim"))


def _title(title: str) -> Text:
    """The settings on a line of their own."""
    name, _, settings = title.partition(": ")
    return Text.assemble((name, "bold"), "\n", (settings, "not bold dim"))


def _figures(column: Column) -> str:
    figures = "  ".join(f"{n}: {value:.2f}" for n, value in column.distinct.items())
    repeats = f"\n{column.repeats} more read as one of these does (see --strength, --unique)"
    return f"distinct n-grams a word  {figures}{repeats * bool(column.repeats)}\n"


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> Text:
    """What differs is bold and underlined: to be seen without colours too."""
    margin = len(text) - len(text.lstrip())  # of what goes on after a prompt
    marked = Text(text[margin:])
    for start, end in spans:
        marked.stylize("bold underline", start - margin, end - margin)
    return marked


def _group(group: int) -> Text:
    return Text(str(group + 1), style=_COLOURS[group % len(_COLOURS)])
