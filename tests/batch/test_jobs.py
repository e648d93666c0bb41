"""Laws of a job in a folder: nothing lost, nothing twice, and the same bytes, wherever it was stopped."""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import shutil
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch.jobs import (
    RememberingModel,
    as_given,
    contents,
    decode_files,
    lists_of,
    manifest_of,
    searcher,
    write_lines,
)
from beamsplit import ArgumentError, BeamsplitError
from beamsplit.batch.folder import JobFolder
from beamsplit.batch.plan import Shard, make_plan
from beamsplit.batch.pool import Event, InProcess, Lost
from beamsplit.batch.running import Totals
from beamsplit.batch.sources import expand
from beamsplit.batch.task import ShardWorker, Task
from beamsplit.files import stream_lines
from beamsplit.jobs.batches import chunks
from beamsplit.jobs.fitting import halve_until_it_fits, is_about_memory
from beamsplit.jobs.lines import parse_lines
from beamsplit.jobs.resuming import to_json
from beamsplit.jobs.running import WINDOW, KnownLine, decode_windows
from research.chaos.small_model import SmallModel

_words = st.lists(
    st.sampled_from(["a", "bb", "ccc", "", "bad", "é", "a longer text"]), min_size=1, max_size=30
)


class Stopped(BaseException):
    """The program was ended."""


@contextmanager
def stopped_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """End the program when the n-th file gets its name: before that if n is even, after it otherwise.

    What a killed program would not clear up, this one does not either.
    """
    moments = [0]
    replace, unlink = os.replace, Path.unlink

    def step() -> None:
        if moments[0] == moment:
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
            monkeypatch.setattr("beamsplit.batch.folder.JobFolder._leave", lambda _: None)
            raise Stopped
        moments[0] += 1

    def replaced(old: Any, new: Any) -> None:
        step()
        replace(old, new)
        step()

    monkeypatch.setattr(os, "replace", replaced)
    try:
        yield moments
    except Stopped:
        pass
    finally:
        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(Path, "unlink", unlink)
        monkeypatch.undo()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(texts=_words, size=st.integers(1, 8), kills=st.lists(st.integers(0, 12), max_size=4))
