"""The parts of the measurement, each of which returns its rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.benchmarks.jobs.decoding import QUICK, SMALL_MODEL, Run, sentences, write_lines
from research.benchmarks.jobs.scale import scan_speed, simulated_job

__all__ = ["PARTS", "Sizes"]

PLAIN = "plain decode"
WAYS: dict[str, tuple[str, ...]] = {
    PLAIN: (),
    "1 worker in the process": ("--workers", "1"),
    "1 worker on Ray": ("--ray", "local", "--workers", "1"),
    "2 workers on Ray": ("--ray", "local", "--workers", "2"),
}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    turns: int = 3
    lines: int = 1024
    few: int = 128
    """Lines of a short run, which tells the start from the rest."""
    memory: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    shards: int = 400
    scan_mib: int = 512
    jobs: tuple[tuple[int, int], ...] = ((10**6, 1), (10**7, 100), (10**8, 1), (10**8, 1000))

    @classmethod
    def tiny(cls) -> Sizes:
        """Return sizes that only tell whether everything runs."""
        return cls(1, 130, 65, (200, 300), 4, 1, ((20_000, 2),))


def speed(folder: Path, sizes: Sizes) -> list[dict[str, Any]]:
    """Measure how fast the same lines are decoded: in turns, and without the start."""
    pause = {"SMALL_MODEL_SECONDS": "0.4"}
    quick = ("--model", SMALL_MODEL, "-g", "2", "-b", "1", "--max-length", "2")
    cases: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
        "en-fr, six outputs, one thread": (("--max-length", "30"), {}),
        "a model that waits 0.4 s a batch, as for a GPU or an engine": (quick, pause),
    }
    return [{"key": key, **_speeds(folder, sizes, *case)} for key, case in cases.items()]


def _speeds(
    folder: Path, sizes: Sizes, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    many = write_lines(folder / "many.txt", sentences(sizes.lines))
    few = write_lines(folder / "few.txt", sentences(sizes.few))
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(sizes.turns):
        for way, own in WAYS.items():
            runs = [Run.of(folder, file, (*arguments, *own), environment=environment) for file in (many, few)]
            taken[way].append((runs[0].seconds, runs[1].seconds))
    rates = {
        way: [(sizes.lines - sizes.few) / max(long - short, 1e-9) for long, short in pairs]
        for way, pairs in taken.items()
    }
    return {
        "lines": sizes.lines,
        "turns": sizes.turns,
        "seconds": {way: [long for long, _ in pairs] for way, pairs in taken.items()},
        "lines_per_s": rates,
        "median": {way: statistics.median(each) for way, each in rates.items()},
    }


def start(folder: Path, sizes: Sizes) -> list[dict[str, Any]]:
    """Measure how long a run of a single line takes, that is, the start."""
    file = write_lines(folder / "one.txt", sentences(1))
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(sizes.turns):
        for way, own in WAYS.items():
            taken[way].append(Run.of(folder, file, ("--max-length", "30", *own)).seconds)
    return [{"key": way, "seconds": found} for way, found in taken.items()]


def memory(folder: Path, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Measure the most memory of the driver and of its worker, for ever more inputs of a quick model.

    All shards are as large as those of many inputs are: a worker has all results of one in memory.
    """
    for count in sizes.memory:
        file = write_lines(folder / "short.txt", [f"text {number}" for number in range(count)])
        own = ("--batch-size", "512", "--shard-size", "4096", "--ray", "local", "--workers", "1")
        run = Run.of(folder, file, (*QUICK, *own))
        yield {
            "key": str(count),
            "driver_mib": run.driver_mib,
            "worker_mib": run.worker_mib,
            "seconds": run.seconds,
        }
        file.unlink()


def shards(folder: Path, sizes: Sizes) -> list[dict[str, Any]]:
    """Measure what a shard costs beside its decoding: many shards of one line, on two workers."""
    few = max(sizes.shards // 10, 2)
    seconds = {}
    for count in (few, sizes.shards):
        file = write_lines(folder / "lines.txt", [f"text {number}" for number in range(count)])
        ray = ("--ray", "local", "--workers", "2", "--shard-size", "1")
        seconds[count] = Run.of(folder, file, (*QUICK, *ray)).seconds
    each = (seconds[sizes.shards] - seconds[few]) / (sizes.shards - few)
    return [{"key": "shard", "shards": sizes.shards, "ms": 1e3 * each}]


def scale(folder: Path, sizes: Sizes) -> list[dict[str, Any]]:
    """Simulate jobs of up to 10^8 inputs."""
    rows = [{"key": "look", **scan_speed(folder, sizes.scan_mib)}]
    return rows + [
        {"key": f"{rows} in {files}", **simulated_job(folder, rows, files)} for rows, files in sizes.jobs
    ]


PARTS: dict[str, Callable[[Path, Sizes], Iterable[dict[str, Any]]]] = {
    "scale": scale,
    "start": start,
    "shards": shards,
    "memory": memory,
    "speed": speed,
}
