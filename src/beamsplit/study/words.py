"""A report's figures as tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamsplit.evaluation.tables import aligned

__all__ = ["Section", "markdown", "percent", "sections"]

Figures = Mapping[str, Any]

_FEW = 20  # items, below which the bootstrap is too sure of itself


@dataclass(frozen=True)
class Section:
    """A table with its title, and what to know about it."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


def sections(found: Figures) -> list[Section]:
    """All that there is to say."""
    by = [_by(found, key, part) for key, part in found["by"].items()]
    if not found["votes"]:
        return [_preference(found)]
    return [_preference(found), *by, _spread(found), _people(found)]


def markdown(found: Figures) -> str:
    """The same for a terminal or a file."""
    lines = [f"## {found['second']} against {found['first']}", "", about(found), ""]
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
    """Methods may have any name."""
    return [" ".join(text.replace("|", r"\|").split()) for text in texts]


def about(found: Figures) -> str:
    """In one sentence, of what the figures are."""
    out = found["left_out"]
    left_out = (
        f" Left out: {_names(out['annotators'])}, who failed a check of attention"
        if out["annotators"]
        else ""
    )
    votes = f", with {out['votes']} votes." if left_out else ""
    return (
        f"{found['items']} items, {found['votes']} of {found['votes_wanted']} votes, "
        f"{found['annotators']} annotator{'s' * (found['annotators'] != 1)}.{left_out}{votes}"
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _preference(found: Figures) -> Section:
    told = found["preference"]
    rows = [
        (f"items where most prefer {found['second']}", *_figure(told["items"])),
        (f"votes for {found['second']}", *_figure(told["votes"])),
    ]
    return Section("Preference", ("", "share", "95% interval", "of"), rows, [*_ties(told), *_verdict(found)])


def _figure(share: Figures) -> tuple[str, str, str]:
    return percent(share["share"]), _interval(share), f"{share['count']} of {share['of']}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _interval(share: Figures) -> str:
    return "–" if share["low"] is None else f"{percent(share['low'])} to {percent(share['high'])}"


def _ties(told: Figures) -> list[str]:
    ties, without = told["items"]["ties"], told["items"]["without_votes"]
    notes = []
    if ties:
        notes.append(
            f"{ties} {_plural(ties, 'item')} with as many votes for one as for the other: for neither."
        )
    if without:
        notes.append(f"{without} {'item has' if without == 1 else 'items have'} no votes yet.")
    return notes


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _verdict(found: Figures) -> list[str]:
    """What the interval of votes leaves standing; that of items where there are few, or all alike."""
    told = found["preference"]
    few = told["items"]["of"] + told["items"]["ties"] < _FEW
    of = "items" if few or told["votes"]["low"] is None else "votes"
    share = told[of]
    if share["low"] is None:
        return []
    hint = (
        [f"Of fewer than {_FEW} items, the interval of votes is narrower than it should be."]
        if few and told["votes"]["low"] is not None
        else []
    )
    if share["low"] > 0.5 or share["high"] < 0.5:
        winner = found["second"] if share["low"] > 0.5 else found["first"]
        return [*hint, f"People prefer {winner}: the interval of {of} leaves out 50%."]
    return [*hint, f"No preference is shown: the interval of {of} has 50% in it."]


def _by(found: Figures, key: str, part: Figures) -> Section:
    second = found["second"]
    head = (key, "items", f"{second} preferred", "95% interval", "ties", "votes", "95% interval")
    rows = [_bin(each) for each in part["bins"]]
    return Section(f"By {key}", head, rows, [_correlation(key, second, part["spearman"])])


def _bin(part: Figures) -> tuple[str, ...]:
    items, votes = part["preference"]["items"], part["preference"]["votes"]
    share, ties = (percent(items["share"]), _interval(items)), str(items["ties"])
    return part["range"], str(part["items"]), *share, ties, percent(votes["share"]), _interval(votes)


def _correlation(key: str, second: str, found: Figures) -> str:
    about = f"Spearman's rank correlation of {key} and the share of votes for {second}"
    if found["rho"] is None:
        return f"{about}: none to be had from {found['items']} items that are too few or too much alike."
    return f"{about}: ρ = {found['rho']:.2f}, {_p(found['p'])} ({found['items']} items)."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _spread(found: Figures) -> Section:
    rows = [(votes, str(count)) for votes, count in found["spread"].items()]
    return Section("How votes fell", (f"votes for {found['second']}", "items"), rows)


def _people(found: Figures) -> Section:
    alpha, left, checks = found["agreement"]["krippendorff_alpha"], found["left_side"], found["attention"]
    told = checks["passed"] + checks["failed"]
    rows = [
        (
            "agreement (Krippendorff's alpha: 1 is full, 0 is chance)",
            "–" if alpha is None else f"{alpha:.2f}",
        ),
        ("the list on the left was chosen", f"{percent(left['share'])} ({_interval(left)})"),
        ("checks of attention passed", f"{checks['passed']} of {told}"),
    ]
    return Section("People", ("", ""), rows)
