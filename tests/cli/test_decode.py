"""`decode`: files of any length, results that appear whole, and runs that go on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from beamsplit import DiverseBeamSearch, cli, decode
from beamsplit.models import load
from cli.commands import entries, give_stdin, printed, refusal
from cli.decoding import OPTIONS, TEXTS, names, read, stop_after, texts_of


def test_a_list_for_each_line_in_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "decode", "in.txt", *OPTIONS, "--batch-size", "2", "-o", "out.jsonl") == ""
    lines = read(folder / "out.jsonl")
    strategy = DiverseBeamSearch(groups=2, strength=0.5)
    expected = decode(load("en-fr"), TEXTS, strategy, max_length=10)
    assert [(line["id"], line["input"]) for line in lines] == [(str(i), text) for i, text in enumerate(TEXTS)]
    assert texts_of(lines) == [[h.text for h in found] for found in expected]
    assert names(folder) == {"in.txt", "out.jsonl"}
    assert texts_of(entries(capsys, "decode", "in.txt", *OPTIONS)) == texts_of(lines)


def test_names_of_ones_own_and_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in.jsonl").write_text('{"id": "a", "input": "I\'m cold."}\n\n{"input": "Thank you."}\n')
    lines = entries(capsys, "decode", "in.jsonl", *OPTIONS)
    assert [(line["id"], line.get("input")) for line in lines] == [
        ("a", "I'm cold."),
        ("1", None),
        ("2", "Thank you."),
    ]
    (folder / "in.jsonl").rename(folder / "in.ndjson")  # the other name of such files
    assert entries(capsys, "decode", "in.ndjson", *OPTIONS) == lines
    give_stdin(monkeypatch, "I'm cold.\n\nThank you.\n")
    assert texts_of(entries(capsys, "decode", "-", *OPTIONS)) == texts_of(lines)


def test_a_line_that_cannot_be_decoded_has_its_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.txt").write_text("I'm cold.\n" + "word " * 200 + "\nThank you.\n")
    assert cli.main(["decode", "in.txt", *OPTIONS, "-o", "out.jsonl"]) == 2
    assert capsys.readouterr().err.endswith('1 line could not be decoded: see its "error"\n')
    good, bad, after = read(folder / "out.jsonl")
    assert "hypotheses" in good
    assert "hypotheses" in after
    assert "hypotheses" not in bad
    assert bad["error"].startswith("has ")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "in.jsonl, line 1 is not JSON: "),
        ('{"text": "a"}', 'in.jsonl, line 1 has nothing under "input": give {"input": ...}'),
        ("\n[1]", 'in.jsonl, line 2 is not a JSON object: give {"input": ...}'),
        ('{"input": 3}', 'in.jsonl, line 1 has no text under "input": 3'),
        (
            '{"image": "x.jpg"}',
            'in.jsonl, line 1 has an "image", and the model reads texts: give a model of pictures (capt',
        ),
        ("{\n[1]", "in.jsonl, line 1 is not JSON: "),  # a wrong file, of which no line can be read
        ("\n \n", "there is nothing to decode: the input is empty"),
        ("", "there is nothing to decode: the input is empty"),
    ],
)
def test_mistakes_in_a_file(
    content: str, line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.jsonl").write_text(content + "\n")
    assert refusal(capsys, "decode", "in.jsonl", *OPTIONS).startswith(line)


def test_what_a_line_says_beside_its_input_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "in.jsonl").write_text(
        '{"input": "I\'m cold.", "complexity": 3, "references": ["J\'ai froid."]}\n'
    )
    (line,) = entries(capsys, "decode", "in.jsonl", *OPTIONS)
    assert (line["id"], line["complexity"], line["references"]) == ("0", 3, ["J'ai froid."])
    give_stdin(monkeypatch, (folder / "in.jsonl").read_bytes())  # JSON on standard input is seen to be so
    assert entries(capsys, "decode", "-", *OPTIONS) == [line]


def test_pictures_are_found_from_where_the_result_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite_pytorch")
    (folder / "results").mkdir()
    image.new("RGB", (40, 30), "navy").save(folder / "sea.png")
    (folder / "in.jsonl").write_text('{"id": "sea", "image": "sea.png", "complexity": 2}\n')
    options = ("--model", "captioner", "-g", "2", "--max-length", "5")
    printed(capsys, "decode", "in.jsonl", *options, "-o", "results/out.jsonl")
    (line,) = read(folder / "results" / "out.jsonl")
    assert (line["id"], line["image"], line["complexity"]) == ("sea", "../sea.png", 2)
    (folder / "in.txt").write_text("sea.png\n")
    (path,) = entries(capsys, "decode", "in.txt", *options)
    assert (path["image"], path["hypotheses"]) == ("sea.png", line["hypotheses"])


def test_the_input_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "in.txt").read_text()
    assert (
        refusal(capsys, "decode", "in.txt", "-o", "in.txt", "--force")
        == "in.txt is the input: give another --out"
    )
    assert (folder / "in.txt").read_text() == before


def test_a_result_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out.jsonl").write_text("precious")
    line = refusal(capsys, "decode", "in.txt", "-o", "out.jsonl")
    assert line == "out.jsonl is there already: give another --out, or --force"
    assert (folder / "out.jsonl").read_text() == "precious"
    assert refusal(capsys, "decode", "none.txt") == "none.txt cannot be read: No such file or directory"


# Every line has its line


def test_a_blank_line_has_its_place_and_an_empty_list(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.txt").write_text("I'm cold.\n\n \t\nThank you.\n")
    lines = entries(capsys, "decode", "in.txt", *OPTIONS)  # which also asks for exit code 0
    assert [line["id"] for line in lines] == ["0", "1", "2", "3"]
    assert lines[1:3] == [
        {"id": "1", "input": "", "hypotheses": []},
        {"id": "2", "input": "", "hypotheses": []},
    ]
    assert lines[3]["input"] == "Thank you."
    assert (
        texts_of(lines)[3] == texts_of(entries(capsys, "decode", "in.txt", *OPTIONS, "--batch-size", "1"))[3]
    )


def test_a_blank_line_counts_among_the_numbers_that_go_with_the_seed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--strategy", "sampling", "--max-length", "8", "--seed", "5")
    (folder / "a.txt").write_text("He is late.\nThank you.\n")
    (folder / "b.txt").write_text("\nThank you.\n")
    one, other = (texts_of(entries(capsys, "decode", name, *options)) for name in ("a.txt", "b.txt"))
    assert one[1] == other[1]


@pytest.mark.parametrize("end", ["", "\n"], ids=["no newline at the end", "newline at the end"])
def test_the_end_of_a_file_is_no_line(end: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in.txt").write_text(f"I'm cold.\nThank you.{end}")
    assert len(entries(capsys, "decode", "in.txt", *OPTIONS)) == 2


def test_lines_that_cannot_be_read_have_an_error_and_the_others_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b"I'm cold.\n"
    (folder / "in.txt").write_bytes(good * 3 + b"caf\xe9 au lait\n" + good * 2)
    assert cli.main(["decode", "in.txt", *OPTIONS]) == 2
    shown = capsys.readouterr()
    assert shown.err == (
        "beamsplit: of 5 lists, 5 have outputs that read the same\n"
        'beamsplit: 1 line could not be decoded: see its "error"\n'
    )
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert ["hypotheses" in line for line in lines] == [True, True, True, False, True, True]
    assert lines[3] == {
        "id": "3",
        "input": "caf\N{REPLACEMENT CHARACTER} au lait",
        "error": "in.txt, line 4 is not UTF-8 (byte 4 is 0xe9): convert the file (iconv -f latin1 -t utf-8)",
    }


def test_faults_in_json_are_errors_of_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (
        b'{oops\n{"id": "a", "input": "I\'m cold."}\n{"id": "a", "input": "Go."}\n{"id": "t", "text": "x"}\n'
        b'[1]\n{"input": "\xe9"}\n{"input": 3}\n{"input": "half a letter: \\ud83d", "n": NaN}\n'
        b'{"input": "Thank you."}\n'
    )
    (folder / "in.jsonl").write_bytes(content)
    assert cli.main(["decode", "in.jsonl", *OPTIONS, "-o", "out.jsonl"]) == 2
    assert "7 lines could not be decoded" in capsys.readouterr().err
    lines = read(folder / "out.jsonl")
    assert [line["id"] for line in lines] == ["0", "a", "a", "t", "4", "5", "6", "7", "8"]
    assert [line["id"] for line in lines if "hypotheses" in line] == ["a", "8"]
    assert [line["error"].partition(": ")[0] for line in lines if "error" in line] == [
        "in.jsonl, line 1 is not JSON",
        "in.jsonl, line 3 has the id 'a', which is there twice",
        'in.jsonl, line 4 has nothing under "input"',
        "in.jsonl, line 5 is not a JSON object",
        "in.jsonl, line 6 is not UTF-8 (byte 12 is 0xe9)",
        'in.jsonl, line 7 has no text under "input"',
        lines[7]["error"].partition(": ")[0],  # the model's own words
    ]
    assert lines[3]["text"] == "x"


def test_ids_of_blank_lines_and_ids_that_are_null(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of a blank line keeps no other line from having that id; null is no id."""
    (folder / "in.jsonl").write_text(
        '\n{"id": 0, "input": "Go."}\n{"id": null, "input": "Go."}\n{"id": null, "input": "Go."}\n'
    )
    lines = entries(capsys, "decode", "in.jsonl", *OPTIONS)  # which also asks for exit code 0
    assert [line["id"] for line in lines] == ["0", "0", "2", "3"]
    assert [len(line["hypotheses"]) for line in lines] == [0, 2, 2, 2]


