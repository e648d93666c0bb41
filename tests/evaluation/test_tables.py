"""Tables of made-up results: what is bold, what has a star, and that they are whole and aligned."""

from __future__ import annotations

from typing import Any

import pytest

from beamsplit.evaluation import markdown
from beamsplit.evaluation.tables import (
    ENOUGH,
    about,
    aligned,
    column_table,
    cost_table,
    examples,
    list_table,
    oracle_table,
    parts_table,
    text_metrics,
    title,
)


def against(difference: float, low: float, high: float) -> dict[str, Any]:
    return {"against_first": {"difference": difference, "low": low, "high": high, "p": 0.5}}


def figures(**changes: Any) -> dict[str, Any]:
    """BLEU of BS is 20 and 40 at 5; DBS is surely worse at first, and better at 5."""
    return {
        "oracle_sentence_bleu@1": {
            "BS": {"value": 20.0},
            "DBS": {"value": 18.5, **against(-1.5, -2.0, -1.0)},
        },
        "oracle_sentence_bleu@5": {"BS": {"value": 40.0}, "DBS": {"value": 44.0, **against(4.0, 3.0, 5.0)}},
        "self_bleu_4": {"BS": {"value": 70.0}, "DBS": {"value": 30.0, **against(-40.0, -41.0, -39.0)}},
        "length": {"BS": {"value": 9.0}, "DBS": {"value": 10.0, **against(1.0, -0.5, 2.0)}},
        **changes,
    }


def results(**changes: Any) -> dict[str, Any]:
    return {
        "title": "Made up",
        "task": "mine.jsonl",
        "model": "en-fr",
        "items": ENOUGH,
        "refused": 0,
        "references": {"fewest": 5, "most": 5},
        "methods": {"BS": {"strategy": "bs"}, "DBS": {"strategy": "dbs"}},
        "unavailable": {},
        "lengths": {"BS": {"fewest": 5, "most": 5}, "DBS": {"fewest": 5, "most": 5}},
        "figures": figures(),
        "parts": {},
        "examples": [],
        **changes,
    }


