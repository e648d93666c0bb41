"""The command: what it prints, and what it says when it is used wrongly."""

from __future__ import annotations

import csv
import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from beamsplit.cli.study import study
from beamsplit.errors import ArgumentError
from beamsplit.study import open_study
from study.small import answer_all

LISTS = ("--lists", "beam search=bs.jsonl", "--lists", "diverse=dbs.jsonl")
SMALL = (*LISTS, "--votes", "2", "--annotators", "3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("bs", "dbs"):
        lines = [
            {"id": n, "input": f"i{n}", "hypotheses": [f"{name} {n}"], "complexity": n} for n in range(4)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def said(*arguments: str) -> str:
    found = CliRunner().invoke(study, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout  # what falls short is said on stderr


def refusal(*arguments: str) -> str:
    with pytest.raises(ArgumentError) as error:
        CliRunner().invoke(study, arguments, catch_exceptions=False)
    return str(error.value)


def voted(name: str = "pilot.db") -> None:
    """Everybody has chosen the list on the left."""
    store = open_study(name)
    for each in store.annotators():
        answer_all(store, each)
    store.close()


def test_create_prints_links() -> None:
    text = said("create", "pilot.db", *SMALL)
    assert text.startswith("4 items, 2 votes each.")
    store = open_study("pilot.db")
    for each in store.annotators():
        assert f"{each.name:<8}/a/{each.token}\n" in text
    assert f"admin   /admin/{store.study.admin_token}\n" in text
    assert text.endswith("Next: beamsplit study serve pilot.db\n")
    assert len(store.annotators()) == 3
    store.close()


def test_create_prints_json() -> None:
    found = json.loads(said("create", "pilot.db", *SMALL, "--json"))
    assert list(found["annotators"]) == ["a1", "a2", "a3"]


def test_settings_of_a_study(folder: Path) -> None:
    (folder / "consent.txt").write_text("Be kind.\n")
    said("create", "pilot.db", *SMALL, "--question", "Which?", "--consent", "consent.txt", "--patience", "1")
    store = open_study("pilot.db")
    assert (store.study.question, store.study.consent) == ("Which?", "Be kind.")
    assert (store.study.rules.votes, store.study.rules.patience) == (2, 60.0)
    store.close()


def test_create_from_strategies(folder: Path) -> None:
    (folder / "task.jsonl").write_text('{"input": "I\'m cold."}')  # nothing is scored, so no references
    decode = ("--task", "task.jsonl", "--model", "en-fr", "--strategies", "bs,dbs", "--beams", "2")
    said("create", "pilot.db", *decode, "--votes", "1")
    store = open_study("pilot.db")
    assert (store.study.first, store.study.second) == ("bs", "dbs")
    store.close()


def test_create_from_lines_of_text(folder: Path) -> None:
    (folder / "task.txt").write_text("I'm cold.\n\nWhere are you?\n")
    decode = ("--task", "task.txt", "--model", "en-fr", "--strategies", "bs,dbs", "-g", "2", "-b", "1")
    said("create", "pilot.db", *decode, "--votes", "1", "--attention", "0", "--min-length", "12")
    store = open_study("pilot.db")
    (one,) = store.annotators()
    shown = {}
    while (given := store.give(one)) is not None:
        shown[given.item] = given.left
        store.vote(one, given.item, "left")
    store.close()
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --lists NAME=FILE twice, or --task with --model and two --strategies"),
        (("--lists", "x"), "--lists is 'x': give NAME=FILE, such as mine=lists.jsonl"),
        (("--lists", "x=bs.jsonl"), "a study compares two lists, and 1 given: x"),
        ((*LISTS, "--model", "en-fr"), "give --lists twice, or --model with two --strategies, not both"),
        ((*LISTS, "--min-length", "3"), "give --lists twice, or --model with two --strategies, not both"),
        ((*LISTS, "-b", "3"), "give --lists twice, or --model with two --strategies, not both"),
        ((*LISTS, "--lists", "diverse=x"), "--lists is 'diverse=x', and there is another 'diverse'"),
        ((*LISTS, "--question", " "), "--question is empty: say something, or leave it out"),
        ((*LISTS, "--consent", "none.txt"), "none.txt cannot be read: No such file or directory"),
        ((*LISTS, "--annotators", "4"), "annotators is 4 and votes is 5"),
        ((*LISTS, "--shown", "0"), "shown must be a whole number of at least 1, not 0"),
    ],
)
def test_create_refuses(options: tuple[str, ...], message: str, folder: Path) -> None:
    assert refusal("create", "pilot.db", *options).startswith(message)
    assert not (folder / "pilot.db").exists()


def test_create_overwrites_nothing_and_says_so_before_it_reads(folder: Path) -> None:
    (folder / "pilot.db").touch()
    assert refusal("create", "pilot.db") == ("pilot.db already exists: give another name, or remove it first")


def test_export() -> None:
    said("create", "pilot.db", *SMALL)
    voted()
    rows = list(csv.DictReader(io.StringIO(said("export", "pilot.db"))))
    assert len([row for row in rows if row["check"] == "no"]) == 8
    assert {row["side"] for row in rows} == {"left"}
    assert all(row["choice"] == row["left"] != row["right"] for row in rows)
    assert {row["passed"] for row in rows if row["check"] == "yes"} <= {"yes", "no"}
    lines = said("export", "pilot.db", "--format", "jsonl").splitlines()
    assert [json.loads(line)["voted"] for line in lines] == [row["voted"] for row in rows]


def test_export_to_a_file_has_no_links(folder: Path) -> None:
    said("create", "pilot.db", *SMALL)
    voted()
    assert said("export", "pilot.db", "-o", "votes.csv") == ""
    text = (folder / "votes.csv").read_text()
    store = open_study("pilot.db")
    assert not any(each.token in text for each in store.annotators())
    store.close()


def test_cells_are_no_formulas(folder: Path) -> None:
    lists = [path.rename(path.with_name("=" + path.name)).name for path in folder.glob("*.jsonl")]
    named = (f"--lists=@SUM(1)={lists[0]}", f"--lists=-2={lists[1]}")
    said("create", "pilot.db", *named, "--votes", "1", "--attention", "0")
    voted()
    for row in csv.DictReader(io.StringIO(said("export", "pilot.db"))):
        assert row["choice"] in ("'@SUM(1)", "'-2")


def test_report(folder: Path) -> None:
    said("create", "pilot.db", *SMALL, "--attention", "0")
    voted()
    text = said("report", "pilot.db", "--out", "results")
    assert text.startswith("## diverse against beam search\n\n4 items, 8 of 8 votes, 2 annotators.")
    assert (folder / "results" / "report.md").read_text() == text
    found: dict[str, Any] = json.loads(said("report", "pilot.db", "--json", "--bins", "1.5"))
    assert [each["range"] for each in found["by"]["complexity"]["bins"]] == ["< 1.5", "≥ 1.5"]
    written = sorted(path.name for path in (folder / "results").iterdir())
    assert written == ["report.json", "report.md", "report.png", "report.svg"]


def test_report_with_those_who_failed() -> None:
    said("create", "pilot.db", *SMALL, "--attention", "4")
    voted()
    assert json.loads(said("report", "pilot.db", "--json"))["votes"] < 8
    assert json.loads(said("report", "pilot.db", "--json", "--include-failed"))["votes"] == 8


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org", "https://", "https://example.org?x=1"])
def test_serve_refuses_addresses(url: str) -> None:
    said("create", "pilot.db", *SMALL)
    assert "give an address such as https://example.org" in refusal("serve", "pilot.db", "--public-url", url)


def test_serve_says_when_its_port_is_taken() -> None:
    said("create", "pilot.db", *SMALL)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refusal("serve", "pilot.db", "--port", str(port))
    assert told == f"127.0.0.1:{port} cannot be served: Address already in use: give another --port or --host"


@pytest.mark.parametrize("command", ["serve", "export", "report"])
def test_no_study(command: str) -> None:
    assert refusal(command, "none.db") == "there is no study none.db: make one with beamsplit study create"
