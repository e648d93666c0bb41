"""Renew the tables about big jobs, of docs/performance.md and docs/big-jobs.md, from their JSON files.

    python -m research.benchmarks.jobs.report

<!-- jobs: speed -->
<!-- end -->

<!-- chaos: runs -->
<!-- end -->
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.tables import aligned
from research.benchmarks.jobs.parts import PLAIN
from research.experiments.report import replace_blocks

__all__ = ["KINDS", "big_jobs_page", "lines_of"]

DOCS = Path(__file__).parents[3] / "docs"
MISSING = "not measured yet"

Parts = dict[str, Any]


def lines_of(name: str, arguments: list[str], folder: Path = DOCS / "results") -> list[str]:
    """Return the lines of a table about jobs, or about the jobs that were disturbed."""
    kind = arguments[0] if len(arguments) == 1 else ""
    if (name, kind) == ("chaos", "runs"):
        return chaos_table(_read(folder / "chaos.json"))
    if name != "jobs" or kind not in KINDS:
        said = " ".join([f"{name}:", *arguments])
        raise ArgumentError(f"there is no table {said!r}: there are chaos: runs, jobs: {', '.join(KINDS)}")
    return KINDS[kind](_read(folder / "jobs.json").get("parts", {}))


def big_jobs_page(page: str) -> str:
    """Return docs/big-jobs.md with its tables made of the figures."""
    return replace_blocks(page, lines_of)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def machines_table(parts: Parts) -> list[str]:
    """Return where each part was measured."""
    rows = []
    for name, part in parts.items():
        about = part["machine"]
        other = "yes" if about["busy"] else ""
        codes = ", ".join(sorted({row["code"] for row in part["rows"]}))
        where = f"{about['processor']}, {about['cores']} cores"
        rows.append([name, where, other, about["python"], about["torch"], about["ray"], codes])
    return aligned(["part", "machine", "busy with other work", "Python", "torch", "Ray", "commit"], rows)


def speed_table(parts: Parts) -> list[str]:
    """Return how fast each way is, beside plain decoding and beside one worker."""
    rows: list[list[str]] = []
    for row in _rows(parts, "speed"):
        rates = row["lines_per_s"]
        for way in rates:
            beside = "" if way == PLAIN else _ratio(rates[way], rates[PLAIN])
            one = _ratio(rates[way], rates["1 worker on Ray"]) if way.startswith("2") else ""
            shown = f"{statistics.median(rates[way]):.1f}"
            rows.append([f"{row['key']}; {row['lines']:,} lines", way, shown, beside, one])
    rows = rows or [[MISSING, "", "", "", ""]]
    return aligned(["model", "", "lines a second", "beside plain decode", "beside 1 worker"], rows)


def _ratio(first: list[float], second: list[float]) -> str:
    """Return the ratio of rates, turn by turn: the median, and the lowest and the highest."""
    found = sorted(a / b for a, b in zip(first, second, strict=True))
    return f"{statistics.median(found):.2f} [{found[0]:.2f}-{found[-1]:.2f}]"


def start_table(parts: Parts) -> list[str]:
    """Return how long a run of a single line takes."""
    rows = [[row["key"], f"{statistics.median(row['seconds']):.1f}"] for row in _rows(parts, "start")]
    rows += [
        [f"each further shard, beside its decoding ({row['shards']:,} shards of one line, 2 workers)", each]
        for row in _rows(parts, "shards")
        for each in [f"{row['ms'] / 1e3:.3f}"]
    ]
    return aligned(["a run of one line", "seconds"], rows or [[MISSING, ""]])


def memory_table(parts: Parts) -> list[str]:
    """Return the memory of the driver and of its worker."""
    rows = [
        [
            f"{int(row['key']):,}",
            f"{row['driver_mib']:.0f}",
            f"{row['worker_mib']:.0f}",
            f"{row['seconds']:.0f}",
        ]
        for row in _rows(parts, "memory")
    ]
    return aligned(
        ["inputs", "driver, MiB", "worker, MiB", "seconds in all"], rows or [[MISSING, "", "", ""]]
    )


def scale_table(parts: Parts) -> list[str]:
    """Return what the driver does for very many inputs."""
    rows = [
        [
            f"{row['rows']:,} in {row['files']:,} {'file' if row['files'] == 1 else 'files'}",
            f"{row['shards']:,}",
            f"{row['driver_mib']:.1f}",
            f"{row['manifest_mib']:.2f}",
            f"{row['reports_mib']:.1f}",
            f"{row['final_manifest_mib']:.2f}",
            f"{row['resume_s']:.1f}",
            f"{row['shards'] / 2 / row['second_half_s']:,.0f}",
        ]
        for row in _rows(parts, "scale")
        if row["key"] != "look"
    ]
    titles = ["inputs", "shards", "driver, MiB", "manifest at the beginning, MiB", "reports of half, MiB"]
    titles += ["manifest at the end, MiB", "going on at half, seconds", "shards a second"]
    return aligned(titles, rows or [[MISSING, *[""] * 7]])


def chaos_table(content: Any) -> list[str]:
    """Return what became of jobs that were disturbed."""
    if not content:
        return aligned([""], [[MISSING]])
    total, machine = content["total"], content["machine"]
    killed = ", ".join(f"{count} {name}s" for name, count in sorted(total["killed"].items()))
    rows = [
        ["runs", f"{total['runs']}, on {content['nodes']} nodes of Ray {machine['ray']} on one machine"],
        ["inputs, shards", f"{total['inputs']:,}, {total['shards']:,}"],
        ["killed with SIGKILL", killed],
        ["commands until all were done", f"{total['commands']}"],
        ["inputs lost", f"{total['lost']}"],
        ["inputs twice", f"{total['twice']}"],
        ["runs with the bytes of an undisturbed run", f"{total['equal']} of {total['runs']}"],
    ]
    return aligned(["", ""], rows)


def _rows(parts: Parts, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parts.get(name, {}).get("rows", [])
    return found


KINDS: dict[str, Callable[[Parts], list[str]]] = {
    "machines": machines_table,
    "speed": speed_table,
    "start": start_table,
    "memory": memory_table,
    "scale": scale_table,
}


def main() -> None:
    """Renew both pages."""
    from research.benchmarks.performance.report import main as renew_performance

    renew_performance([])
    page = DOCS / "big-jobs.md"
    page.write_text(big_jobs_page(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