def test_a_killed_job_ends_with_the_same_bytes(
    tmp_path: Path, texts: list[str], size: int, kills: list[int]
) -> None:
    """Killed at any moments, each time resumed: all files are those of an undisturbed run."""
    texts = ["first", *texts]
    path = write_lines(tmp_path / "in.txt", texts)
    for name in ("whole", "killed"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    decode_files([path], tmp_path / "whole", shard_size=size)
    for moment in kills:
        with pytest.MonkeyPatch.context() as patch, stopped_at(moment, patch):
            go_on(path, tmp_path / "killed", size)
    go_on(path, tmp_path / "killed", size)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    found = lists_of(tmp_path / "killed")
    good = [str(number) for number, text in enumerate(texts) if text != "bad"]
    assert [each["id"] for each in found] == good
    assert manifest_of(tmp_path / "killed")["counts"]["errors"] == texts.count("bad")


def go_on(path: Path, out: Path, size: int) -> None:
    """Run the same command again; it may find that all was there when it was killed."""
    if (out / "_manifest.json").exists() and manifest_of(out)["complete"]:
        with pytest.raises(ArgumentError, match="is complete already"):
            decode_files([path], out, shard_size=size)
    else:
        decode_files([path], out, shard_size=size)


def test_every_moment_is_a_good_one_to_be_killed_at(tmp_path: Path) -> None:
    """One job, killed at each moment there is, until there are no more."""
    path = write_lines(tmp_path / "in.txt", ["one", "two", "bad", "four", "five", "", "seven"])
    decode_files([path], tmp_path / "whole", shard_size=3)
    whole = contents(tmp_path / "whole")
    assert len(whole) == 5  # three shards, the errors, the manifest
    for moment in range(100):
        out = tmp_path / f"out{moment}"
        with pytest.MonkeyPatch.context() as patch, stopped_at(moment, patch):
            decode_files([path], out, shard_size=3)
            break
        go_on(path, out, 3)
        assert contents(out) == whole, moment
    assert moment == 18, "a manifest twice, three shards and reports, the errors; each before and after"


def test_the_union_of_shards_is_what_plain_decoding_finds(tmp_path: Path) -> None:
    """To the last bit where shards are windows of batches."""
    texts = [f"text {'x' * (number * 7 % 11)}" for number in range(200)]
    path = write_lines(tmp_path / "in.txt", texts)
    decode_files([path], tmp_path / "out", shard_size=2 * WINDOW, batch_size=2)
    with path.open("rb") as file:
        lines = list(parse_lines(stream_lines(file, "in.txt"), "in.txt", "texts", is_json=False))
    windows = chunks(map(KnownLine, lines), 2 * WINDOW)
    found = {each.number: each for part in decode_windows(searcher(), windows, 2) for each in part}
    plain = "".join(to_json(found[number].result) for number in range(len(texts)))
    assert b"".join(part.read_bytes() for part in sorted((tmp_path / "out").glob("part-*"))).decode() == plain


def test_a_job_of_many_files_counts_on(tmp_path: Path) -> None:
    """Ids are places among all lines; a shard has lines of one file alone. JSON keeps ids of its own."""
    write_lines(tmp_path / "a.txt", ["one", "two", "three"])
    write_lines(tmp_path / "b.jsonl", ['{"input": "four", "id": "own", "lang": "fr"}', '{"input": "five"}'])
    decode_files([tmp_path / "a.txt", tmp_path / "b.jsonl"], tmp_path / "out", shard_size=2)
    found = lists_of(tmp_path / "out")
    assert [(each["id"], each["input"]) for each in found] == [
        ("0", "one"),
        ("1", "two"),
        ("2", "three"),
        ("own", "four"),
        ("4", "five"),
    ]
    assert found[3]["lang"] == "fr"
    manifest = manifest_of(tmp_path / "out")
    assert [each["rows"] for each in manifest["shards"]] == [2, 1, 2]
    assert [each["rows"] for each in manifest["inputs"]] == [3, 2]
    assert manifest["counts"]["rows"] == manifest["counts"]["lists"] == 5
    assert manifest["versions"][0]["torch"] == torch.__version__


def test_samples_do_not_depend_on_shards_and_batches(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["same"] * 12)
    for size, batch in ((12, 4), (3, 2), (5, 1)):
        out = tmp_path / f"{size}"
        decode_files([path], out, strategy="sampling", shard_size=size, batch_size=batch)
    texts = [[tuple(h["tokens"]) for h in each["hypotheses"]] for each in lists_of(tmp_path / "12")]
    assert len(set(map(tuple, texts))) > 6, "each line has noise of its own"
    for other in ("3", "5"):
        found = lists_of(tmp_path / other)
        assert [[tuple(h["tokens"]) for h in each["hypotheses"]] for each in found] == texts


# What cannot be decoded


def test_bad_lines_are_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(
        b'{"input": "one", "id": "x"}\n{"input": 7}\nno json\n\n'
        b'{"input": "bad", "id": "y"}\n{"input": "caf\xe9"}\n'
    )
    totals = decode_files([tmp_path / "in.jsonl"], tmp_path / "out", shard_size=2)
    assert (totals.done, totals.refused) == (6, 4)
    assert [each["id"] for each in lists_of(tmp_path / "out")] == ["x", "3"]
    faults = [json.loads(line) for line in (tmp_path / "out" / "_errors.jsonl").read_text().splitlines()]
    assert [(each["row"], each["id"]) for each in faults] == [(2, "1"), (3, "2"), (5, "y"), (6, "5")]
    assert {each["file"] for each in faults} == {str(tmp_path / "in.jsonl")}
    reasons = [each["error"].partition("in.jsonl, ")[2] or each["error"] for each in faults]
    assert reasons[0] == 'line 2 has no text under "input": 7'
    assert reasons[1].startswith("line 3 is not JSON: ")
    assert reasons[2] == "is refused"
    assert reasons[3].startswith("line 6 is not UTF-8 (byte 15 is 0xe9): ")


def test_too_many_errors_stop_a_job_until_more_are_allowed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "bad", "bad", "bad", "five", "six"])
    message = r"^3 lines could not be decoded, more than the 2 of --max-errors: see .*/_errors\.jsonl, "
    for _ in range(2):
        with pytest.raises(ArgumentError, match=message):
            decode_files([path], tmp_path / "out", max_errors=2)
    assert (tmp_path / "out" / "_errors.jsonl").read_text().count("\n") == 3
    totals = decode_files([path], tmp_path / "out", max_errors=3)
    assert totals.refused == 3
    decode_files([path], tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_wrong_file_is_refused_at_once(tmp_path: Path) -> None:
    """If none of the first lines can be read, none of the last will."""
    path = write_lines(tmp_path / "in.jsonl", ["no json"] * 50)
    with pytest.raises(ArgumentError, match="line 1 is not JSON"):
        decode_files([path], tmp_path / "out", shard_size=40)
    assert not list((tmp_path / "out").glob("part-*"))


# Memory


def test_a_worker_holds_nothing_of_the_shards_that_it_has_done(tmp_path: Path) -> None:
    """A list for each line would be hundreds of bytes each, and a text some 60."""
    lines, rows = 4096, 256
    path = write_lines(tmp_path / "in.txt", [f"text {number}" for number in range(lines)])
    folder, held = JobFolder(str(tmp_path / "out")), list[int]()
    worker = ShardWorker(Task(searcher, as_given, folder.url, "jsonl", run=folder.run))
    worker.load()
    with folder.locked(False):
        tracemalloc.start()
        try:
            for shard in make_plan(expand([str(path)]), rows).shards():
                worker.decode(shard, 128)
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert len(held) == lines // rows
    quarter = len(held) // 4
    assert held[-1] - held[quarter] < 8 * rows * (len(held) - quarter), "bytes for each line"


def test_a_batch_that_does_not_fit_is_halved(tmp_path: Path) -> None:
    most = 3
    path = write_lines(tmp_path / "in.txt", [f"text {number}" for number in range(16)])
    decode_files([path], tmp_path / "whole", shard_size=16, batch_size=8)
    model = RememberingModel(most_rows=most)
    decode_files([path], tmp_path / "out", model=model, shard_size=16, batch_size=8)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert {len(batch) for batch in model.batches} == {8, 4, 2} | ({1} if most == 1 else set())


def test_an_input_that_never_fits_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "huge", "three"])
    decode_files([path], tmp_path / "out", batch_size=3)
    assert [each["input"] for each in lists_of(tmp_path / "out")] == ["one", "three"]
    fault = json.loads((tmp_path / "out" / "_errors.jsonl").read_text())
    assert fault["error"] == "does not fit into memory, even alone: no room for 1 texts"


