"""Print lists for people and for machines: tables on a terminal, JSON Lines elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from beamsplit.hypotheses import blank_sign, text_of

if TYPE_CHECKING:
    from beamsplit.comparison import ComparedList

__all__ = ["entry", "for_people", "show_json", "show_lists"]

WIDE = 100
"""Terminals of fewer letters show one list below the other."""

# The colours of groups; as in pictures, a number goes with each.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_FEW_COLOURS = ("blue", "red", "green", "magenta", "yellow", "cyan")


def for_people(as_json: bool, as_table: bool) -> bool:
    """Return whether to print tables: as asked, or else if standard output is a terminal."""
    return as_table or (not as_json and sys.stdout.isatty())


def entry(
    identity: str, shown: str, columns: Sequence[ComparedList], orders: Sequence[str]
) -> dict[str, Any]:
    """Return a line for JSON: the list that was asked for, and beside it the one that it is compared with."""
    *others, asked = ({"order": order, **_plain(each)} for each, order in zip(columns, orders, strict=True))
    line = {"id": identity, "input": shown, **asked}
    return {**line, "beside": others[0]} if others else line


def show_json(line: dict[str, Any]) -> None:
    click.echo(json.dumps(line, ensure_ascii=False))


def show_lists(
    shown: str,
    columns: Sequence[ComparedList],
    orders: Sequence[str],
    selected: tuple[int, str] | None = None,
) -> None:
    """Print the lists for one input, each in its order, side by side where there is room."""
    console = Console(highlight=False)
    console.print(Text(shown, style="bold"))
    looks = _Looks(console, compared=len(columns) > 1, means="score" in orders, selected=selected)
    parts = [_parts(column, order, looks) for column, order in zip(columns, orders, strict=True)]
    if console.width >= WIDE and len(parts) > 1:
        beside = Table.grid(padding=(0, 3), expand=True)
        for _ in parts:
            beside.add_column(ratio=1)
        for row in zip(*parts, strict=True):  # titles beside titles, lists beside lists
            beside.add_row(*row)
        console.print(beside)
    else:
        console.print(Group(*(part for each in parts for part in each)))


def _plain(column: ComparedList) -> dict[str, Any]:
    found = column.as_dict()
    return {"strategy": found.pop("title"), **found}


@dataclass(frozen=True)
class _Looks:
    """How lists are shown."""

    console: Console
    compared: bool
    """Whether there is another list to compare with."""
    means: bool
    """Whether to show the log-probability per token."""
    selected: tuple[int, str] | None
    """How many outputs were chosen of each list, and how."""


_ORDERS = {
    "log-prob": "",
    "choice": "in order of choice: each is the best beside those above it\n",
    "score": "in order of log-probability per token\n",
    "mbr": "in order of likeness to the other outputs (mbr)\n",
}


def _order_line(order: str) -> str:
    name, _, penalty = order.partition(" ")
    if name == "length-penalty":
        return f"in order of log-probability divided by length to the power {penalty}\n"
    return _ORDERS[order]


def _parts(column: ComparedList, order: str, looks: _Looks) -> tuple[RenderableType, ...]:
    """Return what stands above a list, the list, and what stands below it."""
    chosen = f"chosen by {looks.selected[1]}\n" if looks.selected else ""
    below = chosen + _order_line(order) + _figures(column)
    # In order of choice, the group of an output is its place in the list.
    groups = len(column.hypotheses.groups) > 1 and order != "choice"
    return _title(column.title), _table(column, groups, looks), Text(below, style="dim")


def _table(column: ComparedList, groups: bool, looks: _Looks) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=True)
    table.add_column("log p", justify="right", no_wrap=True)
    if looks.means:
        table.add_column("a token", justify="right", no_wrap=True)
    if groups:
        table.add_column("group", justify="right", no_wrap=True)
    table.add_column("output", ratio=1)
    if looks.compared:
        table.add_column("", no_wrap=True)
    for hypothesis, spans, alone in zip(column.hypotheses, column.differs, column.alone, strict=True):
        text = _marked(text_of(hypothesis), spans)
        if not hypothesis.finished:
            text.append("…", style="dim")
        per_token = f"{hypothesis.log_prob / max(len(hypothesis.tokens), 1):.2f}"
        mean = [per_token] if looks.means else []
        group = [_group(hypothesis.group, looks.console)] if groups else []
        mark = ["+" if alone else ""] if looks.compared else []
        table.add_row(f"{hypothesis.log_prob:.2f}", *mean, *group, text, *mark)
    return table


def _title(title: str) -> Text:
    """Return the title with the settings on a line of their own."""
    name, _, settings = title.partition(": ")
    return Text.assemble("\n", (name, "bold"), "\n", (settings, "dim"))


def _figures(column: ComparedList) -> str:
    figures = " ".join(f"{value:.2f}" for value in column.distinct.values())
    return f"distinct n-grams a word, n=1-4: {figures}\n{_shortfall(column)}{_doubt(column)}"


def _doubt(column: ComparedList) -> str:
    """Return a line about outputs that longer candidate lists might have changed; else nothing."""
    doubtful = sum(not hypothesis.certified for hypothesis in column.hypotheses)
    if not doubtful:
        return ""
    return f"{doubtful} of {len(column.hypotheses)} not certified: longer candidate lists might change them\n"


def _shortfall(column: ComparedList) -> str:
    """Return a line about a list that has fewer different outputs than were asked for; else nothing."""
    found, repeats = column.hypotheses, column.repeats
    parts = []
    if found.missing:
        outputs = "output" if len(found) == 1 else "outputs"
        parts.append(f"{len(found)} different {outputs} of the {found.asked} asked for")
    if repeats:
        have = "has" if repeats == 1 else "have"
        parts.append(f"{repeats} more {have} the same text as one of these (see --strength, --unique)")
    return f"{'; '.join(parts)}\n" if parts else ""


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> Text:
    """Return the text with the spans in bold and underlined, which is seen without colours too."""
    if sign := blank_sign(text):
        return Text(sign, style="dim")
    margin = len(text) - len(text.lstrip())  # of what goes on after a prompt
    marked = Text(text[margin:])
    for start, end in spans:
        marked.stylize("bold underline", start - margin, end - margin)
    return marked


def _group(group: int, console: Console) -> Text:
    colours = _COLOURS if console.color_system in ("truecolor", "256") else _FEW_COLOURS
    return Text(str(group), style=colours[group % len(colours)])
