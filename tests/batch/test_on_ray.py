"""Jobs on a real Ray cluster with nodes on this machine: workers, nodes, the driver are killed."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from batch.jobs import MODEL, as_given, contents, decode_files, write_lines
from beamsplit import ArgumentError, BeamsplitError
from beamsplit.batch import on_ray
from beamsplit.batch.on_ray import Cluster, RayPool, ray_pool
from beamsplit.batch.pool import Pool
from beamsplit.batch.running import Totals
from beamsplit.batch.task import Task
from research.chaos.nodes import Nodes

pytest.importorskip("ray", reason="pip install '.[ray]'")

_TEXTS = [f"text {'x' * (number % 7)}" if number % 50 else "bad" for number in range(1, 241)]
ROOT = Path(__file__).parents[2]
_SECONDS = 0.05  # a batch: long enough to be killed in


def make_nodes(count: int, processes: Path, seconds: float = _SECONDS) -> Nodes:
    """Start a cluster whose workers have the small model, which takes so many seconds for a batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMALL_MODEL_SECONDS", str(seconds))
        patch.setenv("SMALL_MODEL_PROCESSES", str(processes))
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT, ROOT / "tests"))))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        return Nodes(count, processes)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    import ray

    found = make_nodes(2, tmp_path_factory.mktemp("processes"))
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an undisturbed run writes, by a single worker in this process."""
    folder = tmp_path_factory.mktemp("whole")
    decode_files([write_lines(folder / "in.txt", _TEXTS)], folder / "out", shard_size=8)
    return without_inputs(folder / "out")


def without_inputs(folder: Path) -> dict[str, bytes]:
    """Results and errors; the manifest has the path of the inputs, which is another for each test."""
    return {
        name: content.replace(str(folder.parent).encode(), b"")
        for name, content in contents(folder).items()
        if name != "_manifest.json"
    }


def run(folder: Path, nodes: Nodes, **cluster: Any) -> Totals:
    """Decode the texts on the cluster."""
    path = write_lines(folder / "in.txt", _TEXTS)
    with ExitStack() as stack:

        def make_pool(task: Task) -> Pool:
            return stack.enter_context(ray_pool(task, Cluster(nodes.address, **cluster)))

        return decode_files([path], folder / "out", shard_size=8, make_pool=make_pool)


def test_workers_and_nodes_may_be_killed(
    tmp_path: Path, nodes: Nodes, whole: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """While the job runs, one after another: two workers, a node, a worker."""
    out, kill = tmp_path / "out", nodes.kill_worker
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(run, tmp_path, nodes)
        choose = random.Random(0)
        for shards, harm in ((2, kill), (5, kill), (8, nodes.replace_node), (12, kill)):
            while len(list(out.glob("part-*"))) < shards or not harm(choose):
                assert not job.done(), "it was to be disturbed"
                time.sleep(0.02)
        totals = job.result(timeout=60)
    assert (totals.done, totals.refused) == (240, 4)
    assert without_inputs(out) == whole
    assert "a worker was lost" in capsys.readouterr().err


def command(nodes: Nodes) -> list[str]:
    """The program that decodes the texts, which another process of Ray's knows nothing of."""
    return [
        *(sys.executable, "-m", "beamsplit", "decode", "in.txt", "--model", MODEL, "--out", "out"),
        *("-g", "2", "-b", "1", "-s", "1", "-d", "hamming", "--max-length", "3", "--order", "log-prob"),
        *("--batch-size", "2", "--shard-size", "8", "--ray", nodes.address),
    ]


def wait_for_shards(out: Path, count: int) -> None:
    """Wait until so many shards are done."""
    deadline = time.monotonic() + 150
    while len(list(out.glob("part-*"))) < count and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_killed_driver_goes_on(tmp_path: Path, nodes: Nodes, whole: dict[str, bytes]) -> None:
    write_lines(tmp_path / "in.txt", _TEXTS)
    with subprocess.Popen(command(nodes), cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        wait_for_shards(tmp_path / "out", 3)
        os.kill(running.pid, signal.SIGKILL)
    assert 3 <= len(list((tmp_path / "out").glob("part-*"))) < 30
    assert_goes_on(tmp_path, nodes, whole)


def assert_goes_on(folder: Path, nodes: Nodes, whole: dict[str, bytes]) -> None:
    """The same command, on these nodes, ends with the files of an undisturbed run."""
    ended = subprocess.run(command(nodes), cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1] == (
        f"beamsplit: 4 lines could not be decoded: see {folder}/out/_errors.jsonl"
    )
    assert without_inputs(folder / "out") == whole


@pytest.mark.skipif(
    "BEAMSPLIT_LONG_TESTS" not in os.environ, reason="takes a minute: BEAMSPLIT_LONG_TESTS=1 runs it"
)
def test_a_lost_head_stops_the_driver_and_a_new_cluster_goes_on(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """The driver says so in a line, and ends before Ray would end it, with none of Ray's own lines."""
    (processes := tmp_path / "processes").mkdir()
    write_lines(tmp_path / "in.txt", _TEXTS)
    first = make_nodes(2, processes, 10 * _SECONDS)
    impatient = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "20"}
    piped: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True}
    try:
        with subprocess.Popen(command(first), cwd=tmp_path, env=impatient, **piped) as running:
            wait_for_shards(tmp_path / "out", 3)
            address = first.address
            first.kill_head()
            _, said = running.communicate(timeout=45)
    finally:
        first.shutdown()
    *progress, kept, line = said.splitlines()
    assert all(each.startswith("decode: ") for each in progress), said
    assert re.fullmatch(r"beamsplit: stopped with \d+ of 240 lines done; the same command goes on .*", kept)
    assert line == (
        f"beamsplit: the head of the Ray cluster at {address} is gone: start a cluster again "
        "(ray start --head)"
    )
    assert running.returncode == 2
    assert 3 <= len(list((tmp_path / "out").glob("part-*"))) < 30
    second = make_nodes(2, processes)
    try:
        assert_goes_on(tmp_path, second, whole)
    finally:
        second.shutdown()


