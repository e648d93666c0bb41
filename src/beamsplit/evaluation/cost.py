"""What methods cost: time, taking turns on the same inputs, and memory, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from beamsplit.decoding import decode
from beamsplit.evaluation.experiment import Experiment
from beamsplit.evaluation.methods import Method
from beamsplit.loading import load_model
from beamsplit.model import StepModel
from beamsplit.progress import Progress

__all__ = ["cost"]

Inputs = Sequence[Any] | Tensor
_MEGABYTE = 2**20


def cost(experiment: Experiment, model: StepModel, inputs: Inputs, device: str | None) -> dict[str, Any]:
    """By method: seconds, how that compares with the first method's in the same turn, and peak memory.

    One batch of inputs is decoded. Machines change their pace from minute to minute, so a ratio is taken
    within each turn, and its median and quartiles are told.
    """
    assert experiment.cost is not None
    methods = [method for method in experiment.methods if isinstance(method, Method)]
    turns, batch = experiment.cost.get("turns", 7), inputs[: experiment.cost.get("inputs", 32)]
    with Progress("cost").bar(turns * len(methods) + len(methods)) as bar:
        seconds: dict[str, list[float]] = {method.name: [] for method in methods}
        for _ in range(turns + 1):
            for method in methods:
                seconds[method.name].append(_seconds(model, method, batch, experiment.max_length))
                bar.advance()
        # The first turn pays for what is set up once.
        seconds = {name: taken[1:] for name, taken in seconds.items()}
        first = seconds[methods[0].name]
        return {
            "inputs": len(batch),
            "turns": turns,
            "threads": torch.get_num_threads(),
            "device": str(device or "cpu"),
            "methods": {
                method.name: {
                    "seconds": statistics.median(seconds[method.name]),
                    "ratio": _quartiles([a / b for a, b in zip(seconds[method.name], first, strict=True)]),
                    **_memory(experiment, method, batch, device),
                }
                for method in methods
            },
        }


def _seconds(model: StepModel, method: Method, inputs: Inputs, max_length: int) -> float:
    guided, strategy = method.make(model)
    begin = time.perf_counter()
    decode(guided, inputs, strategy, max_length=max_length, unique=method.spec.unique)
    return time.perf_counter() - begin


def _quartiles(ratios: Sequence[float]) -> dict[str, float]:
    low, high = (
        (ratios[0], ratios[0])
        if len(ratios) == 1
        else statistics.quantiles(ratios, n=4, method="inclusive")[::2]
    )
    return {"median": statistics.median(ratios), "low": low, "high": high}


def _memory(experiment: Experiment, method: Method, inputs: Inputs, device: str | None) -> dict[str, float]:
    if not experiment.model:
        return {}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        job = pool.submit(_peak, experiment.model, method, inputs, experiment.max_length, device)
        return {"peak_megabytes": job.result()}


def _peak(name: str, method: Method, inputs: Inputs, max_length: int, device: str | None) -> float:
    """The most memory that decoding takes beyond the loaded model, in this process."""
    model = load_model(name, device)
    if device is not None and torch.device(device).type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        _seconds(model, method, inputs, max_length)
        return (torch.cuda.max_memory_allocated(device) - before) / _MEGABYTE
    before = _high_water(reset=True)
    _seconds(model, method, inputs, max_length)
    return (_high_water() - before) / _MEGABYTE


def _high_water(reset: bool = False) -> int:
    """The most bytes that this process held in memory; Linux can start the count afresh."""
    if reset and Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    if Path("/proc/self/status").exists():
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
