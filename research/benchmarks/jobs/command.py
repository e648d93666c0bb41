"""Measure what big jobs cost; add the figures to one JSON file.

    python -m research.benchmarks jobs --out docs/results/jobs.json
    python -m research.benchmarks jobs --only speed
    python -m research.benchmarks jobs --tiny      does everything run?

The tables of docs/performance.md and docs/big-jobs.md are made of it by
`python -m research.benchmarks.jobs.report`. Measure on a machine that has nothing else to do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.benchmarks.jobs.parts import PARTS, Sizes
from research.benchmarks.performance.record import Record, code, machine

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks jobs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("jobs.json"), help="(default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help="some parts alone")
    parser.add_argument("--turns", type=int, default=3, help="turns each way gets (default: 3)")
    parser.add_argument("--busy", action="store_true", help="note that the machine had other work")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does everything run?")
    options = parser.parse_args(arguments)
    sizes = Sizes.tiny() if options.tiny else Sizes(turns=options.turns)
    record = Record(options.out, {**about(options.tiny), "busy": options.busy})
    with tempfile.TemporaryDirectory(prefix="jobs-") as folder:
        for name in options.only or PARTS:
            print(f"jobs: {name}", file=sys.stderr, flush=True)
            record.begin(name)
            for row in PARTS[name](Path(folder), sizes):
                record.add(name, {**row, "code": code()})
            record.complete(name)


def about(tiny: bool) -> dict[str, Any]:
    """Return what is to be known of the machine."""
    import ray

    return {**machine("cpu", tiny=tiny), "ray": ray.__version__}
