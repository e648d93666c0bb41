"""Put a list of outputs into another order: by log-probability, per token, by consensus, or by a function.

Which outputs a list has is up to the search. This is about which of them comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.ngrams import ngrams

if TYPE_CHECKING:
    from beamsplit.scoring import Scorer

__all__ = [
    "ORDERS",
    "SELECTION",
    "SELECTIONS",
    "Order",
    "OrderName",
    "SelectionName",
    "check_order",
    "consensus",
    "mean_of_others",
    "reorder",
    "scorer_of",
    "similarity",
    "words_of",
]

OrderName: TypeAlias = Literal["log-prob", "score", "mbr"]
ORDERS: tuple[str, ...] = get_args(OrderName)

# Ways to choose of a list, for `beamsplit.selecting`; here, since that needs numpy, and help does not.
SelectionName: TypeAlias = Literal["mbr", "diverse-mbr", "k-medoids", "dpp"]
SELECTIONS: tuple[str, ...] = get_args(SelectionName)
SELECTION: SelectionName = "diverse-mbr"

TextScorer: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""Scores the texts of one list: higher is better. A reward model, a length, a check of facts."""

Order: TypeAlias = OrderName | TextScorer

_WORD = re.compile(r"\w+")


def reorder(found: Hypotheses, by: Order | str) -> Hypotheses:
    """Return the same list in another order, best first. Equals stay in the order that they had.

    log-prob   by log-probability, which favours short outputs
    score      by log-probability divided by the number of tokens
    mbr        by minimum Bayes risk: what is most like all other outputs comes first
    a function of the list's texts that returns a number for each: the highest comes first

    >>> short = Hypothesis((4, 2), -1.5, -1.5, text="no")
    >>> long = Hypothesis((5, 6, 7, 2), -2.0, -2.0, text="yes")
    >>> reorder(Hypotheses([short, long]), "score").best.text
    'yes'
    >>> reorder(Hypotheses([short, long]), lambda texts: [len(text) for text in texts]).best.text
    'yes'
    """
    return found.sorted_by(_values(found, by))


def scorer_of(order: str) -> Scorer:
    """Return the scorer of a search whose lists are in this order: what its groups rank finished outputs by.

    A search by log-probability per token ends a group as soon as it has as many outputs as beams. To go on
    while a longer one could still win would only find outputs that never end.
    """
    from beamsplit.scoring import LengthNormalised, LogProb  # which need torch

    return LogProb() if order == "log-prob" else LengthNormalised(stop="first")


def check_order(by: object) -> None:
    """Raise unless this is the name of an order, or a function."""
    if not callable(by) and by not in ORDERS:
        hint = checks.nearest(str(by), ORDERS, f"there are {', '.join(ORDERS)}, or give a function of texts")
        raise ArgumentError(f"there is no order {checks.short_repr(by)}: {hint}")


def _values(found: Hypotheses, by: Order | str) -> list[float]:
    check_order(by)
    if callable(by):
        return _scored(found, by)
    if by == "mbr":
        return consensus([words_of(hypothesis) for hypothesis in found])
    return [
        hypothesis.log_prob / (max(len(hypothesis.tokens), 1) if by == "score" else 1) for hypothesis in found
    ]


def _scored(found: Hypotheses, scorer: TextScorer) -> list[float]:
    texts = [_text(hypothesis) for hypothesis in found]
    values = [float(value) for value in scorer(texts)]
    if len(values) != len(texts):
        raise ArgumentError(
            f"the scorer returned {len(values)} numbers for {len(texts)} texts: return one for each"
        )
    if any(math.isnan(value) for value in values):
        place = next(index for index, value in enumerate(values) if math.isnan(value))
        raise ArgumentError(f"the scorer returned NaN for {checks.short_repr(texts[place])}: return a number")
    return values


def _text(hypothesis: Hypothesis) -> str:
    if hypothesis.text is None:
        raise ArgumentError("the outputs have no text for a scorer to read: give the model a to_text")
    return hypothesis.text


def words_of(hypothesis: Hypothesis) -> list[str]:
    """Return the words of an output; its tokens where the model has no words."""
    if hypothesis.text is None:
        return [str(token) for token in hypothesis.tokens]
    return _WORD.findall(hypothesis.text.lower())


def consensus(outputs: Sequence[Sequence[str]]) -> list[float]:
    """Return for each output, given as words, its mean similarity to the others: what MBR maximises."""
    return mean_of_others([[similarity(one, other) for other in outputs] for one in outputs])


def mean_of_others(alike: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean similarity of each output to the others, of the similarities of all pairs."""
    others = max(len(alike) - 1, 1)
    return [
        math.fsum(value for other, value in enumerate(row) if other != index) / others
        for index, row in enumerate(alike)
    ]


def similarity(first: Sequence[str], second: Sequence[str]) -> float:
    """Return how alike two texts are, from 0 to 1: the mean F1 of their words and of their word pairs.

    >>> similarity("a red boat".split(), "a red car".split())  # F1 of words 2/3, of pairs 1/2
    0.5833333333333333
    """
    counts = [(Counter(ngrams(first, n)), Counter(ngrams(second, n))) for n in (1, 2)]
    found = [_f1(ours, theirs) for ours, theirs in counts if ours or theirs]
    return sum(found) / len(found) if found else 1.0  # nothing is like nothing


def _f1(first: Counter[tuple[str, ...]], second: Counter[tuple[str, ...]]) -> float:
    return 2 * (first & second).total() / (first.total() + second.total())
