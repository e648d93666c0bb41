"""Results as LaTeX, CSV and JSON: the same numbers, marked alike, and nothing that breaks a format."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beamsplit.evaluation import latex, markdown, to_csv
from beamsplit.evaluation.tex import escape
from beamsplit.evaluation.tidy import COLUMNS
from evaluation.small import refusal, said, write_lines
from evaluation.test_tables import against, figures, results

COMMAND = ("--task", "mine.jsonl", "--lists", "A=a.jsonl", "--lists", "B=b.jsonl")
# All that has a meaning in LaTeX, and what would be an option of the line break before it.
ODD = r"[50% of_my {model} & #1 ~ ^ $x$ \ <a> | `b` -- c"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "mine.jsonl", *({"input": "?", "references": [f"a b {n}"]} for n in range(12)))
    for name, text in (("a", "a"), ("b", "a b")):
        lists = ({"id": n, "hypotheses": [f"{text} {n}", "c"]} for n in range(12))
        write_lines(tmp_path / f"{name}.jsonl", *lists)
    return tmp_path


def made_up(**changes: Any) -> dict[str, Any]:
    """Results with all that a page may have."""
    part = {"items": 12, "figures": figures()}
    costs = {"seconds": 1.5, "ratio": {"median": 1.0, "low": 0.9, "high": 1.1}}
    shown = {"id": "7", "part": "", "input": "Is it?", "references": [], "lists": {"BS": [{"text": "a_b"}]}}
    return results(
        parts={"people": {"simple": part}},
        cost={"inputs": 4, "methods": {"BS": costs, "DBS": {**costs, "peak_megabytes": 12.0}}},
        examples=[shown],
        signatures={"length": "length|tok:words"},
        **changes,
    )


def renamed(found: Any, name: str) -> Any:
    """The same with another name for DBS."""
    return json.loads(json.dumps(found).replace('"DBS"', json.dumps(name)))


# LaTeX


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50%", r"50\%"),
        ("a_b & c#1", r"a\_b \& c\#1"),
        ("{$x^2$}", r"\{\$x\textasciicircum{}2\$\}"),
        ("~\\", r"\textasciitilde{}\textbackslash{}"),
        ("--unique", "-{}-unique"),
        ("a---b", "a-{}-{}-b"),
        ("-5", "-5"),
        ("two\nlines\tand\x00\u202fmore", "two lines and more"),
        ("Où êtes-vous ?", "Où êtes-vous ?"),
        ("<a|b>", r"\textless{}a\textbar{}b\textgreater{}"),
        ("`a`", r"\`{}a\`{}"),
    ],
)
def test_text_that_is_latex_is_printed_as_it_is(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def table_rows(text: str) -> list[list[str]]:
    """The cells of all tables."""
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.endswith(r"\\")]
    return [[cell.strip() for cell in line.removesuffix(r"\\").split(" & ")] for line in lines]


def test_the_best_is_bold_and_stars_are_those_of_markdown() -> None:
    rows = table_rows(latex(results()))
    assert rows[:3] == [
        ["", "BLEU top-1", "BLEU @5"],
        ["BS", r"\textbf{20.00}", "40.00"],
        ["DBS", "18.50$^{*}$", r"\textbf{44.00}$^{*}$"],
    ]
    plain = [
        [re.sub(r"\*\*(.*)\*\*", r"\\textbf{\1}", cell.strip()).replace(r"\*", "$^{*}$") for cell in cells]
        for cells in (line.split("|")[1:-1] for line in markdown(results()).splitlines())
        if cells and set(cells[0]) != {"-"}
    ]
    assert rows == plain


def test_a_minus_is_one() -> None:
    by_method = {"BS": {"value": -5.0}, "DBS": {"value": -5.5, **against(-0.5, -0.6, -0.4)}}
    rows = table_rows(latex(results(figures={"top_log_prob": by_method})))
    assert rows[1:] == [["BS", r"\textbf{$-$5.00}"], ["DBS", r"$-$5.50$^{*}$"]]


def test_gains_of_parts() -> None:
    part = {"items": 12, "figures": figures()}
    text = latex(results(parts={"people": {"simple": part}})).partition("By complexity")[2]
    assert r"\begin{tabular}{llrr}" in text
    assert table_rows(text)[2] == [
        "simple (12)",
        "DBS",
        r"18.50$^{*}$ ($-$1.50)",
        r"\textbf{44.00}$^{*}$ (+4.00)",
    ]


def test_captions_say_what_is_marked() -> None:
    captions = re.findall(r"\\caption\{(.*)\}$", latex(made_up()), re.MULTILINE)
    marks = "Bold: the best of a column. *: differs from the first row by more than chance (95\\% interval, "
    assert captions[0] == f"Made up: BLEU, best of the first k. {marks}paired bootstrap)."
    assert captions[-1] == "Made up: lists for 7, Is it?"
    assert len(captions) == 5


def test_environments_are_closed_and_everything_else_is_a_comment() -> None:
    text = latex(renamed(made_up(title=ODD), ODD))
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 5
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 5
    inside = False
    for line in text.splitlines():
        inside = inside or line == r"\begin{table}"
        assert inside or not line or line.startswith("%")
        inside = inside and line != r"\end{table}"


def test_no_character_is_left_that_means_something() -> None:
    """Outside comments: what is ours is taken away, and nothing special may remain."""
    text = "\n".join(
        line for line in latex(renamed(made_up(title=ODD), ODD)).splitlines() if not line.startswith("%")
    )
    ours = (
        r"\\(begin|end)\{(table|tabular)\}(\{(p\{0\.\d\d\\linewidth\}|[lr])+\})?",
        r"\\(centering|small|toprule|midrule|bottomrule)\b",
        r"\\caption(?=\{)",
        r"\\textbf(?=\{)",
        r"\$\^\{\*\}\$|\$-\$",
        r"\\[%&#_{}$]",
        r"\\`\{\}|\\text(asciitilde|asciicircum|backslash|less|greater|bar)\{\}",
        r" & | \\\\$|\{\}",
    )
    rest = re.sub("|".join(ours), "", text, flags=re.MULTILINE)
    assert not set(rest) & set("\\&#%$_^~")
    assert rest.count("{") == rest.count("}")


def test_the_beginning_of_a_row_is_no_option_of_the_line_before() -> None:
    for name in ("[best]", "*best"):
        assert f"\n    {{}}{name} & " in latex(renamed(results(), name))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
@pytest.mark.parametrize("name", ["DBS", ODD, "[1]", "*x"])
def test_it_compiles(name: str, tmp_path: Path) -> None:
    body = latex(renamed(made_up(title=name), name))
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "page.tex").write_text(f"{head}{body}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-draftmode", "-halt-on-error", "-interaction=nonstopmode", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")


# CSV


def test_a_row_for_each_method_and_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(made_up()))))
    assert list(rows[0]) == list(COLUMNS)
    first, second = (row for row in rows if row["figure"] == "length" and not row["part"])
    assert (first["method"], first["value"], first["difference"], first["low"]) == ("BS", "9.0", "", "")
    assert (second["method"], second["value"], second["p"]) == ("DBS", "10.0", "0.5")
    differences = [second[f"difference{end}"] for end in ("", "_low", "_high")]
    assert differences == ["1.0", "-0.5", "2.0"]
    assert second["signature"] == "length|tok:words"
    assert {row["task"] for row in rows} == {"mine.jsonl"}


def test_parts_and_costs_are_rows_too() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(made_up()))))
    parts = [row for row in rows if row["part"]]
    assert len(parts) == 2 * len(figures())
    assert {(row["by"], row["part"], row["items"]) for row in parts} == {("people", "simple", "12")}
    costs = {(row["figure"], row["method"]): row for row in rows[-5:]}
    assert costs["seconds", "BS"]["value"] == "1.5"
    assert (costs["time_ratio", "DBS"]["low"], costs["time_ratio", "DBS"]["high"]) == ("0.9", "1.1")
    assert costs["peak_megabytes", "DBS"]["value"] == "12.0"


def test_cells_are_no_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(renamed(results(), '=SUM("A1"),')))))
    assert rows[1]["method"] == '\'=SUM("A1"),'
    assert rows[1]["difference"] == "-1.5"  # a number stays one


@pytest.mark.usefixtures("folder")
def test_numbers_are_those_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, *COMMAND, "--format", "json"))["figures"]
    rows = csv.DictReader(io.StringIO(said(capsys, *COMMAND, "--format", "csv")))
    seen = 0
    for row in rows:
        figure = found[row["figure"]][row["method"]]
        expected = [figure["value"], figure.get("low"), figure.get("high")]
        given = [float(row[key]) if row[key] else None for key in ("value", "low", "high")]
        assert given == expected
        seen += 1
    assert seen == sum(map(len, found.values()))


# The option


@pytest.mark.usefixtures("folder")
def test_json_is_short_for_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *COMMAND, "--json") == said(capsys, *COMMAND, "--format", "json")
    assert said(capsys, *COMMAND, "--json", "--format", "json") == said(capsys, *COMMAND, "--json")
    assert said(capsys, *COMMAND) == said(capsys, *COMMAND, "--format", "markdown")
    assert refusal(capsys, *COMMAND, "--json", "--format", "csv") == (
        "--json means --format json, and --format is csv: give one of the two"
    )


def test_all_formats_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    shown = {kind: said(capsys, *COMMAND, "--format", kind) for kind in ("markdown", "latex", "csv", "json")}
    assert said(capsys, *COMMAND, "--out", "out", "--format", "latex") == shown["latex"]
    files = {"markdown": "mine.md", "latex": "mine.tex", "csv": "mine.csv", "json": "mine.json"}
    for kind, name in files.items():
        assert (folder / "out" / name).read_text(encoding="utf-8") == shown[kind]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["latex", "csv", "json"])
def test_only_markdown_is_drawn_on_a_terminal(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = said(capsys, *COMMAND, "--format", kind)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert said(capsys, *COMMAND, "--format", kind) == plain
