"""Measure how fast and how small a search is; add the figures to one JSON file.

    python -m research.benchmarks performance --out docs/results/performance.json
    python -m research.benchmarks performance --only floor llama --old-python OTHER/bin/python
    python -m research.benchmarks performance --tiny --device cpu      does everything run?

The page docs/performance.md is made from the file by `python -m research.benchmarks.performance.report`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch

from beamsplit.errors import BeamsplitError
from research.benchmarks.performance.bench import Bench, Settings
from research.benchmarks.performance.contestants import wait
from research.benchmarks.performance.parts import PARTS
from research.benchmarks.performance.record import Record, machine

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    try:
        _measure(options)
    except BeamsplitError as error:
        sys.exit(f"performance: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="parts:\n" + "\n".join(f"  {name:8} {part.title}" for name, part in PARTS.items()),
    )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default, help="(default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help="some parts alone")
    parser.add_argument(
        "--out", type=Path, metavar="JSON", default=Path("performance.json"), help="(default: %(default)s)"
    )
    parser.add_argument("--old-python", metavar="FILE", help="an interpreter that has transformers 4.55.4")
    parser.add_argument(
        "--old-path", type=Path, metavar="FOLDER", help="or a folder with it, made by pip install --target"
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="src of another checkout, to measure this one against"
    )
    parser.add_argument("--commit", metavar="NAME", help="what is measured (default: what git says)")
    parser.add_argument("--turns", type=int, default=3, help="turns each contestant gets (default: 3)")
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of the part `cpu` (default: 2; 1 on a busy machine)"
    )
    parser.add_argument("--cases", metavar="TEXT", default="", help="only cases with this in their names")
    parser.add_argument(
        "--without",
        nargs="+",
        metavar="TEXT",
        default=(),
        help="no contestants with one of these in their names",
    )
    parser.add_argument(
        "--within",
        type=float,
        metavar="SECONDS",
        default=float("inf"),
        help="begin no case after so many seconds in all; a case that has begun goes on",
    )
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does everything run?")
    return parser


def _measure(options: argparse.Namespace) -> None:
    chosen = _chosen(options)
    record = Record(options.out, machine(options.device, tiny=options.tiny))
    settings = Settings(
        device=options.device,
        tiny=options.tiny,
        turns=2 if options.tiny else options.turns,
        threads=options.threads,
        old_python=options.old_python,
        old_path=options.old_path,
        before=options.before,
        commit=options.commit,
        cases=options.cases,
        without=options.without,
    )
    bench = Bench(record, settings)
    if options.device == "cuda" and not options.tiny:
        bench.say(_estimate(chosen))
    begin = time.monotonic()
    _silence_transformers()
    try:
        failed = []
        for place, name in enumerate(chosen):
            left = options.within - (time.monotonic() - begin)
            if left <= 0:
                bench.say(f"the time was out before {' '.join(chosen[place:])}")
                break
            if not _runs(bench, name, left):
                failed.append(name)
            if (rest := chosen[place + 1 :]) and _is_lost(options.device):
                sys.exit(
                    f"performance: {name} has spoilt the GPU for what follows: run --only {' '.join(rest)}"
                )
        bench.say(f"done after {time.monotonic() - begin:.0f} s")
    finally:
        bench.close()
    print(options.out)
    if failed:
        sys.exit(f"performance: {', '.join(failed)} failed; the other figures are in {options.out}")


def _is_lost(device: str) -> bool:
    """Tell whether an error has spoilt the GPU for the rest of this process: it answers nothing else."""
    try:
        wait(device)
    except RuntimeError:
        return True
    return False


def _runs(bench: Bench, name: str, left: float) -> bool:
    """Measure a part. If it fails, say why: the others are still worth their time."""
    bench.begin(name, min(PARTS[name].limit, left))
    begin = time.monotonic()
    try:
        PARTS[name].run(bench)
    except Exception as error:
        traceback.print_exc()
        bench.leave_out(f"the rest: {type(error).__name__}: {error}".splitlines()[0])
        return False
    bench.record.complete(name)
    bench.say(f"{name}: {time.monotonic() - begin:.0f} s")
    return True


def _chosen(options: argparse.Namespace) -> list[str]:
    """Return the parts to measure: those that were named, or all that make sense on the device."""
    if options.only:
        named = [name for name in PARTS if name in options.only]
        slow = [name for name in named if PARTS[name].needs_gpu]
        if slow and options.device == "cpu" and not options.tiny:
            sys.exit(f"performance: part {slow[0]} needs a GPU: leave it out, or add --tiny")
        return named
    if options.tiny:
        return list(PARTS)
    # The part for two cores needs no GPU, whose time is dear.
    wanted = (
        (lambda name: name != "cpu") if options.device == "cuda" else (lambda name: not PARTS[name].needs_gpu)
    )
    return [name for name in PARTS if wanted(name)]


def _estimate(chosen: Sequence[str]) -> str:
    """Return how long the parts may take.

    >>> _estimate(["search", "terms"])
    'on an H200 about 40 s in all: search 20 s, terms 20 s'
    """
    seconds = {name: PARTS[name].estimate for name in chosen}
    each = ", ".join(f"{name} {estimate:.0f} s" for name, estimate in seconds.items())
    return f"on an H200 about {sum(seconds.values()):.0f} s in all: {each}"


def _silence_transformers() -> None:
    import transformers

    transformers.logging.set_verbosity_error()
