"""Write results as Markdown tables like those of the paper, aligned for those who read them raw.

A star marks a difference from the first method whose 95% interval leaves out 0; the best of a column is bold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

__all__ = [
    "about",
    "aligned",
    "column_table",
    "cost_table",
    "examples",
    "list_table",
    "markdown",
    "oracle_table",
    "parts_table",
    "text_metrics",
    "title",
]

Results = Mapping[str, Any]
Cell = tuple[float, str]  # a value to compare, and what is shown

NAMES = {
    "cider_d": "CIDEr-D",
    "meteor": "METEOR",
    "bleu_4": "BLEU-4",
    "sentence_bleu": "BLEU",
    "chrf": "chrF",
    "rouge_l": "ROUGE-L",
    "spice": "SPICE",
    "unique": "unique",
    "self_bleu_4": "self-BLEU",
    "vendi": "Vendi",
    "embedding_spread": "spread",
    "length": "words",
    "top_log_prob": "top log-prob",
}
LOWER = ("self_bleu_4",)  # is better
NEITHER = ("length",)
BY = {"people": "as people found it", "predicted": "as predicted"}
ENOUGH = 10  # inputs; of fewer, a bootstrap says nothing
REPETITIVE = 0.8  # of different outputs; with fewer a list repeats itself
_SHOWN = 5  # of a list that is shown


def markdown(results: Results) -> str:
    """Return all tables of an experiment."""
    lines = [f"## {results['title']}", "", *about(results), "", *_legend(results), ""]
    for metric in text_metrics(results):
        lines += [*oracle_table(results, metric), ""]
    lines += [*list_table(results), "", *list_table(results, corpus=True), ""]
    for by in results["parts"]:
        lines += [f"### By complexity, {BY[by]}", "", "In brackets, the gain over the first method.", ""]
        for metric in text_metrics(results):
            lines += [*parts_table(results, by, metric), ""]
    if "cost" in results:
        lines += ["### Cost", "", *cost_table(results), ""]
    if results["examples"]:
        lines += ["### Lists", "", *examples(results)]
    return "\n".join(lines).rstrip() + "\n"


def about(results: Results) -> list[str]:
    """Return a paragraph about the inputs and the model, with warnings."""
    few, many = results["references"]["fewest"], results["references"]["most"]
    references = (
        f"{few} reference{'s' * (few > 1)} each" if few == many else f"{few} to {many} references each"
    )
    inputs = f"{results['items']} input{'s' * (results['items'] != 1)}"
    sentences = [f"{inputs} of {results['task']}, {references}, model {results['model']}."]
    if results["refused"]:
        sentences.append(f"{results['refused']} that the model does not take are left out.")
    if few != many:
        sentences.append("More references are easier to meet: compare methods, not inputs.")
    sentences += _about_lengths(results.get("lengths", {}))
    sentences += _about_repeats(results)
    for name, reason in results["unavailable"].items():
        sentences.append(f"Without {name}: {reason}.")
    return [" ".join(sentences)]


def _about_lengths(lengths: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a warning if lists are not of one length, since these cannot quite be compared."""
    extremes = {name: (each["fewest"], each["most"]) for name, each in lengths.items()}
    if len({count for both in extremes.values() for count in both}) <= 1:
        return []
    counts = ", ".join(
        f"{name} {few if few == many else f'{few} to {many}'}" for name, (few, many) in extremes.items()
    )
    return [
        f"Lists are not of one length ({counts}): the longer has the better best, the shorter fewer repeats."
    ]


def _about_repeats(results: Results) -> list[str]:
    """Return a hint if groups find the same outputs, for which there is a remedy."""
    found = results["figures"].get("unique", {})
    diverse = [name for name, about in results["methods"].items() if about.get("strategy") == "dbs"]
    shares = {name: found[name]["value"] for name in diverse if name in found}
    low = [f"{name} ({100 * share:.0f}%)" for name, share in shares.items() if share < REPETITIVE]
    if not low or len(low) > 3:  # of a sweep there is a plot
        return []
    return [
        f"Not all outputs of a list differ: {', '.join(low)} do. More strength helps, or `unique = true`."
    ]


def _legend(results: Results) -> list[str]:
    if len(results["methods"]) == 1:
        return []
    few = results["items"] < ENOUGH
    star = (
        "too few inputs to tell differences from chance."
        if few
        else ("\\* differs from the first row by more than chance (95%, paired bootstrap).")
    )
    return [f"Bold: the best of a column; {star}"]


def text_metrics(results: Results) -> list[str]:
    """Return the names of the metrics that have oracle figures."""
    names = [name.removeprefix("oracle_").split("@")[0] for name in results["figures"] if "@" in name]
    return list(dict.fromkeys(names))


def oracle_table(results: Results, metric: str, distinct: bool = False) -> list[str]:
    """Return a table of the top-1 and the best of k, with distinct n-grams beside them if asked."""
    figures = results["figures"]
    columns = [name for name in figures if name.startswith(f"oracle_{metric}@")]
    columns += [name for name in figures if distinct and name.startswith("list_distinct_")]
    return column_table(results, columns)


