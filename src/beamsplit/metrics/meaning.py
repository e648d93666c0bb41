"""Metrics of how many different things texts say. What counts as the same is yours to say.

same = SameBy(same=lambda a, b: judge(a, b), name="my judge")          a function of two texts
same = SimilarBy(kernel=EncoderCosine(...), threshold=0.8)             or a similarity and a threshold

DistinctK(classes=same)          Zhang et al. 2025, "NoveltyBench": how many classes of texts there are
UtilityK(classes=same, ...)      the same: how good the new ones are for a reader who may stop
SemanticEntropy(classes=same)    Kuhn et al. 2023, Farquhar et al. 2024: the entropy over classes

They do not see more than the notion of sameness does: if that takes every text for a new one, a list of noise
has the best figures. So give the quality of the texts beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Example, TextMetric, check_name, lists_of, mean_of, ratio, signed
from beamsplit.metrics.checking import as_answer
from beamsplit.metrics.diversity import Kernel, check_similarity

__all__ = ["Classes", "DistinctK", "SameBy", "SemanticEntropy", "SimilarBy", "UtilityK"]


class Classes(Protocol):
    """Divides texts into classes that say the same: returns a number for each text, its class."""

    @property
    def signature(self) -> str: ...
    def __call__(self, texts: Sequence[str]) -> list[int]: ...


@dataclass(frozen=True, kw_only=True)
class SameBy:
    """Classes by a function of two texts that says whether they are the same.

    As in NoveltyBench, each text is compared with the first member of each class, in order, and joins the
    first class that fits. Copies are the same without a question. Where sameness is an equivalence, the
    order of the list does not matter. `name` stands for the function in signatures.
    """

    same: Callable[[str, str], bool]
    name: str

    def __post_init__(self) -> None:
        check_name("sameness", self.name)

    @property
    def signature(self) -> str:
        return f"same-by|by:{self.name}"

    def __call__(self, texts: Sequence[str]) -> list[int]:
        return _classes(len(texts), lambda first, row: self._are_same(texts[first], texts[row]))

    def _are_same(self, first: str, text: str) -> bool:
        return first == text or as_answer("same", self.same(first, text))


@dataclass(frozen=True, kw_only=True)
class SimilarBy:
    """Classes by a similarity: two texts are the same if it is `threshold` or more.

    Texts are compared as by `SameBy`. Similarity is no equivalence, so the order of the list can matter.
    """

    kernel: Kernel
    threshold: float

    def __post_init__(self) -> None:
        checks.number("threshold", self.threshold)

    @property
    def signature(self) -> str:
        return f"similar-by|threshold:{self.threshold:g}|kernel:{self.kernel.signature}"

    def __call__(self, texts: Sequence[str]) -> list[int]:
        similarity = self.kernel(texts)
        check_similarity(similarity, len(texts))
        # Copies are the same even by a threshold of 1, which a rounded cosine may miss.
        same = (similarity >= self.threshold).tolist()
        return _classes(len(texts), lambda first, row: texts[first] == texts[row] or same[first][row])


@dataclass(frozen=True, kw_only=True)
class DistinctK:
    """The number of classes among the first k texts of a list, the mean over lists: from 1 to k.

    Without k it is of the whole list. A list that is shorter than k counts as it is. It does not see how the
    texts are shared out among the classes; `SemanticEntropy` does.
    """

    classes: Classes
    k: int | None = None

    def __post_init__(self) -> None:
        _check_k(self.k)

    @property
    def name(self) -> str:
        return "distinct_k" if self.k is None else f"distinct_k_{self.k}"

    @property
    def signature(self) -> str:
        return signed("distinct_k", k=self.k or "all", classes=self.classes.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = lists_of(self, examples)
        return mean_of([len(set(_classes_of(self.classes, texts[: self.k]))) for texts in lists])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class UtilityK:
    """How much a list is worth to a reader who goes on to the next text with probability `patience`.

    A text is worth its utility if it is the first of its class, and else nothing: the mean over the first k
    texts, where text i has the weight patience^(i-1), and then over lists. NoveltyBench has patience 0.8 and
    utilities of 1 to 10 by a reward model. Here `utility` is any metric of texts; `TextScore` makes one of a
    function. Without k, each list counts at its own length; with it, texts that a list lacks are worth
    nothing. The order matters. It does not see a later text of a class that is better than the first.
    """

    classes: Classes
    utility: TextMetric
    patience: float = 0.8
    k: int | None = None

    def __post_init__(self) -> None:
        checks.fraction("patience", self.patience)
        _check_k(self.k)

    @property
    def name(self) -> str:
        return "utility_k" if self.k is None else f"utility_k_{self.k}"

    @property
    def signature(self) -> str:
        settings = {"k": self.k or "all", "patience": f"{self.patience:g}"}
        classes, utility = self.classes.signature, self.utility.signature
        return signed("utility_k", **settings, classes=classes, utility=utility)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        firsts = [
            _first_of_class(_classes_of(self.classes, texts[: self.k])) for texts in lists_of(self, examples)
        ]
        # Only what counts is scored: a reward model is slow.
        scored = [_only(each, rows) for each, rows in zip(examples, firsts, strict=True)]
        found = zip(examples, firsts, self.utility.scores(scored), strict=True)
        return mean_of(
            [self._worth(rows, scores, self.k or len(each.hypotheses)) for each, rows, scores in found]
        )

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)

    def _worth(self, rows: Sequence[int], scores: Sequence[float], k: int) -> float:
        weights = [self.patience**row for row in range(k)]
        worth = sum(weights[row] * score for row, score in zip(rows, scores, strict=True))
        return worth / sum(weights)


@dataclass(frozen=True, kw_only=True)
class SemanticEntropy:
    """The entropy over classes, in nats, the mean over lists: from 0, all texts the same, to log(texts).

    By "probability", a class has the sum of its texts' probabilities, divided by that of the whole list. The
    code of Farquhar et al. takes mean log-probabilities per token: give those as `log_probs` for figures like
    theirs. By "count", a class has its share of the texts: their discrete variant, for samples without
    probabilities. As in their code, a text that is in a list twice counts twice.

    It does not see whether the texts are likely at all, only how what is in the list is divided.
    """

    classes: Classes
    by: Literal["probability", "count"] = "probability"

    def __post_init__(self) -> None:
        if self.by not in ("probability", "count"):
            raise ArgumentError(f"by must be 'probability' or 'count', not {checks.short_repr(self.by)}")

    @property
    def name(self) -> str:
        return "semantic_entropy" if self.by == "probability" else "discrete_semantic_entropy"

    @property
    def signature(self) -> str:
        return signed("semantic_entropy", by=self.by, log="e", classes=self.classes.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        rows = range(len(list(lists_of(self, examples))))
        return mean_of([self._entropy(examples[row], f"examples[{row}]") for row in rows])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)

    def _entropy(self, example: Example, where: str) -> float:
        found = _classes_of(self.classes, example.hypotheses)
        weights = _shares(example, where) if self.by == "probability" else [1 / len(found)] * len(found)
        mass = dict.fromkeys(found, 0.0)
        for number, weight in zip(found, weights, strict=True):
            mass[number] += weight
        return float(torch.special.entr(torch.tensor(list(mass.values()), dtype=torch.double)).sum())


# Helpers


def _classes(texts: int, are_same: Callable[[int, int], bool]) -> list[int]:
    """Return the class of each text, given whether two are the same: the first of a class, and another."""
    firsts: list[int] = []
    found = []
    for row in range(texts):
        number = next((number for number, first in enumerate(firsts) if are_same(first, row)), len(firsts))
        if number == len(firsts):
            firsts.append(row)
        found.append(number)
    return found


def _classes_of(classes: Classes, texts: Sequence[str]) -> list[int]:
    found = classes(texts)
    if len(found) != len(texts):
        raise ArgumentError(f"classes must give a number for each of {len(texts)} texts, not {len(found)}")
    return found


def _first_of_class(classes: Sequence[int]) -> list[int]:
    """Return which texts are the first of their class.

    >>> _first_of_class([0, 1, 0, 2])
    [0, 1, 3]
    """
    return [row for row, number in enumerate(classes) if number not in classes[:row]]


def _only(example: Example, rows: Sequence[int]) -> Example:
    return replace(example, hypotheses=tuple(example.hypotheses[row] for row in rows), log_probs=())


def _shares(example: Example, where: str) -> list[float]:
    """Return the probabilities of an example's texts divided by their sum."""
    given, texts = len(example.log_probs), len(example.hypotheses)
    if given != texts:
        raise ArgumentError(
            f"{where} has {given} log_probs for {texts} hypotheses: give one for each, or take by='count'"
        )
    for index, log_prob in enumerate(example.log_probs):
        if not math.isfinite(log_prob):
            raise ArgumentError(f"{where}.log_probs[{index}] must be finite, not {log_prob}")
    shares: list[float] = torch.tensor(example.log_probs, dtype=torch.double).softmax(0).tolist()
    return shares


def _check_k(k: int | None) -> None:
    if k is not None:
        checks.at_least("k", k, 1)