def test_a_head_that_is_away_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "30")
    seconds = [0.0]
    monkeypatch.setattr(on_ray, "monotonic", lambda: seconds[0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        head = on_ray._Head(f"127.0.0.1:{port}")

        def look_after(pause: float) -> bool:
            seconds[0] += pause
            head.look()
            return head.answers()

        assert look_after(30)
    assert not look_after(100)
    assert not look_after(10)
    with socket.create_server(("127.0.0.1", port)):
        assert look_after(10)
    assert not look_after(10)
    assert not look_after(14)
    with pytest.raises(
        BeamsplitError, match=rf"^the head of the Ray cluster at 127\.0\.0\.1:{port} is gone: "
    ):
        look_after(2)
    nowhere = on_ray._Head(None)  # as with a client of Ray's
    seconds[0] += 100
    nowhere.look()
    assert nowhere.answers()


def test_a_ray_that_does_not_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the model, which has nothing to do with it."""
    import ray

    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    said = r"^Ray cannot be started on this machine: The current node timed out during startup\. This could "
    task = Task(lambda: pytest.fail("no worker is there"), as_given, str(tmp_path), "jsonl")
    with pytest.raises(BeamsplitError, match=said), ray_pool(task, Cluster("local")):
        pytest.fail("Ray was not started")


def test_what_workers_refuse_is_raised_as_it_was_there(tmp_path: Path, nodes: Nodes) -> None:
    def no_model() -> Any:
        raise ArgumentError("there is no such model: give another")

    task = Task(no_model, as_given, str(tmp_path), "jsonl")
    message = r"^there is no such model: give another$"
    with ray_pool(task, Cluster(nodes.address)) as pool, pytest.raises(ArgumentError, match=message):
        pool.start()


def test_a_cluster_without_room_is_named(tmp_path: Path, nodes: Nodes) -> None:
    with pytest.raises(ArgumentError, match=r"^the cluster has no room for a worker with CPU 2 and GPU 1"):
        run(tmp_path, nodes, cpus=2, gpus=1)


def test_a_worker_that_cannot_live_is_given_up(tmp_path: Path, nodes: Nodes) -> None:
    """A model that ends its process as soon as it is loaded."""

    def end() -> Any:
        os._exit(3)

    task = Task(end, as_given, str(tmp_path), "jsonl")
    with ray_pool(task, Cluster(nodes.address)) as pool:
        assert isinstance(pool, RayPool)
        pool.patience = 1
        with pytest.raises(ValueError, match=r"^2 workers were lost in a row, the last since "):
            pool.start()


@pytest.mark.usefixtures("nodes")
@pytest.mark.filterwarnings("ignore")  # Ray Data warns of itself
def test_the_example_of_ray_data_runs(tmp_path: Path) -> None:
    """The callable in `map_batches`, on the same cluster."""
    page = (ROOT / "docs" / "big-jobs.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "ray.data" in block)
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pip install '.[ray]'")
    write_lines(
        tmp_path / "sentences.jsonl", ['{"id": 7, "text": "I\'m cold."}', '{"id": 8, "text": ""}'] * 20
    )
    code = code.replace("s3://bucket", str(tmp_path)).replace("batch_size=1024", "batch_size=16")
    exec(code, {})
    rows = parquet.read_table(tmp_path / "lists").to_pylist()
    assert sorted(row["id"] for row in rows) == [7] * 20 + [8] * 20
    found = {row["id"]: row for row in rows}
    assert found[7]["texts"][0] == "J'ai froid."
    assert len(found[7]["texts"]) == len(found[7]["log_probs"]) == len(found[7]["tokens"]) == 6
    assert found[7]["error"] is None
