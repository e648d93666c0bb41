"""Write results as LaTeX tables in the style of booktabs, to be pasted into a paper or read from one.

Every table is a `table` with a caption. Paragraphs and headings are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from beamsplit.evaluation.blocks import Block, Cell, Code, Heading, Paragraph, RunResults, Table, legend, page

__all__ = ["escape", "latex", "render"]

_PREAMBLE = (
    r"% These tables need \usepackage{booktabs}. For texts beyond Latin letters, use lualatex or xelatex."
)
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\`{}",
}
_SPECIAL_CHARACTER = re.compile("|".join(map(re.escape, _SPECIAL)))
_DASH = re.compile("-(?=-)")  # one before another, with which it would become a longer dash


def latex(results: RunResults) -> str:
    """Return all tables of an experiment. Their captions say what is marked in them."""
    return render(page(results), results["title"], legend(results).replace(r"\*", "*"))


def render(blocks: Iterable[Block], title: str, note: str = "") -> str:
    """Return blocks as LaTeX; the captions of their tables begin with the title and end with the note."""
    return "\n\n".join([_PREAMBLE, *(_block(each, title, note) for each in blocks)]) + "\n"


def escape(text: str) -> str:
    r"""Return a text as LaTeX that prints it, on one line.

    >>> print(escape("50% of my_model & more"))
    50\% of my\_model \& more
    """
    escaped = _SPECIAL_CHARACTER.sub(lambda found: _SPECIAL[found[0]], _one_line(text))
    return _DASH.sub("-{}", escaped)


def _one_line(text: str) -> str:
    """Replace white space and control characters, which may not stand in LaTeX, by single spaces."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _block(block: Block, title: str, note: str) -> str:
    match block:
        case Heading() | Paragraph() | Code():
            return "\n".join(f"% {line}".rstrip() for line in block.text.splitlines())
        case Table():
            return _table(block, title, "" if block.is_prose else note)


def _table(table: Table, title: str, note: str) -> str:
    end = "" if table.caption.endswith((".", "!", "?")) else "."
    caption = f"{escape(title)}: {escape(table.caption)}{end}" + f" {escape(note)}" * bool(note)
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            r"  \small",
            rf"  \caption{{{caption}}}",
            rf"  \begin{{tabular}}{{{_columns(table)}}}",
            r"    \toprule",
            _row(table.head),
            r"    \midrule",
            *map(_row, table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _columns(table: Table) -> str:
    if table.is_prose:
        return rf"p{{{0.94 / len(table.head):.2f}\linewidth}}" * len(table.head)
    return "l" * table.labels + "r" * (len(table.head) - table.labels)


def _row(cells: Sequence[str | Cell]) -> str:
    return f"    {' & '.join(map(_cell, cells))} \\\\"


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        # At the beginning of a row, these would be taken for an option of the line break before it.
        return "{}" * cell.lstrip().startswith(("[", "*")) + escape(cell)
    number = _number(cell.text)
    shown = rf"\textbf{{{number}}}" if cell.bold else number
    return shown + "$^{*}$" * cell.star + f" ({_number(cell.gain)})" * bool(cell.gain)


def _number(text: str) -> str:
    """Write a minus as one, not as a hyphen."""
    return f"$-${text[1:]}" if text.startswith("-") else escape(text)
