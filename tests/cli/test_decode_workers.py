"""`decode` with --workers or --ray: the options, the folder, and what people read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batch.jobs import MODEL
from beamsplit import cli
from cli.commands import printed, refusal
from cli.decoding import OPTIONS, names, read, texts_of
from engines.serving import Server

ALONE = ("--workers", "1")


def lists(folder: Path, out: str = "out") -> str:
    return "".join(part.read_text() for part in sorted((folder / out).glob("part-*.jsonl")))


def test_one_worker_needs_no_cluster_and_finds_what_decode_finds(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "plain.jsonl")
    assert printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out", *ALONE) == ""
    assert lists(folder) == (folder / "plain.jsonl").read_text()
    assert names(folder / "out") == {"part-00000.jsonl", "_manifest.json"}
    manifest = json.loads((folder / "out" / "_manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["settings"]["model"] == "en-fr"
    assert manifest["settings"]["methods"][0]["strategy"] == "dbs"
    assert manifest["inputs"][0]["file"] == str(folder / "in.txt")
    assert manifest["counts"] == {"rows": 5, "lists": 5, "errors": 0, "short": 0, "repetitive": 0} | {
        "repetitive": manifest["counts"]["repetitive"]
    }
    line = refusal(capsys, "decode", "in.txt", *OPTIONS, "-o", "out", *ALONE)
    assert line == f"{folder}/out is complete already: give another --out, or --force"
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out", *ALONE, "--force")


def test_several_workers_need_ray(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refusal(capsys, "decode", "in.txt", "-o", "out", "--workers", "2")
    assert line.startswith("decoding on several workers needs ray: pip install ")
    assert line.endswith("(or '.[ray]' in a checkout of beamsplit)")
    assert names(folder) == {"in.txt"}, "nothing is left of what could not begin"


def test_many_files_globs_and_a_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "b.jsonl").write_text('{"q": "Thank you.", "id": "x"}\n')
    (folder / "more" / "a.jsonl").write_text('{"q": "Go home now, please.", "lang": "fr"}\n')
    command = ("decode", *OPTIONS, "--column", "q", "-o", "out", *ALONE)
    printed(capsys, *command, "more/*.jsonl")
    found = [json.loads(line) for line in lists(folder).splitlines()]
    assert [(each["id"], each["q"]) for each in found] == [("0", "Go home now, please."), ("x", "Thank you.")]
    assert found[0]["lang"] == "fr"
    printed(capsys, *command, "--force", "more/a.jsonl", f"file://{folder}/more/b.jsonl")
    assert [json.loads(line) for line in lists(folder).splitlines()] == found
    line = refusal(capsys, "decode", "in.txt", "more/a.jsonl", "-o", "out.jsonl")
    assert line == (
        "in.txt and 1 more: this is for workers, so give --workers 1 or more (--out is then a folder)"
    )
    assert refusal(capsys, "decode", "more", "-o", "out.jsonl").startswith("more: this is for workers, so ")


def test_tables_in_tables_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    parquet.write_table(arrow.table({"input": ["Thank you.", "He is late."]}), folder / "in.parquet")
    printed(capsys, "decode", "in.parquet", *OPTIONS, "-o", "out", *ALONE)
    rows = parquet.read_table(folder / "out").to_pylist()
    assert [(row["id"], row["input"]) for row in rows] == [("0", "Thank you."), ("1", "He is late.")]
    printed(capsys, "decode", "in.parquet", *OPTIONS, "-o", "text", *ALONE, "--format", "jsonl")
    assert texts_of(read(folder / "text" / "part-00000.jsonl")) == texts_of(rows)


def test_errors_are_counted_and_may_be_too_many(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in.txt").write_text("one\nbad\nthree\nbad\n")
    command = ("decode", "in.txt", "--model", MODEL, "-o", "out", *ALONE, "--shard-size", "2")
    assert cli.main([*command, "--max-errors", "0"]) == 2
    kept, line = capsys.readouterr().err.splitlines()
    assert kept == "beamsplit: stopped with 2 of 4 lines done; the same command goes on with what it has"
    assert line == (
        "beamsplit: 1 line could not be decoded, more than the 0 of --max-errors: see "
        f"{folder}/out/_errors.jsonl, and mend the inputs or give a larger one"
    )
    assert cli.main(command) == 2
    error = f"beamsplit: 2 lines could not be decoded: see {folder}/out/_errors.jsonl"
    assert capsys.readouterr().err.splitlines()[-1] == error


def test_an_engine_is_asked_by_workers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As clients: the plain command finds the same. Its address is not kept."""
    (folder / "in.jsonl").write_text("".join(f'{{"input": [{n}, 4]}}\n' for n in range(5)))
    with Server() as server:
        options = ("--engine", server.url, "--outputs", "3", "--max-length", "4", "--strategy", "bs")
        printed(capsys, "decode", "in.jsonl", *options, "-o", "plain.jsonl")
        printed(capsys, "decode", "in.jsonl", *options, "-o", "out", *ALONE)
        assert lists(folder) == (folder / "plain.jsonl").read_text()
        assert server.url not in (folder / "out" / "_manifest.json").read_text()


