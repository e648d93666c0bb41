"""`decode` that is stopped: what is done is kept, and the same command goes on with it."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beamsplit import cli
from beamsplit.cli.searching import make_searcher
from beamsplit.files import stream_lines
from beamsplit.jobs.lines import InputLine, parse_lines
from beamsplit.jobs.resuming import PartialResult
from beamsplit.jobs.running import LineResult, Windows
from cli.commands import printed, refusal
from cli.decoding import OPTIONS, TEXTS, names, part_lines, read, stop_after, texts_of


def test_what_was_stopped_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_text()
    (folder / "out.jsonl").unlink()
    stopped = stop_after(3, monkeypatch)
    assert cli.main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not (folder / "out.jsonl").exists()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    part = folder / "out.jsonl.part"
    part.write_text(whole.splitlines(keepends=True)[0] + whole.splitlines()[1][:40])  # half a line
    counted = stop_after(100, monkeypatch)
    assert printed(capsys, *command) == ""
    assert (folder / "out.jsonl").read_text() == whole
    assert len(counted) == len(TEXTS) - 1  # the first was there
    assert len(stopped) == 4
    assert names(folder) == {"in.txt", "out.jsonl"}


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
    stop_after(2, monkeypatch)
    assert cli.main(command) == 130
    capsys.readouterr()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    line = refusal(capsys, *command, "--strength", "0.7")
    assert line == (
        "out.jsonl.part was begun with other settings (strength: 0.5, now 0.7): "
        "give those, another --out, or --force"
    )
    (folder / "out.jsonl.part.json").write_text("{spoilt")
    assert refusal(capsys, *command).startswith("out.jsonl.part was begun with other settings (model: null, ")
    printed(capsys, *command, "--force")
    stop_after(2, monkeypatch)
    (folder / "out.jsonl").unlink()
    assert cli.main(command) == 130
    capsys.readouterr()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (folder / "in.txt").write_text("Thank you.\n")
    line = refusal(capsys, *command)
    assert line.startswith(
        'out.jsonl.part was begun with {"id": "0", "input": "I\'m cold."} where the input now '
    )
    printed(capsys, *command, "--force")
    assert [line["input"] for line in read(folder / "out.jsonl")] == ["Thank you."]


def test_one_run_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PartialResult(folder / "out.jsonl").locked():
        line = refusal(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")
    assert line.startswith("out.jsonl.part is being written by another run: wait for it, or ")
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")


def test_a_run_that_has_ended_meanwhile_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other ends while this one loads its model."""

    def make(*arguments: Any, **options: Any) -> Any:
        (folder / "out.jsonl").write_text("precious")
        return make_searcher(*arguments, **options)

    monkeypatch.setattr("beamsplit.cli.searching.make_searcher", make)
    line = refusal(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")
    assert line == "out.jsonl is there already: give another --out, or --force"
    assert (folder / "out.jsonl").read_text() == "precious"
    assert names(folder) == {"in.txt", "out.jsonl"}


@pytest.mark.usefixtures("folder")
def test_a_disk_without_locks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    printed(capsys, "decode", "in.txt", *OPTIONS, "-o", "out.jsonl")


def test_what_was_begun_by_force_goes_on_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    (folder / "out.jsonl").write_text("old")
    for more, done in (("--force",), 2), ((), 4):
        with monkeypatch.context() as patch:
            stop_after(2, patch)
            assert cli.main([*command, *more]) == 130
        assert capsys.readouterr().err == (
            f"beamsplit: stopped with {done} of 5 lines done; "
            "the same command without --force goes on with what it has\n"
        )
        assert (folder / "out.jsonl").read_text() == "old"
    printed(capsys, *command)
    assert [line["input"] for line in read(folder / "out.jsonl")] == TEXTS
    assert refusal(capsys, *command).startswith("out.jsonl is there already")


def test_errors_count_after_another_batch_size(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the first run has found further on than the windows of the second begin."""
    (folder / "in.txt").write_bytes(b"Go.\n" * 40 + b"caf\xe9\n" + b"Go.\n" * 3)
    command = ("decode", "in.txt", *OPTIONS, "-o", "out.jsonl", "--batch-size")
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        assert cli.main([*command, "4"]) == 130
    assert "with 5 of 44 lines done" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        stop_after(37, patch)
        assert cli.main([*command, "1"]) == 130
    assert "with 42 of 44 lines done" in capsys.readouterr().err
    assert cli.main([*command, "1"]) == 2
    assert capsys.readouterr().err == (
        "beamsplit: of 43 lists, 43 have outputs that read the same\n"
        'beamsplit: 1 line could not be decoded: see its "error"\n'
    )


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_named_and_what_is_done_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_bytes()
    (folder / "out.jsonl").unlink()
    with room_for(len(whole) // 2):
        assert cli.main(command) == 2
    kept, error = capsys.readouterr().err.splitlines()
    assert kept.endswith("of 5 lines done; the same command goes on with what it has")
    assert error == "beamsplit: out.jsonl.part cannot be written: File too large"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        assert cli.main(command) == 130
    capsys.readouterr()
    with room_for(len(whole) // 2):
        assert cli.main(command) == 2
    kept, error = capsys.readouterr().err.splitlines()
    assert kept == "beamsplit: stopped with 5 of 5 lines done; the same command goes on with what it has"
    assert error == "beamsplit: out.jsonl.part.ordered cannot be written: File too large"
    assert names(folder) == {"in.txt", "out.jsonl.part", "out.jsonl.part.json"}
    printed(capsys, *command)
    assert (folder / "out.jsonl").read_bytes() == whole
    assert names(folder) == {"in.txt", "out.jsonl"}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("batch_size", ["2", "3"])
def test_stops_do_not_change_a_bit(
    batch_size: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after every batch, resumed each time: the bytes are those of an undisturbed run."""
    (folder / "in.txt").write_text("".join(f"{text}\n" for text in [*TEXTS, "", *TEXTS[::-1], "Go."]))
    monkeypatch.setattr("beamsplit.jobs.running.WINDOW", 2)
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", batch_size, "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_bytes()
    (folder / "out.jsonl").unlink()
    kept = [0]
    while True:
        with monkeypatch.context() as patch:
            stop_after(1, patch)
            code = cli.main(command)
        if code == 0:
            break
        assert code == 130
        kept.append(len(part_lines(folder)))
        assert (
            f"stopped with {kept[-1]} of 12 lines done; the same command goes on" in capsys.readouterr().err
        )
        assert kept[-1] > kept[-2]
    assert len(kept) > 3
    assert (folder / "out.jsonl").read_bytes() == whole
    assert names(folder) == {"in.txt", "out.jsonl"}


def test_fewer_lines_than_a_window_are_kept_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first line the longest, so that it is decoded last and no beginning of the result is done."""
    (folder / "in.txt").write_text("I do not know where I left the keys of the car.\n" + "Go.\n" * 9)
    stop_after(2, monkeypatch)
    assert cli.main(["decode", "in.txt", *OPTIONS, "--batch-size", "2", "-o", "out.jsonl"]) == 130
    assert [line["line"] for line in part_lines(folder)] == [2, 3, 4, 5]


def test_the_part_of_an_earlier_version_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no numbers: its lines are in the order of the input."""
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_bytes()
    (folder / "out.jsonl").unlink()
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        cli.main(command)
    (folder / "out.jsonl.part").write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    with monkeypatch.context() as patch:
        calls = stop_after(100, patch)
        printed(capsys, *command)
    assert len(calls) == 2
    assert (folder / "out.jsonl").read_bytes() == whole


def test_what_is_spoilt_in_a_part_is_decoded_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A computer that loses its power may leave zeros or half a line in the midst of a file."""
    command = ("decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    printed(capsys, *command)
    whole = (folder / "out.jsonl").read_bytes()
    (folder / "out.jsonl").unlink()
    with monkeypatch.context() as patch:
        stop_after(4, patch)
        cli.main(command)
    part = folder / "out.jsonl.part"
    first, second, third, fourth = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(first + second[:50] + b"\n" + bytes(99) + b"\n" + fourth + third[:-1])
    with monkeypatch.context() as patch:
        calls = stop_after(100, patch)
        printed(capsys, *command)
    assert len(calls) == 3  # the second, the third and the one that was not reached
    assert (folder / "out.jsonl").read_bytes() == whole


def test_nothing_is_promised_where_nothing_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(0, monkeypatch)
    assert cli.main(["decode", "in.txt", *OPTIONS]) == 130
    assert capsys.readouterr().err == (
        "beamsplit: stopped; nothing is kept (with --out, the same command would go on)\n"
    )
    assert cli.main(["decode", "in.txt", *OPTIONS, "-o", "out.jsonl"]) == 130
    assert capsys.readouterr().err == (
        "beamsplit: stopped before a batch was done; nothing is kept "
        "(a smaller --batch-size is done sooner)\n"
    )
    assert names(folder) == {"in.txt"}


MODEL = """
import os, signal, torch
from beamsplit import FunctionModel

def start(texts):
    if "stop" in texts:
        {what}
    return torch.zeros(len(texts), 5), torch.zeros(len(texts), 1)

def make():
    return FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 5), state), start=start)