class OutOfMemory:
    """What torch raises on a GPU, and what libraries raise in other words."""

    errors = (
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("cuBLAS: CUBLAS_STATUS_ALLOC_FAILED"),
    )


@pytest.mark.parametrize("error", OutOfMemory.errors)
def test_errors_of_gpus_are_about_memory(error: Exception) -> None:
    def work(items: Sequence[int]) -> list[int]:
        if len(items) > 1:
            raise error
        return [-item for item in items]

    assert halve_until_it_fits(work, [1, 2, 3], lambda item, _: item) == [-1, -2, -3]
    assert not is_about_memory(RuntimeError("the size of a tensor must match"))


def test_other_errors_are_raised() -> None:
    def work(_: Sequence[int]) -> list[int]:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        halve_until_it_fits(work, [1, 2], lambda item, _: item)


# Other jobs in the same folder


def test_another_job_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two", "three", "four", "five"])
    out = tmp_path / "out"
    with stopped_at(5, monkeypatch):
        decode_files([path], out, shard_size=2)
    before = contents(out)
    with pytest.raises(ArgumentError) as caught:
        decode_files([path], out, shard_size=2, settings={"name": "large"})
    instead = "give those, another --out, or --force"
    assert str(caught.value) == f'{out} was begun with other settings (name: "small", now "large"): {instead}'
    write_lines(path, ["one", "two", "3", "four", "five"])
    with pytest.raises(ArgumentError) as caught:
        decode_files([path], out, shard_size=2)
    assert str(caught.value) == f"{out} was begun with other inputs ({path} has changed): {instead}"
    other = write_lines(tmp_path / "other.txt", ["one"])
    write_lines(path, ["one", "two", "three", "four", "five"])
    with pytest.raises(ArgumentError, match=r"other inputs \(.*other\.txt is new\)"):
        decode_files([path, other], out, shard_size=2)
    with pytest.raises(ArgumentError, match=r"other settings \(shard_size: 2, now 3\)"):
        decode_files([path], out, shard_size=3)
    assert contents(out) == before
    assert decode_files([path], out, shard_size=None).done == 5, "the size that it was begun with"


