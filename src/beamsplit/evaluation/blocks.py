"""Lay results out as headings, paragraphs and tables, before they are written in any format.

A star marks a difference from the first method whose 95% interval leaves out 0; the best of a column is bold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BY",
    "ENOUGH",
    "NAMES",
    "SHOWN",
    "Block",
    "Cell",
    "Code",
    "Heading",
    "Paragraph",
    "RunResults",
    "Table",
    "about",
    "about_refused",
    "about_shortfalls",
    "column_table",
    "cost_table",
    "example_blocks",
    "has_references",
    "legend",
    "list_columns",
    "list_table",
    "oracle_columns",
    "oracle_table",
    "page",
    "part_table",
    "text_metrics",
    "title",
]

RunResults = Mapping[str, Any]
"""The figures of an experiment, as `run` returns them and its JSON has them."""

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
    "compression": "compression",
    "self_repetition_4": "self-repetition",
    "length": "words",
    "top_log_prob": "top log-prob",
}
LOWER = ("self_bleu_4", "compression", "self_repetition_4")  # is better, of a list and of the corpus
COUNTED = {"distinct": "distinct", "ead": "EAD"}
"""What has a figure for each size of n-grams: `list_ead_2` is EAD-2."""
NEITHER = ("length",)
BY = {
    "people": "complexity, as people found it",
    "predicted": "complexity, as predicted",
    "length": "length of the references",
}
ENOUGH = 10  # inputs; of fewer, a bootstrap says nothing
REPETITIVE = 0.8  # of different outputs; with fewer a list repeats itself
SHOWN = 5  # of a list that is shown


# What a page is made of


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A text in which `...` is code and an escaped star a star, as in Markdown."""

    text: str


@dataclass(frozen=True)
class Code:
    text: str
    language: str


@dataclass(frozen=True)
class Cell:
    """A number as it is shown, and how it is marked."""

    text: str
    bold: bool = False
    star: bool = False
    gain: str = ""
    """The difference from the first method, if it is shown."""


@dataclass(frozen=True)
class Table:
    caption: str
    """What the table shows, for formats whose tables have captions."""
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    labels: int = 1
    """The number of columns that name the row; the others are numbers."""
    is_prose: bool = False
    """Whether cells are sentences, which may need several lines."""


Block = Heading | Paragraph | Code | Table


def page(results: RunResults) -> list[Block]:
    """Return all that is shown of an experiment."""
    blocks: list[Block] = [Heading(results["title"]), Paragraph(about(results))]
    blocks += [Paragraph(legend(results))] if legend(results) else []
    blocks += [oracle_table(results, metric) for metric in text_metrics(results)]
    blocks += [list_table(results), list_table(results, corpus=True)]
    blocks += [Paragraph(about_shortfalls(results))] if about_shortfalls(results) else []
    for by in results["parts"]:
        blocks += [Heading(f"By {BY[by]}", 3), Paragraph(_GAINS), *_part_tables(results, by)]
    if "cost" in results:
        blocks += [Heading("Cost", 3), cost_table(results)]
    if results["examples"]:
        blocks += [Heading("Lists", 3), *example_blocks(results)]
    return [each for each in blocks if not isinstance(each, Table) or each.rows]


_GAINS = "In brackets, the gain over the first method."


# Sentences


def has_references(results: RunResults) -> bool:
    """Return whether the task has references; it has if the results do not say."""
    return bool(results.get("references", {}).get("most", 1))


def about(results: RunResults) -> str:
    """Return a paragraph about the inputs and the model, with warnings."""
    sentences = [_about_inputs(results)]
    if results["refused"]:
        sentences.append(about_refused(results["refused"]))
    if not has_references(results):
        sentences.append("Quality is not measured, because that needs references.")
    if results["references"]["fewest"] != results["references"]["most"]:
        sentences.append(
            "Inputs with more references tend to score higher: compare methods with each other, not inputs."
        )
    if results.get("min_length"):
        sentences.append(f"Outputs have at least {_count(results['min_length'], 'token')}.")
    sentences += _about_lengths(results.get("lengths", {}))
    sentences += _about_repeats(results)
    for name, reason in results["unavailable"].items():
        sentences.append(f"Without {name}: {reason}.")
    return " ".join(sentences)


def _about_inputs(results: RunResults) -> str:
    few, many = results["references"]["fewest"], results["references"]["most"]
    if not many:
        references = " without references"
    elif few == many:
        references = f", {_count(few, 'reference')} each"
    else:
        references = f", {few} to {many} references each"
    return f"{_count(results['items'], 'input')} of {results['task']}{references}, model {results['model']}."


