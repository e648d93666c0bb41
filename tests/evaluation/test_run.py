"""A whole experiment, on made-up data and the translator that ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beamsplit import cli

EXPERIMENT = """
title = "Two ways to translate"
task = "{task}"
model = "en-fr"
metrics = ["bleu", "chrf"]
oracle = [1, 2, 4]
distinct = [1, 2]
max_length = 20

[methods.BS]
strategy = "bs"
beams = 4

[methods.DBS]
strategy = "dbs"
groups = 4
strength = 1.0
"""
SENTENCES = {
    "I'm cold.": ["J'ai froid."],
    "You look tired.": ["Tu as l'air fatigué.", "Vous avez l'air fatiguée."],
    "Where are you?": ["Où es-tu ?", "Où êtes-vous ?"],
}


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"input": text, "references": refs}) for text, refs in SENTENCES.items()]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines), encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(EXPERIMENT.format(task="mine.jsonl"), encoding="utf-8")
    return file


def results(experiment: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert cli.main(["evaluate", str(experiment), "--json", "--draws", "50", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_figures(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = results(experiment, capsys)
    assert found["items"] == 3
    assert found["unavailable"] == {}
    figures = found["figures"]
    for metric in ("sentence_bleu", "chrf"):
        best = [figures[f"oracle_{metric}@{k}"]["BS"]["value"] for k in (1, 2, 4)]
        assert best == sorted(best)  # the best of more is no worse
    top = figures["oracle_sentence_bleu@1"]["BS"]
    assert 0 < top["low"] <= top["value"] <= top["high"] <= 100.0001
    assert "against_first" not in top
    against = figures["list_distinct_2"]["DBS"]["against_first"]
    difference = figures["list_distinct_2"]["DBS"]["value"] - figures["list_distinct_2"]["BS"]["value"]
    assert against["difference"] == pytest.approx(difference)
    assert list(found["signatures"]) == list(figures)
    assert found["signatures"]["oracle_sentence_bleu@2"].startswith("oracle|k:2|sentence_bleu|")


def test_what_the_model_does_not_take_is_left_out_and_counted(
    experiment: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with (tmp_path / "mine.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps({"input": "word " * 400, "references": ["mot"]}))
    found = results(experiment, capsys)
    assert (found["items"], found["refused"]) == (3, 1)
    assert cli.main(["evaluate", str(experiment), "--draws", "10"]) == 0
    assert (
        "3 inputs of mine.jsonl, 1 to 2 references each, model en-fr. "
        "1 more input is left out, because the model does not accept it."
    ) in capsys.readouterr().out


def test_a_second_run_decodes_nothing(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = results(experiment, capsys)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr("beamsplit.evaluation.decoding.decode_in_batches", never)
    assert results(experiment, capsys) == first


def test_files_and_tables(experiment: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["evaluate", str(experiment), "--draws", "50", "--limit", "2", "--out", "out"]) == 0
    shown = capsys.readouterr().out
    assert (tmp_path / "out" / "mine.md").read_text(encoding="utf-8") == shown
    assert json.loads((tmp_path / "out" / "mine.json").read_text(encoding="utf-8"))["items"] == 2
    lines = shown.splitlines()
    assert lines[0] == "## Two ways to translate"
    tables = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    # A table for each metric, one for lists and one for all of them together.
    assert [row[0] for row in tables] == ["", "BS", "DBS"] * 4
    assert [row[1:] for row in tables[:6:3]] == [
        [f"{metric} {of}" for of in ("top-1", "@2", "@4")] for metric in ("BLEU", "chrF")
    ]
    assert tables[6][1:3] == ["distinct-1", "distinct-2"]
    assert tables[9][1:] == ["corpus distinct-1, %", "corpus distinct-2, %"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("mine.jsonl", "mine2.jsonl"), "mine2.jsonl cannot be read: "),
        (('"chrf"', '"chrff"'), "there is no metric 'chrff': there are bleu, chrf, "),
        (("en-fr", "en-de"), "there is no model 'en-de': did you mean 'en-fr'?"),
        (("strength", "strenght"), "dbs has no setting 'strenght': did you mean 'strength'?"),
        (
            ('title = "', 'split = true\ntitle = "'),
            "split is for pictures or inputs with a difficulty, and mine has neither: leave it out",
        ),
        (('title = "', 'mbr = "bleurt"\ntitle = "'), "there is no metric 'bleurt': there are bleu, chrf, "),
        (
            ('title = "', 'lists = ["spred"]\ntitle = "'),
            "there is no metric 'spred': there are distinct, unique, self-bleu, vendi, spread, ",
        ),
    ],
)
def test_refused(
    change: tuple[str, str], message: str, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.write_text(experiment.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert cli.main(["evaluate", str(experiment), "--draws", "10", "--limit", "1"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("beamsplit: ")
    assert message in error
