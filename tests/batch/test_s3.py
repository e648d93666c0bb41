"""Jobs on a store that speaks S3, by s3fs: moto's server on this machine, killed and resumed as on a disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batch.jobs import MODEL, contents, decode_files, lists_of, write_lines
from beamsplit import ArgumentError
from beamsplit.batch import sources
from beamsplit.batch.sources import expand, read_lines, scan

_REASON = "pip install s3fs 'moto[server]'"
s3fs: Any = pytest.importorskip("s3fs", reason=_REASON)
moto: Any = pytest.importorskip("moto.server", reason=_REASON)

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

ROOT = Path(__file__).parents[2]
OPTIONS = ("-g", "2", "-b", "1", "-s", "1", "-d", "hamming", "--max-length", "3", "--batch-size", "2")
_TEXTS = [f"text {'x' * (number % 7)}" if number % 20 else "bad" for number in range(1, 61)]


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    """A server with an empty bucket, which all programs find that are started from here."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT, ROOT / "tests"))))
        s3fs.S3FileSystem.clear_instance_cache()
        yield
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def store(_server: None) -> Iterator[Any]:
    """The file system, with one empty bucket. Its listings are never kept, so that it sees all."""
    found = s3fs.S3FileSystem(use_listings_cache=False)
    found.mkdir("bucket")
    yield found
    found.rm("bucket", recursive=True)


def objects(store: Any, folder: str) -> dict[str, bytes]:
    """All objects of a folder, by their names in it."""
    return {path.removeprefix(f"{folder}/"): store.cat_file(path) for path in store.find(folder)}


def without_inputs(found: dict[str, bytes]) -> dict[str, bytes]:
    """Results, and errors without the path of their inputs, which are elsewhere."""
    return {
        name: content.replace(b"s3://bucket", b"")
        for name, content in found.items()
        if name[:9] != "_manifest"
    }


def command(*workers: str) -> list[str]:
    program = (sys.executable, "-m", "beamsplit", "decode", "s3://bucket/in/*.txt", "--model", MODEL)
    return [*program, *OPTIONS, "--shard-size", "4", "--out", "s3://bucket/lists", *workers]


def whole(folder: Path) -> dict[str, bytes]:
    """What the same inputs give on a disk."""
    (folder / "in").mkdir()
    for number in range(2):
        write_lines(folder / "in" / f"{number}.txt", _TEXTS[30 * number : 30 * (number + 1)])
    arguments = [sys.executable, "-m", "beamsplit", "decode", "in", "--model", MODEL, *OPTIONS]
    arguments += ["--shard-size", "4", "--out", "lists", "--workers", "1"]
    ended = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    return {
        name: content.replace(str(folder).encode(), b"")
        for name, content in without_inputs(contents(folder / "lists")).items()
    }


def parts(store: Any) -> int:
    return len(store.glob("bucket/lists/part-*"))