@pytest.mark.skipif(
    "BEAMSPLIT_LONG_TESTS" not in os.environ, reason="takes a minute: BEAMSPLIT_LONG_TESTS=1 runs it"
)
def test_two_workers_of_ray_ask_an_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By a cluster of their own, which ends with them and says nothing of itself."""
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    (folder / "in.jsonl").write_text("".join(f'{{"input": [{n}, 4]}}\n' for n in range(5)))
    with Server() as server:
        options = ("--engine", server.url, "--outputs", "3", "--max-length", "4", "--strategy", "bs")
        printed(capsys, "decode", "in.jsonl", *options, "-o", "one", *ALONE, "--shard-size", "2")
        command = [sys.executable, "-m", "beamsplit", "decode", "in.jsonl", *options, "-o", "two"]
        ended = subprocess.run(
            [*command, "--workers", "2", "--shard-size", "2"], capture_output=True, text=True, check=False
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert lists(folder, "two") == lists(folder, "one")
    assert len(read(folder / "one" / "part-00001.jsonl")) == 2


def test_a_killed_worker_goes_on(folder: Path) -> None:
    (folder / "in.txt").write_text("".join(f"text {number}\n" for number in range(60)))
    environment = {**os.environ, "SMALL_MODEL_SECONDS": "0.05"}
    command = [sys.executable, "-m", "beamsplit", "decode", "in.txt", "--model", MODEL, *ALONE]
    command += ["--shard-size", "4", "--batch-size", "2", "-o"]
    assert subprocess.run([*command, "whole"], check=False).returncode == 0
    with subprocess.Popen([*command, "out"], env=environment, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while len(list((folder / "out").glob("part-*"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGKILL)
    assert 4 <= len(list((folder / "out").glob("part-*"))) < 15
    assert subprocess.run([*command, "out"], check=False).returncode == 0
    for path in (folder / "whole").iterdir():
        assert (folder / "out" / path.name).read_bytes() == path.read_bytes()


def test_ctrl_c_says_what_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from beamsplit.batch.task import ShardWorker

    command = ("decode", "in.txt", "--model", MODEL, "-o", "out", *ALONE, "--shard-size", "2")
    decode = ShardWorker.decode

    def stopped(self: ShardWorker, shard: object, size: int) -> object:
        if getattr(shard, "index", 0) == limit:
            raise KeyboardInterrupt
        return decode(self, shard, size)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardWorker, "decode", stopped)
    limit = 0
    assert cli.main(command) == 130
    assert capsys.readouterr().err.startswith(
        "beamsplit: stopped before a shard was done; nothing is kept (a"
    )
    limit = 2
    assert cli.main(command) == 130
    assert capsys.readouterr().err == (
        "beamsplit: stopped with 4 of 5 lines done; the same command goes on with what it has\n"
    )
    limit = 99
    printed(capsys, *command)
    assert len(lists(folder).splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.txt", *ALONE), "--out is missing: workers write to a folder, so give one"),
        (
            ("in.txt", *ALONE, "-o", "in.txt"),
            "in.txt is a file, and workers write to a folder: give another --o",
        ),
        (("in.txt", *ALONE, "-o", "no/out"), "there is no folder {folder}/no for out: make it first"),
        (
            ("-", *ALONE, "-o", "out"),
            "- is standard input, which workers cannot read: write it to a file first",
        ),
        (("no.txt", *ALONE, "-o", "out"), "there is no file no.txt"),
        (("*.csv", *ALONE, "-o", "out"), "there is no file for *.csv: none that matches"),
        (
            ("in.txt", *ALONE, "-o", "out", "--shard", "1/2"),
            "--shard cuts a file by hand, and workers share it b",
        ),
        (
            ("in.txt", *ALONE, "-o", "."),
            "{folder} holds in.txt, which is of no such job: give an empty folder or",
        ),
        (
            ("in.txt", *ALONE, "-o", "out", "--memory", "1GB", "--model", MODEL),
            "nobody knows how much memory a b",
        ),
        (
            ("in.txt", *ALONE, "-o", "out", "--memory", "much"),
            "'much' is no amount of memory: give one such as 4",
        ),
        (("in.txt", *ALONE, "-o", "out", "--model", "no.py:make"), "there is no file "),
        (
            ("in.txt", "-o", "out", "--max-errors", "3"),
            "--max-errors is for --workers or --ray: give one of them",
        ),
        (
            ("in.txt", "-o", "out", "--worker-gpus", "1"),
            "--worker-gpus is for --workers or --ray: give one of th",
        ),
        (
            ("--ray", "in.txt", "-o", "out"),
            "--ray is 'in.txt', which is a file: give an address, --ray auto, or",
        ),
        (
            ("s3://bucket/in.txt", "-o", "out"),
            "s3://bucket/in.txt: this is for workers, so give --workers 1 or ",
        ),
        (
            ("in.txt", "-o", "nowhere://out", *ALONE),
            "nowhere://out cannot be reached: Protocol not known: nowhe",
        ),
    ],
)
def test_what_cannot_begin_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, "decode", *arguments)
    assert line.startswith(message.replace("{folder}", str(folder)))
    assert names(folder) == {"in.txt"}


def test_memory_cuts_batches_of_long_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever they are cut to, the lists are the same."""
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out", *ALONE)
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "small", *ALONE, "--memory", "2MB")
    both = [[json.loads(line) for line in lists(folder, out).splitlines()] for out in ("out", "small")]
    assert texts_of(both[0]) == texts_of(both[1])
    assert json.loads((folder / "small" / "_manifest.json").read_text())["settings"]["memory"] == 2 << 20
