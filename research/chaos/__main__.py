"""Kill workers, nodes and drivers of big jobs at random moments, and look for what is lost.

    python -m research.chaos --runs 50 --out docs/results/chaos.json

A cluster of Ray has several nodes on this machine. In each run, `beamsplit decode --ray` decodes other inputs
into shards of another size. Meanwhile, at random moments, a worker, a node or the driver itself is killed
with SIGKILL. A driver that is gone is started again, by the same command, until one ends by itself. Then the
files are compared with those of an undisturbed run, byte for byte, and ids are counted. The file is written
after each run; a later call with the same file goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beamsplit
from beamsplit.files import write_bytes
from research.chaos.nodes import Nodes

ROOT = Path(__file__).parents[2]
MODEL = f"{Path(__file__).with_name('small_model.py')}:make"
NODES = 3
SECONDS = 0.1  # that a batch takes
LONGEST = 300.0  # seconds for one command, beyond which it hangs
OPTIONS = ("-g", "2", "-b", "1", "-s", "1", "-d", "hamming", "--max-length", "3", "--batch-size", "4")
HARMS = ("worker", "worker", "worker", "node", "driver")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m research.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=50, help="how many runs the file is to have (default 50)")
    parser.add_argument("--out", type=Path, default=Path("chaos.json"), help="(default %(default)s)")
    options = parser.parse_args()
    runs = json.loads(options.out.read_text(encoding="utf-8"))["runs"] if options.out.exists() else []
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        for found in disturbed_runs(Path(folder), range(len(runs), options.runs)):
            runs.append(found)
            write_bytes(options.out, f"{json.dumps(report(runs), indent=1)}\n".encode())
            print(json.dumps(found), file=sys.stderr, flush=True)
    sys.exit(any(run["lost"] or run["twice"] or not run["equal"] for run in runs))


def report(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the file has: the machine, sums, and all runs."""
    import ray

    killed = Counter[str]()
    for run in runs:
        killed.update(run["killed"])
    sums = {
        name: sum(run[name] for run in runs) for name in ("inputs", "shards", "commands", "lost", "twice")
    }
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "ray": ray.__version__,
            "beamsplit": beamsplit.__version__,
        },
        "nodes": NODES,
        "total": {
            "runs": len(runs),
            "equal": sum(run["equal"] for run in runs),
            "killed": dict(killed),
            **sums,
        },
        "runs": runs,
    }


def disturbed_runs(folder: Path, numbers: range) -> Iterator[dict[str, Any]]:
    """Yield what became of each run."""
    processes = folder / "processes"
    processes.mkdir()
    os.environ |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))),
        "RAY_USAGE_STATS_ENABLED": "0",
        "SMALL_MODEL_PROCESSES": str(processes),
        "SMALL_MODEL_SECONDS": str(SECONDS),
    }
    nodes = Nodes(NODES, processes)
    try:
        for number in numbers:
            here = folder / str(number)
            here.mkdir()
            yield Run(number, here, nodes).result()
            shutil.rmtree(here)
    finally:
        nodes.shutdown()


class Run:
    """One job that is disturbed."""

    def __init__(self, number: int, folder: Path, nodes: Nodes) -> None:
        self._random = random.Random(number)
        self._number = number
        self._folder = folder
        self._nodes = nodes
        self._killed = Counter[str]()
        self._inputs = self._random.randint(200, 400)
        self._size = self._random.choice((3, 5, 8, 16))
        lines = (json.dumps({"id": f"n{n}", "input": self._text()}) for n in range(self._inputs))
        (folder / "in.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _text(self) -> str:
        """Return an input, which cannot be decoded once in a while."""
        text = "".join(self._random.choices("abcdé ", k=self._random.randint(1, 30))).strip()
        return "bad" if self._random.random() < 0.03 else text or "a"

    def result(self) -> dict[str, Any]:
        """Decode once alone and once disturbed; return what is different."""
        self._decode_undisturbed()
        begun = time.monotonic()
        commands = self._decode_disturbed(harms=self._random.randint(3, 6))
        ids = Counter(_ids(self._folder / "out"))
        return {
            "number": self._number,
            "inputs": self._inputs,
            "shards": -(-self._inputs // self._size),
            "killed": dict(self._killed),
            "commands": commands,
            "lost": sum(f"n{n}" not in ids for n in range(self._inputs)),
            "twice": sum(count > 1 for count in ids.values()),
            "equal": _contents(self._folder / "out") == _contents(self._folder / "whole"),
            "seconds": round(time.monotonic() - begun, 1),
        }

    def _decode_undisturbed(self) -> None:
        command = self._command("whole", "--workers", "1")
        environment = {**os.environ, "SMALL_MODEL_SECONDS": "0"}
        ended = subprocess.run(
            command, cwd=self._folder, env=environment, stderr=subprocess.PIPE, check=False
        )
        if ended.returncode not in (0, 2):
            raise RuntimeError(ended.stderr.decode())

    def _command(self, out: str, *workers: str) -> list[str]:
        program = (sys.executable, "-m", "beamsplit", "decode", "in.jsonl", "--model", MODEL, "--out", out)
        return [*program, *OPTIONS, "--shard-size", str(self._size), *workers]

    def _decode_disturbed(self, harms: int) -> int:
        """Start the same command until one has ended by itself; return how many it took."""
        command, commands = self._command("out", "--ray", self._nodes.address), 0
        while not _is_complete(self._folder / "out"):
            if commands > 20:
                raise RuntimeError("the job makes no progress")
            commands += 1
            with subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL) as driver:
                harms -= self._disturb(driver, harms)
        return commands

    def _disturb(self, driver: subprocess.Popen[bytes], most: int) -> int:
        """Do harm at random moments until the driver has ended; return how often."""
        done, latest = 0, time.monotonic() + LONGEST
        pause = self._random.uniform(0, 12)  # the first shards are done after some five seconds
        while True:
            try:
                driver.wait(pause if done < most else latest - time.monotonic())
            except subprocess.TimeoutExpired:
                if time.monotonic() > latest:
                    driver.kill()
                    raise RuntimeError("the driver hangs") from None
                done += self._harm(driver)
                pause = self._random.uniform(0, 4)
            else:
                return done

    def _harm(self, driver: subprocess.Popen[bytes]) -> bool:
        kind = self._random.choice(HARMS)
        if kind == "driver":
            driver.kill()
            worked = True
        elif kind == "node":
            worked = self._nodes.replace_node(self._random)
        else:
            worked = self._nodes.kill_worker(self._random)
        self._killed[kind] += worked
        return worked


def _is_complete(out: Path) -> bool:
    try:
        return bool(json.loads((out / "_manifest.json").read_text(encoding="utf-8"))["complete"])
    except OSError:
        return False


def _contents(out: Path) -> dict[str, bytes]:
    """Return all files of a folder, but of the manifest only what is in it of results."""
    found = {path.name: path.read_bytes() for path in sorted(out.glob("*")) if path.is_file()}
    manifest = json.loads(found.pop("_manifest.json"))
    return {**found, "counts": json.dumps([manifest["counts"], manifest["shards"]]).encode()}


def _ids(out: Path) -> Iterator[str]:
    for path in (*out.glob("part-*"), *out.glob("_errors.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)["id"]


if __name__ == "__main__":
    main()
