"""The figures as tables of a Markdown page. `research.experiments` renews them with all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.tables import aligned
from beamsplit.metrics import Comparison, Score, compare, mean_of
from beamsplit.metrics.base import ratio
from research.novelty.choice import is_good_enough, reference_of

__all__ = [
    "KINDS",
    "answers_table",
    "compare_figures",
    "differences_table",
    "examples_text",
    "more_table",
    "ways_table",
]

Results = Mapping[str, Any]

_MAIN = {
    "readable_50": ("readable clusters", 2),
    "readable_70": ("at 0.7", 2),
    "clusters_50": ("clusters", 2),
    "clusters_70": ("at 0.7", 2),
    "vendi": ("Vendi", 2),
    "passed_readable": ("readable", 2),
    "log_prob_token": ("log-prob a token", 2),
    "log_prob_word": ("a word", 2),
    "relevance": ("fit", 2),
}
_MORE = {
    "sensible_50": ("sensible clusters", 2),
    "readable_80": ("readable, at 0.8", 2),
    "clusters_80": ("all, at 0.8", 2),
    "passed": ("make sense", 2),
    "entropy": ("entropy", 2),
    "spread": ("spread", 2),
    "ead": ("EAD", 2),
    "compression": ("compression", 2),
    "self_repetition": ("self-repetition", 2),
    "whole": ("whole", 2),
    "loops": ("loops", 2),
    "stubs": ("stubs", 2),
    "copies": ("copies", 2),
    "tokens": ("tokens", 0),
}


def answers_table(results: Results, *against: str) -> list[str]:
    """Return the main table: stars mark differences from a setting, by default the reference."""
    return _table(results, _MAIN, against)


def more_table(results: Results, *against: str) -> list[str]:
    """Return the table of all other figures."""
    return _table(results, _MORE, against)


def differences_table(results: Results, *against: str) -> list[str]:
    """Return the differences of all settings from one, with their 95% intervals."""
    first = _named(results, against)
    figures = ("readable_50", "readable_70", "clusters_50", "passed_readable", "log_prob_token")
    rows = [
        [
            setting["family"],
            *(_interval(compare_figures(first["figures"][f], setting["figures"][f])) for f in figures),
        ]
        for setting in results["settings"].values()
        if setting is not first
    ]
    return aligned([f"minus {first['family']}", *(_MAIN[each][0] for each in figures)], rows)


def _table(results: Results, columns: Mapping[str, tuple[str, int]], against: Sequence[str]) -> list[str]:
    """Return a row for each setting. Those that are as good as the reference have their names in bold."""
    first, reference = _named(results, against), reference_of(results)
    rows = []
    for name, setting in results["settings"].items():
        good = is_good_enough(setting, reference)
        title = f"**{setting['family']}**" if good else setting["family"]
        cells = [_cell(setting, first, figure, digits) for figure, (_, digits) in columns.items()]
        cost = f"{setting['cost'] / reference['cost']:.1f}"
        rows.append([title, _own_name(name, setting), cost, *cells])
    return aligned(["", "setting", "cost", *(title for title, _ in columns.values())], rows)


def _own_name(name: str, setting: Results) -> str:
    return "" if name == setting["family"] else name


def _named(results: Results, against: Sequence[str]) -> Results:
    if not against:
        return reference_of(results)
    wanted = " ".join(against)  # a page gives it word by word
    for name, setting in results["settings"].items():
        if wanted in (name, setting["family"]):
            found: Results = setting
            return found
    raise ArgumentError(f"there is no setting {wanted!r}: there are {', '.join(results['settings'])}")


def _cell(setting: Results, first: Results, figure: str, digits: int) -> str:
    values, others = setting["figures"][figure], first["figures"][figure]
    star = "" if setting is first or not _is_beyond_chance(compare_figures(others, values)) else "\\*"
    return f"{mean(values):.{digits}f}{star}"


def _interval(found: Comparison) -> str:
    star = "\\*" if _is_beyond_chance(found) else ""
    return f"{found.difference:+.2f} ({found.low:+.2f} to {found.high:+.2f}){star}"


def _is_beyond_chance(found: Comparison) -> bool:
    return not found.low <= 0 <= found.high


# Paired differences


@dataclass(frozen=True)
class _Mean:
    """The mean of values that are there already, as a metric that can be drawn again."""

    name: str = "mean"
    signature: str = "mean"

    def statistics(self, examples: Sequence[Any]) -> Tensor:
        raise NotImplementedError

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


def compare_figures(first: Sequence[float], second: Sequence[float], draws: int = 10000) -> Comparison:
    """Compare two settings, given a figure of each prompt: the second's mean minus the first's."""
    before, after = (
        Score("mean", mean(values), "mean", mean_of(torch.tensor(values, dtype=torch.double).tolist()))
        for values in (first, second)
    )
    return compare(before, after, _Mean(), draws=draws)


# Examples


def examples_text(results: Results, *prompts: str) -> list[str]:
    """Return the answers of several settings to these prompts, or to all that there are."""
    lines: list[str] = []
    for prompt, lists in results.items():
        if not prompts or prompt in prompts:
            lines += [f"**{lists['prompt']}**", ""]
            for family, answers in lists["answers"].items():
                lines += [f"{family}:", "", *map(_quoted, answers), ""]
    return lines


def _quoted(answer: Results) -> str:
    said = " ".join(answer["text"].split())
    for sign in "\\*_`<>[]#|":
        said = said.replace(sign, f"\\{sign}")
    doubt = "" if answer["readable"] else " †"
    return f"{answer['number']}. {said}{'' if answer['finished'] else ' …'}{doubt}"


# Pronunciations


def ways_table(results: Results, *shown: str) -> list[str]:
    """Return the table of coverage@k of words' pronunciations; stars mark differences from beam search."""
    ks = list(map(int, shown)) or results["ks"]
    first = next(iter(results["settings"].values()))
    rows = []
    for family, setting in results["settings"].items():
        figures = {f"coverage@{k}": 3 for k in ks} | {"found": 3, "different": 2}
        rows.append(
            [
                family,
                "" if setting["name"] == family else setting["name"],
                f"{setting['cost'] / first['cost']:.1f}",
                *(_cell(setting, first, figure, digits) for figure, digits in figures.items()),
            ]
        )
    return aligned(
        ["", "setting", "cost", *(f"@{k}" for k in ks), "of all ways, found", "different"],
        rows,
    )


KINDS = {
    "answers": answers_table,
    "answers-more": more_table,
    "answers-differences": differences_table,
    "answers-examples": examples_text,
    "pronunciations": ways_table,
}
"""Tables by name, for the marks of a page."""
