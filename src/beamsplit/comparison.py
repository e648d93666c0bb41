"""Compare lists for one input: where outputs differ, which of them no other list has, how diverse they are.

Plain data from plain data; the command line and the web page show it each in their own way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from beamsplit.hypotheses import Hypotheses, text_of
from beamsplit.ngrams import distinct_ratio

__all__ = ["ComparedList", "Span", "compare_lists", "differences"]

Span: TypeAlias = tuple[int, int]
"""From this letter up to that one."""

ORDERS = (1, 2, 3, 4)

# Words and single signs; where words are not set apart by spaces, single letters.
_PARTS = re.compile(r"[^\W\u2e80-\uffff]+|\S")


@dataclass(frozen=True)
class ComparedList:
    """One strategy's list, beside others."""

    title: str
    hypotheses: Hypotheses
    differs: tuple[tuple[Span, ...], ...]
    """For each text, the parts that the first text of the list does not have there."""
    alone: tuple[bool, ...]
    """For each text, whether no other list has it."""
    distinct: dict[int, float]
    """Different n-grams over words, as the paper counts them, by n."""
    repeats: int
    """The number of outputs that are left out because they read as another does."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        entries = [
            {**asdict(hypothesis), "differs": differs, "alone": alone}
            for hypothesis, differs, alone in zip(self.hypotheses, self.differs, self.alone, strict=True)
        ]
        return {
            "title": self.title,
            "asked": self.hypotheses.asked,
            "distinct": self.distinct,
            "repeats": self.repeats,
            "hypotheses": entries,
        }


def compare_lists(lists: Sequence[tuple[str, Hypotheses]]) -> list[ComparedList]:
    """Compare the lists for one input, each with its title. A text that a list repeats is left out."""
    found = [(title, hypotheses.distinct(), len(hypotheses)) for title, hypotheses in lists]
    texts = [[text_of(each) for each in hypotheses] for _, hypotheses, _ in found]
    return [
        ComparedList(
            title,
            hypotheses,
            tuple(differences(own[0], text) for text in own),
            tuple(all(text not in other for other in texts if other is not own) for text in own),
            {n: distinct_ratio(map(str.split, own), n) for n in ORDERS},
            count - len(own),
        )
        for (title, hypotheses, count), own in zip(found, texts, strict=True)
    ]


def differences(first: str, other: str) -> tuple[Span, ...]:
    """Return the parts of `other` that are not in `first`, word by word.

    >>> differences("a red boat", "a small red boot")
    ((2, 7), (12, 16))
    """
    theirs = list(_PARTS.finditer(other))
    words = [part.group() for part in theirs]
    matcher = SequenceMatcher(None, _PARTS.findall(first), words, autojunk=False)
    changed = [theirs[b1:b2] for tag, _, _, b1, b2 in matcher.get_opcodes() if tag != "equal"]
    return tuple((parts[0].start(), parts[-1].end()) for parts in changed if parts)