def list_table(results: Results, corpus: bool = False) -> list[str]:
    """Return a table of figures of lists, or of all lists together."""
    names = [name for name in results["figures"] if "@" not in name]
    return column_table(results, [name for name in names if name.startswith("corpus") == corpus])


def column_table(results: Results, columns: Sequence[str]) -> list[str]:
    """Return a table of these figures, or nothing if there are none."""
    if not columns:
        return []
    rows = _rows(results["figures"], columns, results.get("items", 0))
    return aligned(["", *map(title, columns)], rows)


def parts_table(results: Results, by: str, metric: str) -> list[str]:
    """Return a table of the best of k for inputs of each complexity, with gains."""
    parts = results["parts"][by]
    columns = [name for name in results["figures"] if name.startswith(f"oracle_{metric}@")]
    rows = [
        [f"{part} ({found['items']})", *row]
        for part, found in parts.items()
        for row in _rows(found["figures"], columns, found["items"], gain=True)
    ]
    return aligned(["", "", *map(title, columns)], rows)


def cost_table(results: Results) -> list[str]:
    """Return a table of time, compared with the first method's, and of peak memory."""
    rows = [
        [
            name,
            f"{each['seconds']:.2f} s",
            "{median:.2f} [{low:.2f}-{high:.2f}]".format(**each["ratio"]),
            f"{each['peak_megabytes']:.0f} MB" if "peak_megabytes" in each else "not measured",
        ]
        for name, each in results["cost"]["methods"].items()
    ]
    return aligned(["", "time", "times the first's", "peak memory"], rows)


def examples(results: Results, shown: int = _SHOWN, methods: Collection[str] = ()) -> list[str]:
    """Return tables of lists side by side: references, and the first outputs of the methods."""
    lines: list[str] = []
    for each in results["examples"]:
        lists = {
            name: [line["text"] for line in found[:shown]]
            for name, found in each["lists"].items()
            if not methods or name in methods
        }
        if each["references"]:
            lists = {"people": each["references"][:shown], **lists}
        longest = max(map(len, lists.values()))
        rows = [
            [found[row] if row < len(found) else "" for found in lists.values()] for row in range(longest)
        ]
        names = [name for name in (each["id"], each["part"], each.get("input", "")) if name]
        lines += [
            f"{', '.join(names)}:",
            "",
            *aligned(list(lists), rows),
            "",
        ]
    return lines


def _rows(
    figures: Mapping[str, Any], columns: Sequence[str], items: int, gain: bool = False
) -> list[list[str]]:
    methods = list(next(iter(figures.values())))
    best = {column: _best(column, figures[column]) for column in columns}

    def cell(column: str, name: str) -> str:
        figure = figures[column][name]
        shown = _shown(column, figure["value"])
        # As shown: what is beyond the last digit makes no winner.
        shown = f"**{shown}**" if shown == best[column] else shown
        return shown + _against(column, figure.get("against_first"), items, gain)

    return [[name, *(cell(column, name) for column in columns)] for name in methods]


def _best(column: str, by_method: Mapping[str, Any]) -> str | None:
    if column in NEITHER or len(by_method) == 1:
        return None
    choose: Callable[..., float] = min if column in LOWER else max
    return _shown(column, choose(figure["value"] for figure in by_method.values()))


def _against(column: str, against: Mapping[str, Any] | None, items: int, gain: bool) -> str:
    if against is None:
        return ""
    beyond_chance = items >= ENOUGH and (against["low"] > 0 or against["high"] < 0)
    # Escaped, since two of them would set what is between in italics.
    star = r"\*" if beyond_chance else ""
    return f"{star} ({against['difference']:+.{_digits(column)}f})" if gain else star


def _shown(column: str, value: float) -> str:
    # Over a corpus the numbers are small: in percent, as the paper's seem to be.
    return f"{value * (100 if 'corpus' in column else 1):.{_digits(column)}f}"


def _digits(column: str) -> int:
    return 3 if any(name in column for name in ("list_distinct", "cider", "unique", "spread")) else 2


def title(column: str) -> str:
    """Return the title of a column: `oracle_cider_d@5` is "CIDEr-D @5", and the best of one is the top-1."""
    if "@" in column:
        name, k = column.removeprefix("oracle_").split("@")
        risk = "MBR " if name.startswith("mbr_") else ""
        name = name.removeprefix("mbr_")
        return f"{risk}{NAMES.get(name, name)} {'top-1' if k == '1' else '@' + k}"
    for of in ("list", "corpus"):
        if column.startswith(f"{of}_distinct_"):
            n = column.rsplit("_", 1)[1]
            return f"corpus distinct-{n}, %" if of == "corpus" else f"distinct-{n}"
    return NAMES.get(column, column.replace("_", " "))


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, with columns as wide as their content."""
    head, *rows = ([_in_cell(text) for text in row] for row in [head, *rows])
    widths = [max(3, *(len(row[column]) for row in [head, *rows])) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)]


def _in_cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").splitlines())
