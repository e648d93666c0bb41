"""`decode --shard`: parts of a file, which are the whole one after another."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from beamsplit import cli
from cli.commands import entries, give_stdin, printed, refusal
from cli.decoding import OPTIONS, TEXTS, stop_after


def test_shards_are_the_whole_one_after_another(folder: Path) -> None:
    """With the ids, the seeds and the faults of the whole."""
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"input": text}) + "\n" for text in TEXTS)
        + '\n{"id": "1", "input": "twice"}\n{"id": "x", "input": "Go."}\n'
    )
    options = ("in.jsonl", "--strategy", "sampling", "--max-length", "6", "--batch-size", "1")
    cli.main(["decode", *options, "-o", "whole"])
    for shards in (1, 3, 20):
        parts = []
        for shard in range(1, shards + 1):
            out = f"{shard}-of-{shards}"
            assert cli.main(["decode", *options, "--shard", f"{shard}/{shards}", "-o", out]) in (0, 2)
            parts.append((folder / out).read_bytes())
        assert b"".join(parts) == (folder / "whole").read_bytes()
    assert max(len(part.splitlines()) for part in parts) == 1


def test_long_shards_have_the_batches_of_the_whole(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamsplit.jobs.running.WINDOW", 1)
    (folder / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS * 4))
    options = ("in.txt", *OPTIONS, "--batch-size", "2")
    whole = printed(capsys, "decode", *options)
    assert "".join(printed(capsys, "decode", *options, "--shard", f"{k}/2") for k in (1, 2)) == whole


@pytest.mark.usefixtures("folder")
def test_shards_of_other_batch_sizes_are_the_whole_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine with less memory has smaller batches: no line is lost, and none is there twice."""
    own = ("--model", "own.py:make", "--max-length", "1", "-g", "1", "-b", "1")
    Path("own.py").write_text(
        "import torch\nfrom beamsplit import FunctionModel\n\ndef make():\n"
        "    return FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 2), state),\n"
        "        start=lambda texts: (torch.zeros(len(texts), 2), torch.zeros(len(texts), 1)))\n"
    )
    Path("in.txt").write_text("".join(f"{i}\n" for i in range(1000)))
    found = []
    for shard, batch_size in (("1/3", "3"), ("2/3", "4"), ("3/3", "5")):
        found += entries(capsys, "decode", "in.txt", *own, "--shard", shard, "--batch-size", batch_size)
    assert [line["id"] for line in found] == [str(i) for i in range(1000)]


@pytest.mark.usefixtures("folder")
def test_another_shard_does_not_go_on_with_a_part(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        assert cli.main([*command, "--shard", "1/2"]) == 130
    capsys.readouterr()
    for other, now in (("--shard", "2/2"), "[2, 2]"), ((), "null"):
        line = refusal(capsys, *command, *other)
        assert line == (
            f"out.jsonl.part was begun with other settings (shard: [1, 2], now {now}): "
            "give those, another --out, or --force"
        )
    printed(capsys, *command, "--shard", "1/2")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("shard", ["0/8", "9/8", "3", "x/y", "1/0", "-1/2", "1.5/2"])
def test_shards_that_there_are_not(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "decode", "in.txt", "--shard", shard)
    assert line == f"--shard is '{shard}': give K/N, such as 3/8, with K from 1 to N"


@pytest.mark.usefixtures("folder")
def test_what_is_read_once_has_no_shards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, "a\nb\n")
    line = refusal(capsys, "decode", "-", "--shard", "1/2")
    assert line.startswith("--shard needs a file whose lines can be counted, and standard input can be read ")


def test_a_pipe_with_a_name_is_read_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["sh", "-c", "printf 'Go.\\nThank you.\\n' > pipe"]):
        assert len(entries(capsys, "decode", "pipe", *OPTIONS)) == 2
