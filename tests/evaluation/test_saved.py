"""Lists that were made elsewhere are measured like those that are decoded here, and need no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError
from beamsplit.evaluation.saved import read_lists
from evaluation.small import refusal, said, write_lines

CAT, DOG, RUNS = "the cat sat on the mat", "a dog runs in the park", "the dog is running now"
TASK: list[dict[str, Any]] = [
    {"id": "x", "input": "?", "references": [CAT]},
    {"id": 7, "input": "?", "references": [DOG]},
]
SECOND: list[dict[str, Any]] = [
    {"id": "x", "hypotheses": ["nothing", CAT]},
    {"id": 7, "hypotheses": ["nothing", DOG, RUNS]},
]
FIRST: list[dict[str, Any]] = [
    {"id": "x", "hypotheses": [CAT, "nothing"]},
    {"id": 7, "hypotheses": [DOG, "nothing"]},
]
COMMAND = ("--task", "mine.jsonl", "--lists", "A=a.jsonl", "--lists", "B=b.jsonl")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with a task and the lists of A and B."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "mine.jsonl", *TASK)
    write_lines(tmp_path / "a.jsonl", *SECOND)
    write_lines(tmp_path / "b.jsonl", *FIRST)
    return tmp_path


def results(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    return json.loads(said(capsys, *COMMAND, "--json", *options))


def likely(*log_probs: float) -> list[dict[str, Any]]:
    """The right text alone, with its log-probability."""
    texts = (("x", CAT), (7, DOG))
    return [
        {"id": name, "hypotheses": [{"text": text, "log_prob": log_prob}]}
        for (name, text), log_prob in zip(texts, log_probs, strict=True)
    ]


# Figures


def test_an_exact_match_is_worth_a_hundred(capsys: pytest.CaptureFixture[str]) -> None:
    figures = results(capsys)["figures"]
    bleu = {k: figures[f"oracle_sentence_bleu@{k}"] for k in (1, 5, 10, 20)}
    assert [bleu[k]["A"]["value"] for k in bleu] == pytest.approx([0, 100, 100, 100])
    assert [bleu[k]["B"]["value"] for k in bleu] == pytest.approx([100] * 4)
    assert bleu[1]["B"]["against_first"]["difference"] == pytest.approx(100)
    # A: two lists, 1 + 6 and 1 + 6 + 5 words; B: 6 + 1 and 6 + 1.
    assert figures["length"]["A"]["value"] == pytest.approx((7 + 12) / 5)
    assert figures["length"]["B"]["value"] == pytest.approx(14 / 4)


def test_lines_may_be_in_any_order_and_more_than_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(capsys)["figures"]
    extra = {"id": "z", "hypotheses": []}
    write_lines(folder / "a.jsonl", SECOND[1], extra, SECOND[0])
    assert results(capsys)["figures"] == before


def test_ids_are_the_places_where_a_task_has_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "mine.jsonl", *({"input": "?", "references": [text]} for text in (CAT, DOG)))
    for name, texts in (("a", (CAT, DOG)), ("b", (DOG, CAT))):
        lists = ({"id": place, "hypotheses": [text]} for place, text in enumerate(texts))
        write_lines(folder / f"{name}.jsonl", *lists)
    bleu = results(capsys)["figures"]["oracle_sentence_bleu@1"]
    assert bleu["A"]["value"] == pytest.approx(100)
    assert bleu["B"]["value"] < 50


def test_a_part_of_the_task_needs_a_part_of_the_lists(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(folder / "a.jsonl", SECOND[0])
    found = results(capsys, "--limit", "1")
    assert found["items"] == 1
    assert found["figures"]["oracle_sentence_bleu@5"]["A"]["value"] == pytest.approx(100)


def test_lists_in_an_experiment_are_beside_its_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    file = folder / "mine.toml"
    table = '[methods.A]\nkind = "lists"\nfile = "a.jsonl"\n'
    file.write_text(f'task = "../mine.jsonl"\nmetrics = ["bleu"]\noracle = [2]\n{table}', encoding="utf-8")
    found = json.loads(said(capsys, str(file), "--json"))
    assert found["figures"]["oracle_sentence_bleu@2"]["A"]["value"] == pytest.approx(100)
    assert found["methods"]["A"]["kind"] == "lists"
    assert found["model"] == "none"


def test_no_model_is_loaded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("beamsplit.evaluation.running.load_model", never)
    assert results(capsys, "--model", "en-fr")["items"] == 2


# Log-probabilities


def test_with_log_probabilities_theirs_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, log_probs in (("a", (-1.0, -2)), ("b", (-3.0, -4.5))):
        write_lines(folder / f"{name}.jsonl", *likely(*log_probs))
    found = results(capsys)
    assert found["unavailable"] == {}
    likelihood = found["figures"]["top_log_prob"]
    assert [likelihood[name]["value"] for name in "AB"] == pytest.approx([-1.5, -3.75])


def test_without_log_probabilities_the_rest_is_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(folder / "b.jsonl", *likely(-1, -2))
    found = results(capsys)
    assert found["unavailable"] == {"log-prob": "not all lists have log-probabilities"}
    assert "top_log_prob" not in found["figures"]
    assert "length" in found["figures"]
    assert "Without log-prob: not all lists have log-probabilities." in said(capsys, *COMMAND)


@pytest.mark.parametrize("other", ["b", {"text": "b"}])
def test_log_probabilities_of_some_texts_are_none(other: Any, folder: Path) -> None:
    given = [{"text": "a", "log_prob": -1}, other]
    file = write_lines(folder / "c.jsonl", {"id": "x", "hypotheses": given})
    (example,) = read_lists(file, ["x"], [("a",)])
    assert example.hypotheses == ("a", "b")
    assert example.log_probs == ()


# What to know


def test_short_lists_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert results(capsys)["short"] == {"A": 2, "B": 2}
    assert "2 lists of A are shorter than the largest k" in said(capsys, *COMMAND)


def test_lists_that_are_long_enough_are_not_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "mine.toml"
    file.write_text('metrics = ["bleu"]\noracle = [1, 3]\n', encoding="utf-8")
    shown = said(capsys, str(file), *COMMAND, "--json")
    assert json.loads(shown)["short"] == {"A": 1, "B": 2}  # one of A's has three
    file.write_text('metrics = ["bleu"]\noracle = [2]\n', encoding="utf-8")
    assert json.loads(said(capsys, str(file), *COMMAND, "--json"))["short"] == {}
    assert "shorter" not in said(capsys, str(file), *COMMAND)


def test_mixed_numbers_of_references_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "2 inputs of mine.jsonl, 1 reference each, model none." in said(capsys, *COMMAND)
    write_lines(folder / "mine.jsonl", TASK[0], {**TASK[1], "references": [DOG, RUNS, CAT]})
    assert results(capsys)["references"] == {"fewest": 1, "most": 3}
    shown = said(capsys, *COMMAND)
    assert "1 to 3 references each" in shown
    assert "More references are easier to meet: compare methods, not inputs." in shown


# Refused

LINE = '{"id": ..., "hypotheses": ["...", ...]}'
X = '{"id": "x", "hypotheses": ["a"]}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            X,
            "a.jsonl has no line for 1 of the 2 inputs, such as id '7' (its own ids are such as 'x'): "
            "ids must be those of the task",
        ),
        (X * 2, "a.jsonl has the id 'x' twice: give each input its own"),
        (
            X + '\n{"id": 7, "hypotheses": ["a", " "]}',
            "a.jsonl, line 3 has an empty hypothesis: leave it out",
        ),
        (
            X + '{"id": 7, "hypotheses": [{"log_prob": -1}]}',
            "a.jsonl, line 2 has an empty hypothesis: leave it out",
        ),
        (
            X + '{"id": 7, "hypotheses": []}',
            'a.jsonl, line 2 has no list under "hypotheses": give one text at least',
        ),
        (
            X + '{"id": 7, "hypothesis": "a"}',
            'a.jsonl, line 2 has no list under "hypotheses": give one text at least',
        ),
        (
            X + '{"id": 7, "hypotheses": "a"}',
            'a.jsonl, line 2 has no list under "hypotheses": give one text at least',
        ),
        ('{"hypotheses": ["a"]}', f'a.jsonl, line 1 has no "id": give {LINE}'),
        ("x\ty", "a.jsonl, line 1 is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ('["a"]', f"a.jsonl, line 1 is no JSON object: give {LINE}"),
        ("\n", f"a.jsonl is empty: give lines of {LINE}"),
    ],
)
def test_refused(content: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.jsonl").write_text(content, encoding="utf-8")
    assert refusal(capsys, *COMMAND) == message


def test_a_file_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b.jsonl").unlink()
    assert refusal(capsys, *COMMAND).startswith("b.jsonl cannot be read: ")
    with pytest.raises(ArgumentError, match=r"cannot be read: "):
        read_lists(folder, ["x"], [("a",)])
