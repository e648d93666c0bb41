"""Figures against tables that were worked by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from beamsplit.errors import ArgumentError
from beamsplit.study.bins import Bins
from beamsplit.study.plots import draw_plot
from beamsplit.study.report import ReportItem, StudyData, figures
from beamsplit.study.store import Vote
from beamsplit.study.words import markdown


def votes(item: str, choices: str, left: str = "first", answer: str | None = None) -> list[Vote]:
    """Return votes of a1, a2, ...: 1 is for the first list, 2 for the second, a point is no vote."""
    methods = {"1": "first", "2": "second"}
    return [
        Vote(item, f"a{number}", left, methods[choice], 0.0, 1.0, answer)
        for number, choice in enumerate(choices, 1)
        if choice != "."
    ]


def data(table: dict[str, str], numbers: dict[str, float] | None = None, *more: Vote) -> StudyData:
    items = tuple(ReportItem(name, (numbers or {}).get(name)) for name in table)
    return StudyData(
        "BS", "DBS", 5, items, (*(v for name, row in table.items() for v in votes(name, row)), *more)
    )


# Four items of five votes: 4, 3, 1 and 0 are for the second list.
FOUR = {"w": "22221", "x": "22211", "y": "21111", "z": "11111"}


def test_preference_by_hand() -> None:
    found = figures(data(FOUR))["preference"]
    assert found["votes"]["share"] == 8 / 20
    assert found["items"]["share"] == 2 / 4
    assert found["items"]["ties"] == 0
    # Wilson's interval of 2 of 4, z = 1.96: (0.5 ± z sqrt(1/16 + z²/64) / (1 + z²/4) ...) = 0.15, 0.85
    z = 1.959964
    half = z * math.sqrt(0.25 / 4 + z * z / 64) / (1 + z * z / 4)
    assert found["items"]["low"] == pytest.approx(0.5 - half, abs=1e-6)
    assert found["items"]["high"] == pytest.approx(0.5 + half, abs=1e-6)


def test_the_bootstrap_draws_items_not_votes() -> None:
    """Two items, of which one is all for and one all against: a draw of two has a share of 0, 1/2 or 1."""
    found = figures(data({"x": "22222", "y": "11111"}))["preference"]["votes"]
    assert (found["share"], found["low"], found["high"]) == (0.5, 0.0, 1.0)


def test_items_that_are_all_alike_have_no_bootstrap_interval() -> None:
    found = figures(data({"x": "222", "y": "222"}))
    assert found["preference"]["votes"] == {"count": 6, "of": 6, "share": 1.0, "low": None, "high": None}
    assert "No preference is shown: the interval of items includes 50%." in markdown(found)


def test_ties_count_for_neither() -> None:
    found = figures(data({"x": "2211", "y": "2221", "z": ""}))["preference"]["items"]
    assert (found["count"], found["of"], found["ties"], found["without_votes"]) == (1, 1, 1, 1)


def test_how_votes_fell() -> None:
    assert figures(data(FOUR))["spread"] == {"4/5": 1, "3/5": 1, "1/5": 1, "0/5": 1}


def test_bins_as_in_the_paper() -> None:
    """Mean 3 and standard deviation 1.41 (the root of 2): edges at 1.59 and 4.41."""
    table = {"1": "11", "2": "11", "3": "22", "4": "22", "5": "22"}
    found = figures(data(table, {name: float(name) for name in table}))["by"]["complexity"]
    shares = [(each["range"], each["items"], each["preference"]["items"]["share"]) for each in found["bins"]]
    assert shares == [("≤ 1.59", 1, 0.0), ("(1.59, 4.41)", 3, 2 / 3), ("≥ 4.41", 1, 1.0)]


def test_spearman_by_hand() -> None:
    """Ranks 1 2 3 4 beside 2 1 3 4: 1 - 6 * 2 / (4 * 15) = 0.8."""
    table = {"a": "21111", "b": "11111", "c": "22111", "d": "22211"}
    numbers = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 9.0}
    found = figures(data(table, numbers))["by"]["complexity"]["spearman"]
    assert found["rho"] == pytest.approx(0.8)
    assert found["items"] == 4


def test_no_correlation_of_what_does_not_differ() -> None:
    table = {"a": "22", "b": "22", "c": "22"}
    found = figures(data(table, {"a": 1.0, "b": 2.0, "c": 3.0}))["by"]["complexity"]["spearman"]
    assert found == {"items": 3, "rho": None, "p": None}


def test_alpha_by_hand() -> None:
    """Items 22 21 11: o = 2 of 6 pairable values disagree; n1 = n2 = 3, so chance is 2*3*3/(6*5) = 0.6.

    Disagreement observed is 2/6, so alpha = 1 - (1/3) / 0.6 = 4/9.
    """
    found = figures(data({"x": "22", "y": "21", "z": "11"}))["agreement"]
    assert found["krippendorff_alpha"] == pytest.approx(4 / 9)


@pytest.mark.parametrize("table", [{"x": "2", "y": "1"}, {"x": "22", "y": "22"}, {}])
def test_no_agreement_without_company_or_matter(table: dict[str, str]) -> None:
    assert figures(data(table))["agreement"]["krippendorff_alpha"] is None


def test_who_fails_a_check_is_left_out() -> None:
    checks = votes("check", "12", answer="first")
    found = figures(data({"x": "12", "y": "12"}, None, *checks))
    assert found["left_out"] == {"annotators": ["a2"], "votes": 2}
    assert found["preference"]["votes"]["share"] == 0.0
    assert found["attention"]["annotators"]["a2"] == {"passed": 0, "failed": 1}
    everybody = figures(data({"x": "12", "y": "12"}, None, *checks), include_failed=True)
    assert everybody["left_out"] == {"annotators": [], "votes": 0}
    assert everybody["preference"]["votes"]["share"] == 0.5


def test_whether_people_like_the_left() -> None:
    right = tuple(votes("x", "1", left="second") + votes("y", "111", left="first"))
    found = figures(StudyData("BS", "DBS", 1, (ReportItem("x"), ReportItem("y")), right))["left_side"]
    assert (found["count"], found["of"]) == (3, 4)


# Bins


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2", ["< 2.5", "≥ 2.5"]),
        ("1", ["all"]),
        ("1.5,3", ["< 1.5", "[1.5, 3)", "≥ 3"]),
        ("0.5,", None),
        ("3,1", None),
        ("many", None),
        ("0", None),
        ("25", None),
        ("2.5", ["< 2.5", "≥ 2.5"]),
        ("nan", None),
    ],
)
def test_bins(text: str, names: list[str] | None) -> None:
    if names is None:
        with pytest.raises(ArgumentError, match="give paper, a number from 1 to 20, or rising edges"):
            Bins.parse(text)
    else:
        assert [each.name for each in Bins.parse(text).over([1.0, 2.0, 3.0, 4.0])] == names


@pytest.mark.parametrize("how", ["paper", "3", "4", "2,2.5"])
@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0, 9.0], [3.0]])
def test_every_number_is_in_one_bin(how: str, values: list[float]) -> None:
    bins = Bins.parse(how).over(values)
    assert [sum(each.holds(value) for each in bins) for value in values] == [1] * len(values)


# For people


def test_the_report_in_words() -> None:
    found = figures(data(FOUR, {"w": 4.0, "x": 3.0, "y": 2.0, "z": 1.0}))
    text = markdown(found)
    assert text.startswith("## DBS against BS\n\n4 items, 20 of 20 votes, 5 annotators.\n")
    assert "| items where most prefer DBS | 50.0% | 15.0% to 85.0% | 2 of 4  |" in text
    assert "ρ = 1.00, p < 0.001 (4 items)" in text
    json.dumps(found, allow_nan=False)


def test_a_report_of_nothing() -> None:
    found = figures(data({"x": ""}))
    assert "1 item has no votes yet." in markdown(found)
    json.dumps(found, allow_nan=False)
    assert draw_plot(found).startswith(b"<?xml")


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_plot(kind: str, start: bytes) -> None:
    found: Any = figures(data({**FOUR, "$|<b>": "2"}, {"w": 4.0, "x": 3.0}))
    assert draw_plot(found, kind).startswith(start)
    assert draw_plot(found, kind) == draw_plot(found, kind)


@pytest.mark.parametrize("numbers", [None, {"w": 4.0, "x": 3.0, "y": 2.0, "z": 1.0}])
def test_the_legend_of_the_plot_is_within_it(numbers: dict[str, float] | None) -> None:
    from beamsplit.evaluation.plots import style
    from beamsplit.study.plots import _figure

    with style():
        figure = _figure(figures(data(FOUR, numbers)))
        figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
