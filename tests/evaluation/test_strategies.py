"""Strategies by short names, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import DiverseBeamSearch, NGram, cli, decode
from beamsplit.cli.search_options import strategy_tables
from beamsplit.evaluation.scoring import TEXT_METRICS
from beamsplit.models import Captioner, PictureSizes
from beamsplit.models.text import Vocabulary
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec
from evaluation.small import refusal, said, write_lines

SENTENCES = {"I'm cold.": ["J'ai froid."], "Where are you?": ["Où es-tu ?", "Où êtes-vous ?"]}
COMMAND = ("--task", "mine.jsonl", "--model", "en-fr")
QUICK = ("--beams", "4", "--max-length", "8")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with a task."""
    monkeypatch.chdir(tmp_path)
    lines = ({"input": text, "references": references} for text, references in SENTENCES.items())
    write_lines(tmp_path / "mine.jsonl", *lines)
    return tmp_path


def spec(name: str, **options: Any) -> StrategySpec:
    """What the command makes of its options."""
    given = ("beams", "groups", "beams_per_group", "strength", "diversity")
    asked = {"strategies": name, **dict.fromkeys(given)}
    return StrategySpec.of_table(strategy_tables({**asked, **options})[name])


def captioner() -> Captioner:
    torch.manual_seed(0)
    made = Captioner(Vocabulary(["a", "cat", "dog", "runs"]), PictureSizes(features=2, embedding=4, hidden=4))
    return made.eval().requires_grad_(False)


# What they stand for


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_has_so_many_outputs(name: str) -> None:
    model, made = captioner(), spec(name, beams=6, groups=3)
    (found,) = decode(made.guide(model), torch.ones(1, 2), made.make(model), max_length=4)
    assert len(found) == 6


def test_a_group_for_each_beam_unless_told() -> None:
    assert spec("dbs", beams=4).settings == {"groups": 4, "beams_per_group": 1, "strength": 0.5}
    told = spec("dbs", beams=4, groups=2, strength=0.1, diversity="ngram").make(captioner())
    assert told == DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.1, diversity=NGram())


# The command


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, *COMMAND, "--strategies", "bs, dbs,sampling", *QUICK).splitlines()
    assert lines[0] == "## mine.jsonl"
    tables = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert tables == ["", "bs", "dbs", "sampling"] * 4  # BLEU, chrF, whole lists, and all of them together


def test_the_options_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--groups", "2", "--strength", "0.3", "--diversity", "ngram", "--metrics", "chrf, bleu")
    found = json.loads(said(capsys, *COMMAND, "--strategies", "dbs", *QUICK, *options, "--json"))
    assert found["methods"]["dbs"]["settings"] == {"groups": 2, "beams_per_group": 2, "strength": 0.3}
    assert found["methods"]["dbs"]["diversity"] == {"term": "ngram"}
    assert next(iter(found["figures"])) == "oracle_chrf@1"
    assert "oracle_sentence_bleu@1" in found["figures"]


def test_lists_may_stand_beside_strategies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = ({"id": place, "hypotheses": texts} for place, texts in enumerate(SENTENCES.values()))
    write_lines(folder / "theirs.jsonl", *lists)
    options = ("--strategies", "bs", *QUICK, "--lists", "theirs=theirs.jsonl")
    bleu = json.loads(said(capsys, *COMMAND, *options, "--json"))["figures"]["oracle_sentence_bleu@1"]
    assert list(bleu) == ["bs", "theirs"]
    assert bleu["theirs"]["value"] == pytest.approx(100)


