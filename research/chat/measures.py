"""Figures of a list of answers: do they differ, do they fit the question, do they loop?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from torch import Tensor

from beamsplit.ngrams import ngrams
from beamsplit.ordering import consensus
from research.chat.settings import ANSWERS

__all__ = ["Answer", "by_figure", "count_meanings", "measure_list", "overlap", "repeated_share"]

_WORD = re.compile(r"\w+")
_CONTENT = 4  # letters that a word of content has at least
_SAME = 0.8  # cosine above which two answers say the same
_LOOP = 0.2  # share of 4-grams that are there before, above which an answer loops
_STUB = 3  # words that an answer has at least


@dataclass(frozen=True)
class Answer:
    """One answer of a model."""

    text: str
    log_prob: float
    length: int
    finished: bool


def measure_list(answers: Sequence[Answer], prompt_vector: Tensor, vectors: Tensor) -> dict[str, float]:
    """Return the figures of one list. Vectors have length 1: [dimensions] and [answers dimensions]."""
    if len(answers) > ANSWERS:
        best = sorted(range(len(answers)), key=lambda i: -answers[i].log_prob / max(answers[i].length, 1))
        answers, vectors = [answers[i] for i in best[:ANSWERS]], vectors[best[:ANSWERS]]
    words = [_words(answer.text) for answer in answers]
    relevance = (vectors @ prompt_vector).tolist()
    cosine = vectors @ vectors.T
    return {
        "different": len({answer.text for answer in answers}) / len(answers),
        "overlap": mean(overlap(a, b) for a, b in itertools.combinations(words, 2)),
        "meanings": count_meanings(cosine),
        "likeness": mean(float(cosine[a, b]) for a, b in itertools.combinations(range(len(answers)), 2)),
        "relevance": mean(relevance),
        "best_relevance": max(relevance),
        "log_prob": mean(answer.log_prob / max(answer.length, 1) for answer in answers),
        "loops": mean(repeated_share(each) > _LOOP for each in words),
        "stubs": mean(len(each) < _STUB for each in words),
        "length": mean(answer.length for answer in answers),
        "finished": mean(answer.finished for answer in answers),
        **_of_first(answers, words, relevance),
    }


def _of_first(
    answers: Sequence[Answer], words: Sequence[Sequence[str]], relevance: Sequence[float]
) -> dict[str, float]:
    """Return figures of the answer that comes first, by each order."""
    values = {
        "log-prob": [answer.log_prob for answer in answers],
        "score": [answer.log_prob / max(answer.length, 1) for answer in answers],
        "mbr": consensus(words),
    }
    found: dict[str, float] = {}
    for order, numbers in values.items():
        first = max(range(len(answers)), key=numbers.__getitem__)
        found[f"first_relevance_{order}"] = relevance[first]
        found[f"first_words_{order}"] = len(words[first])
        found[f"first_stub_{order}"] = float(len(words[first]) < _STUB)
        found[f"first_loop_{order}"] = float(repeated_share(words[first]) > _LOOP)
    return found


def count_meanings(cosine: Tensor) -> int:
    """Return how many answers say something that none before them says: [answers answers] -> a number."""
    kept: list[int] = []
    for index in range(len(cosine)):
        if all(float(cosine[index, other]) < _SAME for other in kept):
            kept.append(index)
    return len(kept)


def repeated_share(words: Sequence[str]) -> float:
    """Return the share of 4-grams that occur earlier in the same text."""
    grams = ngrams(words, 4)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def overlap(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of words of content that both have. Two texts without any are alike."""
    a, b = ({word for word in words if len(word) >= _CONTENT} for words in (first, second))
    return len(a & b) / len(a | b) if a | b else 1.0


def by_figure(lists: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Return the values of every figure, one for each list."""
    return {name: [round(float(each[name]), 4) for each in lists] for name in lists[0]}
