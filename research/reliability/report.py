"""The tables of docs/reliability.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from research.reliability.decodes import growth

__all__ = ["decodes_table", "load_table", "renewed"]


def renewed(page: str, content: Mapping[str, Any]) -> str:
    """Return a page with its tables anew: what is between `<!-- measured: NAME -->` and `<!-- end -->`."""
    for name, table in (("decodes", decodes_table), ("load", load_table)):
        before, begin, rest = page.partition(f"<!-- measured: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if end:
            page = "".join([before, begin, table(content), end, after])
    return page


def decodes_table(content: Mapping[str, Any]) -> str:
    """Return what was measured during many decodes."""
    measured = content["decodes"]
    points, grown = measured["points"], growth(measured)
    every = max((len(points) - 1) // 5, 1)
    rows = [
        f"| {each['decodes']:,} | {each['megabytes']:.1f} | {each['objects']:,} |" for each in points[::every]
    ]
    grew = f"{grown['megabytes']:+.1f} MB, {grown['objects']:+,.0f} objects"
    return "\n".join(
        [
            "| decodes | MB in use | objects of Python |",
            "|---|---|---|",
            *rows,
            f"\nFrom the first tenth to the end: {grew}, in {measured['seconds'] / 60:.0f} minutes "
            f"({_of(measured['machine'])}).\n",
        ]
    )


def load_table(content: Mapping[str, Any]) -> str:
    """Return how the servers held out."""
    demo, study = content["demo"], content["study"]
    rows: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        (
            "clients at once, and some with bad manners",
            lambda it: f"{it['clients']} and {it['rude_clients']}",
        ),
        ("seconds", lambda it: f"{it['seconds']:.0f}"),
        ("requests", lambda it: f"{it['requests']:,}"),
        ("answers, by status", lambda it: ", ".join(f"{n:,} of {s}" for s, n in it["statuses"].items())),
        ("seconds of an answer: median, 99 of 100, slowest", _seconds),
        ("answers that took more than 5 s", lambda it: str(it["slow"])),
        (
            "MB in use before and after",
            lambda it: f"{it['megabytes_before']:.0f}, {it['megabytes_after']:.0f}",
        ),
    ]
    lines = [f"| {title} | {of(demo)} | {of(study)} |" for title, of in rows]
    votes = f"{study['votes_kept']:,} of {study['votes_acknowledged']:,}"
    return "\n".join(
        [
            "| | the demo | a study |",
            "|---|---|---|",
            *lines,
            f"| votes that are kept, of those acknowledged | | {votes} |",
            f"\n({_of(demo['machine'])}; 429 asks to come again, since two searches run at a time.)\n",
        ]
    )


def _seconds(of: Mapping[str, Any]) -> str:
    return f"{of['median_seconds']:.2f}, {of['seconds_of_99_percent']:.2f}, {of['slowest_seconds']:.2f}"


def _of(machine: Mapping[str, Any]) -> str:
    return f"{machine['cores']} cores of {machine['processor']}, shared with other work"
