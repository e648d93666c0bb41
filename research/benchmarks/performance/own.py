"""Measure the captioner and the translator that come with the package, on their test data."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from beamsplit import BeamSearch, DiverseBeamSearch
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import data_folder
from beamsplit.evaluation.tasks import TASKS
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import load
from beamsplit.strategies.defaults import DEFAULTS
from research.benchmarks.performance.bench import Bench
from research.benchmarks.performance.contestants import PLAIN, Variant, decode_options, variants, wait
from research.benchmarks.performance.turns import measure_whole

__all__ = ["measure_models"]


def measure_models(bench: Bench) -> None:
    """Measure the captioner and the translator that come with the package, on their test data."""
    invented: dict[str, Any] = {"captioner": torch.randn(6, 1280), "en-fr": ["I'm cold.", "Where is it?"]}
    for name, task in (("captioner", "coco.test"), ("en-fr", "tatoeba.test")):
        inputs = invented[name] if bench.settings.tiny else _test_data(bench, task)
        if inputs is not None and bench.starts(f"{name} on {task}"):
            # On a processor a few are enough to tell the speed.
            _measure_own_model(bench, name, task, inputs if bench.device == "cuda" else inputs[:64])


def _measure_own_model(bench: Bench, name: str, task: str, inputs: Any) -> None:
    model: Any = load(name)
    model.to(bench.device)
    length = DEFAULTS["captioner" if name == "captioner" else "translator"].max_length
    batch = 256 if bench.device == "cuda" else 32

    def job(strategy: Any, variant: Variant) -> None:
        options: Any = {"batch_size": batch, "max_length": length, **variant.options}
        with variant.switched():
            decode_in_batches(model, inputs, strategy, **options)
        wait(bench.device)

    diverse = DiverseBeamSearch(groups=20, beams_per_group=1, strength=0.5)
    runs = {each.name: partial(job, diverse, each) for each in variants(decode_options(), bench.device)}
    runs["ours, beam search"] = partial(job, BeamSearch(beams=20), PLAIN)
    figures = measure_whole(runs, bench.turns, bench.clock)
    bench.add({"key": name, "task": task, "inputs": len(inputs), "batch": batch, "figures": figures})
    for each, found in figures.items():
        said = found.get("error") or f"{found['seconds']['median']:.3g} s for {len(inputs)} inputs"
        bench.say(f"  {each}: {said}")


def _test_data(bench: Bench, task: str) -> Any:
    """Return the inputs of a task, or None with a line that says why there are none."""
    try:
        return TASKS[task](data_folder()).inputs
    except ArgumentError as error:
        bench.leave_out(f"{task}: {error}")
        return None
