"""Choose a few outputs of lists in files: those that `decode` writes, and lists from elsewhere.

A line is an object with "hypotheses": texts, or objects with a "text" or "tokens", and with a "log_prob"
where that is known. Everything else that a line says is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.ordering import SELECTION, words_of
from beamsplit.selecting import Similarity, check_selection, choose, word_overlap

__all__ = ["LINE", "Choice"]

LINE = '{"hypotheses": ["...", ...]}'
"""A line as it should be, for error messages."""

_LISTS = "hypotheses"


@dataclass
class Choice:
    """How many outputs of each list to choose, and how."""

    count: int
    by: str = SELECTION
    diversity: float = 0.5
    similarity: Similarity = word_overlap
    unique: bool = True
    """Whether no text is chosen twice."""
    lists: int = field(default=0, init=False)
    """How many lists there were so far."""
    short: int = field(default=0, init=False)
    """How many of them had fewer outputs to choose than asked for."""

    def __post_init__(self) -> None:
        check_selection(self.count, self.by, self.diversity)

    def of_line(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return what a line says, with those of its outputs that are chosen, in the order of the list.

        A line with an "error" has no list, and stays as it is.
        """
        given = entry.get(_LISTS)
        if given is None and "error" in entry:
            return dict(entry)
        if not isinstance(given, list):
            raise ArgumentError(f'{where} has no list under "{_LISTS}": give {LINE}')
        if not given:  # of a blank line
            return dict(entry)
        found = Hypotheses.ordered([_hypothesis(each, where) for each in given])
        chosen = choose(
            found,
            self.count,
            by=self.by,
            diversity=self.diversity,
            similarity=self.similarity,
            unique=self.unique,
        )
        self.lists += 1
        self.short += len(chosen) < self.count
        return {**entry, _LISTS: [given[place] for place in sorted(chosen)]}


def _hypothesis(given: Any, where: str) -> Hypothesis:
    """Return an output of a file. Where it has no tokens, there are as many as words."""
    entry = given if isinstance(given, Mapping) else {"text": given}
    text, tokens, log_prob = entry.get("text"), entry.get("tokens"), entry.get("log_prob", 0.0)
    if isinstance(tokens, list) and all(type(token) is int for token in tokens):
        known: tuple[int, ...] | None = tuple(tokens)
    else:
        known = None
    if not isinstance(text, str) and (text is not None or known is None):
        raise ArgumentError(f"{where} has a hypothesis that is no text: {checks.short_repr(given)}")
    if not isinstance(log_prob, int | float) or isinstance(log_prob, bool):
        raise ArgumentError(
            f'{where} has a "log_prob" that is no number: {checks.short_repr(log_prob)}, leave it out'
        )
    made = Hypothesis(known or (), float(log_prob), float(log_prob), text=text)
    if known is not None:
        return made
    return Hypothesis(tuple(range(len(words_of(made)))), made.log_prob, made.score, text=text)
