"""How many different things texts say: figures worked by hand, laws, numbers of the authors' programs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import (
    Classes,
    DistinctK,
    Example,
    Metric,
    NGramCosine,
    SameBy,
    SemanticEntropy,
    SimilarBy,
    TextScore,
    UtilityK,
    measure,
)

LETTER = SameBy(same=lambda a, b: a[0] == b[0], name="first letter")
LENGTH = TextScore(of=lambda _, text: float(len(text)), name="length")
ANIMALS = ("apple", "bat", "ant", "cow", "bee", "arm", "dog")
LOG_PROBS = (-1.5, -0.7, -3.2, -2.0, -4.1, -2.6)
EVERY: list[Metric] = [
    DistinctK(classes=LETTER),
    DistinctK(classes=LETTER, k=3),
    UtilityK(classes=LETTER, utility=LENGTH),
    SemanticEntropy(classes=LETTER),
    SemanticEntropy(classes=LETTER, by="count"),
]


class Line:
    """A kernel of numbers on a line: alike by how near they are."""

    signature = "line"

    def __call__(self, texts: Sequence[str]) -> Tensor:
        at = torch.tensor([float(text) for text in texts])
        return 1 - (at[:, None] - at).abs()


def of(metric: Metric, *texts: str, log_probs: tuple[float, ...] | None = None) -> float:
    """The figure of one list."""
    return measure(metric, [Example(texts, (), log_probs or (-1.0,) * len(texts))]).value


def complaint(metric: Metric, *examples: Example) -> str:
    with pytest.raises(ArgumentError) as caught:
        measure(metric, examples)
    return str(caught.value)


def called(metric: Metric) -> str:
    return metric.name


# Classes


@pytest.mark.parametrize(
    ("classes", "texts", "found"),
    [
        # The same came out of partition_responses of NoveltyBench's repository at 5b22b53.
        (LETTER, ANIMALS, [0, 1, 0, 2, 1, 0, 3]),
        # So did this, of numbers that are the same if they are at most 1 apart: the first of a class decides.
        (
            SameBy(same=lambda a, b: abs(float(a) - float(b)) <= 1, name="near"),
            ("0", "1", "2", "3", "1.5", "2.5"),
            [0, 0, 1, 1, 1, 1],
        ),
        (SimilarBy(kernel=Line(), threshold=0), ("0", "1", "2", "3", "1.5", "2.5"), [0, 0, 1, 1, 1, 1]),
        (SimilarBy(kernel=Line(), threshold=0.25), ("0", "0.75", "1.5", "0.5"), [0, 0, 1, 0]),
        (SimilarBy(kernel=Line(), threshold=1.5), ("0", "1", "0"), [0, 1, 0]),  # beyond any similarity
        (SimilarBy(kernel=NGramCosine(), threshold=1), ("a b c", "a b", "a b c"), [0, 1, 0]),
        (SameBy(same=lambda a, b: False, name="never"), ("a", "b", "a"), [0, 1, 0]),  # copies are the same
        (LETTER, ("x",), [0]),
    ],
)
def test_classes(classes: Classes, texts: tuple[str, ...], found: list[int]) -> None:
    assert classes(texts) == found


def test_only_the_first_of_each_class_is_compared() -> None:
    asked = []

    def same(a: str, b: str) -> bool:
        asked.append(a + b)
        return a.lower() == b.lower()

    assert SameBy(same=same, name="case")(("a", "A", "b", "B", "a")) == [0, 0, 1, 1, 0]
    assert asked == ["aA", "ab", "aB", "bB"]


# How many classes


@pytest.mark.parametrize(("k", "value"), [(None, 4), (1, 1), (2, 2), (3, 2), (4, 3), (7, 4), (9, 4)])
def test_distinct_k(k: int | None, value: float) -> None:
    assert of(DistinctK(classes=LETTER, k=k), *ANIMALS) == value


# Utility: with patience 1/2 the weights are 1, 1/2, 1/4, ...


@pytest.mark.parametrize(
    ("k", "texts", "value"),
    [
        (None, ("aa", "b"), (2 + 1 / 2) / (3 / 2)),
        (None, ("aa", "aaa", "bbbb"), (2 + 4 / 4) / (7 / 4)),  # the second is nothing new
        (2, ("aa", "aaa", "bbbb"), 2 / (3 / 2)),
        (3, ("aa", "b"), (2 + 1 / 2) / (7 / 4)),  # and the third is missing
        (None, ("aa",), 2),
    ],
)
def test_utility_k(k: int | None, texts: tuple[str, ...], value: float) -> None:
    assert of(UtilityK(classes=LETTER, utility=LENGTH, patience=0.5, k=k), *texts) == pytest.approx(value)


def test_utility_k_is_that_of_the_authors() -> None:
    # score.py of NoveltyBench's repository at 5b22b53: np.average of 7, 3, 0, 2, 0, 0, 6, weights 0.8**i.
    scores = dict(zip(ANIMALS, (7.0, 3.0, 9.0, 2.0, 10.0, 4.0, 6.0), strict=True))
    utility = TextScore(of=lambda _, text: scores[text], name="made up")
    found = of(UtilityK(classes=LETTER, utility=utility), *ANIMALS)
    assert found == pytest.approx(3.036086231191591, rel=1e-12)


def test_without_impatience_it_is_a_mean() -> None:
    assert of(UtilityK(classes=LETTER, utility=LENGTH, patience=1), "aa", "a", "bbbb", "c") == 7 / 4


def test_only_what_is_new_is_scored() -> None:
    asked = []

    def score(_: Example, text: str) -> float:
        asked.append(text)
        return 1.0

    of(UtilityK(classes=LETTER, utility=TextScore(of=score, name="one"), k=4), *ANIMALS)
    assert asked == ["apple", "bat", "cow"]


@pytest.mark.parametrize("patience", [0.1, 0.8, 1])
def test_utility_lies_between_nothing_and_the_best(patience: float) -> None:
    constant = UtilityK(classes=LETTER, utility=TextScore(of=lambda _, __: 5, name="five"), patience=patience)
    assert of(constant, *"abcdef") == pytest.approx(5)
    assert 0 < of(constant, *ANIMALS) < 5


# Entropy


@pytest.mark.parametrize(
    ("texts", "probabilities", "value"),
    [
        (("a", "b"), (0.25, 0.25), math.log(2)),  # divided by their sum
        (("a1", "a2", "b"), (0.1, 0.2, 0.3), math.log(2)),
        (("a", "b"), (0.3, 0.1), -(3 / 4 * math.log(3 / 4) + 1 / 4 * math.log(1 / 4))),
        (("a1", "a2"), (0.3, 0.1), 0),
        (("a", "b", "c", "d"), (1e-300,) * 4, math.log(4)),
    ],
)
def test_semantic_entropy(texts: tuple[str, ...], probabilities: tuple[float, ...], value: float) -> None:
    log_probs = tuple(map(math.log, probabilities))
    assert of(SemanticEntropy(classes=LETTER), *texts, log_probs=log_probs) == pytest.approx(value)


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (("a", "b"), math.log(2)),
        (("a1", "a2", "b", "c"), 3 / 2 * math.log(2)),  # 1/2, 1/4, 1/4
        (("a1", "a2"), 0),
    ],
)
def test_discrete_semantic_entropy(texts: tuple[str, ...], value: float) -> None:
    assert of(SemanticEntropy(classes=LETTER, by="count"), *texts) == pytest.approx(value)


def test_semantic_entropy_is_that_of_the_authors() -> None:
    # Of these ids and log-likelihoods, by logsumexp_by_id, predictive_entropy_rao and
    # cluster_assignment_entropy of github.com/jlko/semantic_uncertainty at a8d9aa8.
    texts = ANIMALS[:6]
    probable, discrete = SemanticEntropy(classes=LETTER), SemanticEntropy(classes=LETTER, by="count")
    assert of(probable, *texts, log_probs=LOG_PROBS) == pytest.approx(0.9794966033112885, rel=1e-12)
    assert of(discrete, *texts) == pytest.approx(1.0114042647073516, rel=1e-12)


# Laws


@pytest.mark.parametrize("metric", [m for m in EVERY if m.name in ("distinct_k",) or "entropy" in m.name])
def test_the_order_of_a_list_does_not_matter_to_an_equivalence(metric: Metric) -> None:
    pairs = list(zip(ANIMALS, (*LOG_PROBS, -1.0), strict=True))
    before = of(metric, *ANIMALS, log_probs=(*LOG_PROBS, -1.0))
    for seed in range(5):
        random.Random(seed).shuffle(pairs)
        texts, log_probs = zip(*pairs, strict=True)
        assert of(metric, *texts, log_probs=log_probs) == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_are_one_thing(copies: int) -> None:
    texts = ("apple",) * copies
    assert of(DistinctK(classes=LETTER), *texts) == 1
    for by in ("probability", "count"):
        assert of(SemanticEntropy(classes=LETTER, by=by), *texts) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("texts", [ANIMALS, tuple("abcdefg"), ("a",) * 7])
def test_bounds(texts: tuple[str, ...]) -> None:
    classes = of(DistinctK(classes=LETTER), *texts)
    assert 1 <= classes <= len(texts)
    for metric in (SemanticEntropy(classes=LETTER), SemanticEntropy(classes=LETTER, by="count")):
        assert -1e-12 <= of(metric, *texts) <= math.log(classes) + 1e-12


@pytest.mark.parametrize("metric", EVERY, ids=called)
def test_rows_are_per_example_and_add_up(metric: Metric) -> None:
    examples = [Example(ANIMALS[: 2 + i], (), (-1.0,) * (2 + i)) for i in range(3)]
    score = measure(metric, examples)
    assert score.statistics.shape == (3, 2)
    assert score.statistics.dtype == torch.double
    assert score.value == pytest.approx(sum(measure(metric, [each]).value for each in examples) / 3)
    many = metric.score(score.statistics.sum(0).expand(4, 5, 2))
    torch.testing.assert_close(many, torch.full((4, 5), score.value).double())


# Signatures and mistakes


@pytest.mark.parametrize(
    ("metric", "name", "signature"),
    [
        (EVERY[0], "distinct_k", "distinct_k|k:all|classes:same-by|by:first letter"),
        (EVERY[1], "distinct_k_3", "distinct_k|k:3|classes:same-by|by:first letter"),
        (
            DistinctK(classes=SimilarBy(kernel=Line(), threshold=0.5)),
            "distinct_k",
            "distinct_k|k:all|classes:similar-by|threshold:0.5|kernel:line",
        ),
        (
            UtilityK(classes=LETTER, utility=LENGTH, k=8),
            "utility_k_8",
            "utility_k|k:8|patience:0.8|classes:same-by|by:first letter|"
            f"utility:score|by:length|version:{__version__}",
        ),
        (
            EVERY[3],
            "semantic_entropy",
            "semantic_entropy|by:probability|log:e|classes:same-by|by:first letter",
        ),
        (
            EVERY[4],
            "discrete_semantic_entropy",
            "semantic_entropy|by:count|log:e|classes:same-by|by:first letter",
        ),
    ],
)
def test_signatures(metric: Metric, name: str, signature: str) -> None:
    assert (metric.name, metric.signature) == (name, f"{signature}|version:{__version__}")


@pytest.mark.parametrize("metric", EVERY, ids=called)
def test_a_list_of_none_is_refused(metric: Metric) -> None:
    said = f"examples[1] has no hypotheses: {metric.name} needs one or more, so leave this input out"
    assert complaint(metric, Example(("a",), (), (-1.0,)), Example(())) == said


@pytest.mark.parametrize(
    ("log_probs", "said"),
    [
        ((), "examples[0] has 0 log_probs for 2 hypotheses: give one for each, or take by='count'"),
        ((-1.0, -math.inf), "examples[0].log_probs[1] must be finite, not -inf"),
    ],
)
def test_probabilities_are_needed(log_probs: tuple[float, ...], said: str) -> None:
    assert complaint(SemanticEntropy(classes=LETTER), Example(("a", "b"), (), log_probs)) == said


def test_a_similarity_is_no_answer() -> None:
    metric = DistinctK(classes=SameBy(same=lambda a, b: 0.1, name="alike"))  # type: ignore[arg-type, return-value]
    said = "same must return True or False, not 0.1: compare it with a threshold"
    assert complaint(metric, Example(("a", "b"))) == said


def test_answers_may_be_those_of_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    assert SameBy(same=lambda a, b: numpy.float32(1) > 0, name="always")(("a", "b")) == [0, 0]


def test_classes_are_for_all_texts() -> None:
    class Short:
        signature = "short"

        def __call__(self, texts: Sequence[str]) -> list[int]:
            return [0]

    said = "classes must give a number for each of 2 texts, not 1"
    assert complaint(DistinctK(classes=Short()), Example(("a", "b"))) == said


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (DistinctK, {"classes": LETTER, "k": 0}, "k must be a whole number of at least 1, not 0"),
        (
            UtilityK,
            {"classes": LETTER, "utility": LENGTH, "patience": 1.5},
            "patience must be above 0 and at most 1, not 1.5",
        ),
        (
            SemanticEntropy,
            {"classes": LETTER, "by": "counts"},
            "by must be 'probability' or 'count', not 'counts'",
        ),
        (
            SimilarBy,
            {"kernel": Line(), "threshold": math.nan},
            "threshold must be a finite number, not nan",
        ),
        (
            SameBy,
            {"same": str.__eq__, "name": ""},
            "name must say in a few words, without a bar, what sameness is, not ''",
        ),
    ],
)
def test_settings(make: Any, settings: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(**settings)
    assert str(caught.value) == said
