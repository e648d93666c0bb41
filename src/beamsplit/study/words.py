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


def sections(found: Figures) -> list[Section]:
    """Return the sections of a report."""
    by = [_by(found, key, part) for key, part in found["by"].items()]
    if not found["votes"]:
        return [_preference(found)]
    return [_preference(found), *by, _spread(found), _people(found)]


def markdown(found: Figures) -> str:
    """Return a report as Markdown."""
    lines = [f"## {found['second']} against {found['first']}", "", summary(found), ""]
    for section in sections(found):
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


def summary(found: Figures) -> str:
    """Return one sentence about the data."""
    out = found["left_out"]
    left_out = ""
    if out["annotators"]:
        names = ", ".join(out["annotators"])
        left_out = f" Left out: {names}, who failed an attention check, with {out['votes']} votes."
    return (
        f"{found['items']} items, {found['votes']} of {found['votes_wanted']} votes, "
        f"{found['annotators']} annotator{'s' * (found['annotators'] != 1)}.{left_out}"
    )


def _preference(found: Figures) -> Section:
    preference = found["preference"]
    rows = [
        (f"items where most prefer {found['second']}", *_figure(preference["items"])),
        (f"votes for {found['second']}", *_figure(preference["votes"])),
    ]
    notes = [*_ties(preference), *_verdict(found)]
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


def _verdict(found: Figures) -> list[str]:
    """Say which list people prefer by the interval of votes, or by that of items where there are few."""
    preference = found["preference"]
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
        winner = found["second"] if share["low"] > 0.5 else found["first"]
        return [*hint, f"People prefer {winner}: the interval of {of} excludes 50%."]
    return [*hint, f"No preference is shown: the interval of {of} includes 50%."]


def _by(found: Figures, key: str, part: Figures) -> Section:
    second = found["second"]
    head = (key, "items", f"{second} preferred", "95% interval", "ties", "votes", "95% interval")
    rows = [_bin(each) for each in part["bins"]]
    return Section(f"By {key}", head, rows, [_correlation(key, second, part["spearman"])])


def _bin(part: Figures) -> tuple[str, ...]:
    items, votes = part["preference"]["items"], part["preference"]["votes"]
    share, ties = (_percent(items["share"]), _interval(items)), str(items["ties"])
    return part["range"], str(part["items"]), *share, ties, _percent(votes["share"]), _interval(votes)


def _correlation(key: str, second: str, found: Figures) -> str:
    name = f"Spearman's rank correlation of {key} and the share of votes for {second}"
    if found["rho"] is None:
        return f"{name}: none, because the {found['items']} items are too few or too much alike."
    return f"{name}: ρ = {found['rho']:.2f}, {_p(found['p'])} ({found['items']} items)."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _spread(found: Figures) -> Section:
    rows = [(votes, str(count)) for votes, count in found["spread"].items()]
    return Section("Distribution of votes", (f"votes for {found['second']}", "items"), rows)


def _people(found: Figures) -> Section:
    alpha, left, checks = found["agreement"]["krippendorff_alpha"], found["left_side"], found["attention"]
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
