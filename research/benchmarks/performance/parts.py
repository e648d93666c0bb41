"""The parts of the measurement, in order of value. Each can be measured alone, within a time limit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from beamsplit import DiverseBeamSearch
from beamsplit.diversity import names
from research.benchmarks.performance.bench import Bench
from research.benchmarks.performance.contestants import (
    CAPTURED,
    ON_CPU,
    STEPWISE,
    Decoding,
    FreeModel,
    Generating,
    Variant,
    decode_options,
    variants,
)
from research.benchmarks.performance.cpu_worker import CpuModel, run_in
from research.benchmarks.performance.floor import BareDecoder, Shape, copy_bandwidth, replayed, time_ms
from research.benchmarks.performance.sizes import (
    ANCHOR,
    CPU,
    GROWTH,
    LLAMA,
    SMALL,
    TERMS,
    TINY_CPU,
    CpuCase,
    Size,
)
from research.benchmarks.performance.turns import Contestant, measure_whole, ratio, spread

__all__ = ["PARTS", "Part"]

STRENGTH = 0.5


@dataclass(frozen=True)
class Part:
    """A part of the measurement."""

    title: str
    run: Callable[[Bench], None]
    estimate: float
    """Seconds on an H200, reckoned from what a step of each peer takes, and half a minute for compiling."""
    limit: float
    """Seconds after which no further case begins."""
    needs_gpu: bool = True


def measure_floor(bench: Bench) -> None:
    """Measure the copy bandwidth, the time to read the weights, and the bare forward of each size."""
    speeds = copy_bandwidth(bench.device, bench.choose(1024, 1))
    bandwidth = spread(speeds)
    bench.add({"key": "copy bandwidth", "bytes_per_s": bandwidth})
    cases = [("llama-1.2b", size) for size in bench.sizes(LLAMA)]
    cases += [("qwen3-1.7b", size) for size in bench.sizes(ANCHOR) if size.groups == 1]
    cases += [("llama-thin", size) for size in bench.sizes(LLAMA)[:2]]
    for model, size in cases:
        if bench.starts(key := f"{model} {size.key}"):
            bench.add({"key": key, **_bare_forward(bench, model, size, bandwidth["median"])})


def _bare_forward(bench: Bench, model: str, size: Size, bandwidth: float) -> dict[str, Any]:
    bench.free()
    decoder = BareDecoder(Shape.of(bench.name(model)), size, bench.device)
    found: dict[str, Any] = {
        "weight_bytes": decoder.weight_bytes,
        "weights_ms": float(f"{decoder.weight_bytes / bandwidth * 1e3:.4g}"),
        "cache_mib": round(decoder.cache_mib, 1),
        "forward_ms": spread(time_ms(replayed(decoder.step, bench.device), bench.device, turns=20)),
    }
    if bench.device == "cuda":
        decoder.compile()
        try:
            step = replayed(decoder.step, bench.device)
            found["compiled_ms"] = spread(time_ms(step, bench.device, turns=20))
        except Exception as error:  # the figure without it stands
            found["compiled_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    bench.say(f"  {found}")
    return found


def measure_llama(bench: Bench) -> None:
    """Measure Llama 1.2B against its peers."""
    for size in bench.sizes(LLAMA):
        bench.case(size, partial(bench.searches, "llama-1.2b", size), model="llama-1.2b")


def measure_search(bench: Bench) -> None:
    """Measure all but the forward: with a model whose step is free, and with one of a single thin layer."""
    for size in bench.sizes(LLAMA)[:2]:
        bench.case(size, partial(_searches_alone, bench, size), model="llama-thin")


def _searches_alone(bench: Bench, size: Size) -> dict[str, Contestant]:
    vocabulary = Shape.of(bench.name("llama-thin")).vocabulary
    free = FreeModel(size.inputs, size.beams, vocabulary, bench.device)
    strategy, inputs = _strategy(size), list(range(size.inputs))
    found: dict[str, Contestant] = {
        f"{each.name}: free model": Decoding(free, inputs, strategy, bench.device, each)
        for each in variants(decode_options(), bench.device)
    }
    thin = bench.searches("llama-thin", size, peers=False)
    return found | {f"{name}: thin model": contestant for name, contestant in thin.items()}


def _strategy(size: Size) -> DiverseBeamSearch:
    return DiverseBeamSearch(groups=size.groups, beams_per_group=size.beams // size.groups, strength=STRENGTH)


def measure_anchor(bench: Bench) -> None:
    """Measure 256 beams and three tokens end to end, with the shape of Qwen3-1.7B."""
    for size in bench.sizes(ANCHOR):
        peers = size.groups == 1  # as the anchor, which is a plain beam search
        bench.case(size, partial(bench.searches, "qwen3-1.7b", size, peers=peers), model="qwen3-1.7b")


def measure_small(bench: Bench) -> None:
    """Measure GPT-2 and Marian."""
    for model, size in itertools.product(("gpt2", "marian-74m"), bench.sizes(SMALL)):
        bench.case(size, partial(bench.searches, model, size), model=model, key=f"{model} {size.key}")


def measure_growth(bench: Bench) -> None:
    """Measure how a step grows with groups, with the prompt, and with beams."""
    for size in bench.sizes(GROWTH):
        ours = partial(bench.searches, "llama-1.2b", size, peers=False, chosen=[ON_CPU, STEPWISE, CAPTURED])
        bench.case(size, ours, model="llama-1.2b")


def measure_terms(bench: Bench) -> None:
    """Measure each term against Hamming."""
    for size in bench.sizes(TERMS):
        bench.case(size, partial(_searches_by_term, bench, size), model="llama-1.2b")


def _searches_by_term(bench: Bench, size: Size) -> dict[str, Contestant]:
    model = bench.model("llama-1.2b")
    return {
        term: Generating(model, "ours", size, bench.device, Variant(term, {"diversity": term}))
        for term in names.TERMS
    }


def measure_own(bench: Bench) -> None:
    """Measure the models that come with the package. They need more packages than the other parts."""
    from research.benchmarks.performance.own import measure_models

    measure_models(bench)


def measure_cpu(bench: Bench) -> None:
    """Measure one input on two cores: diverse beam search, beam search, and the bare calls of the model."""
    before = torch.get_num_threads()
    torch.set_num_threads(bench.settings.threads)
    try:
        for case in bench.choose(CPU, TINY_CPU):
            if bench.starts(case.model):
                _measure_cpu_model(bench, case)
    finally:
        torch.set_num_threads(before)


def _measure_cpu_model(bench: Bench, case: CpuCase) -> None:
    here = CpuModel(bench.name(case.model) if case.model == "gpt2" else case.model, case.beams, case.tokens)
    runs: dict[str, Callable[[], object]] = {
        "beam search": here.beam_search,
        "diverse": here.diverse,
        "bare calls": here.bare_calls,
    }
    task = {"model": here.name, "beams": case.beams, "tokens": case.tokens, "threads": bench.settings.threads}
    for when, worker in bench.cpu_workers().items():
        runs[f"beam search, {when}"] = partial(run_in, worker, {**task, "run": "beam_search"})
        runs[f"diverse, {when}"] = partial(run_in, worker, {**task, "run": "diverse"})
    figures = measure_whole(runs, case.turns, bench.clock)
    seconds = {each: found["all_seconds"] for each, found in figures.items() if "error" not in found}
    ratios = {
        name: ratio(seconds[first], seconds[second])
        for name, (first, second) in CPU_RATIOS.items()
        if first in seconds and second in seconds
    }
    about = {"beams": case.beams, "tokens": case.tokens, "threads": torch.get_num_threads()}
    bench.add({"key": case.model, **about, "figures": figures, **ratios})
    bench.say(f"  {ratios}")


CPU_RATIOS = {
    "dbs_over_bs": ("diverse", "beam search"),
    "bs_over_bare": ("beam search", "bare calls"),
    "bs_over_before": ("beam search, after", "beam search, before"),
    "dbs_over_before": ("diverse, after", "diverse, before"),
}


PARTS: dict[str, Part] = {
    "floor": Part("What a step cannot be faster than", measure_floor, 45, 80),
    "llama": Part("Llama 1.2B against its peers", measure_llama, 260, 320),
    "search": Part("All but the forward", measure_search, 20, 40),
    "anchor": Part("256 beams, three tokens, Qwen3-1.7B", measure_anchor, 40, 80),
    "small": Part("GPT-2 and Marian", measure_small, 25, 60),
    "growth": Part("Growth with groups, prompt and beams", measure_growth, 35, 80),
    "terms": Part("Terms against Hamming", measure_terms, 20, 45),
    "own": Part("The models that come with the package", measure_own, 20, 60, needs_gpu=False),
    "cpu": Part("Two cores of a processor", measure_cpu, 90, 180, needs_gpu=False),
}
"""In order of value: who has less time measures the first."""
