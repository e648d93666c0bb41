"""Options of `generate` for long texts: --order, --length-penalty, --min-length and the rest, by strategy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from beamsplit import Hypotheses, LengthNormalised, decode, reorder
from beamsplit.jobs.searching import Searcher
from beamsplit.loading import load_model
from beamsplit.ngrams import ngrams
from beamsplit.ordering import SELECTIONS
from beamsplit.selecting import choose
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec, Widths
from cli.commands import entries, printed, refusal

OWN = """
import torch
from beamsplit import PrefixModel

def make():
    weights = torch.randn(9, 9, generator=torch.Generator().manual_seed(2)) * 2

    class Words(PrefixModel):
        kind, end = "text", 0

        def start(self, texts):
            return super().start(torch.tensor([[len(text) % 9, 1] for text in texts]))

        def to_text(self, tokens):
            return " ".join("abcdefghi"[token] for token in tokens if token)

    return Words(lambda prefix: weights[prefix[:, -1]] + 0.5 * weights[prefix[:, -2]])
"""
TEXT = "xyz"
# mmi needs a model that can run without its input
NAMES = [name for name in STRATEGIES if name != "mmi"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:make"


def asked(capsys: pytest.CaptureFixture[str], model: str, *options: str) -> dict[str, Any]:
    (line,) = entries(capsys, "generate", "-m", model, TEXT, "--alone", "--max-length", "10", *options)
    return line


def per_token(each: dict[str, Any], power: float = 1.0) -> float:
    divisor: float = len(each["tokens"]) ** power
    return float(each["log_prob"]) / divisor


def falls(values: list[float]) -> bool:
    return all(first >= second - 1e-6 for first, second in itertools.pairwise(values))


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_in_the_order_that_is_said(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for order in (None, "score", "log-prob", "mbr"):
        options = () if order is None else ("--order", order)
        line = asked(capsys, model, "--strategy", name, *options)
        assert line["order"] == (order or ("choice" if name in ("branching", "chunks") else "score"))
        if line["order"] in ("score", "log-prob"):
            power = 1.0 if line["order"] == "score" else 0.0
            assert falls([per_token(each, power) for each in line["hypotheses"]])


@pytest.mark.parametrize("name", NAMES)
def test_a_temperature_of_the_model(name: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--strategy", name, "--model-temperature", "2.5")
    if name == "stochastic":
        assert refusal(capsys, "generate", "-m", model, TEXT, *options) == (
            "stochastic draws the model's own samples, which model_temperature=2.5 would change: leave it "
            "out, or use sampling"
        )
        return
    line, own = asked(capsys, model, *options, "--order", "log-prob"), load_model(model)
    spec = StrategySpec.of_widths(
        name, Widths(groups=3, beams_per_group=2, strength=1.0, diversity="hamming")
    )
    limits: dict[str, Any] = {"max_length": 10, "min_length": 2, "no_repeat_ngram": 4}
    (found,) = decode(own, [TEXT], spec.make(own), model_temperature=2.5, **limits)
    found = reorder(found, "log-prob").distinct()
    assert [each["tokens"] for each in line["hypotheses"]] == [list(h.tokens) for h in found]


def test_the_order_of_choice_is_that_of_the_search(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = entries(capsys, "generate", "-m", model, TEXT, "--max-length", "10")
    groups = [each["group"] for each in line["hypotheses"]]
    assert (line["order"], groups) == ("choice", sorted(groups))
    assert line["beside"]["order"] == "score"
    assert falls([per_token(each) for each in line["beside"]["hypotheses"]])
    assert not falls([per_token(each) for each in line["hypotheses"]])  # or this would prove nothing
    table = printed(capsys, "generate", "-m", model, TEXT, "--max-length", "10", "--table")
    assert table.count("in order of choice: each is the best beside those above it") == 1
    assert table.count("in order of log-probability per token") == 1
    assert "group" not in table  # it would count the lines


def test_a_temperature_of_the_model_that_is_none(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "generate", "-m", model, TEXT, "--model-temperature", "0") == (
        "model_temperature must be a finite number above 0, not 0.0"
    )


@pytest.mark.parametrize("name", ["dbs", "bs", "sampling"])
def test_mbr_is_an_order_of_the_same_outputs(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (by_score, by_mbr) = (asked(capsys, model, "--strategy", name, "--order", o) for o in ("score", "mbr"))
    lists = [[each["tokens"] for each in line["hypotheses"]] for line in (by_score, by_mbr)]
    assert sorted(lists[0]) == sorted(lists[1])
    spec = StrategySpec.of_widths(
        name, Widths(groups=3, beams_per_group=2, strength=1.0, diversity="hamming")
    )
    own = load_model(model)
    limits: dict[str, Any] = {"max_length": 10, "min_length": 2, "no_repeat_ngram": 4}
    found: Hypotheses = decode(own, [TEXT], spec.make(own), scorer=LengthNormalised(stop="first"), **limits)[
        0
    ]
    assert lists[1] == [list(h.tokens) for h in reorder(found, "mbr").distinct()]


@pytest.mark.parametrize(
    ("options", "order", "power", "said"),
    [
        (("0.3",), "length-penalty 0.3", 0.3, "divided by length to the power 0.3"),
        (("1",), "score", 1.0, "in order of log-probability per token"),
        (("0",), "log-prob", 0.0, "log p"),
        (("0.3", "--order", "score"), "score", 1.0, "in order of log-probability per token"),
        (("2", "--order", "log-prob"), "log-prob", 0.0, "log p"),
    ],
)
def test_a_length_penalty_is_the_order_unless_another_is_asked_for(
    options: tuple[str, ...],
    order: str,
    power: float,
    said: str,
    model: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = asked(capsys, model, "--length-penalty", *options)
    assert line["order"] == order
    assert falls([per_token(each, power) for each in line["hypotheses"]])
    table = printed(capsys, "generate", "-m", model, TEXT, "--alone", "--table", "--length-penalty", *options)
    assert said in table
    assert ("a token" in table) == (order == "score")
    assert ("in order of" in table) == (order != "log-prob")


@pytest.mark.parametrize("name", NAMES)
def test_so_many_are_returned_by_every_strategy(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, count in (((), 6), (("--return-per-group", "1"), 3), (("--return-per-group", "2"), 6)):
        line = asked(capsys, model, "--strategy", name, *options)
        assert len(line["hypotheses"]) + line["repeats"] == count


def test_the_best_of_each_group_is_returned(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    every = asked(capsys, model, "--strategy", "dbs", "--strength", "9")["hypotheses"]
    best = asked(capsys, model, "--strategy", "dbs", "--strength", "9", "--return-per-group", "1")[
        "hypotheses"
    ]
    assert [each["group"] for each in every].count(0) == 2
    firsts = [next(each for each in every if each["group"] == group) for group in range(3)]
    assert sorted(each["tokens"] for each in best) == sorted(each["tokens"] for each in firsts)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_have_a_least_length(name: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shortest(*options: str) -> int:
        found = asked(capsys, model, "--strategy", name, *options)["hypotheses"]
        return min(len(each["tokens"]) for each in found)

    if name == "stochastic":  # which draws from the model's own distribution unless it is told otherwise
        assert shortest() == 1
    else:
        assert shortest() >= 2  # never an empty one
    assert shortest("--min-length", "7") >= 7


@pytest.mark.parametrize("name", [name for name in NAMES if name != "stochastic"])
def test_ngrams_come_once_by_default_and_on_demand(
    name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def repeats(n: int, *options: str) -> bool:
        found = asked(capsys, model, "--strategy", name, "--min-length", "30", "--max-length", "30", *options)
        grams = [ngrams([*map(str, each["tokens"])], n) for each in found["hypotheses"]]
        return any(len(set(each)) < len(each) for each in grams)

    assert repeats(4, "--no-repeat-ngram", "0")
    assert not repeats(4)
    assert not repeats(2, "--no-repeat-ngram", "2")


def test_a_result_in_another_order_is_another(model: str) -> None:
    own = load_model(model)
    specs = (StrategySpec.of_table({"strategy": "bs", "beams": 2}),)
    plain, ordered = (
        Searcher(own, specs, {"max_length": 4}, order="mbr", reordered=reordered)
        for reordered in (False, True)
    )
    assert plain.description != ordered.description  # a part of one is not resumed as the other


def test_a_tree_has_the_list_that_is_printed_without_it(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--order", "mbr", "--return-per-group", "1", "--min-length", "4", "--no-repeat-ngram", "2")
    drawn = asked(capsys, model, *options, "--tree", str(tmp_path / "tree.svg"))
    assert drawn == asked(capsys, model, *options)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--return-per-group", "3"), "a group of 2 cannot return 3 outputs: give more beams per group, or "),
        (("--order", "best"), "Invalid value for '--order': 'best' is not one of 'log-prob', 'score', 'mbr'"),
        (
            ("--strategy", "stochastic", "--length-penalty", "0.5"),
            "--length-penalty would change what stochastic draws, the model's own samples: leave it out, or ",
        ),
        (("--strategy", "stochastic", "--no-repeat-ngram", "3"), "--no-repeat-ngram would change what "),
    ],
)
def test_what_does_not_fit_is_one_line(
    options: tuple[str, ...], line: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, "generate", "-m", model, TEXT, *options).startswith(line)


def test_stochastic_beam_search_takes_no_limit_as_none(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, off = (
        asked(capsys, model, "--strategy", "stochastic", *options)
        for options in ((), ("--no-repeat-ngram", "0"))
    )
    assert plain == off


def test_unique_changes_nothing_in_late_branching(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain, unique = (asked(capsys, model, *more) for more in ((), ("--unique",)))
    assert plain["strategy"].startswith("late branching")
    assert plain["hypotheses"] == unique["hypotheses"]
    assert len({tuple(each["tokens"]) for each in plain["hypotheses"]}) == len(plain["hypotheses"]) == 6


# Choosing of a list


@pytest.mark.parametrize("by", SELECTIONS)
def test_some_of_a_list_are_chosen_in_its_order(
    by: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = ("-g", "6", "-b", "1", "--unique")
    whole = [each["tokens"] for each in asked(capsys, model, *wide)["hypotheses"]]
    chosen = [
        each["tokens"]
        for each in asked(capsys, model, *wide, "--select", "3", "--select-by", by)["hypotheses"]
    ]
    spec = StrategySpec.of_widths(
        "dbs", Widths(groups=6, beams_per_group=1, strength=1.0, diversity="hamming")
    )
    loaded = load_model(model)
    found = decode(
        loaded,
        [TEXT],
        spec.make(loaded),
        max_length=10,
        min_length=2,
        no_repeat_ngram=4,
        unique=True,
        scorer=LengthNormalised(stop="first"),
    )[0]
    assert chosen == [list(found[index].tokens) for index in sorted(choose(found, 3, by=by))]
    assert [tokens for tokens in whole if tokens in chosen] == chosen


def test_a_table_says_how_outputs_were_chosen(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("generate", "-m", model, TEXT, "--max-length", "8", "--table", "--select", "2")
    assert printed(capsys, *command).count("chosen by diverse-mbr") == 2  # of beam search's list too
    assert "--select-by is for --select" in refusal(
        capsys, "generate", "-m", model, TEXT, "--select-by", "dpp"
    )


def test_a_job_that_chooses_is_another_job(model: str) -> None:
    loaded = load_model(model)
    spec = StrategySpec.of_widths(
        "bs", Widths(groups=2, beams_per_group=1, strength=1.0, diversity="hamming")
    )
    plain, choosing = (
        Searcher(loaded, (spec,), {"max_length": 4}, selected=each).description for each in (None, (1, "mbr"))
    )
    assert plain != choosing