def cells(lines: list[str]) -> list[list[str]]:
    """The rows of a table, without what divides the head from them."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in [lines[0], *lines[2:]]]


def cell(column: str, difference: float, low: float, high: float, items: int = ENOUGH) -> str:
    by_method = {"BS": {"value": 4.0}, "DBS": {"value": 4.0 + difference, **against(difference, low, high)}}
    return cells(column_table({"figures": {column: by_method}, "items": items}, [column]))[2][1]


# Cells


@pytest.mark.parametrize(
    ("low", "high", "star"), [(-1.0, 1.0, ""), (0.1, 1.0, r"\*"), (-1.0, -0.1, r"\*"), (0.0, 1.0, "")]
)
def test_a_star_where_the_interval_leaves_out_nothing(low: float, high: float, star: str) -> None:
    assert cell("length", 0.5, low, high) == f"4.50{star}"


@pytest.mark.parametrize(("items", "star"), [(9, ""), (10, r"\*"), (11, r"\*")])
def test_a_star_takes_ten_inputs(items: int, star: str) -> None:
    assert cell("length", 0.5, 0.1, 1.0, items) == f"4.50{star}"


def test_the_first_has_no_star() -> None:
    assert cells(column_table(results(), ["length"]))[1:] == [["BS", "9.00"], ["DBS", "10.00"]]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("oracle_sentence_bleu@5", ["40.00", r"**44.00**\*"]),
        ("oracle_sentence_bleu@1", ["**20.00**", r"18.50\*"]),
        ("self_bleu_4", ["70.00", r"**30.00**\*"]),  # the less, the better
        ("length", ["9.00", "10.00"]),  # neither is better
    ],
)
def test_the_best_is_bold(column: str, shown: list[str]) -> None:
    assert [row[1] for row in cells(column_table(results(), [column]))[1:]] == shown


def test_of_equals_all_are_bold_and_one_alone_is_not() -> None:
    alike = {"vendi": {"BS": {"value": 2.0}, "DBS": {"value": 2.0}, "MMI": {"value": 1.0}}}
    rows = cells(column_table({"figures": alike}, ["vendi"]))[1:]
    assert [row[1] for row in rows] == ["**2.00**", "**2.00**", "1.00"]
    alone = {"vendi": {"BS": {"value": 2.0}}}
    assert cells(column_table({"figures": alone}, ["vendi"]))[1] == ["BS", "2.00"]


@pytest.mark.parametrize(
    ("column", "values", "shown"),
    [
        ("vendi", (2.001, 2.004, 2.006), ["2.00", "2.00", "**2.01**"]),
        ("vendi", (2.001, 2.004, 1.996), ["**2.00**"] * 3),
        ("self_bleu_4", (2.001, 2.004, 2.006), ["**2.00**", "**2.00**", "2.01"]),
        ("list_compression", (2.001, 2.004, 2.006), ["**2.00**", "**2.00**", "2.01"]),
        ("corpus_self_repetition_4", (2.001, 2.004, 2.006), ["**2.00**", "**2.00**", "2.01"]),
        ("list_ead_2", (0.991, 0.9914, 0.9921), ["0.991", "0.991", "**0.992**"]),
        ("unique", (0.991, 0.9914, 0.9921), ["0.991", "0.991", "**0.992**"]),
        ("corpus_distinct_2", (0.12341, 0.12344, 0.12), ["**12.34**", "**12.34**", "12.00"]),
    ],
)
def test_what_looks_equal_is_equal(column: str, values: tuple[float, ...], shown: list[str]) -> None:
    by_method = {name: {"value": value} for name, value in zip("ABC", values, strict=True)}
    rows = cells(column_table({"figures": {column: by_method}}, [column]))[1:]
    assert [row[1] for row in rows] == shown


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("oracle_cider_d@5", "0.123"),
        ("oracle_meteor@5", "0.12"),
        ("list_distinct_2", "0.123"),
        ("unique", "0.123"),
        ("embedding_spread", "0.123"),
        ("corpus_distinct_2", "12.35"),  # in percent
        ("corpus_ead_2", "12.35"),
        ("corpus_compression", "0.12"),
    ],
)
def test_digits(column: str, shown: str) -> None:
    only = {"figures": {column: {"BS": {"value": 0.12345}}}}
    assert cells(column_table(only, [column]))[1] == ["BS", shown]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("oracle_cider_d@1", "CIDEr-D top-1"),
        ("oracle_cider_d@10", "CIDEr-D @10"),
        ("oracle_mbr_sentence_bleu@1", "MBR BLEU top-1"),
        ("oracle_own_metric@5", "own_metric @5"),
        ("list_distinct_3", "distinct-3"),
        ("corpus_distinct_3", "corpus distinct-3, %"),
        ("list_ead_2", "EAD-2"),
        ("corpus_ead_2", "corpus EAD-2, %"),
        ("list_compression", "compression"),
        ("corpus_self_repetition_4", "corpus self-repetition"),
        ("self_bleu_4", "self-BLEU"),
        ("top_log_prob", "top log-prob"),
        ("length", "words"),
        ("my_own", "my own"),
    ],
)
def test_titles(column: str, shown: str) -> None:
    assert title(column) == shown


# Tables


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert aligned(["", "BLEU"], [["BS", "1"], ["longer", "22.50"]]) == [
        "|        | BLEU  |",
        "|--------|-------|",
        "| BS     | 1     |",
        "| longer | 22.50 |",
    ]


def test_pipes_and_new_lines_stay_in_their_cell() -> None:
    assert aligned(["a|b"], [["c|d"], ["e\nf"]]) == [
        r"| a\|b |",
        "|------|",
        r"| c\|d |",
        "| e f  |",
    ]


def test_a_table_for_each_metric_and_one_for_lists() -> None:
    mbr = {"BS": {"value": 21.0}, "DBS": {"value": 22.0, **against(1.0, 0.5, 1.5)}}
    made = results(figures=figures(**{"oracle_mbr_sentence_bleu@1": mbr}))
    assert text_metrics(made) == ["sentence_bleu", "mbr_sentence_bleu"]
    assert cells(oracle_table(made, "sentence_bleu")) == [
        ["", "BLEU top-1", "BLEU @5"],
        ["BS", "**20.00**", "40.00"],
        ["DBS", r"18.50\*", r"**44.00**\*"],
    ]
    assert cells(list_table(made))[0] == ["", "self-BLEU", "words"]
    heads = [line for line in markdown(made).splitlines() if line.startswith("|  ")]
    assert [[each.strip() for each in line.split("|")[2:-1]] for line in heads] == [
        ["BLEU top-1", "BLEU @5"],
        ["MBR BLEU top-1"],
        ["self-BLEU", "words"],
    ]


def test_what_is_of_all_lists_together_has_a_table_of_its_own() -> None:
    both = {"BS": {"value": 0.5}, "DBS": {"value": 0.25}}
    made = results(figures=figures(list_distinct_1=both, corpus_distinct_1=both, corpus_distinct_2=both))
    assert cells(list_table(made))[0] == ["", "self-BLEU", "words", "distinct-1"]
    assert cells(list_table(made, corpus=True)) == [
        ["", "corpus distinct-1, %", "corpus distinct-2, %"],
        ["BS", "**50.00**", "**50.00**"],
        ["DBS", "25.00", "25.00"],
    ]
    assert list_table(results(), corpus=True) == []
    lines = markdown(made).splitlines()
    alone, together = (
        next(place for place, line in enumerate(lines) if name in line) for name in ("words", "corpus")
    )
    assert "" in lines[alone:together]


def test_nothing_measured_is_no_table() -> None:
    only = {"BS": {"strategy": "bs"}}
    shown = markdown(results(figures={}, methods=only, unavailable={"meteor": "it is gone"}))
    assert shown.endswith("Without meteor: it is gone.\n")


def test_parts_have_gains() -> None:
    easy = {
        "items": 9,
        "figures": {
            "oracle_sentence_bleu@1": {
                "BS": {"value": 50.0},
                "DBS": {"value": 47.5, **against(-2.5, -4.0, -1.0)},
            },
            "oracle_sentence_bleu@5": {"BS": {"value": 60.0}, "DBS": {"value": 61.0, **against(1.0, -1, 2)}},
        },
    }
    hard = {**easy, "items": 10}
    made = results(parts={"people": {"simple": easy, "complex": hard}})
    assert cells(parts_table(made, "people", "sentence_bleu")) == [
        ["", "", "BLEU top-1", "BLEU @5"],
        ["simple (9)", "BS", "**50.00**", "60.00"],
        ["simple (9)", "DBS", "47.50 (-2.50)", "**61.00** (+1.00)"],  # too few for a star
        ["complex (10)", "BS", "**50.00**", "60.00"],
        ["complex (10)", "DBS", r"47.50\* (-2.50)", "**61.00** (+1.00)"],
    ]
    assert "### By complexity, as people found it\n" in markdown(made)


def test_costs() -> None:
    costs = {
        "BS": {
            "seconds": 1.5,
            "ratio": {"median": 1, "low": 1, "high": 1},
            "tokens": 200,
            "peak_megabytes": 12.4,
        },
        "DBS": {"seconds": 3.0, "ratio": {"median": 2, "low": 1.9, "high": 2.25}, "tokens": 250},
        "old": {"seconds": 3.0, "ratio": {"median": 2, "low": 1.9, "high": 2.25}},
    }
    assert cells(cost_table(results(cost={"methods": costs})))[1:] == [
        ["BS", "1.50 s", "1.00 [1.00-1.00]", "1.00", "12 MB"],
        ["DBS", "3.00 s", "2.00 [1.90-2.25]", "1.25", "not measured"],
        ["old", "3.00 s", "2.00 [1.90-2.25]", "not measured", "not measured"],
    ]


def test_lists_are_shown_side_by_side() -> None:
    shown = {
        "id": "7",
        "part": "simple",
        "references": ["yes"],
        "lists": {"BS": [{"text": text, "log_prob": -1.0} for text in ("a", "b", "c")]},
    }
    lines = examples(results(examples=[shown, {**shown, "part": "", "references": []}]), 2)
    assert lines[0] == "7, simple:"
    assert cells(lines[2:6]) == [["people", "BS"], ["yes", "a"], ["", "b"]]
    assert lines[7] == "7:"
    assert cells(lines[9:13]) == [["BS"], ["a"], ["b"]]


def test_lists_are_shown_under_their_input() -> None:
    shown = {"id": "7", "part": "", "references": ["oui"], "lists": {"BS": [{"text": "a", "log_prob": -1.0}]}}
    assert examples(results(examples=[{**shown, "input": "Is it?"}]))[0] == "7, Is it?:"
    assert examples(results(examples=[{**shown, "part": "simple", "input": "Is it?"}]))[0] == (
        "7, simple, Is it?:"
    )
    assert examples(results(examples=[{**shown, "input": ""}]))[0] == "7:"


# What to know


def test_about() -> None:
    assert about(results()) == ["10 inputs of mine.jsonl, 5 references each, model en-fr."]
    assert about(results(items=1, references={"fewest": 1, "most": 1})) == [
        "1 input of mine.jsonl, 1 reference each, model en-fr."
    ]
    (line,) = about(
        results(
            refused=2,
            references={"fewest": 1, "most": 4},
            lengths={"BS": {"fewest": 3, "most": 3}, "DBS": {"fewest": 2, "most": 4}},
            unavailable={"log-prob": "not all lists have any"},
        )
    )
    assert line == (
        "10 inputs of mine.jsonl, 1 to 4 references each, model en-fr. "
        "2 more inputs are left out, because the model does not accept them. "
        "Inputs with more references tend to score higher: compare methods with each other, not inputs. "
        "Lists are not of one length (BS 3, DBS 2 to 4), so compare them with care: a longer list is more "
        "likely to have a very good output, and a shorter one has fewer repeats. "
        "Without log-prob: not all lists have any."
    )


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([(5, 5)], ""),
        ([(5, 5), (5, 5)], ""),
        ([(5, 5), (6, 6)], "(A 5, B 6)"),
        ([(4, 5)], "(A 4 to 5)"),
        ([(4, 5), (4, 5)], "(A 4 to 5, B 4 to 5)"),
    ],
)
def test_lists_that_are_not_of_one_length(lengths: list[tuple[int, int]], said: str) -> None:
    made = {name: {"fewest": few, "most": many} for name, (few, many) in zip("AB", lengths, strict=False)}
    (line,) = about(results(lengths=made))
    assert ("not of one length" in line) == bool(said)
    assert said in line


def test_results_from_before_lengths_were_told() -> None:
    made = results()
    del made["lengths"]
    assert about(made) == about(results())


def hint(strategy: str, *shares: float) -> str:
    """What is said of methods with such shares of different outputs, beside a beam search."""
    methods = {f"{strategy} {place}": share for place, share in enumerate(shares)}
    made = results(
        methods={"BS": {"strategy": "bs"}, **{name: {"strategy": strategy} for name in methods}},
        figures={"unique": {name: {"value": share} for name, share in {"BS": 0.1, **methods}.items()}},
    )
    (line,) = about(made)
    return line.removeprefix(about(results())[0]).strip()


def test_a_hint_where_diverse_lists_repeat_themselves() -> None:
    share = "Some lists repeat themselves: the share of different outputs is"
    remedy = (
        "Late branching (`branching`) never repeats an output. In diverse beam search, more strength "
        "makes lists more diverse, and `--unique` (in a file, `unique = true`) leaves repeats out."
    )
    assert hint("dbs", 0.79) == f"{share} 79% for dbs 0. {remedy}"
    assert hint("dbs", 0.5, 0.9, 0.75, 0.25) == (
        f"{share} 50% for dbs 0, 75% for dbs 2 and 25% for dbs 3. {remedy}"
    )


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        ("dbs", (0.8, 1.0)),
        ("sampling", (0.5,)),
        ("diverse-sampling", (0.5,)),
        ("lists", (0.5,)),
        ("dbs", (0.5, 0.4, 0.3, 0.2)),  # a sweep
    ],
)
def test_no_hint(strategy: str, shares: tuple[float, ...]) -> None:
    assert hint(strategy, *shares) == ""


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (9, "With fewer than 10 inputs, differences may be chance, so none is marked."),
        (10, r"\*: differs from the first row by more than chance (95% interval, paired bootstrap)."),
    ],
)
def test_a_legend(items: int, said: str) -> None:
    assert markdown(results(items=items)).splitlines()[4] == f"Bold: the best of a column. {said}"


def test_one_method_alone_needs_no_legend() -> None:
    alone = {column: {"BS": each["BS"]} for column, each in figures().items()}
    assert "Bold" not in markdown(results(methods={"BS": {"strategy": "bs"}}, figures=alone))


def test_a_whole_page() -> None:
    lines = markdown(results()).splitlines()
    assert lines[:3] == ["## Made up", "", "10 inputs of mine.jsonl, 5 references each, model en-fr."]
    assert not any(line.startswith("###") for line in lines)
    assert markdown(results()).endswith("|\n")


def test_lists_of_some_methods() -> None:
    line = {"text": "le chat", "log_prob": None}
    found = {
        "examples": [{"id": "4", "part": "", "references": [], "lists": {"A": [line], "B": [line]}}],
    }
    assert examples(found, 1, ["B"])[2].split() == ["|", "B", "|"]
    assert examples(found, 1)[2].split() == ["|", "A", "|", "B", "|"]
