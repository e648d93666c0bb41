"""Choose a few of many outputs: each worth having, and different from the others chosen.

Lists may come from anywhere: a wide search, samples, an engine, a file. What two outputs have in common is
told by a similarity, from 0 to 1: the share of words and pairs of words, unless another is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.ordering import SELECTION, SELECTIONS, SelectionName, mean_of_others, similarity, words_of

__all__ = [
    "Similarity",
    "choose",
    "select",
    "vector_similarity",
    "word_overlap",
]

Similarity: TypeAlias = Callable[[Hypothesis, Hypothesis], float]
"""How alike two outputs are: from 0 to 1, the same in both directions, and 1 for the same output."""

Matrix: TypeAlias = NDArray[np.float64]

_ROUNDING = 1e-6  # by which a cosine may lie outside 0 to 1


def word_overlap(first: Hypothesis, second: Hypothesis) -> float:
    """Return the mean F1 of words and of pairs of words; of tokens where outputs have no text."""
    return similarity(words_of(first), words_of(second))


def vector_similarity(vectors: Any) -> Similarity:
    """Return a similarity by word vectors [vocabulary dimensions]: the cosine of the means over tokens.

    Below 0 it is 0. A model's own vectors are its `word_vectors`.
    """
    table: Matrix = np.asarray(vectors, dtype=np.float64)
    if table.ndim != 2:
        raise ArgumentError(
            f"vectors have the shape {list(table.shape)}: give [vocabulary dimensions], a row for each token"
        )

    def mean(hypothesis: Hypothesis) -> Matrix:
        total: Matrix = table[list(hypothesis.tokens)].sum(0)
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def compare(first: Hypothesis, second: Hypothesis) -> float:
        if first.tokens == second.tokens:
            return 1.0
        return max(0.0, float(mean(first) @ mean(second)))

    return compare


def select(
    found: Hypotheses,
    count: int,
    *,
    by: SelectionName | str = SELECTION,
    diversity: float = 0.5,
    similarity: Similarity = word_overlap,
) -> Hypotheses:
    """Return `count` of the outputs, the first chosen first; all of them if there are no more.

    mbr           those most like all others (minimum Bayes risk)
    diverse-mbr   the same, less their similarity to each other (Jinnai et al. 2024)
    k-medoids     the middles of as many clusters
    dpp           by a determinantal point process: likely ones, whose similarities have a large determinant

    `diversity` weighs being different against quality, from 0 to 1; diverse-mbr and dpp have it.

    >>> texts = ["a red boat", "a red boat sails", "a red boat sinks", "some green tree"]
    >>> found = Hypotheses([Hypothesis((i,), -1.0, -1.0, text=text) for i, text in enumerate(texts)])
    >>> select(found, 2, by="mbr").texts, select(found, 2, by="k-medoids").texts
    (('a red boat', 'a red boat sails'), ('a red boat', 'some green tree'))
    """
    return found.only(choose(found, count, by=by, diversity=diversity, similarity=similarity))


def choose(
    found: Hypotheses,
    count: int,
    *,
    by: SelectionName | str = SELECTION,
    diversity: float = 0.5,
    similarity: Similarity = word_overlap,
) -> list[int]:
    """Return the places of the outputs that `select` returns, in the order in which they are chosen."""
    checks.at_least("count", count, 1)
    if by not in SELECTIONS:
        hint = checks.nearest(str(by), SELECTIONS, f"there are {', '.join(SELECTIONS)}")
        raise ArgumentError(f"there is no selection {checks.short_repr(by)}: {hint}")
    weight = checks.number("diversity", diversity)
    if not 0 <= weight <= 1:
        raise ArgumentError(f"diversity is {diversity}: give a number from 0 (quality alone) to 1")
    alike = _matrix(found, similarity)
    count = min(count, len(found))
    match by:
        case "mbr":
            chosen = _mbr(alike, count)
        case "diverse-mbr":
            chosen = _diverse_mbr(alike, count, weight)
        case "k-medoids":
            chosen = _medoids(alike, count)
        case _:
            chosen = _dpp(alike, [_quality(each) for each in found], count, weight)
    return chosen


def _matrix(found: Hypotheses, similarity: Similarity) -> Matrix:
    """Return the similarities of all pairs [outputs outputs]. Raise if one lies outside 0 to 1."""
    alike: Matrix = np.eye(len(found))
    for i, first in enumerate(found):
        for j in range(i):
            value = float(similarity(first, found[j]))
            if not -_ROUNDING <= value <= 1 + _ROUNDING:
                raise ArgumentError(f"the similarity of outputs {j} and {i} is {value}: return 0 to 1")
            alike[i, j] = alike[j, i] = min(max(value, 0.0), 1.0)
    return alike


def _quality(hypothesis: Hypothesis) -> float:
    return hypothesis.log_prob / max(len(hypothesis.tokens), 1)


def _mbr(alike: Matrix, count: int) -> list[int]:
    consensus = mean_of_others(alike.tolist())
    return sorted(range(len(alike)), key=lambda index: -consensus[index])[:count]


def _diverse_mbr(alike: Matrix, count: int, weight: float) -> list[int]:
    """Choose what has most (1 - weight) * consensus - weight * mean similarity to those chosen before."""
    consensus, chosen = mean_of_others(alike.tolist()), list[int]()

    def gain(index: int) -> float:
        shared = float(alike[index, chosen].mean()) if chosen else 0.0
        return (1 - weight) * consensus[index] - weight * shared

    return _greedy(len(alike), count, gain, chosen)


def _dpp(alike: Matrix, quality: Sequence[float], count: int, weight: float) -> list[int]:
    """Choose one after another what raises (1 - weight) * quality + weight * log-determinant most.

    The determinant grows by what is left of an output when all that it shares with the chosen ones is taken
    away (Chen et al. 2018).
    """
    kernel, chosen = _nearest_kernel(alike), list[int]()

    def gain(index: int) -> float:
        block, shared = kernel[np.ix_(chosen, chosen)], kernel[index, chosen]
        rest = kernel[index, index] - (shared @ np.linalg.pinv(block) @ shared if chosen else 0.0)
        return (1 - weight) * quality[index] + weight * math.log(max(float(rest), 1e-12))

    return _greedy(len(alike), count, gain, chosen)


def _nearest_kernel(alike: Matrix) -> Matrix:
    """Return the matrix without its negative part: only such have determinants that measure a volume."""
    values, vectors = np.linalg.eigh(alike)
    kernel: Matrix = (vectors * values.clip(min=0)) @ vectors.T
    return kernel


def _greedy(outputs: int, count: int, gain: Callable[[int], float], chosen: list[int]) -> list[int]:
    """Add to the chosen what gains most, until there are enough; of equals the first."""
    while len(chosen) < count:
        chosen.append(max((i for i in range(outputs) if i not in chosen), key=gain))
    return chosen


def _medoids(alike: Matrix, count: int) -> list[int]:
    """Choose so that every output is as like the nearest chosen one as can be: greedily, then by swaps."""
    chosen: list[int] = []

    def covered(indices: Sequence[int]) -> float:
        return float(alike[:, list(indices)].max(1).sum()) if indices else 0.0

    _greedy(len(alike), count, lambda index: covered([*chosen, index]), chosen)
    best, improved = covered(chosen), True
    while improved:
        improved = False
        for place in range(count):
            for index in range(len(alike)):
                if index not in chosen:
                    swapped = [*chosen[:place], index, *chosen[place + 1 :]]
                    if covered(swapped) > best + 1e-12:
                        chosen, best, improved = swapped, covered(swapped), True
    return chosen
