"""Time the search, print tables and write them as JSON.

Decoding: Diverse Beam Search with 20 groups of one beam against beam search of width 20, and both against
the model calls they make, replayed bare. Selection: one step of picking survivors from given logits, by
short lists against one pass over the vocabulary for each group (as other implementations do it).

`python -m research.benchmarks performance` measures far more: see `research.benchmarks.performance.command`.
`python -m research.benchmarks jobs` measures jobs on several workers: see `research.benchmarks.jobs.command`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from research.benchmarks.decoding import Case, measure_decoding
from research.benchmarks.selecting import measure_selection

CASES = [
    Case("GRU 1000, V=10k", vocabulary=10_000, kind="gru", batch=1),
    Case("GRU 1000, V=10k, batch 8", vocabulary=10_000, kind="gru", batch=8),
    Case("GRU 512, V=10k", vocabulary=10_000, kind="small gru", batch=1),
    Case("GRU 512, V=10k, batch 8", vocabulary=10_000, kind="small gru", batch=8),
    Case("step model, V=50k", vocabulary=50_000, kind="dot", batch=1),
    Case("step model, V=128k", vocabulary=128_000, kind="dot", batch=1),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks", description=__doc__)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", default=Path("benchmark.json"), help="(default %(default)s)"
    )
    parser.add_argument("--turns", type=int, default=25, help="turns each contestant gets (default 25)")
    parser.add_argument("--quick", action="store_true", help="the first case and fewer turns: does it run?")
    options = parser.parse_args()
    turns = 3 if options.quick else options.turns
    torch.manual_seed(0)
    decoding = [measure_decoding(case, turns) for case in (CASES[:1] if options.quick else CASES)]
    print_decoding(decoding)
    vocabularies = [10_000] if options.quick else [10_000, 50_000, 128_000]
    selection = [row for v in vocabularies for row in measure_selection(v, turns)]
    print_selection(selection)
    report = {"machine": machine(), "decoding": decoding, "selection": selection}
    options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwrote {options.json}", file=sys.stderr)


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def print_decoding(rows: list[dict[str, Any]]) -> None:
    print("Whole decodes, B=20 (DBS: 20 groups of 1, Hamming, strength 0.5). Ratios: median [quartiles]\n")
    titles = "  ".join(f"{title:>20}" for title in ("DBS / BS", "BS / bare calls", "DBS / bare calls"))
    print(f"{'model':26} {'BS ms/step':>10}  {titles}")
    for row in rows:
        ratios = [row["dbs_over_bs"], row["bs_over_bare"], row["dbs_over_bare"]]
        shown = "  ".join(f"{m:6.3f} [{low:.3f}-{high:.3f}]" for m, low, high in ratios)
        print(f"{row['model']:26} {row['bs_ms_per_step']:10.2f}  {shown}")


def print_selection(rows: list[dict[str, Any]]) -> None:
    print("\nSelection alone, B=20, one input, microseconds a step\n")
    print(f"{'vocabulary':>10} {'groups':>7} {'short lists':>12} {'pass a group':>13}  {'speed-up':>20}")
    for row in rows:
        m, low, high = row["speed_up"]
        print(
            f"{row['vocabulary']:10} {row['groups']:7} {row['lists_us']:12.0f} {row['passes_us']:13.0f}"
            f"  {m:6.2f} [{low:.2f}-{high:.2f}]"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["jobs"]:
        from research.benchmarks.jobs.command import main as measure_jobs

        measure_jobs(sys.argv[2:])
    elif sys.argv[1:2] == ["performance"]:
        from research.benchmarks.performance.command import main as measure_performance

        measure_performance(sys.argv[2:])
    else:
        main()
