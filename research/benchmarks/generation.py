"""Time `generate` of transformers: our diverse beam search, that of 4.55.4, beam search, and greedy search.

    python -m research.benchmarks.generation --old-python /path/to/venv-with-transformers-4.55.4/bin/python

Contestants have a process each and take turns. Times are milliseconds a step; ratios are to greedy search on
as many rows, which is what calling the model costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from research.benchmarks.timing import Times

_WORKER = Path(__file__).with_name("generation_worker.py")
_SIZES = {  # model: batch, beams, groups
    "cuda": {
        "llama-1.2b": [(1, 20, 20), (8, 20, 20), (8, 20, 5)],
        "marian-74m": [(8, 20, 20), (8, 20, 5)],
        "gpt2": [(8, 20, 20), (8, 20, 5)],
    },
    "cpu": {"llama-small": [(1, 20, 20), (4, 20, 5)], "marian-small": [(4, 20, 20), (4, 20, 5)]},
}


class Worker:
    """A process that runs one contestant. `source` is a folder to import beamsplit from, if not the usual."""

    def __init__(
        self,
        contestant: str,
        python: str,
        device: str,
        source: Path | None = None,
        script: Path = _WORKER,
    ) -> None:
        self.contestant = contestant
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = os.environ if source is None else {**os.environ, "PYTHONPATH": _joined(source, *paths)}
        self._process = subprocess.Popen(
            [python, str(script), contestant, device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"error": f"the process ended with {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the process end, which it does when there is nothing more to read."""
        self._process.communicate()


def _joined(*paths: str | Path) -> str:
    return os.pathsep.join(str(path) for path in paths if str(path))


def measure(workers: list[Worker], task: dict[str, Any], turns: int) -> dict[str, Any]:
    """Return the times of each contestant, turn by turn, after two turns that do not count."""
    seconds: dict[str, list[float]] = {}
    errors: dict[str, str] = {}
    versions: dict[str, str] = {}
    for turn in range(turns + 2):
        for worker in workers:
            if worker.contestant in errors:
                continue
            answer = worker.run(task)
            versions[worker.contestant] = answer.get("transformers", "")
            if "error" in answer:
                errors[worker.contestant] = answer["error"]
            elif turn > 1:
                seconds.setdefault(worker.contestant, []).append(answer["seconds"])
    times = {name: Times(tuple(values)) for name, values in seconds.items() if name not in errors}
    return {
        **task,
        "transformers": versions,
        "errors": errors,
        "ms_per_step": {
            name: statistics.median(t.seconds) / task["tokens"] * 1e3 for name, t in times.items()
        },
        "over_greedy": {name: t.ratio_to(times["greedy"]) for name, t in times.items()},
    }


def show(result: dict[str, Any]) -> str:
    cells = [f"{result['model']} ({result['batch']}, {result['beams']}, {result['groups']})"]
    for name, ms in result["ms_per_step"].items():
        ratio, low, high = result["over_greedy"][name]
        cells.append(f"{name} {ms:.2f} ms = {ratio:.2f}x [{low:.2f}-{high:.2f}]")
    cells += [f"{name} failed: {error}" for name, error in result["errors"].items()]
    return "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--old-python", help="an interpreter that has transformers 4.55.4")
    parser.add_argument("--models", nargs="*", help="some of the models alone")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of each prompt")
    parser.add_argument("--repeat", type=int, default=1, help="calls a turn, for models that are soon done")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    workers = [
        Worker(name, sys.executable, options.device) for name in ("greedy", "ours", "ours-beam", "beam")
    ]
    if options.old_python:
        workers.append(Worker("grouped", options.old_python, options.device))
    results = []
    for model, sizes in _SIZES[options.device].items():
        for batch, beams, groups in sizes if not options.models or model in options.models else []:
            task = {"model": model, "batch": batch, "beams": beams, "groups": groups}
            task |= {"tokens": options.tokens, "prompt": options.prompt, "repeat": options.repeat}
            results.append(measure(workers, task, options.turns))
            print(show(results[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
