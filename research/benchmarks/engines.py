"""What a search on vLLM costs, in this process: beside vLLM's own beam search, and beside as many samples.

    .engines/bin/python -m research.benchmarks.engines --tiny FOLDER --real FOLDER --out FILE.json
    python -m research.benchmarks.engines --report FILE.json

With a tiny model, what is measured is the cost of asking; with a real one, what users see. Contestants take
turns, and each number is a median. A step is one token of all beams of all inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from beamsplit import BeamSearch, DiverseBeamSearch, decode

TURNS = 7
LENGTH = 24  # new tokens
SIZES = [  # inputs, beams, tokens of a prompt
    (1, 5, 32),
    (1, 10, 32),
    (1, 10, 200),
    (8, 10, 32),
    (8, 10, 200),
    (1, 20, 32),
    (1, 40, 200),
]
REAL_SIZES = [(1, 5, 32), (1, 10, 32), (1, 10, 200), (4, 10, 32), (1, 18, 32)]
REAL_TURNS, REAL_LENGTH = 5, 12
USUAL = 20  # log-probabilities that vLLM lists unless it is told otherwise


@dataclass(frozen=True)
class Size:
    inputs: int
    beams: int
    prompt: int

    def prompts(self) -> list[list[int]]:
        drawn = torch.randint(5, 250, (self.inputs, self.prompt), generator=torch.Generator().manual_seed(0))
        found: list[list[int]] = drawn.tolist()
        return found


class Counted:
    """Counts what an LLM is asked for, and how much of it is in its prefix cache."""

    def __init__(self, llm: Any) -> None:
        self.requests = self.tokens = self.computed = 0
        self._generate = llm.generate
        llm.generate = self.generate

    def generate(self, prompts: Any, *rest: Any, **options: Any) -> Any:
        outputs = self._generate(prompts, *rest, **options)
        self.requests += len(outputs)
        self.tokens += sum(len(each.prompt_token_ids) for each in outputs)
        self.computed += sum(len(each.prompt_token_ids) - (each.num_cached_tokens or 0) for each in outputs)
        return outputs

    def reset(self) -> None:
        self.requests = self.tokens = self.computed = 0


def contestants(llm: Any, size: Size, length: int) -> dict[str, Callable[[], Any]]:
    import vllm
    from vllm.sampling_params import BeamSearchParams

    from beamsplit.engines import from_vllm

    model, prompts = from_vllm(llm), size.prompts()
    given = [{"prompt_token_ids": prompt} for prompt in prompts]
    sampled = vllm.SamplingParams(n=size.beams, temperature=1.0, max_tokens=length, ignore_eos=True)
    own = BeamSearchParams(beam_width=size.beams, max_tokens=length, ignore_eos=True)

    def search(strategy: Any) -> Any:
        return decode(model, prompts, strategy, max_length=length, end=None)

    return {
        "beam search": lambda: search(BeamSearch(beams=size.beams)),
        "diverse": lambda: search(DiverseBeamSearch(groups=size.beams, strength=0.5)),
        "vLLM's beam search": lambda: llm.beam_search(given, own),
        "samples": lambda: llm.generate(given, sampled, use_tqdm=False),
    }


def measure(llm: Any, size: Size, counted: Counted, turns: int, length: int) -> dict[str, Any]:
    """Return milliseconds a step, and what is asked for in a step."""
    runs = contestants(llm, size, length)
    times: dict[str, list[float]] = {name: [] for name in runs}
    asked: dict[str, dict[str, float]] = {}
    for turn in range(turns + 1):
        for name, run in runs.items():
            llm.reset_prefix_cache()
            counted.reset()
            begin = time.perf_counter()
            run()
            if turn:  # the first warms up
                times[name].append((time.perf_counter() - begin) * 1000 / length)
            if name in ("beam search", "diverse"):
                asked[name] = {
                    "requests": counted.requests / length,
                    "tokens": counted.tokens / length,
                    "computed": counted.computed / length,
                }
    return {
        "inputs": size.inputs,
        "beams": size.beams,
        "prompt": size.prompt,
        "milliseconds": {name: statistics.median(values) for name, values in times.items()},
        "spread": {name: statistics.quantiles(values, n=4) for name, values in times.items()},
        "asked": asked,
    }


def exactness(llm: Any, model: Path, size: Size) -> dict[str, Any]:
    """Return how many lists equal those of transformers, at a limit of 20 log-probabilities."""
    from transformers import AutoModelForCausalLM

    from beamsplit.engines import from_vllm
    from beamsplit.huggingface import from_transformers

    here = from_transformers(AutoModelForCausalLM.from_pretrained(model).eval())
    strategy = DiverseBeamSearch(groups=size.beams, strength=0.5)
    prompts = size.prompts()
    found = decode(from_vllm(llm), prompts, strategy, max_length=LENGTH, end=None)
    same = certified = 0
    for prompt, ours in zip(prompts, found, strict=True):
        (theirs,) = decode(here, torch.tensor([prompt]), strategy, max_length=LENGTH, end=None)
        same += sum(a.tokens == b.tokens for a, b in zip(ours, theirs, strict=True))
        certified += sum(each.certified for each in ours)
    return {
        "beams": size.beams,
        "outputs": size.beams * size.inputs,
        "same": same,
        "certified": certified,
        "vllm_allows": 2 * size.beams <= USUAL,
    }


def run(tiny: Path, real: Path) -> dict[str, Any]:
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1")
    import vllm

    usual = {"dtype": "float32", "max_model_len": 256, "enforce_eager": True}
    generous = {**usual, "block_size": 32, "max_logprobs": 100}
    tiny_sizes, real_sizes = (([Size(*size) for size in sizes]) for sizes in (SIZES, REAL_SIZES))
    cached = vllm.LLM(model=str(tiny), **generous)
    uncached = vllm.LLM(model=str(tiny), **generous, enable_prefix_caching=False)
    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cached": _measured(cached, tiny_sizes, TURNS, LENGTH),
        "uncached": _measured(uncached, tiny_sizes, TURNS, LENGTH),
        "real": _measured(vllm.LLM(model=str(real), **generous), real_sizes, REAL_TURNS, REAL_LENGTH),
        "exact": [
            exactness(vllm.LLM(model=str(tiny), **usual), tiny, Size(4, beams, 32)) for beams in (10, 15, 19)
        ],
    }


def _measured(llm: Any, sizes: list[Size], turns: int, length: int) -> list[dict[str, Any]]:
    counted, found = Counted(llm), []
    for size in sizes:
        found.append(measure(llm, size, counted, turns, length))
        print(size, found[-1]["milliseconds"], file=sys.stderr, flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """Return the tables of the page."""
    lines = ["SmolLM2-135M in float32:", "", *_times(found["real"])]
    lines += ["", "A tiny Llama, where nearly all is the cost of asking:", "", *_times(found["cached"])]
    lines += [
        "",
        "What the tiny one was asked for by diverse beam search, in a step:",
        "",
        "| inputs, beams, prompt | requests | their tokens | read, prefix caching on | off |",
        "|---|---|---|---|---|",
    ]
    for on, off in zip(found["cached"], found["uncached"], strict=True):
        asked = on["asked"]["diverse"]
        read = f"{asked['computed']:.0f} | {off['asked']['diverse']['computed']:.0f}"
        lines.append(f"| {_size(on)} | {asked['requests']:.0f} | {asked['tokens']:.0f} | {read} |")
    lines += [
        "",
        "At the usual limit of 20 log-probabilities:",
        "",
        "| groups | outputs | certified | the same as in transformers | vLLM's own search at this width |",
        "|---|---|---|---|---|",
    ]
    for row in found["exact"]:
        allowed = "yes" if row["vllm_allows"] else "refused"
        lines.append(
            f"| {row['beams']} | {row['outputs']} | {row['certified']} | {row['same']} | {allowed} |"
        )
    return "\n".join(lines) + "\n"


def _times(rows: list[dict[str, Any]]) -> list[str]:
    names = ("beam search", "diverse", "vLLM's beam search", "samples")
    lines = [
        "| inputs, beams, prompt | beam search | diverse | vLLM's beam search | as many samples |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        times = " | ".join(f"{row['milliseconds'][name]:.1f}" for name in names)
        lines.append(f"| {_size(row)} | {times} |")
    return lines


def _size(row: dict[str, Any]) -> str:
    return f"{row['inputs']}, {row['beams']}, {row['prompt']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", type=Path, help="a folder with a tiny model and its tokenizer")
    parser.add_argument("--real", type=Path, help="a folder with a real one")
    parser.add_argument("--out", type=Path, help="where to write the figures")
    parser.add_argument("--report", type=Path, help="print the tables of these figures instead")
    given = parser.parse_args()
    if given.report is not None:
        print(report(json.loads(given.report.read_text(encoding="utf-8"))), end="")
        return
    if given.tiny is None or given.real is None or given.out is None:
        parser.error("give --tiny, --real and --out")
    given.out.write_text(json.dumps(run(given.tiny, given.real), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