"""


def broken_model(folder: Path, what: str) -> tuple[str, ...]:
    (folder / "own.py").write_text(MODEL.format(what=what))
    (folder / "in.txt").write_text("a\nb\nc\nd\nstop\ne\n")
    return ("decode", "in.txt", "--model", "own.py:make", "--max-length", "2", "--batch-size", "2")


def test_an_error_of_the_model_keeps_what_was_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (*broken_model(folder, "raise RuntimeError('no')"), "-o", "out.jsonl")
    assert cli.main(command) == 2
    kept, error = capsys.readouterr().err.splitlines()
    assert kept == "beamsplit: stopped with 4 of 6 lines done; the same command goes on with what it has"
    assert error.startswith("beamsplit: own.py:make failed: RuntimeError: no ")
    (folder / "own.py").write_text(MODEL.format(what="pass"))
    printed(capsys, *command)
    assert [line["input"] for line in read(folder / "out.jsonl")] == ["a", "b", "c", "d", "stop", "e"]


def test_a_model_may_not_keep_a_signal_to_itself(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamsplit.cli.stopping._AGAIN", 0.0)
    send = "os.kill(os.getpid(), signal.SIGTERM)"
    swallow = f"""
        try:
            {send}
        except BaseException:
            pass
        {send}
    """
    assert cli.main([*broken_model(folder, swallow), "-o", "out.jsonl"]) == 128 + signal.SIGTERM
    assert "stopped with 4 of 6 lines done" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_every_signal_leaves_what_is_done(name: str, folder: Path) -> None:
    number = getattr(signal, name)
    # Twice, as `timeout` sends it: the second must not disturb what the first has begun.
    send = f"os.kill(os.getpid(), signal.{name}); os.kill(os.getpid(), signal.{name})"
    arguments = [*broken_model(folder, send), "-o", "out.jsonl"]
    stopped = subprocess.run(
        [sys.executable, "-m", "beamsplit", *arguments], capture_output=True, text=True, check=False
    )
    assert len(part_lines(folder)) == 4
    if name == "SIGKILL":
        assert stopped.returncode == -number
    else:
        assert stopped.returncode == 128 + number
        assert stopped.stderr == (
            "beamsplit: stopped with 4 of 6 lines done; the same command goes on with what it has\n"
        )


def test_results_are_on_the_disk_every_few_seconds(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 1000, 2))  # a batch takes two seconds, and each looks at the clock once
    monkeypatch.setattr("beamsplit.jobs.resuming.monotonic", lambda: next(seconds))
    synced: list[int] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append((folder / "out.jsonl.part").read_bytes().count(b"\n"))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    (folder / "in.txt").write_text("Go.\n" * 8)
    printed(capsys, "decode", "in.txt", *OPTIONS, "--batch-size", "1", "-o", "out.jsonl")
    assert synced == [0, 3, 6, 8, 8]  # first the settings; at last, all of it; then the result


@pytest.mark.usefixtures("folder")
def test_the_bar_moves_with_every_batch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 10_000, 10))
    monkeypatch.setattr("beamsplit.progress.monotonic", lambda: next(seconds))
    for more in ((), ("-o", "out.jsonl")):
        assert cli.main(["decode", "in.txt", *OPTIONS, "--batch-size", "2", *more]) == 0
        *bars, last = capsys.readouterr().err.splitlines()
        assert last == "beamsplit: of 5 lists, 3 have outputs that read the same"
        told = [line.partition(" (")[0] for line in bars]
        assert set(told) <= {"decode: 2 of 5", "decode: 4 of 5", "decode: 5 of 5"}
        assert len(told) >= 2


def test_a_long_file_is_not_held_in_memory(folder: Path) -> None:
    """Neither its lines, nor the results that an earlier run has left, nor those that are put in order."""
    count = 20_000
    (folder / "in.txt").write_text("".join(f"line {i} {'x' * 200}\n" for i in range(count)))
    part = PartialResult(folder / "out.jsonl")

    def lines() -> Iterator[InputLine]:
        return parse_lines(stream_lines("in.txt", "in.txt"), "in.txt", "texts", is_json=False)

    with part.locked():
        part.resume({}, False)
        with part.writing() as writer:
            for line in lines():
                writer.write([LineResult(line.number, {**line.about, "hypotheses": []})])
        tracemalloc.start()
        windows = Windows(part.known_lines(lines()), 512)
        assert list(windows) == []
        part.finish(range(windows.lines))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (windows.lines, windows.done) == (count, count)
    assert peak < 2_000_000  # of some ten million bytes of results
    assert (folder / "out.jsonl").read_bytes().count(b"\n") == count
