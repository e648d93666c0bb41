"""`decode`: files of any length, results that appear whole, and runs that go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from beamsplit import DiverseBeamSearch, cli, decode
from beamsplit.jobs.resuming import PartialResult
from beamsplit.models import load
from cli.commands import entries, give_stdin, printed, refusal

OPTIONS = ("-g", "2", "-b", "1", "-s", "0.5", "-d", "hamming", "--max-length", "10")
TEXTS = ["I'm cold.", "Where did you leave the keys?", "Thank you.", "He is late.", "Go home now, please."]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts_of(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[each["text"] for each in line["hypotheses"]] for line in lines]


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


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
    assert [(line["id"], line["input"]) for line in lines] == [("a", "I'm cold."), ("1", "Thank you.")]
    give_stdin(monkeypatch, "I'm cold.\nThank you.\n")
    assert texts_of(entries(capsys, "decode", "-", *OPTIONS)) == texts_of(lines)


def test_a_line_that_cannot_be_decoded_has_its_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.txt").write_text("I'm cold.\n" + "word " * 200 + "\nThank you.\n")
    assert cli.main(["decode", "in.txt", *OPTIONS, "-o", "out.jsonl"]) == 2
    assert capsys.readouterr().err.endswith('1 line could not be decoded: see their "error"\n')
    good, bad, after = read(folder / "out.jsonl")
    assert "hypotheses" in good
    assert "hypotheses" in after
    assert "hypotheses" not in bad
    assert bad["error"].startswith("has ")


def test_what_was_stopped_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_text()
    (folder / "out.jsonl").unlink()
    stopped = _stop_after(3, monkeypatch)
    assert cli.main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not (folder / "out.jsonl").exists()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    part = folder / "out.jsonl.part"
    part.write_text(whole.splitlines(keepends=True)[0] + whole.splitlines()[1][:40])  # half a line
    counted = _stop_after(100, monkeypatch)
    assert printed(capsys, *command) == ""
    assert (folder / "out.jsonl").read_text() == whole
    assert len(counted) == len(TEXTS) - 1  # the first was there
    assert len(stopped) == 4
    assert names(folder) == {"in.txt", "out.jsonl"}


def _stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt the program at the search after so many; the list has one entry a search."""
    from beamsplit.jobs import batches

    calls: list[int] = []

    def interrupted(model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        calls.extend([1] * bool(inputs))
        if len(calls) > count:
            raise KeyboardInterrupt
        return decode(model, inputs, *rest, **options)

    monkeypatch.setattr(batches, "decode", interrupted)
    monkeypatch.setattr(sys.modules["beamsplit.cli.decode"], "_CHUNK", 1)  # whose name is the command's too
    return calls


def test_a_killed_run_goes_on(folder: Path) -> None:
    (folder / "many.txt").write_text("".join(f"{text}\n" for text in TEXTS * 400))
    command = [sys.executable, "-m", "beamsplit", "decode", "many.txt", *OPTIONS, "-o", "out.jsonl"]
    part = folder / "out.jsonl.part"
    with subprocess.Popen([*command, "--batch-size", "4"], stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while (not part.exists() or part.stat().st_size < 20_000) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
    done = part.read_bytes().count(b"\n")
    assert 0 < done < 2000
    assert not (folder / "out.jsonl").exists()
    (folder / "many.txt").write_text("".join(f"{text}\n" for text in (TEXTS * 400)[: done + 3]))
    assert subprocess.run([*command, "--batch-size", "4"], check=False).returncode == 0
    lines = read(folder / "out.jsonl")
    assert [line["id"] for line in lines] == [str(i) for i in range(done + 3)]
    assert texts_of(lines[:5]) == texts_of(lines[5:10])


def test_a_part_of_something_else_is_not_gone_on_with(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    _stop_after(2, monkeypatch)
    assert cli.main(command) == 130
    capsys.readouterr()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    line = refusal(capsys, *command, "--strength", "0.7")
    assert line == ("out.jsonl.part was begun with other settings: give those, another --out, or --force")
    (folder / "in.txt").write_text("Thank you.\n")
    line = refusal(capsys, *command)
    assert line.startswith(
        'out.jsonl.part was begun with {"id": "0", "input": "I\'m cold."} where the input now '
    )
    printed(capsys, *command, "--force")
    assert [line["input"] for line in read(folder / "out.jsonl")] == ["Thank you."]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "in.jsonl, line 1 is not JSON: "),
        ('{"text": "a"}', 'in.jsonl, line 1 has nothing under "input": give {"input": ...}'),
        ("\n[1]", 'in.jsonl, line 2 is not a JSON object: give {"input": ...}'),
        ('{"input": 3}', 'in.jsonl, line 1 has no text under "input": 3'),
        (
            '{"image": "x.jpg"}',
            'in.jsonl, line 1 has an "image", and the model reads texts: give --model capt',
        ),
        (
            '{"id": 1, "input": "a"}\n{"id": "1", "input": "b"}',
            "in.jsonl, line 2 has the id '1', which is there ",
        ),
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


def test_one_run_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PartialResult(folder / "out.jsonl").locked():
        line = refusal(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")
    assert line.startswith("out.jsonl.part is being written by another run: wait for it, or ")
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")


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
