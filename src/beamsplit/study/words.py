"""Write the figures of a report as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamsplit.evaluation.tables import aligned

__all__ = ["Section", "markdown", "sections", "summary"]

Figures = Mapping[str, Any]

_FEW = 20  # items, below which the bootstrap interval is too narrow


@dataclass(frozen=True)
class Section:
    """A table with a title and notes."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


def sections(report: Figures) -> list[Section]:
    """Return the sections of a report."""
    by = [_by(report, key, part) for key, part in report["by"].items()]
    if not report["votes"]:
        return [_preference(report)]
    return [_preference(report), *by, _spread(report), _people(report)]


def markdown(report: Figures) -> str:
    """Return a report as Markdown."""
    lines = [f"## {report['second']} against {report['first']}", "", summary(report), ""]
    for section in sections(report):
        lines += [
            f"### {section.title}",
            "",
            *aligned(_cells(section.head), list(map(_cells, section.rows))),
            "",
        ]
        lines += [line for note in section.notes for line in (note, "")]
    return "\n".join(lines).rstrip() + "\n"


def _cells(texts: Sequence[str]) -> list[str]:
    """Escape what would break a table: methods may have any name."""
    return [" ".join(text.replace("|", r"\|").split()) for text in texts]


def summary(report: Figures) -> str:
    """Return one sentence about the data."""
    out = report["left_out"]
    left_out = ""
    if out["annotators"]:
        names = ", ".join(out["annotators"])
        left_out = f" Left out: {names}, who failed an attention check, with {out['votes']} votes."
    return (
        f"{report['items']} items, {report['votes']} of {report['votes_wanted']} votes, "
        f"{report['annotators']} annotator{'s' * (report['annotators'] != 1)}.{left_out}"
    )


def _preference(report: Figures) -> Section:
    preference = report["preference"]
    rows = [
        (f"items where most prefer {report['second']}", *_figure(preference["items"])),
        (f"votes for {report['second']}", *_figure(preference["votes"])),
    ]
    notes = [*_ties(preference), *_verdict(report)]
    return Section("Preference", ("", "share", "95% interval", "of"), rows, notes)


def _figure(share: Figures) -> tuple[str, str, str]:
    return _percent(share["share"]), _interval(share), f"{share['count']} of {share['of']}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _interval(share: Figures) -> str:
    return "–" if share["low"] is None else f"{_percent(share['low'])} to {_percent(share['high'])}"


def _ties(preference: Figures) -> list[str]:
    ties, without = preference["items"]["ties"], preference["items"]["without_votes"]
    notes = []
    if ties:
        notes.append(
            f"{ties} {_plural(ties, 'item')} with as many votes for one list as for the other: not counted."
        )
    if without:
        notes.append(f"{without} {'item has' if without == 1 else 'items have'} no votes yet.")
    return notes


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _verdict(report: Figures) -> list[str]:
    """Say which list people prefer by the interval of votes, or by that of items where there are few."""
    preference = report["preference"]
    few = preference["items"]["of"] + preference["items"]["ties"] < _FEW
    of = "items" if few or preference["votes"]["low"] is None else "votes"
    share = preference[of]
    if share["low"] is None:
        return []
    hint = (
        [f"With fewer than {_FEW} items, the interval of votes is too narrow."]
        if few and preference["votes"]["low"] is not None
        else []
    )
    if share["low"] > 0.5 or share["high"] < 0.5:
        winner = report["second"] if share["low"] > 0.5 else report["first"]
        return [*hint, f"People prefer {winner}: the interval of {of} excludes 50%."]
    return [*hint, f"No preference is shown: the interval of {of} includes 50%."]


def _by(report: Figures, key: str, part: Figures) -> Section:
    second = report["second"]
    head = (key, "items", f"{second} preferred", "95% interval", "ties", "votes", "95% interval")
    rows = [_bin(each) for each in part["bins"]]
    return Section(f"By {key}", head, rows, [_correlation(key, second, part["spearman"])])


def _bin(part: Figures) -> tuple[str, ...]:
    items, votes = part["preference"]["items"], part["preference"]["votes"]
    share, ties = (_percent(items["share"]), _interval(items)), str(items["ties"])
    return part["range"], str(part["items"]), *share, ties, _percent(votes["share"]), _interval(votes)


def _correlation(key: str, second: str, result: Figures) -> str:
    name = f"Spearman's rank correlation of {key} and the share of votes for {second}"
    if result["rho"] is None:
        return f"{name}: none, because the {result['items']} items are too few or too much alike."
    return f"{name}: ρ = {result['rho']:.2f}, {_p(result['p'])} ({result['items']} items)."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _spread(report: Figures) -> Section:
    rows = [(votes, str(count)) for votes, count in report["spread"].items()]
    return Section("Distribution of votes", (f"votes for {report['second']}", "items"), rows)


def _people(report: Figures) -> Section:
    alpha, left, checks = report["agreement"]["krippendorff_alpha"], report["left_side"], report["attention"]
    total = checks["passed"] + checks["failed"]
    rows = [
        (
            "agreement (Krippendorff's alpha: 1 is full, 0 is chance)",
            "–" if alpha is None else f"{alpha:.2f}",
        ),
        ("the list on the left was chosen", f"{_percent(left['share'])} ({_interval(left)})"),
        ("attention checks passed", f"{checks['passed']} of {total}"),
    ]
    return Section("People", ("", ""), rows)
