"""Choose a few of many outputs: each worth having, and different from the others chosen.

Lists may come from anywhere: a wide search, samples, an engine, a file. What two outputs have in common is
told by a similarity, from 0 to 1: the share of words and pairs of words, unless another is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Hypothesis, text_of
from beamsplit.ngrams import ngrams
from beamsplit.ordering import SELECTION, SELECTIONS, SelectionName, mean_of_others, similarity, words_of
from beamsplit.similarity import GivenSimilarity, Similarity, make_similarity, prepare

__all__ = [
    "Similarity",
    "check_selection",
    "choose",
    "select",
    "vector_similarity",
    "word_overlap",
    "word_vector_similarity",
]

Matrix: TypeAlias = NDArray[np.float64]

_RECENT = 1024  # outputs whose mean vectors are remembered: those of a list
_ROUNDING = 1e-6  # by which a cosine may lie outside 0 to 1
_NOTHING = 1e-12  # what counts as none: of a determinant, or of a gain


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

    @lru_cache(_RECENT)
    def mean(tokens: tuple[int, ...]) -> Matrix:
        return _unit(table[list(tokens)].sum(0))

    def compare(first: Hypothesis, second: Hypothesis) -> float:
        if first.tokens == second.tokens:
            return 1.0
        return max(0.0, float(mean(first.tokens) @ mean(second.tokens)))

    return compare


def word_vector_similarity(words: Sequence[str], vectors: Any) -> Similarity:
    """Return a similarity of texts by word vectors [words dimensions]: the cosine of the means over words.

    Case and words without a vector do not matter. Below 0 it is 0; texts without a word that has a vector
    are like their copies alone.
    """
    table: Matrix = np.asarray(vectors, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(words):
        raise ArgumentError(
            f"vectors have the shape {list(table.shape)} for {len(words)} words: give a row for each word"
        )
    rows = {word: row for row, word in enumerate(words)}

    @lru_cache(_RECENT)
    def mean(text: tuple[str, ...]) -> Matrix:
        return _unit(table[[rows[word] for word in text if word in rows]].sum(0))

    def compare(first: Hypothesis, second: Hypothesis) -> float:
        one, other = tuple(words_of(first)), tuple(words_of(second))
        return 1.0 if one == other else max(0.0, float(mean(one) @ mean(other)))

    return compare


def _unit(vector: Matrix) -> Matrix:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def select(
    found: Hypotheses | Sequence[Hypothesis] | Sequence[str],
    count: int,
    *,
    by: SelectionName | str = SELECTION,
    diversity: float = 0.5,
    similarity: GivenSimilarity = word_overlap,
    unique: bool = False,
) -> Hypotheses:
    """Return `count` of the outputs, the first chosen first; all of them if there are no more.

    `found` is a list of outputs, or of plain texts, which count as equally likely.

    mbr           those most like all others (minimum Bayes risk)
    diverse-mbr   the same, less their similarity to each other (Jinnai et al. 2024)
    k-medoids     the middles of as many clusters
    dpp           by a determinantal point process: likely ones, whose similarities have a large determinant

    `diversity` weighs being different against quality, from 0 to 1; diverse-mbr and dpp have it. With
    `unique`, no text is chosen twice; the others still count by as many outputs as there are of them.

    >>> texts = ["a red boat", "a red boat sails", "a red boat sinks", "some green tree"]
    >>> select(texts, 2, by="mbr").texts, select(texts, 2, by="k-medoids").texts
    (('a red boat', 'a red boat sails'), ('a red boat', 'some green tree'))
    """
    made = _as_hypotheses(found)
    chosen = choose(made, count, by=by, diversity=diversity, similarity=similarity, unique=unique)
    return made.only(chosen, asked=count)


def _as_hypotheses(found: Hypotheses | Sequence[Hypothesis] | Sequence[str]) -> Hypotheses:
    if isinstance(found, Hypotheses):
        return found
    if isinstance(found, str):
        raise ArgumentError(f"found must be a list of outputs, not the text {checks.short_repr(found)}")
    for each in found:
        if not isinstance(each, str | Hypothesis):
            raise ArgumentError(
                f"found must be a list of outputs or of texts, and has a {type(each).__name__}: "
                "give the list of one input, such as found[0]"
            )
    return Hypotheses.ordered(
        [Hypothesis((), 0.0, 0.0, text=each) if isinstance(each, str) else each for each in found]
    )


def choose(
    found: Hypotheses,
    count: int,
    *,
    by: SelectionName | str = SELECTION,
    diversity: float = 0.5,
    similarity: GivenSimilarity = word_overlap,
    unique: bool = False,
) -> list[int]:
    """Return the places of the outputs that `select` returns, in the order in which they are chosen."""
    weight = check_selection(count, by, diversity)
    alike = _matrix(found, similarity)
    # Texts that differ in their spaces alone read the same.
    first = {tuple(text_of(each).split()): place for place, each in reversed(list(enumerate(found)))}
    allowed = sorted(first.values()) if unique else list(range(len(found)))
    count = min(count, len(allowed))
    match by:
        case "mbr":
            chosen = _mbr(alike, count, allowed)
        case "diverse-mbr":
            chosen = _diverse_mbr(alike, count, allowed, weight)
        case "k-medoids":
            chosen = _medoids(alike, count, allowed)
        case _:
            chosen = _dpp(alike, [_quality(each) for each in found], count, allowed, weight)
    return chosen


def check_selection(count: int, by: str, diversity: float) -> float:
    """Return the weight of diversity as a number; raise if something is wrong with one of the three."""
    checks.at_least("count", count, 1)
    if by not in SELECTIONS:
        hint = checks.nearest(str(by), SELECTIONS, f"there are {', '.join(SELECTIONS)}")
        raise ArgumentError(f"there is no selection {checks.short_repr(by)}: {hint}")
    weight = checks.number("diversity", diversity)
    if not 0 <= weight <= 1:
        raise ArgumentError(f"diversity is {diversity}: give a number from 0 (quality alone) to 1")
    return weight


def _matrix(found: Hypotheses, given: GivenSimilarity) -> Matrix:
    """Return the similarities of all pairs [outputs outputs]. Raise if one lies outside 0 to 1."""
    if given is word_overlap:
        return _overlaps([words_of(each) for each in found])
    similarity = make_similarity(given)
    prepare(similarity, found)
    alike: Matrix = np.eye(len(found))
    for i, first in enumerate(found):
        for j in range(i):
            value = float(similarity(first, found[j]))
            if not -_ROUNDING <= value <= 1 + _ROUNDING:
                raise ArgumentError(f"the similarity of outputs {j} and {i} is {value}: return 0 to 1")
            alike[i, j] = alike[j, i] = min(max(value, 0.0), 1.0)
    return alike


def _overlaps(outputs: Sequence[Sequence[str]]) -> Matrix:
    """Return `ordering.similarity` of all pairs, with the words of each output counted once."""
    total, orders = np.zeros((2, len(outputs), len(outputs)))
    for n in (1, 2):
        counts = _count_table([ngrams(words, n) for words in outputs])
        lengths = counts.sum(1)
        both = lengths[:, None] + lengths[None, :]
        shared = np.minimum(counts[:, None, :], counts[None, :, :]).sum(2)
        total += np.divide(2 * shared, both, out=np.zeros(both.shape), where=both > 0)
        orders += both > 0
    # Nothing is like nothing.
    alike: Matrix = np.divide(total, orders, out=np.ones(orders.shape), where=orders > 0)
    return alike


def _count_table(grams: Sequence[Sequence[tuple[str, ...]]]) -> NDArray[np.int64]:
    """Return how often each output has each n-gram: [outputs n-grams]."""
    columns: dict[tuple[str, ...], int] = {}
    table = np.zeros((len(grams), sum(map(len, grams))), dtype=np.int64)
    for row, found in enumerate(grams):
        for gram in found:
            table[row, columns.setdefault(gram, len(columns))] += 1
    return table[:, : len(columns)]


def _quality(hypothesis: Hypothesis) -> float:
    return hypothesis.log_prob / max(len(hypothesis.tokens), 1)


def _mbr(alike: Matrix, count: int, allowed: Sequence[int]) -> list[int]:
    consensus = mean_of_others(alike.tolist())
    return sorted(allowed, key=lambda index: -consensus[index])[:count]


def _diverse_mbr(alike: Matrix, count: int, allowed: Sequence[int], weight: float) -> list[int]:
    """Choose what has most (1 - weight) * consensus - weight * mean similarity to those chosen before."""
    consensus = np.array(mean_of_others(alike.tolist()))

    def gains(chosen: Sequence[int]) -> Matrix:
        shared = np.ascontiguousarray(alike[:, chosen]).mean(1) if chosen else np.zeros(len(alike))
        found: Matrix = (1 - weight) * consensus - weight * shared
        return found

    return _greedy(count, allowed, gains)


def _dpp(
    alike: Matrix, quality: Sequence[float], count: int, allowed: Sequence[int], weight: float
) -> list[int]:
    """Choose one after another what raises (1 - weight) * quality + weight * log-determinant most.

    The determinant grows by what is left of an output when all that it shares with the chosen ones is taken
    away. That is a step of Cholesky's decomposition for each choice (Chen et al. 2018).
    """
    kernel = _nearest_kernel(alike)
    rest, taken = kernel.diagonal().copy(), np.zeros((count, len(alike)))

    def gains(chosen: Sequence[int]) -> Matrix:
        if chosen:
            last, row = chosen[-1], len(chosen) - 1
            if rest[last] > _NOTHING:  # else it adds no direction: all of it is taken already
                shared = kernel[last] - taken[:row, last] @ taken[:row]
                taken[row] = shared / math.sqrt(rest[last])
                np.subtract(rest, taken[row] ** 2, out=rest)
        found: Matrix = (1 - weight) * np.array(quality) + weight * np.log(rest.clip(min=_NOTHING))
        return found

    return _greedy(count, allowed, gains)


def _nearest_kernel(alike: Matrix) -> Matrix:
    """Return the matrix without its negative part: only such have determinants that measure a volume."""
    values, vectors = np.linalg.eigh(alike)
    kernel: Matrix = (vectors * values.clip(min=0)) @ vectors.T
    return kernel


def _greedy(count: int, allowed: Sequence[int], gains: Callable[[Sequence[int]], Matrix]) -> list[int]:
    """Choose what gains most, given those chosen before, until there are enough; of equals the first."""
    chosen: list[int] = []
    while len(chosen) < count:
        found = gains(chosen)
        chosen.append(max((index for index in allowed if index not in chosen), key=found.__getitem__))
    return chosen


def _medoids(alike: Matrix, count: int, allowed: Sequence[int]) -> list[int]:
    """Choose so that every output is as like the nearest chosen one as can be: greedily, then by swaps."""

    def covered_with(others: Sequence[int]) -> Matrix:
        """Return how well the list is covered by these and each output beside them."""
        nearest = alike[:, others].max(1) if others else np.zeros(len(alike))
        found: Matrix = np.maximum(nearest, alike).sum(1)
        return found

    chosen = _greedy(count, allowed, covered_with)
    best, improved = -math.inf if not chosen else covered_with(chosen)[chosen[0]], bool(chosen)
    while improved:
        improved = False
        for place in range(count):
            covered = covered_with(chosen[:place] + chosen[place + 1 :])
            for index in allowed:
                if index not in chosen and covered[index] > best + _NOTHING:
                    chosen[place], best, improved = index, covered[index], True
    return chosen
