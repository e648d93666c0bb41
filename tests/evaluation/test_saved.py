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
    bleu = {k: figures[f"oracle_sentence_bleu@{k}"] for k in (1, 3)}
    assert [bleu[k]["A"]["value"] for k in bleu] == pytest.approx([0, 100])
    assert [bleu[k]["B"]["value"] for k in bleu] == pytest.approx([100] * 2)
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
    assert found["figures"]["oracle_sentence_bleu@2"]["A"]["value"] == pytest.approx(100)


TABLES = '[methods.A]\nfile = "a.jsonl"\n'


def test_lists_in_an_experiment_are_beside_its_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    # There is one of the same name in the current folder, which has nothing to do with it.
    write_lines(folder / "elsewhere" / "a.jsonl", *({**each, "hypotheses": ["no"] * 2} for each in FIRST))
    file = folder / "mine.toml"
    file.write_text(f'task = "../mine.jsonl"\nmetrics = ["bleu"]\noracle = [2]\n{TABLES}', encoding="utf-8")
    found = json.loads(said(capsys, str(file), "--json"))
    assert found["figures"]["oracle_sentence_bleu@2"]["A"]["value"] == pytest.approx(100)
    assert found["methods"]["A"]["file"] == str(folder / "a.jsonl")
    assert found["model"] == "none"


def test_lists_that_are_not_beside_the_file_are_in_the_current_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "experiments" / "mine.toml"
    file.parent.mkdir()
    file.write_text(f'task = "mine.jsonl"\nmetrics = ["bleu"]\noracle = [2]\n{TABLES}', encoding="utf-8")
    found = json.loads(said(capsys, str(file), "--json"))
    assert found["figures"]["oracle_sentence_bleu@2"]["A"]["value"] == pytest.approx(100)
    (folder / "a.jsonl").unlink()
    assert refusal(capsys, str(file)).startswith("a.jsonl cannot be read: ")


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
    reason = 'not all lists have log-probabilities (in files: {"text": ..., "log_prob": ...})'
    assert found["unavailable"] == {"log-prob": reason}
    assert "top_log_prob" not in found["figures"]
    assert "length" in found["figures"]
    assert f"Without log-prob: {reason}." in said(capsys, *COMMAND)


@pytest.mark.parametrize("other", ["b", {"text": "b"}])
def test_log_probabilities_of_some_texts_are_none(other: Any, folder: Path) -> None:
    given = [{"text": "a", "log_prob": -1}, other]
    file = write_lines(folder / "c.jsonl", {"id": "x", "hypotheses": given})
    (example,) = read_lists(file, ["x"], [("a",)])
    assert example.hypotheses == ("a", "b")
    assert example.log_probs == ()


def test_a_blank_line_does_not_hide_the_list_of_its_number(folder: Path) -> None:
    """`decode` writes an empty list for a blank line, whose id is its number."""
    blank, line = {"id": "0", "input": "", "hypotheses": []}, {"id": "0", "hypotheses": ["a"]}
    for lines in ((blank, line), (line, blank)):
        (example,) = read_lists(write_lines(folder / "c.jsonl", *lines), ["0"], [("a",)])
        assert example.hypotheses == ("a",)


def test_a_line_that_was_not_decoded_is_named(folder: Path) -> None:
    file = write_lines(folder / "c.jsonl", {"id": "0", "error": "is too long"})
    with pytest.raises(ArgumentError, match=r'line 1 has an "error" instead of "hypotheses": is too long$'):
        read_lists(file, ["0"], [("a",)])


# What to know


def oracles(found: dict[str, Any]) -> list[str]:
    return [name.split("@")[1] for name in found["figures"] if name.startswith("oracle_sentence_bleu@")]


def of(count: int) -> list[dict[str, Any]]:
    """Lists of so many, the right one last."""
    return [
        {"id": name, "hypotheses": [f"no {place}" for place in range(count - 1)] + [text]}
        for name, text in (("x", CAT), (7, DOG))
    ]


def test_the_best_of_more_than_there_are_is_the_best_of_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        write_lines(folder / f"{name}.jsonl", *of(6))
    found = results(capsys, "--k", "1,5,10,20")
    assert oracles(found) == ["1", "5", "6"]
    assert found["figures"]["oracle_sentence_bleu@6"]["A"]["value"] == pytest.approx(100)
    assert found["figures"]["oracle_sentence_bleu@5"]["A"]["value"] < 50
    assert oracles(results(capsys)) == ["1", "5", "6"]  # which are asked for unless one says
    assert oracles(results(capsys, "--k", "2,6")) == ["2", "6"]


def test_the_longest_list_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "b.jsonl", *of(6))
    found = results(capsys)
    assert oracles(found) == ["1", "5", "6"]
    assert found["lengths"] == {"A": {"fewest": 2, "most": 3}, "B": {"fewest": 6, "most": 6}}
    assert "short" not in found


def test_lists_that_are_not_of_one_length_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results(capsys)["lengths"] == {"A": {"fewest": 2, "most": 3}, "B": {"fewest": 2, "most": 2}}
    assert "Lists are not of one length (A 2 to 3, B 2), " in said(capsys, *COMMAND)
    write_lines(folder / "a.jsonl", *FIRST)
    assert results(capsys)["lengths"] == {name: {"fewest": 2, "most": 2} for name in "AB"}
    assert "not of one length" not in said(capsys, *COMMAND)


def test_one_input_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n1 input of mine.jsonl, " in said(capsys, *COMMAND, "--limit", "1")


def test_mixed_numbers_of_references_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "2 inputs of mine.jsonl, 1 reference each, model none." in said(capsys, *COMMAND)
    write_lines(folder / "mine.jsonl", TASK[0], {**TASK[1], "references": [DOG, RUNS, CAT]})
    assert results(capsys)["references"] == {"fewest": 1, "most": 3}
    shown = said(capsys, *COMMAND)
    assert "1 to 3 references each" in shown
    assert "Inputs with more references tend to score higher: compare methods with each other" in shown


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
            "a.jsonl, line 2 has a hypothesis that is no text: None",
        ),
        (
            X + '{"id": 7, "hypotheses": ["a", 5]}',
            "a.jsonl, line 2 has a hypothesis that is no text: 5",
        ),
        (
            X + '{"id": 7, "hypotheses": [{"text": ["a", "b"]}]}',
            "a.jsonl, line 2 has a hypothesis that is no text: ['a', 'b']",
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
        ("x\ty", "a.jsonl, line 1 is not JSON: Expecting value at column 1"),
        ('["a"]', f"a.jsonl, line 1 is not a JSON object: give {LINE}"),
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