def about_refused(count: int) -> str:
    """Return a sentence about inputs that the model does not accept."""
    if count == 1:
        return "1 more input is left out, because the model does not accept it."
    return f"{count} more inputs are left out, because the model does not accept them."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _about_lengths(lengths: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a warning if lists are not of one length, since these cannot quite be compared."""
    extremes = {name: (each["fewest"], each["most"]) for name, each in lengths.items()}
    if len({count for both in extremes.values() for count in both}) <= 1:
        return []
    counts = ", ".join(
        f"{name} {few if few == many else f'{few} to {many}'}" for name, (few, many) in extremes.items()
    )
    return [
        f"Lists are not of one length ({counts}), so compare them with care: a longer list is more likely to "
        "have a very good output, and a shorter one has fewer repeats."
    ]


def _about_repeats(results: RunResults) -> list[str]:
    """Return a hint if groups find the same outputs, for which there is a remedy."""
    found = results["figures"].get("unique", {})
    diverse = [
        name
        for name, about in results["methods"].items()
        if about.get("strategy") == "dbs" and not about.get("unique")
    ]
    shares = {name: found[name]["value"] for name in diverse if name in found}
    low = [f"{100 * share:.0f}% for {name}" for name, share in shares.items() if share < REPETITIVE]
    if not low or len(low) > 3:  # of a sweep there is a plot
        return []
    return [
        f"Some lists repeat themselves: the share of different outputs is {_joined(low)}. Late "
        "branching (`branching`) never repeats an output. In diverse beam search, more strength makes lists "
        "more diverse, and `--unique` (in a file, `unique = true`) leaves repeats out."
    ]


def about_shortfalls(results: RunResults) -> str:
    """Return which methods have lists that fall short of what was asked, or repeat themselves."""
    found: Mapping[str, Any] = results.get("shortfalls", {})
    short = [
        f"{each['short']} of {each['lists']} for {name} ({each['asked']} asked for)"
        for name, each in found.items()
        if each["short"]
    ]
    repetitive = [
        f"{each['repetitive']} of {each['lists']} for {name}"
        for name, each in found.items()
        if each["repetitive"]
    ]
    sentences = [f"Lists with fewer outputs than were asked for: {_joined(short)}."] if short else []
    sentences += [f"Lists with outputs that read the same: {_joined(repetitive)}."] if repetitive else []
    return " ".join(sentences)


def _joined(parts: Sequence[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def legend(results: RunResults) -> str:
    """Return what bold and stars mean; nothing if there is one method alone."""
    if len(results["methods"]) == 1:
        return ""
    if results["items"] < ENOUGH:
        return (
            f"Bold: the best of a column. With fewer than {ENOUGH} inputs, differences may be chance, "
            "so none is marked."
        )
    return (
        r"Bold: the best of a column. \*: differs from the first row by more than chance (95% interval, "
        "paired bootstrap)."
    )


# Tables


def text_metrics(results: RunResults) -> list[str]:
    """Return the names of the metrics that have oracle figures."""
    names = [name.removeprefix("oracle_").split("@")[0] for name in results["figures"] if "@" in name]
    return list(dict.fromkeys(names))


def oracle_columns(results: RunResults, metric: str) -> list[str]:
    """Return the names of a metric's figures: the top-1 and the best of k."""
    return [name for name in results["figures"] if name.startswith(f"oracle_{metric}@")]


def list_columns(results: RunResults, corpus: bool = False) -> list[str]:
    """Return the names of figures of lists, or of all lists together."""
    names = [name for name in results["figures"] if "@" not in name]
    return [name for name in names if name.startswith("corpus") == corpus]


def oracle_table(results: RunResults, metric: str) -> Table:
    """Return a table of the top-1 and the best of k."""
    return column_table(results, oracle_columns(results, metric), f"{_name(metric)}, best of the first k")


def list_table(results: RunResults, corpus: bool = False) -> Table:
    """Return a table of figures of lists, or of all lists together."""
    caption = "diversity of all lists together" if corpus else "figures of lists"
    return column_table(results, list_columns(results, corpus), caption)


def column_table(results: RunResults, columns: Sequence[str], caption: str = "") -> Table:
    """Return a table of these figures, without rows if there are none."""
    rows = _rows(results["figures"], columns, results.get("items", 0)) if columns else []
    return Table(caption, ["", *map(title, columns)], rows)


def _part_tables(results: RunResults, by: str) -> Iterator[Table]:
    metrics = text_metrics(results)
    for metric in metrics:
        yield part_table(results, by, oracle_columns(results, metric), _name(metric))
    if not metrics:
        yield part_table(results, by, list_columns(results), "figures of lists")


def part_table(results: RunResults, by: str, columns: Sequence[str], caption: str = "") -> Table:
    """Return a table of these figures for each part of the inputs, with gains."""
    rows = [
        [f"{part} ({found['items']})", *row]
        for part, found in results["parts"][by].items()
        for row in _rows(found["figures"], columns, found["items"], gain=True)
    ]
    return Table(f"{caption} by {BY.get(by, by)}", ["", "", *map(title, columns)], rows, labels=2)


def cost_table(results: RunResults) -> Table:
    """Return a table of time and tokens read, compared with the first method's, and of peak memory."""
    methods = results["cost"]["methods"]
    tokens = [each.get("tokens") for each in methods.values()]
    rows = [
        [
            name,
            f"{each['seconds']:.2f} s",
            "{median:.2f} [{low:.2f}-{high:.2f}]".format(**each["ratio"]),
            f"{each['tokens'] / tokens[0]:.2f}" if tokens[0] and "tokens" in each else "not measured",
            f"{each['peak_megabytes']:.0f} MB" if "peak_megabytes" in each else "not measured",
        ]
        for name, each in methods.items()
    ]
    titles = ["", "time", "relative to the first", "tokens read, relative", "peak memory"]
    return Table("cost", titles, rows)


def example_blocks(results: RunResults, shown: int = SHOWN, methods: Collection[str] = ()) -> Iterator[Block]:
    """Yield lists side by side, each below its input: references, and the first outputs of the methods."""
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
        name = ", ".join(part for part in (each["id"], each["part"], each.get("input", "")) if part)
        yield Paragraph(f"{name}:")
        yield Table(f"lists for {name}", list(lists), rows, labels=len(lists), is_prose=True)


# Cells


def _rows(
    figures: Mapping[str, Any], columns: Sequence[str], items: int, gain: bool = False
) -> list[list[str | Cell]]:
    methods = list(next(iter(figures.values())))
    best = {column: _best(column, figures[column]) for column in columns}

    def cell(column: str, name: str) -> Cell:
        figure = figures[column][name]
        shown, against = _shown(column, figure["value"]), figure.get("against_first")
        return Cell(
            shown,
            bold=shown == best[column],  # as shown: what is beyond the last digit makes no winner
            star=against is not None and _is_beyond_chance(against, items),
            gain=f"{against['difference']:+.{_digits(column)}f}" if gain and against is not None else "",
        )

    return [[name, *(cell(column, name) for column in columns)] for name in methods]


def _best(column: str, by_method: Mapping[str, Any]) -> str | None:
    if column in NEITHER or len(by_method) == 1:
        return None
    choose: Callable[..., float] = min if _kind(column) in LOWER else max
    return _shown(column, choose(figure["value"] for figure in by_method.values()))


def _is_beyond_chance(against: Mapping[str, float], items: int) -> bool:
    return items >= ENOUGH and (against["low"] > 0 or against["high"] < 0)


def _shown(column: str, value: float) -> str:
    return f"{value * (100 if _is_percent(column) else 1):.{_digits(column)}f}"


def _is_percent(column: str) -> bool:
    # Shares of a corpus are small: in percent, as the paper's seem to be.
    return column.startswith("corpus_") and _kind(column).rpartition("_")[0] in COUNTED


def _digits(column: str) -> int:
    return (
        3 if any(name in column for name in ("list_distinct", "list_ead", "cider", "unique", "spread")) else 2
    )


def title(column: str) -> str:
    """Return the title of a column: `oracle_cider_d@5` is "CIDEr-D @5", and the best of one is the top-1."""
    if "@" in column:
        name, k = column.removeprefix("oracle_").split("@")
        return f"{_name(name)} {'top-1' if k == '1' else '@' + k}"
    kind = _kind(column)
    counted, _, n = kind.rpartition("_")
    if kind not in NAMES and counted not in COUNTED:
        return column.replace("_", " ")
    name = NAMES.get(kind) or f"{COUNTED[counted]}-{n}"
    corpus = "corpus " if column.startswith("corpus_") else ""
    return f"{corpus}{name}{', %' if _is_percent(column) else ''}"


def _kind(column: str) -> str:
    """Return which figure a column has, whether of lists or of the corpus."""
    return column.removeprefix("list_").removeprefix("corpus_")


def _name(metric: str) -> str:
    """Return the name of a metric of texts, which may be of lists in the order of minimum Bayes risk."""
    risk = "MBR " if metric.startswith("mbr_") else ""
    metric = metric.removeprefix("mbr_")
    return f"{risk}{NAMES.get(metric, metric)}"