def test_the_task_of_a_file_may_be_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "other.jsonl", {"input": "I'm cold.", "references": ["J'ai froid."]})
    text = 'title = "T"\ntask = "none.jsonl"\nmodel = "en-fr"\nmax_length = 20\nlists = ["length"]\n'
    (folder / "mine.toml").write_text(f'{text}[methods.BS]\nstrategy = "bs"\nbeams = 1\n', encoding="utf-8")
    options = ("--task", "other.jsonl", "--max-length", "2", "--json")
    found = json.loads(said(capsys, "mine.toml", *options))
    assert (found["title"], found["task"], found["items"]) == ("T", "other.jsonl", 1)
    assert list(found["methods"]) == ["BS"]
    assert found["figures"]["length"]["BS"]["value"] <= 2


def test_files_have_the_name_of_the_task(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.jsonl").rename(folder / "mine.test.jsonl")
    write_lines(folder / "a.jsonl", *({"id": place, "hypotheses": ["a"]} for place in range(2)))
    said(capsys, "--task", "mine.test.jsonl", "--lists", "A=a.jsonl", "--out", "out")
    assert {"mine.test.json", "mine.test.md"} <= {each.name for each in (folder / "out").iterdir()}


def test_the_help_has_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    shown = shown.replace("- ", "-")  # where a line was broken
    assert f"with commas: {', '.join(STRATEGIES)}." in shown
    assert f"with commas: {', '.join(TEXT_METRICS)}." in shown


# Refused

GIVE = "give an EXPERIMENT file, or --task with --model and --strategies, or --task with --lists"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*COMMAND, "--strategies", "bs,dsb"), "there is no strategy 'dsb': did you mean 'dbs'?"),
        (
            (*COMMAND, "--strategies", "greedy"),
            f"there is no strategy 'greedy': there are {', '.join(STRATEGIES)}",
        ),
        (
            (*COMMAND, "--strategies", "dbs", "--beams", "10", "--groups", "4"),
            "10 beams cannot be divided into 4 equal groups: give one of 1, 2, 5, 10",
        ),
        (
            (*COMMAND, "--strategies", "dbs", "--beams", "0"),
            "beams must be a whole number of at least 1, not 0",
        ),
        (
            (*COMMAND, "--strategies", "dbs", "--groups", "0"),
            "groups must be a whole number of at least 1, not 0",
        ),
        (
            (*COMMAND, "--strategies", "bs,dbs", "--strength", "-1"),
            "strength must be a finite number of 0 or more, not -1.0",
        ),
        (
            (*COMMAND, "--strategies", "dbs", "--diversity", "haming"),
            "diversity is 'haming', and there is no such term: did you mean 'hamming'?",
        ),
        ((*COMMAND, "--beams", "4"), "--beams is for --strategies, which is not given"),
        ((*COMMAND, "--strength", "0.1"), "--strength is for --strategies, which is not given"),
        ((), GIVE),
        (COMMAND, GIVE),
        (("--model", "en-fr", "--strategies", "bs"), GIVE),
        (
            ("--task", "mine.jsonl", "--strategies", "bs"),
            "the command has no 'model': every experiment that decodes needs one",
        ),
        (
            ("--task", "mine.jsonl", "--lists", "a.jsonl"),
            "--lists is 'a.jsonl': give NAME=FILE, such as mine=lists.jsonl",
        ),
        (
            ("--task", "mine.jsonl", "--lists", "=a.jsonl"),
            "--lists is '=a.jsonl': give NAME=FILE, such as mine=lists.jsonl",
        ),
        (
            ("--task", "mine.jsonl", "--lists", "A="),
            "--lists is 'A=': give NAME=FILE, such as mine=lists.jsonl",
        ),
        (
            ("--task", "mine.jsonl", "--lists", "A=a.jsonl", "--lists", "A=b.jsonl"),
            "--lists is 'A=b.jsonl', and there is another 'A': give it another name",
        ),
        (
            (*COMMAND, "--strategies", "bs", "--metrics", "blue"),
            "there is no metric 'blue': there are bleu, chrf, bleu4, rouge, cider, meteor, spice",
        ),
        (("none.toml",), "there is no file none.toml"),
    ],
)
def test_refused(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, *arguments) == message
