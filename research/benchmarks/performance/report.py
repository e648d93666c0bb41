"""Renew the tables of docs/performance.md from its JSON file.

    python -m research.benchmarks.performance.report [--json FILE] [--page FILE]

The text between two marks is replaced; all other text stays.

<!-- performance: goals -->
<!-- end -->
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.tables import aligned
from research.benchmarks.jobs.report import lines_of as lines_of_jobs
from research.benchmarks.performance.figures import Figures, number, with_spread
from research.benchmarks.performance.goals import GOALS, Goal
from research.benchmarks.performance.record import read
from research.benchmarks.performance.sizes import ANCHOR, CPU, GROWTH, LLAMA, SMALL, TERMS
from research.experiments.report import replace_blocks

__all__ = ["KINDS", "renew_page"]

DOCS = Path(__file__).parents[3] / "docs"
MISSING = "not measured yet"


def renew_page(page: str, parts: dict[str, Any]) -> str:
    """Return the page with its tables made from these figures."""
    figures = Figures(parts)

    def lines(name: str, arguments: list[str]) -> list[str]:
        if name == "jobs":
            return lines_of_jobs(name, arguments)
        if name != "performance" or len(arguments) != 1 or arguments[0] not in KINDS:
            said = " ".join([f"{name}:", *arguments])
            raise ArgumentError(f"there is no table {said!r}: there are performance: {', '.join(KINDS)}")
        return KINDS[arguments[0]](figures)

    return replace_blocks(page, lines)


def goals_table(figures: Figures) -> list[str]:
    rows = [_goal_row(goal, figures) for goal in GOALS]
    return aligned(["", "goal", "measured", "floor", "reached"], rows)


def _goal_row(goal: Goal, figures: Figures) -> list[str]:
    found = goal.read(figures)
    if found is None:
        return [goal.title, goal.goal, MISSING, goal.shown_floor(figures), MISSING]
    verdict = "" if goal.reached is None else "yes" if goal.reached(found.value) else "no"
    return [goal.title, goal.goal, found.shown, goal.shown_floor(figures), verdict]


def machines_table(figures: Figures) -> list[str]:
    rows = []
    for name, part in figures.parts.items():
        about = part["machine"]
        where = f"{about['processor']}, {about['cores']} cores"
        if about["device"] != "cpu":
            where = f"{about['device']} ({where})"
        commits = ", ".join(sorted({row["code"] for row in part["rows"]}))
        left_out = "; ".join(part["left_out"]) + ("" if part["complete"] else " (cut off)")
        rows.append([name, where, about["torch"], about["transformers"] or "", commits, left_out])
    return aligned(["part", "machine", "torch", "transformers", "commit", "left out"], rows)


def searches_table(part: str, keys: Iterable[str]) -> Callable[[Figures], list[str]]:
    """Return what makes the table of cases by contestants."""

    def table(figures: Figures) -> list[str]:
        rows: list[list[str]] = []
        for key in keys:
            row = figures.row(part, key)
            if row is None:
                rows.append([key, MISSING, "", "", "", "", ""])
                continue
            rows += [_search_row(key, name, each) for name, each in row["figures"].items()]
        titles = ["", "search", "ms a step", "end to end, ms", "first token, ms", "MiB", "first go, s"]
        return aligned(titles, rows)

    return table


def _search_row(key: str, name: str, figures: dict[str, Any]) -> list[str]:
    if "error" in figures:
        return [key, name, figures["error"], "", "", "", ""]
    times = [with_spread(figures[each]) for each in ("ms_per_step", "end_to_end_ms", "first_token_ms")]
    mib = "" if figures["mib"] is None else f"{figures['mib']:,.0f}"
    return [key, name, *times, mib, f"{figures['warm_up_s']:.1f}"]


def floor_table(figures: Figures) -> list[str]:
    keys = [f"llama-1.2b {size.key}" for size in LLAMA.full]
    keys += [f"qwen3-1.7b {size.key}" for size in ANCHOR.full if size.groups == 1]
    keys += [f"llama-thin {size.key}" for size in LLAMA.full[:2]]
    rows = []
    for key in keys:
        row = figures.row("floor", key)
        if row is None:
            rows.append([key, MISSING, "", "", ""])
            continue
        compiled = with_spread(row["compiled_ms"]) if "compiled_ms" in row else row.get("compiled_error", "")
        rows.append(
            [
                key,
                number(row["weights_ms"]),
                with_spread(row["forward_ms"]),
                compiled,
                f"{row['cache_mib']:,.0f}",
            ]
        )
    titles = [
        "",
        "reading the weights, ms",
        "bare forward, ms",
        "the same compiled, ms",
        "keys and values, MiB",
    ]
    return aligned(titles, rows)


def own_table(figures: Figures) -> list[str]:
    rows: list[list[str]] = []
    for key in ("captioner", "en-fr"):
        row = figures.row("own", key)
        if row is None:
            rows.append([key, "", MISSING, ""])
            continue
        for name, each in row["figures"].items():
            inputs = f"{row['inputs']:,} of {row['task']}"
            rows.append([key, inputs, name, each.get("error") or with_spread(each["seconds"])])
    return aligned(["model", "inputs", "search", "seconds"], rows)


def cpu_table(figures: Figures) -> list[str]:
    rows: list[list[str]] = []
    for case in CPU:
        row = figures.row("cpu", case.model)
        if row is None:
            rows.append([case.title, MISSING, *[""] * (len(_CPU_RATIOS) + 2)])
            continue
        search = row["figures"]["beam search"]
        step = number(1e3 * search["seconds"]["median"] / row["tokens"])
        ratios = [with_spread(row[name]) if name in row else MISSING for name in _CPU_RATIOS]
        rows.append([case.title, step, *ratios, str(row["threads"]), str(search["turns"])])
    return aligned(["model", "beam search, ms a step", *_CPU_RATIOS.values(), "threads", "turns"], rows)


_CPU_RATIOS = {
    "dbs_over_bs": "diverse / beam search",
    "bs_over_bare": "beam search / bare calls",
    "bs_over_before": "beam search, now / before",
    "dbs_over_before": "diverse, now / before",
}


KINDS: dict[str, Callable[[Figures], list[str]]] = {
    "goals": goals_table,
    "machines": machines_table,
    "floor": floor_table,
    "llama": searches_table("llama", [size.key for size in LLAMA.full]),
    "search": searches_table("search", [size.key for size in LLAMA.full[:2]]),
    "anchor": searches_table("anchor", [size.key for size in ANCHOR.full]),
    "small": searches_table(
        "small", [f"{model} {size.key}" for model in ("gpt2", "marian-74m") for size in SMALL.full]
    ),
    "growth": searches_table("growth", [size.key for size in GROWTH.full]),
    "terms": searches_table("terms", [size.key for size in TERMS.full]),
    "own": own_table,
    "cpu": cpu_table,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks.performance.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, default=DOCS / "results" / "performance.json")
    parser.add_argument("--page", type=Path, default=DOCS / "performance.md")
    options = parser.parse_args(arguments)
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(renew_page(page, read(options.json)["parts"]), encoding="utf-8")


if __name__ == "__main__":
    main()
