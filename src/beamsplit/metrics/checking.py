"""Metrics of texts made of functions, and how often one of k texts passes a check.

Oracle(Checked(check=is_right, name="unit tests"), k=8)    the share of inputs solved by the first 8 texts
PassAtK(Checked(check=is_right, name="unit tests"), k=8)   by any 8 of n samples: pass@k, or coverage@k

pass@k is that of Chen et al. 2021, "Evaluating Large Language Models Trained on Code", with their unbiased
estimator; Brown et al. 2024, "Large Language Monkeys", call it coverage. It sees one text that passes and
none of the others: k copies of a right answer count as much as k different ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Example, check_name, lists_of, mean_of, ratio, signed

__all__ = ["Checked", "PassAtK", "TextScore", "as_answer"]


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """A function of an example and a text of it, as a metric of texts: a reward model, a length, a check.

    It is called once for each different text of an example. `name` stands for the function in signatures.
    """

    of: Callable[[Example, str], float]
    name: str

    def __post_init__(self) -> None:
        check_name("the function", self.name)

    @property
    def signature(self) -> str:
        return signed("score", by=self.name)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _by_text(self._score, examples)

    def _score(self, example: Example, text: str) -> float:
        return checks.number(
            f"what {self.name} returns for {checks.short_repr(text)}", self.of(example, text)
        )


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A function that says whether a text is right, as a metric of texts: 1 if it is, and else 0.

    It is called with the example and the text, once for each different text of an example. What it needs to
    know of the input can be among the example's references. `name` stands for the function in signatures.
    """

    check: Callable[[Example, str], bool]
    name: str

    def __post_init__(self) -> None:
        check_name("the check", self.name)

    @property
    def signature(self) -> str:
        return signed("checked", by=self.name)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _by_text(self._passes, examples)

    def _passes(self, example: Example, text: str) -> float:
        return float(as_answer("check", self.check(example, text)))


@dataclass(frozen=True)
class PassAtK:
    """The probability that one at least of k texts passes, the mean over examples.

    Of n texts of which c pass it is 1 - C(n-c, k) / C(n, k): the share of all choices of k that have one
    that passes. So the order of a list does not matter, and its texts should be samples of one
    distribution. For the first k of a list that is ordered, or chosen as a whole, take `Oracle` of the
    check. A list that is shorter than k is an error: what its missing texts would have been is not known.
    """

    check: Checked
    k: int

    def __post_init__(self) -> None:
        checks.at_least("k", self.k, 1)

    @property
    def name(self) -> str:
        return f"pass@{self.k}"

    @property
    def signature(self) -> str:
        return f"pass|k:{self.k}|estimator:unbiased|{self.check.signature}"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        for row, texts in enumerate(lists_of(self, examples)):
            if len(texts) < self.k:
                raise ArgumentError(
                    f"examples[{row}] has {len(texts)} hypotheses, and {self.name} needs {self.k} or more: "
                    "take a smaller k, or Oracle for lists that differ in length"
                )
        return mean_of([_pass_at(self.k, scores) for scores in self.check.scores(examples)])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


# Helpers


def as_answer(name: str, answer: object) -> bool:
    """Return what a function of the user answered. Raise if it is neither True nor False: 0.1 would pass."""
    if not isinstance(answer, bool | np.bool_):
        raise ArgumentError(
            f"{name} must return True or False, not {checks.short_repr(answer)}: compare it with a threshold"
        )
    return bool(answer)


def _by_text(score: Callable[[Example, str], float], examples: Sequence[Example]) -> list[list[float]]:
    """Return a score for each text of each example. Copies are not scored again."""
    known = [{text: score(each, text) for text in dict.fromkeys(each.hypotheses)} for each in examples]
    return [[of[text] for text in each.hypotheses] for of, each in zip(known, examples, strict=True)]


def _pass_at(k: int, passes: Sequence[float]) -> float:
    failed = passes.count(0.0)
    return 1 - math.comb(failed, k) / math.comb(len(passes), k)
