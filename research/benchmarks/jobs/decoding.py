"""Run `beamsplit decode` as people do, and look at how long it takes and how much memory it has."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from research.chaos import small_model

__all__ = ["QUICK", "SMALL_MODEL", "Run", "sentences", "write_lines"]

ROOT = Path(__file__).parents[3]
SMALL_MODEL = f"{small_model.__file__}:make"
QUICK = ("--model", SMALL_MODEL, "-g", "2", "-b", "1", "-s", "1", "-d", "hamming", "--max-length", "2")
"""A model and a search that take next to no time."""

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_LOOK = 0.1  # seconds between looks at the memory


@dataclass(frozen=True)
class Run:
    """One run of the command."""

    seconds: float
    driver_mib: float
    """The most memory that its process had."""
    worker_mib: float | None
    """The same of the worker that had the most; None if the driver decodes itself."""

    @classmethod
    def of(
        cls,
        folder: Path,
        file: Path,
        arguments: Sequence[str],
        out: str = "out",
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Decode a file into a new place in the folder. Raise if that is refused."""
        _remove(folder / out)
        _remove(processes := folder / "processes")
        processes.mkdir()
        command = [
            sys.executable,
            "-m",
            "beamsplit",
            "decode",
            str(file),
            *arguments,
            "--out",
            str(folder / out),
        ]
        variables = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "RAY_worker_niceness": "0",  # as plain decode has it: 15 otherwise, so that others come first
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))),
            "SMALL_MODEL_PROCESSES": str(processes),
            **(environment or {}),
        }
        begun = time.perf_counter()
        peaks: dict[int, float] = {}
        with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE) as running:
            while running.poll() is None:
                for process in (running.pid, *(int(path.name) for path in processes.iterdir())):
                    peaks[process] = max(peaks.get(process, 0.0), _peak_mib(process))
                time.sleep(_LOOK)
            seconds = time.perf_counter() - begun
            assert running.stderr is not None
            said = running.stderr.read().decode()
        if running.returncode:
            raise RuntimeError(said)
        driver = peaks.pop(running.pid, 0.0)
        return cls(seconds, driver, max(peaks.values(), default=None))


def _peak_mib(process: int) -> float:
    try:
        found = _PEAK.search(Path(f"/proc/{process}/status").read_text(encoding="utf-8"))
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """Write a file of lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


_SUBJECTS = ("the old man", "my sister", "a tall woman", "the teacher", "our neighbour", "nobody")
_VERBS = ("reads", "has lost", "wants to buy", "cannot find", "has never seen", "is looking for")
_OBJECTS = ("a red book", "the keys", "an apple", "the small house by the river", "this letter", "it")
_ENDS = ("", "today", "in the garden", "before the train leaves", "because the shop is closed")


def sentences(count: int) -> list[str]:
    """Return English sentences of different lengths, always the same ones."""
    choose = random.Random(0)
    parts = (_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
    found = (" ".join(filter(None, map(choose.choice, parts))) for _ in range(count))
    return [f"{each[0].upper()}{each[1:]}." for each in found]
