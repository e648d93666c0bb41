"""What texts share with their references, counted once for each text: BLEU, chrF, ROUGE-L and CIDEr-D.

The programs that define these metrics read the references again for every text. Here they are read once. The
arithmetic is theirs, in the same order, so that scores are the same to the last bit: tests compare them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = [
    "RECENT",
    "CiderFrequencies",
    "TextScorer",
    "coco_bleu",
    "coco_rouge",
    "sacrebleu_bleu",
    "sacrebleu_chrf",
]

Gram: TypeAlias = tuple[str, ...]
Counts: TypeAlias = Mapping[Gram, int]
TextScorer: TypeAlias = Callable[[str], float]
"""A score of one text against references that are known already."""

RECENT = 512
"""Texts whose n-grams are remembered: those of a few lists."""

_ORDERS = 4  # of n-grams, in BLEU and CIDEr-D
_SIGMA = 6.0  # of CIDEr-D
_BETA = 1.2  # of ROUGE-L


def _grams_of(words: Sequence[str]) -> list[Gram]:
    return [
        tuple(words[start : start + n]) for n in range(1, _ORDERS + 1) for start in range(len(words) - n + 1)
    ]


def _most_of(counts: Iterable[Counts]) -> dict[Gram, int]:
    """Return the largest count of each n-gram in one of the texts."""
    most: dict[Gram, int] = {}
    for each in counts:
        for gram, count in each.items():
            if count > most.get(gram, 0):
                most[gram] = count
    return most


def _matches(counts: Counts, most: Counts) -> list[int]:
    """Return how many n-grams of each order are matched, each no more often than in one of the references."""
    found = [0] * _ORDERS
    for gram in counts.keys() & most.keys():
        found[len(gram) - 1] += min(counts[gram], most[gram])
    return found


def _closest(length: int, lengths: Iterable[int]) -> int:
    """Return the length that is nearest; of two, the shorter."""
    return min((abs(each - length), each) for each in lengths)[1]


# BLEU and chrF of sacreBLEU


def sacrebleu_bleu(program: Any) -> Callable[[Sequence[str]], TextScorer]:
    """Return what makes a scorer for some references, as `program.sentence_score(text, references).score`."""

    @lru_cache(RECENT)
    def counted(text: str) -> tuple[int, Counts]:
        words = program.tokenizer(text.rstrip()).split()
        return len(words), Counter(_grams_of(words))

    @lru_cache(2**16)  # few different counts, many texts
    def points(correct: tuple[int, ...], length: int, closest: int) -> float:
        score: float = program.compute_bleu(
            list(correct),
            [max(0, length - n) for n in range(_ORDERS)],
            sys_len=length,
            ref_len=closest,
            smooth_method=program.smooth_method,
            smooth_value=program.smooth_value,
            effective_order=program.effective_order,
            max_ngram_order=_ORDERS,
        ).score
        return score

    def scorer(references: Sequence[str]) -> TextScorer:
        lengths, counts = zip(*map(counted, references), strict=True)
        most = counts[0] if len(counts) == 1 else _most_of(counts)

        def score(text: str) -> float:
            length, grams = counted(text)
            return points(tuple(_matches(grams, most)), length, _closest(length, lengths))

        return score

    return scorer


def sacrebleu_chrf(program: Any) -> Callable[[Sequence[str]], TextScorer]:
    """Return what makes a scorer for some references, as `program.sentence_score(text, references).score`."""

    @lru_cache(RECENT)
    def counted(text: str) -> list[_Letters]:
        letters = "".join(text.split())
        return [_Letters.of(letters, n) for n in range(1, program.char_order + 1)]

    def scorer(references: Sequence[str]) -> TextScorer:
        known = [counted(reference) for reference in references]

        def score(text: str) -> float:
            grams = counted(text)
            return max(_f_score(grams, each, program.beta**2) for each in known)

        return score

    return scorer


class _Letters(NamedTuple):
    """The n-grams of letters of a text, for one n."""

    total: int
    different: set[str]
    repeated: dict[str, int]
    """How often those come that come more than once. They are few, but for the shortest."""

    @classmethod
    def of(cls, letters: str, n: int) -> _Letters:
        grams = [letters[start : start + n] for start in range(len(letters) - n + 1)]
        different = set(grams)
        again = Counter(grams) if len(different) < len(grams) else {}
        return cls(len(grams), different, {gram: count for gram, count in again.items() if count > 1})

    def shared(self, other: _Letters) -> int:
        """Return how many n-grams the two have in common."""
        more = self.repeated.keys() & other.repeated.keys()
        return len(self.different & other.different) + sum(
            min(self.repeated[gram], other.repeated[gram]) - 1 for gram in more
        )


def _f_score(text: Sequence[_Letters], reference: Sequence[_Letters], factor: int) -> float:
    """Return the F-score of mean precision and mean recall, over the orders that both texts have."""
    precision = recall = 0.0
    orders = 0
    for said, true in zip(text, reference, strict=True):
        if said.total and true.total:
            shared = said.shared(true)
            precision += shared / said.total
            recall += shared / true.total
            orders += 1
    if not orders:
        return 0.0
    precision, recall = precision / orders, recall / orders
    if not precision + recall:
        return 0.0
    score = (1 + factor) * precision * recall
    score /= (factor * precision) + recall
    return 100 * score


# BLEU-4, ROUGE-L and CIDEr-D of COCO's caption evaluation. Texts are tokens with spaces between.


def coco_bleu(references: Sequence[str]) -> TextScorer:
    """Return a scorer like pycocoevalcap's `Bleu(4)`: of one text, with the closest reference's length."""
    words = [reference.split() for reference in references]
    lengths, most = list(map(len, words)), _most_of(Counter(_grams_of(each)) for each in words)

    def score(text: str) -> float:
        said = text.split()
        correct, length = _matches(Counter(_grams_of(said)), most), len(said)
        small, tiny = 1e-9, 1e-15
        bleu = 1.0
        for n in range(_ORDERS):
            bleu *= (float(correct[n]) + tiny) / (float(max(0, length - n)) + small)
        found: float = bleu ** (1.0 / _ORDERS)
        ratio = (length + tiny) / (_closest(length, lengths) + small)
        return found * math.exp(1 - 1 / ratio) if ratio < 1 else found

    return score


def coco_rouge(references: Sequence[str]) -> TextScorer:
    """Return a scorer like pycocoevalcap's `Rouge().calc_score`."""
    known = [_Places(reference.split(" ")) for reference in references]

    def score(text: str) -> float:
        said = text.split(" ")
        common = [each.common(said) for each in known]
        precision = max(lcs / float(len(said)) for lcs in common)
        recall = max(lcs / float(each.length) for lcs, each in zip(common, known, strict=True))
        if precision == 0 or recall == 0:
            return 0.0
        return ((1 + _BETA**2) * precision * recall) / float(recall + _BETA**2 * precision)

    return score