def killed_and_resumed(store: Any, *workers: str) -> str:
    """Put the inputs there, kill a run after some shards, and run it again; return what that says last."""
    for number in range(2):
        text = "".join(f"{line}\n" for line in _TEXTS[30 * number : 30 * (number + 1)])
        store.pipe_file(f"bucket/in/{number}.txt", text.encode())
    slow = {**os.environ, "SMALL_MODEL_SECONDS": "0.1"}
    with subprocess.Popen(command(*workers), env=slow, stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 60
        while parts(store) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
    assert 3 <= parts(store) < 16
    before = {path: store.info(path)["LastModified"] for path in store.glob("bucket/lists/part-*")}
    done = {Path(path).stem for path in store.glob("bucket/lists/_beamsplit/done/*.json")}
    time.sleep(1.1)  # times of objects are whole seconds
    ended = subprocess.run(command(*workers), capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    kept = [path for path, at in before.items() if Path(path).stem in done]
    assert len(kept) >= 2
    assert all(store.info(path)["LastModified"] == before[path] for path in kept), "no shard is decoded twice"
    return ended.stderr.splitlines()[-1]


def test_a_killed_job_goes_on(tmp_path: Path, store: Any) -> None:
    """And in the end, nothing is there but results, as on a disk."""
    said = killed_and_resumed(store, "--workers", "1")
    assert said == "beamsplit: 3 lines could not be decoded: see s3://bucket/lists/_errors.jsonl"
    assert without_inputs(objects(store, "bucket/lists")) == whole(tmp_path)


@pytest.mark.skipif(
    "BEAMSPLIT_LONG_TESTS" not in os.environ, reason="takes a minute: BEAMSPLIT_LONG_TESTS=1 runs it"
)
def test_a_killed_job_of_two_workers_of_ray_goes_on(tmp_path: Path, store: Any) -> None:
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    killed_and_resumed(store, "--workers", "2")
    assert without_inputs(objects(store, "bucket/lists")) == whole(tmp_path)


def test_tables_in_and_out(tmp_path: Path, store: Any) -> None:
    arrow: Any = pytest.importorskip("pyarrow", reason="pip install '.[ray]'")
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    table = arrow.table({"id": list(range(9)), "input": [f"text {n}" for n in range(9)]})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    store.put_file(str(tmp_path / "in.parquet"), "bucket/in.parquet")
    decode_files([tmp_path / "in.parquet"], tmp_path / "lists", kind="parquet")
    decode_files(["s3://bucket/in.parquet"], "s3://bucket/tables", kind="parquet")
    found, expected = objects(store, "bucket/tables"), contents(tmp_path / "lists")
    assert found.keys() == expected.keys()
    assert all(found[name] == expected[name] for name in found if name.startswith("part-"))


def test_by_force_what_was_there_is_replaced(tmp_path: Path, store: Any) -> None:
    path = write_lines(tmp_path / "in.txt", [f"text {number}" for number in range(12)])
    decode_files([path], "s3://bucket/lists", shard_size=2)
    with pytest.raises(ArgumentError, match=r"^s3://bucket/lists is complete already"):
        decode_files([path], "s3://bucket/lists", shard_size=2)
    decode_files([path], "s3://bucket/lists", shard_size=6, force=True)
    assert objects(store, "bucket/lists").keys() == {"_manifest.json", "part-00000.jsonl", "part-00001.jsonl"}


def test_a_folder_that_somebody_has_made_by_hand_is_empty(tmp_path: Path, store: Any) -> None:
    """Consoles make an object of no bytes, whose name ends with a slash."""
    store.call_s3("put_object", Bucket="bucket", Key="lists/", Body=b"")
    store.call_s3("put_object", Bucket="bucket", Key="in/", Body=b"")
    store.pipe_file("bucket/in/a.txt", b"one\ntwo\n")
    decode_files(["s3://bucket/in"], "s3://bucket/lists")
    decode_files([write_lines(tmp_path / "in.txt", ["one", "two"])], tmp_path / "lists")
    found = store.cat_file("bucket/lists/part-00000.jsonl")
    assert found == (tmp_path / "lists" / "part-00000.jsonl").read_bytes()
    assert len(lists_of(tmp_path / "lists")) == 2


def test_a_bucket_that_is_not_there_is_named_and_not_made(tmp_path: Path, store: Any) -> None:
    path = write_lines(tmp_path / "in.txt", ["one"])
    message = r"^s3://none-such/lists/_beamsplit/begun cannot be written: .*bucket does not exist"
    with pytest.raises(ArgumentError, match=message):
        decode_files([path], "s3://none-such/lists")
    assert store.ls("", detail=False) == ["bucket"]
    with pytest.raises(ArgumentError, match=r"^there is no file s3://none-such/in\.txt$"):
        expand(["s3://none-such/in.txt"])


@pytest.mark.usefixtures("store")
def test_a_store_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, whether it is read or written."""
    path = write_lines(tmp_path / "in.txt", ["one"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        for job in (["s3://bucket/in.txt"], tmp_path / "out"), ([path], "s3://bucket/lists"):
            with pytest.raises(ArgumentError, match=r"^s3://bucket/\S+ cannot be read: .*connect") as caught:
                decode_files(*job)
            assert len(str(caught.value).splitlines()) == 1
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.usefixtures("store")
def test_without_a_key_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        message = r"^s3://bucket/in\.txt cannot be read: Unable to locate credentials"
        with pytest.raises(ArgumentError, match=message):
            expand(["s3://bucket/in.txt"])
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_shard_fetches_little_more_than_its_lines(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs by itself would fetch 50 MiB: a hundred times what a shard of 4,096 lines has."""
    line = b"x" * 99 + b"\n"
    store.pipe_file("bucket/in.txt", line * 100_000)  # 10 MB
    (source,) = expand(["s3://bucket/in.txt"])
    source = scan(source, 4096)
    fetched: list[int] = []
    given = s3fs.core._fetch_range

    def fetch(*arguments: Any, **options: Any) -> bytes:
        content: bytes = given(*arguments, **options)
        fetched.append(len(content))
        return content

    monkeypatch.setattr(s3fs.core, "_fetch_range", fetch)
    lines = list(read_lines(source, 8192, 4096, source.place(8192)))
    assert (len(lines), lines[0].number) == (4096, 8193)
    assert 4096 * 100 <= sum(fetched) <= 2 * sources._BLOCK