def test_what_is_complete_is_not_touched(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two"])
    decode_files([path], tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(ArgumentError, match=r"out is complete already: give another --out, or --force$"):
        decode_files([path], tmp_path / "out")
    assert contents(tmp_path / "out") == before


def test_force_replaces_a_job_but_only_by_one_that_can_begin(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two"] * 5)
    decode_files([path], tmp_path / "out")
    before = contents(tmp_path / "out")

    def broken() -> Any:
        raise ArgumentError("there is no such model")

    class Broken(InProcess):
        def start(self) -> Any:
            broken()

    with pytest.raises(ArgumentError, match="no such model"):
        decode_files([path], tmp_path / "out", force=True, make_pool=Broken)
    assert contents(tmp_path / "out") == before
    write_lines(path, ["three"])
    decode_files([path], tmp_path / "out", force=True)
    assert [each["input"] for each in lists_of(tmp_path / "out")] == ["three"]
    assert sorted(contents(tmp_path / "out")) == ["_manifest.json", "part-00000.jsonl"]


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one"])
    for name in ("thesis.tex", "part-00000.jsonl"):
        out = tmp_path / name.partition(".")[0]
        out.mkdir()
        (out / name).write_text("precious")
        for force in (False, True):
            with pytest.raises(ArgumentError, match=rf"{out} holds {name}, which is of no such job: "):
                decode_files([path], out, force=force)
        assert contents(out) == {name: b"precious"}


def test_one_run_at_a_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two"])

    class Second(InProcess):
        def start(self) -> Any:
            with pytest.raises(ArgumentError, match=r"out is being written by another run: wait for it, or "):
                decode_files([path], tmp_path / "out", force=True)
            return super().start()

    assert decode_files([path], tmp_path / "out", make_pool=Second).done == 2


def test_a_worker_of_a_run_that_was_killed_cannot_disturb_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may live for a while, have other settings, and be done while the next run is under way."""
    path = write_lines(tmp_path / "in.txt", ["one", "two"])
    out = tmp_path / "out"
    orphans: list[InProcess] = []

    class First(InProcess):
        def wait(self) -> Sequence[Event]:
            orphans.append(self)
            raise Stopped

    class Second(InProcess):
        def wait(self) -> Sequence[Event]:
            found = super().wait()
            before = contents(out)
            with pytest.raises(ArgumentError, match="cannot be written: No such file"):
                InProcess.wait(orphans[0])
            assert contents(out) == before
            return found

    monkeypatch.setattr(JobFolder, "_leave", lambda _: None)  # as if it was killed
    with pytest.raises(Stopped):
        decode_files([path], out, strategy="bs", make_pool=First)
    monkeypatch.undo()
    decode_files([path], out, force=True, make_pool=Second)
    decode_files([path], tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def test_shards_that_were_removed_are_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two", "three", "four", "five"])
    out = tmp_path / "out"
    decode_files([path], tmp_path / "whole", shard_size=2)
    with stopped_at(9, monkeypatch):
        decode_files([path], out, shard_size=2)
    (out / "part-00000.jsonl").unlink()
    (out / "_beamsplit" / "done" / "part-00001.json").write_text('{"half')
    decode_files([path], out, shard_size=2)
    assert contents(out) == contents(tmp_path / "whole")


def test_results_that_others_change_meanwhile_are_noticed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two", "three"])
    out = tmp_path / "out"

    class Careless(InProcess):
        def wait(self) -> Sequence[Event]:
            found = super().wait()
            (out / "part-00000.jsonl").write_text("changed")
            return found

    with pytest.raises(ArgumentError, match=r"part-00000\.jsonl was removed or changed by another program"):
        decode_files([path], out, make_pool=Careless)
    assert not manifest_of(out)["complete"]
    decode_files([path], out)
    assert len(lists_of(out)) == 3


# Disks


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [4096, 6000])
def test_a_full_disk_stops_a_job_and_what_is_done_is_kept(tmp_path: Path, size: int) -> None:
    """The disk is full when the first long shard is written."""
    texts = ["short"] * 4 + ["x" * 2000] * 4 + ["short"] * 4
    path = write_lines(tmp_path / "in.txt", texts)
    decode_files([path], tmp_path / "whole")
    out = tmp_path / "out"
    with room_for(size), pytest.raises(ArgumentError) as caught:
        decode_files([path], out)
    assert str(caught.value) == f"{out}/part-00001.jsonl cannot be written: File too large"
    assert sorted(path.name for path in out.glob("part-*")) == ["part-00000.jsonl"]
    assert not list((out / "_beamsplit" / "tmp").rglob("*.jsonl*")), "nothing is left that takes room"
    decode_files([path], out)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_disk_that_is_full_from_the_beginning(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one"])
    started: list[int] = []

    class Loud(InProcess):
        def start(self) -> Any:
            started.append(1)
            return super().start()

    with room_for(0), pytest.raises(ArgumentError, match=r"out cannot be written: File too large"):
        decode_files([path], tmp_path / "out", make_pool=Loud)
    assert not started, "nothing is loaded for what cannot be written"


def test_an_unwritable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "in.txt", ["one"])

    def mkdir(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", mkdir)  # chmod does not keep root out
    with pytest.raises(ArgumentError, match=r"^/.*/out cannot be written: Permission denied$"):
        decode_files([path], tmp_path / "out")


def test_a_model_that_cannot_read_is_not_taken_for_a_disk(tmp_path: Path) -> None:
    """An error of the system that the model raises is not about the results."""
    path = write_lines(tmp_path / "in.txt", ["one"])

    class Lost(SmallModel):
        def start(self, inputs: Sequence[str]) -> Any:
            if inputs:
                raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            return super().start(inputs)

    with pytest.raises(ConnectionResetError):
        decode_files([path], tmp_path / "out", model=Lost())


# Object stores and tables


def test_a_folder_of_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="pip install '.[ray]'")
    store = fsspec.filesystem("memory")
    path = write_lines(tmp_path / "in.txt", ["one", "bad", "three", "four", "five"])
    decode_files([path], tmp_path / "whole", shard_size=2)
    given_before = InProcess.give

    def give(self: InProcess, shard: Shard, batch_size: int) -> None:
        if shard.index == 2:
            raise Stopped
        given_before(self, shard, batch_size)

    try:
        monkeypatch.setattr(InProcess, "give", give)
        with pytest.raises(Stopped):
            decode_files([path], "memory://out/lists", shard_size=2)
        monkeypatch.undo()
        assert sorted(Path(each).name for each in store.ls("/out/lists", detail=False)) == [
            "_beamsplit",
            "_manifest.json",
            "part-00000.jsonl",
            "part-00001.jsonl",
        ]
        decode_files([path], "memory://out/lists", shard_size=2)
        found = {Path(each).name: store.cat(each) for each in store.find("/out/lists")}
        assert found == contents(tmp_path / "whole")
        with pytest.raises(ArgumentError, match=r"^memory://out/lists is complete already"):
            decode_files([path], "memory://out/lists", shard_size=2)
    finally:
        store.rm("/out", recursive=True)


def test_a_store_has_no_locks_and_yet_one_run_at_a_time_writes(tmp_path: Path) -> None:
    """The run that begins last goes on. What the other still writes is refused, even when all is complete."""
    fsspec = pytest.importorskip("fsspec", reason="pip install '.[ray]'")
    store, path = fsspec.filesystem("memory"), write_lines(tmp_path / "in.txt", ["one", "two", "three"])
    workers: list[ShardWorker] = []

    class Overtaken(InProcess):
        """While it has a shard, the same job is run by somebody else, with other settings."""

        def __init__(self, task: Task) -> None:
            super().__init__(task)
            workers.append(self._worker)

        def give(self, shard: Shard, batch_size: int) -> None:
            if shard.index == 1:
                decode_files([path], "memory://out/lists", shard_size=2, settings={"other": 1}, force=True)
            super().give(shard, batch_size)

    message = r"^memory://out/lists has been taken over by another run: wait for it, or give another --out$"
    try:
        with pytest.raises(ArgumentError, match=message):
            decode_files([path], "memory://out/lists", shard_size=2, make_pool=Overtaken)
        found = {each: store.cat(each) for each in store.find("/out/lists")}
        assert {Path(each).name for each in found} == {
            "_manifest.json",
            "part-00000.jsonl",
            "part-00001.jsonl",
        }
        assert json.loads(found["/out/lists/_manifest.json"])["settings"]["other"] == 1
        (shard, _) = make_plan(expand([str(path)]), 2).shards()
        with pytest.raises(ArgumentError, match=message):
            workers[0].decode(shard, 2)
        assert {each: store.cat(each) for each in store.find("/out/lists")} == found
    finally:
        store.rm("/out", recursive=True)


def test_another_run_that_is_refused_takes_nothing_over(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="pip install '.[ray]'")
    store, path = fsspec.filesystem("memory"), write_lines(tmp_path / "in.txt", ["one", "two", "three"])

    class Asked(InProcess):
        def give(self, shard: Shard, batch_size: int) -> None:
            with pytest.raises(ArgumentError, match="was begun with other settings"):
                decode_files([path], "memory://out/lists", shard_size=2, settings={"other": 1})
            super().give(shard, batch_size)

    try:
        assert decode_files([path], "memory://out/lists", shard_size=2, make_pool=Asked).done == 3
    finally:
        store.rm("/out", recursive=True)


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pytest.importorskip("fsspec.implementations.memory", reason="pip install '.[ray]'")
    path = write_lines(tmp_path / "in.txt", ["one"])

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("403 Forbidden")

    monkeypatch.setattr(memory.MemoryFileSystem, "put_file", refuse)
    with pytest.raises(
        ArgumentError, match=r"^memory://no/_beamsplit/begun cannot be written: 403 Forbidden$"
    ):
        decode_files([path], "memory://no")


def test_tables_in_and_out(tmp_path: Path) -> None:
    """A table's own columns are kept; its lists are those of the same lines of JSON."""
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    texts = ["one", "bad", "", None, "five", "six"]
    ids = [10, 11, 12, 13, 14, 15]
    parquet.write_table(arrow.table({"prompt": texts, "id": ids}), tmp_path / "in.parquet", row_group_size=4)
    lines = [
        json.dumps({"input": text, "id": number})
        for text, number in zip(texts, ids, strict=True)
        if text is not None
    ]
    write_lines(tmp_path / "in.jsonl", lines)
    decode_files([tmp_path / "in.jsonl"], tmp_path / "lines")
    decode_files([tmp_path / "in.parquet"], tmp_path / "tables", kind="parquet", column="prompt")
    found = parquet.read_table(tmp_path / "tables", partitioning=None)
    assert found.column_names == ["prompt", "id", "hypotheses"]
    rows = found.to_pylist()
    assert [(row["id"], row["prompt"]) for row in rows] == [
        (10, "one"),
        (12, ""),
        (13, None),
        (14, "five"),
        (15, "six"),
    ]
    lists = {row["id"]: row["hypotheses"] for row in lists_of(tmp_path / "lines")}
    assert {str(row["id"]): row["hypotheses"] for row in rows if row["id"] != 13} == lists
    assert rows[2]["hypotheses"] == [], "nothing to decode is no error"
    decode_files([tmp_path / "in.parquet"], tmp_path / "mixed", column="prompt")
    assert [each["hypotheses"] for each in lists_of(tmp_path / "mixed")] == [
        row["hypotheses"] for row in rows
    ]
    decode_files([tmp_path / "in.jsonl"], tmp_path / "other", kind="parquet")
    other = parquet.read_table(tmp_path / "other", partitioning=None).to_pylist()
    assert [(row["id"], row["input"], row["hypotheses"]) for row in other] == [
        (row["id"], row["input"], row["hypotheses"]) for row in lists_of(tmp_path / "lines")
    ]


def test_killed_jobs_of_tables_have_the_same_bytes(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    parquet.write_table(arrow.table({"input": [f"text {n}" for n in range(7)]}), tmp_path / "in.parquet")
    decode_files([tmp_path / "in.parquet"], tmp_path / "whole", kind="parquet", shard_size=3)
    for moment in (3, 5, 8):
        out = tmp_path / f"out{moment}"
        with pytest.MonkeyPatch.context() as patch, stopped_at(moment, patch):
            decode_files([tmp_path / "in.parquet"], out, kind="parquet", shard_size=3)
        decode_files([tmp_path / "in.parquet"], out, kind="parquet", shard_size=3)
        assert contents(out) == contents(tmp_path / "whole")


# Workers that are lost


class Unlucky(InProcess):
    """Loses every shard some times before it is decoded."""

    times = 2

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._lost: dict[int, int] = {}

    def wait(self) -> Sequence[Event]:
        (shard, _), *rest = self._given
        self._lost[shard.index] = lost = self._lost.get(shard.index, 0) + 1
        if lost <= self.times:
            self._given = rest
            return [Lost(shard, "its node was lost")]
        return super().wait()


def test_what_a_lost_worker_had_is_decoded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two", "three"])
    decode_files([path], tmp_path / "whole", shard_size=2)
    decode_files([path], tmp_path / "out", shard_size=2, make_pool=Unlucky)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    note = "decode: a worker was lost (its node was lost); what it had is decoded again\n"
    assert capsys.readouterr().err == note * 4


def test_a_shard_that_ends_every_worker_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["one", "two", "three"])

    class Doomed(Unlucky):
        times = 1000

    with pytest.raises(BeamsplitError) as caught:
        decode_files([path], tmp_path / "out", shard_size=2, make_pool=Doomed)
    assert str(caught.value) == (
        f"5 workers ended while they decoded {path}, lines 1 to 2 (its node was lost): if memory is short, "
        "give a smaller --batch-size or --memory"
    )


def test_totals_are_for_people() -> None:
    assert str(Totals()) == "0 lines done"
    assert str(Totals(7)) == "0 of 7 lines done"
    assert Totals().lists is None
