"""Write results as Markdown tables like those of the paper, aligned for those who read them raw."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from beamsplit.evaluation import blocks
from beamsplit.evaluation.blocks import (
    BY,
    ENOUGH,
    NAMES,
    Block,
    Cell,
    Code,
    Heading,
    Paragraph,
    RunResults,
    Table,
    text_metrics,
    title,
)

__all__ = [
    "BY",
    "ENOUGH",
    "NAMES",
    "about",
    "aligned",
    "column_table",
    "cost_table",
    "examples",
    "list_table",
    "markdown",
    "oracle_table",
    "parts_table",
    "render",
    "text_metrics",
    "title",
]


def markdown(results: RunResults) -> str:
    """Return all tables of an experiment."""
    return render(blocks.page(results))


def render(page: Iterable[Block]) -> str:
    """Return a page as Markdown."""
    return "\n\n".join("\n".join(_lines(block)) for block in page) + "\n"


# Parts of a page, for pages that are put together by hand


def about(results: RunResults) -> list[str]:
    """Return a paragraph about the inputs and the model, with warnings."""
    return [blocks.about(results)]


def oracle_table(results: RunResults, metric: str, distinct: bool = False) -> list[str]:
    """Return a table of the top-1 and the best of k, with distinct n-grams beside them if asked."""
    columns = blocks.oracle_columns(results, metric)
    columns += [name for name in results["figures"] if distinct and name.startswith("list_distinct_")]
    return column_table(results, columns)


def list_table(results: RunResults, corpus: bool = False) -> list[str]:
    """Return a table of figures of lists, or of all lists together."""
    return column_table(results, blocks.list_columns(results, corpus))


def column_table(results: RunResults, columns: Sequence[str]) -> list[str]:
    """Return a table of these figures, or nothing if there are none."""
    return _lines(blocks.column_table(results, columns)) if columns else []


def parts_table(results: RunResults, by: str, metric: str) -> list[str]:
    """Return a table of the best of k for inputs of each complexity, with gains."""
    return _lines(blocks.part_table(results, by, blocks.oracle_columns(results, metric)))


def cost_table(results: RunResults) -> list[str]:
    """Return a table of time, compared with the first method's, and of peak memory."""
    return _lines(blocks.cost_table(results))


def examples(results: RunResults, shown: int = blocks.SHOWN, methods: Collection[str] = ()) -> list[str]:
    """Return tables of lists side by side: references, and the first outputs of the methods."""
    found = blocks.example_blocks(results, shown, methods)
    return [line for block in found for line in (*_lines(block), "")]


# Blocks as lines


def _lines(block: Block) -> list[str]:
    match block:
        case Heading():
            return [f"{'#' * block.level} {block.text}"]
        case Paragraph():
            return [block.text]
        case Code():
            return [f"```{block.language}", *block.text.rstrip("\n").split("\n"), "```"]
        case Table():
            return aligned(block.head, [[_cell(each) for each in row] for row in block.rows])


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    shown = f"**{cell.text}**" if cell.bold else cell.text
    # Escaped, since two stars would set what is between in italics.
    star = r"\*" if cell.star else ""
    return f"{shown}{star} ({cell.gain})" if cell.gain else f"{shown}{star}"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, with columns as wide as their content."""
    head, *rows = ([_in_cell(text) for text in row] for row in [head, *rows])
    widths = [max(3, *(len(row[column]) for row in [head, *rows])) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)]


def _in_cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").splitlines())
