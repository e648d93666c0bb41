"""The command's options, and what it says when they are wrong: one line, before any work."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from beamsplit import cli
from beamsplit.extras import install_line
from evaluation.small import refusal, said, write_lines

SENTENCES = {"I'm cold.": ["J'ai froid."], "Where are you?": ["Où es-tu ?", "Où êtes-vous ?"]}
TASK = ("--task", "mine.jsonl", "--model", "en-fr")
COMMAND = (*TASK, "--strategies", "bs,dbs", "--beams", "4")
TUNE = ("tune", *TASK, "--beams", "4")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with a task."""
    monkeypatch.chdir(tmp_path)
    lines = ({"input": text, "references": references} for text, references in SENTENCES.items())
    write_lines(tmp_path / "mine.jsonl", *lines)
    return tmp_path


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be decoded."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("beamsplit.evaluation.decoding.decode_in_batches", never)


def found(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    return json.loads(said(capsys, *COMMAND, "--json", *options))


# Options


def test_the_best_of_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    figures = found(capsys, "--k", "1,3")["figures"]
    names = [name for name in figures if name.startswith("oracle_chrf@")]
    assert names == ["oracle_chrf@1", "oracle_chrf@3"]


def test_the_best_of_how_many_goes_before_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "mine.toml"
    file.write_text('metrics = ["chrf"]\noracle = [1, 2]\nmax_length = 20\n', encoding="utf-8")
    figures = json.loads(said(capsys, str(file), *COMMAND, "--k", " 3", "--json"))["figures"]
    assert [name for name in figures if "@" in name] == ["oracle_chrf@3"]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("given", ["x", "1,x", "1.5", "", "1,"])
def test_the_best_of_no_number(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = f"--k is {given!r}: give whole numbers, such as 1,5,20"
    assert refusal(capsys, *COMMAND, "--k", given) == message


def test_lists_are_shown_with_their_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, *COMMAND, "--show", "2")
    for place, (text, references) in enumerate(SENTENCES.items()):
        lines = shown.partition(f"\n{place}, {text}:\n\n")[2].splitlines()
        assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == ["people", "bs", "dbs"]
        assert lines[2].startswith(f"| {references[0]} ")
    assert "I'm cold." not in said(capsys, *COMMAND)
    assert [each["input"] for each in found(capsys, "--show", "1")["examples"]] == ["Where are you?"]


def lengths(folder: Path) -> set[int]:
    """The greatest lengths of what is in the cache."""
    files = (folder / ".beamsplit-cache").glob("*.jsonl")
    return {json.loads(file.read_text(encoding="utf-8").splitlines()[0])["max_length"] for file in files}


def test_outputs_may_be_as_long_as_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found(capsys)
    assert lengths(folder) == {60}
    found(capsys, "--max-length", "7")
    assert lengths(folder) == {60, 7}
    (folder / "mine.toml").write_text('metrics = ["bleu"]\nmax_length = 9\n', encoding="utf-8")
    found(capsys, "mine.toml")
    assert lengths(folder) == {60, 7, 9}


def test_outputs_of_tune_may_be_as_long(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna", reason="pip install '.[evaluate]'")
    assert cli.main([*TUNE, "--trials", "1", "--draws", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["max_length"] == 60
    assert lengths(folder) == {60}


# Terminals


def test_a_terminal_gets_tables_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    plain = said(capsys, *COMMAND)
    assert "**" in plain
    assert "|--" in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", said(capsys, *COMMAND))
    assert "**" not in drawn
    assert "|" not in drawn
    assert "───" in drawn
    rows = [line.split("|")[1:-1] for line in plain.splitlines() if line.startswith(("| bs", "| dbs"))]
    numbers = [re.sub(r"[*\\]", "", cell).split() for row in rows for cell in row]
    assert [word for cell in numbers for word in cell] == [
        word for line in drawn.splitlines() if line.startswith((" bs", " dbs")) for word in line.split()
    ]


def test_json_is_the_same_for_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = said(capsys, *COMMAND, "--json")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert said(capsys, *COMMAND, "--json") == plain


# Refused


def line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one that a command says when it refuses."""
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (only,) = shown.err.splitlines()
    assert only.startswith("beamsplit: ")
    return only.removeprefix("beamsplit: ")


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("option", ["--out", "--cache"])
@pytest.mark.parametrize("command", [("evaluate", *COMMAND), TUNE])
def test_a_file_is_no_folder(
    command: tuple[str, ...], option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == TUNE:
        pytest.importorskip("optuna", reason="pip install '.[evaluate]'")
    file = folder / "file"
    file.write_text("mine", encoding="utf-8")
    assert "'file'" in line(capsys, *command, option, "file")
    assert "'file/folder'" in line(capsys, *command, option, "file/folder")
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", *TASK, "--strategies", "bs", "--beams", "x"), "'--beams': 'x' is not a valid integer"),
        (("evaluate", *COMMAND, "--limit", "0"), "'--limit': 0 is not in the range x>=1"),
        (("evaluate", *COMMAND, "--show", "-1"), "'--show': -1 is not in the range x>=0"),
        (("evaluate", *COMMAND, "--beems", "3"), "--beems"),
        (("evaluate", "a.toml", "b.toml"), "b.toml"),
        (("tune", "--model", "en-fr"), "Missing option '--task'"),
        (("tune", "--task", "mine.jsonl"), "Missing option '--model'"),
    ],
)
def test_options(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = line(capsys, *arguments)
    assert message in shown
    assert shown.endswith(f"(beamsplit {arguments[0]} --help says more)")


def test_half_an_option_and_no_such_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'--beams' requires an argument" in line(capsys, "evaluate", *TASK, "--beams")
    assert line(capsys, "evalute").endswith("(beamsplit --help says more)")


def test_nothing_at_all_gets_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([])
    shown = capsys.readouterr()
    assert (shown.out + shown.err).startswith("Usage: beamsplit ")
    assert "says more" not in shown.err


@pytest.mark.parametrize(
    ("package", "options", "message"),
    [
        ("sacrebleu.metrics", (), f"beamsplit.metrics needs sacrebleu: {install_line('evaluate')}"),
        ("matplotlib", ("--out", "out"), f"--out needs matplotlib: {install_line('evaluate')}"),
    ],
)
def test_a_missing_package_is_said_before_anything_is_decoded(
    package: str,
    options: tuple[str, ...],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["evaluate", *COMMAND, *options]) == 2
    assert capsys.readouterr().err == f"beamsplit: {message}\n"
    assert not (folder / ".beamsplit-cache").exists()