def test_a_zero_byte_is_part_of_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in.txt").write_bytes(b"I'm cold.\nThank\0 you.\n")
    assert [line["input"] for line in entries(capsys, "decode", "in.txt", *OPTIONS)] == [
        "I'm cold.",
        "Thank\0 you.",
    ]


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compressed_files_are_read_as_they_are(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = b'{"id": "a", "input": "I\'m cold."}\n{"input": "Thank you."}\n'
    if kind == "gzip":
        name, packed = "in.jsonl.gz", gzip.compress(plain)
    else:
        name, packed = "in.jsonl.zst", pytest.importorskip("zstandard").compress(plain)
    (folder / name).write_bytes(packed)
    lines = entries(capsys, "decode", name, *OPTIONS)
    assert [line["id"] for line in lines] == ["a", "1"]
    give_stdin(monkeypatch, packed)
    assert entries(capsys, "decode", "-", *OPTIONS) == lines


def test_what_is_no_text_is_named_before_a_model_is_loaded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.txt").write_bytes(b"PK\x03\x04\0\0")
    line = refusal(capsys, "decode", "in.txt", "--model", "there is no such model")
    assert line == "in.txt is a zip archive, not lines of text: unpack it first (unzip)"
    (folder / "in.txt.gz").write_bytes(gzip.compress(b"text\n" * 9)[:-9])
    line = refusal(capsys, "decode", "in.txt.gz", "--model", "there is no such model")
    assert line.startswith("in.txt.gz is a broken gzip file: ")


OWN = """
import torch
from beamsplit.testing import MarkovModel

class Words(MarkovModel):
    end = 3

    def start(self, texts):
        return super().start(torch.tensor([3 * ("stop" in text) for text in texts]))

    def to_text(self, tokens):
        return " ".join("abc."[i] for i in tokens)

def make():
    return Words(torch.tensor([[0.1, 0.7, 0.2, 0.0]] * 3 + [[0.1, 0.7, 0.0, 0.2]]).log())
"""


def test_the_last_line_counts_lists_that_fall_short(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one token there are three outputs; a blank line and an error have no list that could be short."""
    (folder / "own.py").write_text(OWN)
    (folder / "in.txt").write_bytes(b"one\n\ntwo\nthree\n\xe9\nfour\n")
    command = ["decode", "in.txt", "-m", "own.py:make", "--max-length", "1", "--batch-size", "1"]

    def told(*options: str) -> str:
        assert cli.main([*command, *options]) == 2
        first, *errors = capsys.readouterr().err.splitlines()
        assert errors in ([], ['beamsplit: 1 line could not be decoded: see its "error"'])
        return first.removeprefix("beamsplit: ")

    assert told("--outputs", "5") == "of 4 lists, 4 have fewer outputs than the 5 asked for"
    assert told("--outputs", "3") == '1 line could not be decoded: see its "error"'
    assert told("-g", "2", "-b", "1", "-s", "0") == "of 4 lists, 4 have outputs that read the same"
    both = "of 4 lists, 4 have fewer outputs than the 8 asked for and 4 have outputs that read the same"
    assert told("-g", "2", "-b", "4", "-s", "0") == both
    assert told("--outputs", "5", "--select", "4") == "of 4 lists, 4 have fewer outputs than the 4 asked for"
    with monkeypatch.context() as patch:  # those that an earlier run has found count too
        stop_after(2, patch)
        assert cli.main([*command, "--outputs", "5", "-o", "out.jsonl"]) == 130
    capsys.readouterr()
    assert told("--outputs", "5", "-o", "out.jsonl") == (
        "of 4 lists, 4 have fewer outputs than the 5 asked for"
    )


def test_a_list_without_any_output_is_short(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.py").write_text(OWN.replace("0.1, 0.7, 0.2, 0.0", "0.0, 0.0, 0.0, 1.0"))
    (folder / "in.txt").write_text("one\n\n")
    options = ("--min-length", "2", "--max-length", "2", "--outputs", "2")
    assert cli.main(["decode", "in.txt", "-m", "own.py:make", *options]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["hypotheses"] for line in shown.out.splitlines()] == [[], []]
    assert shown.err == "beamsplit: of 1 list, 1 has fewer outputs than the 2 asked for\n"
