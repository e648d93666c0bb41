"""Figures of a list of answers: what they say, whether they make sense, and how likely they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from beamsplit import Hypothesis
from beamsplit.metrics import (
    CompressionRatio,
    DistinctK,
    EncoderCosine,
    Example,
    ExpectationAdjustedDistinct,
    Metric,
    SelfRepetition,
    SemanticEntropy,
    SimilarBy,
    Spread,
    Vendi,
    Words,
)
from beamsplit.ngrams import ngrams
from research.chat.measures import repeated_share
from research.novelty.keeping import per_token

__all__ = ["THRESHOLDS", "Meter", "copies", "is_readable", "is_sensible", "is_whole", "words_of"]

THRESHOLDS = (0.5, 0.7, 0.8)
"""Cosines from which on two answers count as one: about the same thing, nearly, the same in other words.

The last is that of docs/chat.md. The first is what the others are judged by: on the validation prompts eight
answers of the reference make five clusters there, and so there is something to gain.
"""

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_END = r"[.!?…。][\"'”’»)\]*_`]*"
_ENDS = re.compile(rf"{_END}\s*$")
_SENTENCES = re.compile(rf".*{_END}(?=\s)", re.DOTALL)  # up to the last end that something follows
_LOOP = 0.2  # share of 4-grams that were there before, above which an answer loops
_STUB = 3  # words that an answer has at least
_COPY = 0.5  # share of an answer's 4-grams that are the question's, above which it is a copy


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


def is_whole(answer: Hypothesis) -> bool:
    """Tell whether an answer came to its own end, or was cut where a sentence ends."""
    return answer.finished or bool(_ENDS.search(answer.text or ""))


def copies(answer: Sequence[str], question: Sequence[str]) -> bool:
    """Tell whether an answer repeats its question: its words, or most of its sequences of four."""
    if f" {' '.join(answer)} " in f" {' '.join(question)} ":
        return True
    grams, asked = ngrams(answer, 4), set(ngrams(question, 4))
    return sum(gram in asked for gram in grams) > _COPY * len(grams)


def is_sensible(answer: Hypothesis, question: str) -> bool:
    """Tell whether an answer passes a check that needs no judge. It may still be wrong."""
    words = words_of(answer.text or "")
    return (
        is_whole(answer)
        and len(words) >= _STUB
        and repeated_share(words) <= _LOOP
        and not copies(words, words_of(question))
    )


def is_readable(answer: Hypothesis, question: str) -> bool:
    """Tell whether an answer passes the same check, where one that is cut may lose its last sentence.

    Long answers are seldom whole after a hundred tokens: that check alone would favour short ones.
    """
    if is_whole(answer):
        return is_sensible(answer, question)
    found = _SENTENCES.match(answer.text or "")
    return found is not None and is_sensible(replace(answer, text=found[0]), question)


@dataclass
class Meter:
    """Measures lists by an encoder of texts, which sees each text once."""

    encode: Callable[[list[str]], Tensor]
    name: str

    def __post_init__(self) -> None:
        self._known: dict[str, Tensor] = {}
        kernel = EncoderCosine(encode=self._vectors, name=self.name)
        # Without case and punctuation, or "Paris." and "paris" would be two words.
        words = Words(lower=True, punctuation=False)
        self._clusters = {
            round(100 * threshold): DistinctK(classes=SimilarBy(kernel=kernel, threshold=threshold))
            for threshold in THRESHOLDS
        }
        same = self._clusters[80].classes
        self._metrics: dict[str, Metric] = {
            **{f"clusters_{percent}": metric for percent, metric in self._clusters.items()},
            "entropy": SemanticEntropy(classes=same, by="count"),
            "spread": Spread(kernel=kernel),
            "vendi": Vendi(kernel=kernel),
            "ead": ExpectationAdjustedDistinct(words=words),
            "compression": CompressionRatio(),
            "self_repetition": SelfRepetition(words=words),
        }

    def measure(self, answers: Sequence[Hypothesis], question: str) -> dict[str, float]:
        """Return the figures of the answers to a question."""
        checks = {"sensible": is_sensible, "readable": is_readable}
        passed = {name: [each for each in answers if check(each, question)] for name, check in checks.items()}
        words = [words_of(each.text or "") for each in answers]
        asked, *said = self._vectors([question, *(each.text or "" for each in answers)])
        return {
            **{name: _value(metric, answers) for name, metric in self._metrics.items()},
            **{
                f"{check}_{percent}": _value(metric, good) if good else 0.0
                for percent, metric in self._clusters.items()
                for check, good in passed.items()
            },
            "passed": len(passed["sensible"]) / len(answers),
            "passed_readable": len(passed["readable"]) / len(answers),
            "whole": mean(map(is_whole, answers)),
            "loops": mean(repeated_share(each) > _LOOP for each in words),
            "stubs": mean(len(each) < _STUB for each in words),
            "copies": mean(copies(each, words_of(question)) for each in words),
            "log_prob_token": mean(map(per_token, answers)),
            "log_prob_word": mean(
                each.log_prob / max(len(said), 1) for each, said in zip(answers, words, strict=True)
            ),
            "relevance": mean(float(asked @ vector) for vector in said),
            "tokens": mean(len(each.tokens) for each in answers),
            "answers": len(answers),
        }

    def signatures(self) -> dict[str, str]:
        """Return the signatures of the metrics that have one."""
        return {name: metric.signature for name, metric in self._metrics.items()}

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        """Return a vector of length 1 for each text: [texts dimensions]."""
        self.learn(texts)
        return torch.stack([self._known[text] for text in texts])

    def learn(self, texts: Sequence[str]) -> None:
        """Encode the texts that are new."""
        # Like lengths come together, so that little is padding.
        new = sorted(set(texts) - self._known.keys(), key=len)
        if new:
            self._known.update(zip(new, self.encode(new), strict=True))


def _value(metric: Metric, answers: Sequence[Hypothesis]) -> float:
    example = Example(tuple(each.text or "" for each in answers))
    return float(metric.score(metric.statistics([example]).sum(0)))


def by_figure(lists: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the values of every figure, one for each prompt."""
    return {name: [round(float(each[name]), 4) for each in lists] for name in lists[0]}
