"""Measure what methods cost: what they ask of the model, time, and memory.

For time, methods take turns on the same inputs; for memory, each has a process of its own.
"""

from __future__ import annotations

import mmap
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

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
    """Return for each method its seconds, their ratio to the first method's, tokens read, and peak memory.

    One batch of inputs is decoded. Machines change their pace from minute to minute, so a ratio is taken
    within each turn, and its median and quartiles are returned.
    """
    assert experiment.cost is not None
    methods = [method for method in experiment.methods if isinstance(method, Method)]
    turns, batch = experiment.cost.get("turns", 7), inputs[: experiment.cost.get("inputs", 32)]
    with Progress("cost").bar(turns * len(methods) + len(methods)) as bar:
        tokens: dict[str, int] = {}
        # This turn pays for what is set up once.
        for method in methods:
            with _counted(model) as counts:
                _seconds(model, method, batch, _lengths(experiment))
            tokens[method.name] = sum(counts)
            bar.advance()
        seconds: dict[str, list[float]] = {method.name: [] for method in methods}
        for _ in range(turns):
            for method in methods:
                seconds[method.name].append(_seconds(model, method, batch, _lengths(experiment)))
                bar.advance()
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
                    "tokens": tokens[method.name],
                    **_memory(experiment, method, batch, device),
                }
                for method in methods
            },
        }


class _Lengths(TypedDict):
    """The options of `decode` that all methods have."""

    max_length: int
    min_length: int


def _lengths(experiment: Experiment) -> _Lengths:
    return {"max_length": experiment.max_length, "min_length": experiment.min_length}


def _seconds(model: StepModel, method: Method, inputs: Inputs, lengths: _Lengths) -> float:
    guided, strategy = method.make(model)
    begin = time.perf_counter()
    decode(guided, inputs, strategy, **method.spec.decode_options, **lengths)
    return time.perf_counter() - begin


@contextmanager
def _counted(model: StepModel) -> Iterator[list[int]]:
    """Count the tokens that the model reads, step by step: one for each row."""
    counts: list[int] = []
    step = model.step

    def counting(tokens: Tensor, state: Any) -> Any:
        counts.append(len(tokens))
        return step(tokens, state)

    on_itself = "step" in getattr(model, "__dict__", {})
    model.step = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        if on_itself:
            model.step = step  # type: ignore[method-assign]
        else:
            del model.step  # its class has it


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
        job = pool.submit(_peak, experiment.model, method, inputs, _lengths(experiment), device)
        peak = job.result()
    return {} if peak is None else {"peak_megabytes": peak}


def _peak(name: str, method: Method, inputs: Inputs, lengths: _Lengths, device: str | None) -> float | None:
    """Return the most memory that decoding takes beyond the loaded model, in this process.

    Return None where the system does not say.
    """
    model = load_model(name, device)
    if device is not None and torch.device(device).type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        _seconds(model, method, inputs, lengths)
        return (torch.cuda.max_memory_allocated(device) - before) / _MEGABYTE
    low = _high_water(reset=True)
    _seconds(model, method, inputs, lengths)
    high = _high_water()
    return None if low is None or high is None else (high - low) / _MEGABYTE


def _high_water(reset: bool = False) -> int | None:
    """Return the most bytes that this process held in memory, or None where the system does not say.

    Only Linux can reset the count.
    """
    if reset and Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE
    if Path("/proc/self/status").exists():
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    try:
        import resource
    except ImportError:  # on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