class _Places:
    """Where each word of a text stands, as the bits of a number."""

    def __init__(self, words: Sequence[str]) -> None:
        self.length = len(words)
        self._bits: dict[str, int] = defaultdict(int)
        for place, word in enumerate(words):
            self._bits[word] |= 1 << place

    def common(self, words: Sequence[str]) -> int:
        """Return the length of the longest common subsequence, a whole row at a time (Hyyrö 2004)."""
        everything = row = (1 << self.length) - 1
        for word in words:
            found = row & self._bits.get(word, 0)
            row = ((row + found) | (row - found)) & everything
        return self.length - row.bit_count()


@dataclass(frozen=True)
class CiderFrequencies:
    """How rare each n-gram is over the references of all examples: what CIDEr-D weighs them by."""

    examples: int
    frequencies: Mapping[Gram, int]
    """The number of examples whose references have an n-gram; without those of one, which weigh as none."""

    @classmethod
    def of(cls, all_references: Sequence[Sequence[str]]) -> CiderFrequencies:
        """Count the n-grams of all examples, each once an example."""
        counts: Counter[Gram] = Counter()
        for references in all_references:
            counts.update({gram for text in references for gram in _grams_of(text.split())})
        return cls(len(all_references), {gram: count for gram, count in counts.items() if count > 1})

    def scorer(self, references: Sequence[str]) -> TextScorer:
        """Return a scorer like pycocoevalcap's `CiderScorer`, of one text."""
        weighed = [self._weighed(text) for text in references]
        holders: dict[Gram, list[tuple[int, float]]] = defaultdict(list)
        for index, each in enumerate(weighed):
            for gram, weight in each.weights.items():
                holders[gram].append((index, weight))

        def score(text: str) -> float:
            said = self._weighed(text)
            products = [[0.0] * len(weighed) for _ in range(_ORDERS)]
            for gram, weight in said.weights.items():
                row = products[len(gram) - 1]
                for index, other in holders.get(gram, ()):
                    row[index] += (weight if weight < other else other) * other
            return _mean_cosine(said, weighed, products)

        return score

    def _weighed(self, text: str) -> _Weighed:
        weights: dict[Gram, float] = {}
        squares = [0.0] * _ORDERS
        words = text.split()
        for gram, count in Counter(_grams_of(words)).items():
            weights[gram] = weight = float(count) * self._rarity(self.frequencies.get(gram, 1))
            squares[len(gram) - 1] += weight**2.0
        return _Weighed(weights, list(map(math.sqrt, squares)), max(0, len(words) - 1))

    def _rarity(self, frequency: int) -> float:
        return _log(self.examples) - _log(frequency)


@lru_cache(2**16)
def _log(number: int) -> float:
    return float(np.log(float(number)))  # numpy's, as the scorer has it


@dataclass(frozen=True)
class _Weighed:
    """The n-grams of a text with their weights."""

    weights: Mapping[Gram, float]
    norms: Sequence[float]
    """One for each order."""
    length: int
    """In pairs of words, as the scorer counts it."""


def _mean_cosine(said: _Weighed, references: Sequence[_Weighed], products: list[list[float]]) -> float:
    """Return the mean over references and orders of the cosine, times a penalty for length, times ten."""
    totals = [0.0] * _ORDERS
    for index, reference in enumerate(references):
        penalty = _penalty(said.length - reference.length)
        for n in range(_ORDERS):
            value = products[n][index]
            if said.norms[n] != 0 and reference.norms[n] != 0:
                value /= said.norms[n] * reference.norms[n]
            totals[n] += value * penalty
    first, second, third, fourth = totals
    mean = (
        first + second + third + fourth
    ) / _ORDERS  # not `sum`, which rounds otherwise from Python 3.12 on
    mean /= len(references)
    return mean * 10.0


@lru_cache(1024)
def _penalty(difference: int) -> float:
    found: float = math.e ** (-(float(difference) ** 2) / (2 * _SIGMA**2))
    return found
