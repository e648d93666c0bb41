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
    assert capsys.readouterr().err.endswith('1 lines could not be decoded: see their "error"\n')
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
    from beamsplit.cli import searching

    calls: list[int] = []

    def interrupted(model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        calls.extend([1] * bool(inputs))
        if len(calls) > count:
            raise KeyboardInterrupt
        return decode(model, inputs, *rest, **options)

    monkeypatch.setattr(searching, "decode", interrupted)
    monkeypatch.setattr(sys.modules["beamsplit.cli.decode"], "_CHUNK", 1)  # whose name is the command's too
    return calls


def test_a_killed_run_goes_on(folder: Path) -> None:
    (folder / "many.txt").write_text("".join(f"{text}\n" for text in TEXTS * 400))
    command = [sys.executable, "-m", "beamsplit", "decode", "many.txt", *OPTIONS, "-o", "out.jsonl"]
    part = folder / "out.jsonl.part"
    with subprocess.Popen([*command, "--batch-size", "4"], stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while (not part.exists() or part.stat().st_size < 1000) and time.monotonic() < deadline:
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
    assert refusal(capsys, *command).startswith(
        "out.jsonl.part has \"I'm cold.\" where the input has 'Thank you"
    )
    printed(capsys, *command, "--force")
    assert [line["input"] for line in read(folder / "out.jsonl")] == ["Thank you."]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "in.jsonl, line 1 is no JSON: "),
        ('{"text": "a"}', 'in.jsonl, line 1 has no text under "input" (or path under "image")'),
        ("[1]", 'in.jsonl, line 1 has no text under "input"'),
        ('{"input": 3}', 'in.jsonl, line 1 has no text under "input"'),
    ],
)
def test_mistakes_in_a_file(
    content: str, line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "in.jsonl").write_text(content + "\n")
    assert refusal(capsys, "decode", "in.jsonl", *OPTIONS).startswith(line)


def test_a_result_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out.jsonl").write_text("precious")
    line = refusal(capsys, "decode", "in.txt", "-o", "out.jsonl")
    assert line == "out.jsonl is there already: give another --out, or --force"
    assert (folder / "out.jsonl").read_text() == "precious"
    assert refusal(capsys, "decode", "none.txt") == "none.txt cannot be read: No such file or directory"
