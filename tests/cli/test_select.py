"""`beamsplit select`: a few outputs of every list in files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from beamsplit import cli
from cli.commands import entries, give_stdin, printed, refusal

BOATS = [
    "a red boat",
    "a red boat sails",
    "a red boat sinks",
    "some green tree",
    "some green tree grows",
    "nothing",
]


def write(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def boats(tmp_path: Path) -> str:
    """A file of plain texts."""
    return write(tmp_path / "boats.jsonl", {"id": "x", "hypotheses": BOATS, "mine": [1]})


def test_one_of_each_cluster_in_the_order_of_the_list(boats: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries(capsys, "select", boats, "-n", "3", "--by", "k-medoids") == [
        {"id": "x", "hypotheses": ["a red boat", "some green tree", "nothing"], "mine": [1]}
    ]


@pytest.mark.parametrize("by", ["mbr", "diverse-mbr", "dpp"])
def test_ways_to_choose(by: str, boats: str, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = entries(capsys, "select", boats, "-n", "2", "--by", by)
    assert sum("boat" in each for each in line["hypotheses"]) == (2 if by == "mbr" else 1)
    assert len(line["hypotheses"]) == 2


def test_more_weight_on_diversity(boats: str, capsys: pytest.CaptureFixture[str]) -> None:
    def chosen(weight: str) -> list[str]:
        [line] = entries(capsys, "select", boats, "-n", "2", "--by", "diverse-mbr", "--diversity", weight)
        found: list[str] = line["hypotheses"]
        return found

    assert chosen("0") == ["a red boat", "a red boat sails"]
    assert not any("boat" in each for each in chosen("1")[1:])


def test_what_decode_writes_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, lists, few = tmp_path / "texts.txt", tmp_path / "lists.jsonl", tmp_path / "few.jsonl"
    texts.write_text("I see a dog.\n\nCome here!\n", encoding="utf-8")
    printed(capsys, "decode", str(texts), "-o", str(lists), "--max-length", "12")
    printed(capsys, "select", str(lists), "--count", "2", "--by", "dpp", "-o", str(few))
    contents = (path.read_text(encoding="utf-8").splitlines() for path in (lists, few))
    before, after = ([json.loads(line) for line in lines] for lines in contents)
    assert [len(line["hypotheses"]) for line in after] == [2, 0, 2]
    for whole, chosen in zip(before, after, strict=True):
        assert [each for each in whole["hypotheses"] if each in chosen["hypotheses"]] == chosen["hypotheses"]
        assert {**whole, "hypotheses": []} == {**chosen, "hypotheses": []}


def test_likely_outputs_are_chosen_where_likelihood_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [
        {"text": text, "log_prob": -9.0 + index, "more": 1}
        for index, text in enumerate(("a b", "c d", "e f"))
    ]
    file = write(tmp_path / "lists.jsonl", {"hypotheses": outputs})
    assert entries(capsys, "select", file, "-n", "2", "--by", "dpp") == [{"hypotheses": outputs[1:]}]


def test_outputs_without_texts_are_known_by_their_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [{"tokens": [1, 2, 3], "text": None}, {"tokens": [1, 2, 4]}, {"tokens": [7, 8]}]
    file = write(tmp_path / "lists.jsonl", {"hypotheses": outputs})
    [line] = entries(capsys, "select", file, "-n", "2", "--by", "k-medoids")
    assert line["hypotheses"] == [outputs[0], outputs[2]]


def test_word_vectors_know_more_than_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "lists.jsonl", {"hypotheses": ["a boat", "some ship", "green trees"]})
    [line] = entries(capsys, "select", file, "-n", "2", "--by", "k-medoids", "--similarity", "vectors")
    assert "green trees" in line["hypotheses"]


def test_no_text_is_chosen_twice_and_lists_that_fall_short_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "lists.jsonl", {"hypotheses": ["a", "a", "b"]}, {"hypotheses": ["a", "b", "c"]})
    assert cli.main(["select", file, "-n", "3"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["hypotheses"] for line in shown.out.splitlines()] == [
        ["a", "b"],
        ["a", "b", "c"],
    ]
    assert shown.err == "beamsplit: 1 of 2 lists have fewer than 3 different outputs\n"
    assert [line["hypotheses"] for line in entries(capsys, "select", file, "-n", "3", "--repeats")] == [
        ["a", "a", "b"],
        ["a", "b", "c"],
    ]


def test_errors_and_blank_lines_are_passed_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[dict[str, Any]] = [{"id": "0", "error": "too long"}, {"id": "1", "hypotheses": []}]
    assert entries(capsys, "select", write(tmp_path / "lists.jsonl", *lines), "-n", "1") == lines


def test_several_files_and_standard_input(
    boats: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    zipped = tmp_path / "more.jsonl.gz"
    zipped.write_bytes(gzip.compress(b'{"hypotheses": ["b"]}\n'))
    give_stdin(monkeypatch, '{"hypotheses": ["c"]}\n')
    found = entries(capsys, "select", boats, str(zipped), "-", "-n", "1")
    assert [line["hypotheses"] for line in found][1:] == [["b"], ["c"]]


def test_a_file_is_written_whole_or_not_at_all(
    boats: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path / "bad.jsonl", {"hypotheses": ["a"]}, {"hypotheses": "a"})
    out = tmp_path / "few.jsonl"
    assert refusal(capsys, "select", bad, "-n", "1", "-o", str(out)) == (
        f'{bad}, line 2 has no list under "hypotheses": give {{"hypotheses": ["...", ...]}}'
    )
    assert not out.exists()
    assert (
        refusal(capsys, "select", boats, "-n", "1", "-o", boats)
        == f"{boats} is the input: give another --out"
    )
    assert printed(capsys, "select", boats, "-n", "1", "-o", str(out)) == ""
    assert refusal(capsys, "select", boats, "-n", "1", "-o", str(out)) == (
        f"{out} is there already: give another --out, or --force"
    )
    printed(capsys, "select", boats, "-n", "2", "-o", str(out), "--force")
    assert len(json.loads(out.read_text(encoding="utf-8"))["hypotheses"]) == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1]", "line 1 is not a JSON object: give "),
        ("{", "line 1 is not JSON: "),
        ('{"hypotheses": [7]}', "line 1 has a hypothesis that is no text: 7"),
        ('{"hypotheses": [{"text": 7, "tokens": [1]}]}', "line 1 has a hypothesis that is no text: "),
        ('{"hypotheses": [{"tokens": ["a"]}]}', "line 1 has a hypothesis that is no text: "),
        ('{"hypotheses": [{"text": "a", "log_prob": "b"}]}', 'line 1 has a "log_prob" that is no number: '),
        ("", "has no lists: give lines of "),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    line: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lists.jsonl"
    file.write_text(line + "\n", encoding="utf-8")
    assert complaint in refusal(capsys, "select", str(file), "-n", "2")


def test_options_in_vain_are_refused(boats: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "select", boats, "-n", "2", "--by", "mbr", "--diversity", "0.3") == (
        "--diversity is for diverse-mbr and dpp, and --by is mbr: leave it out"
    )
    assert "'kmedoids' is not one of" in refusal(capsys, "select", boats, "-n", "2", "--by", "kmedoids")
    assert "there-is-none.jsonl cannot be read" in refusal(capsys, "select", "there-is-none.jsonl", "-n", "2")
