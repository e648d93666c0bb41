"""How much texts repeat each other's words: figures worked by hand, laws, numbers of others' programs."""

from __future__ import annotations

import gzip
import math
import random
import zlib
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import (
    CompressionRatio,
    Example,
    ExpectationAdjustedDistinct,
    Metric,
    SelfRepetition,
    Words,
    measure,
    resamples,
)

DOGS = (
    "the dog runs on the beach",
    "the dog runs on the grass",
    "a dog runs on the beach today",
    "two cats sleep",
)
LISTS = (Example(("a b c d", "a b c e")), Example(("a b c d f", "b", "é a b")), Example(("c",)))
EVERY: list[Metric] = [
    make(of=of)
    for make in (ExpectationAdjustedDistinct, CompressionRatio, SelfRepetition)
    for of in ("list", "corpus")
]


def of(metric: Metric, *texts: str) -> float:
    """The figure of one list."""
    return measure(metric, [Example(texts)]).value


def name(metric: Metric) -> str:
    return metric.name


# Expectation-adjusted distinct n-grams


@pytest.mark.parametrize(
    ("n", "vocabulary", "texts", "value"),
    [
        # Two draws of two words: 1 + 1/2 different ones are expected. Three: 2 (1 - 1/8).
        (1, 2, ("a b",), 2 / 1.5),
        (1, 2, ("a a",), 1 / 1.5),
        (1, 2, ("a b", "a"), 2 / 1.75),
        (1, 3, ("a b", "c"), 3 / (3 * (1 - 8 / 27))),
        # Two pairs of nine: 9 (1 - 64/81) = 17/9.
        (2, 3, ("a b", "a b"), 1 / (17 / 9)),
        (2, 3, ("a b", "a c"), 2 / (17 / 9)),
        (1, 10**18, ("a b", "a c"), 3 / 4),  # of so many words none is expected twice
        (200, 10**18, (" ".join("a" * 201),), 1 / 2),
        (1, 2, ("", ""), 0),
        (3, 2, ("a b", "c d"), 0),
    ],
)
def test_ead(n: int, vocabulary: int, texts: tuple[str, ...], value: float) -> None:
    for whole in ("list", "corpus"):
        metric = ExpectationAdjustedDistinct(n=n, vocabulary=vocabulary, of=whole)
        assert of(metric, *texts) == pytest.approx(value, rel=1e-12)


def test_ead_is_a_mean_over_lists_and_a_ratio_of_the_corpus() -> None:
    examples = [Example(("a b",)), Example(("a",))]
    lists = ExpectationAdjustedDistinct(vocabulary=2)
    corpus = ExpectationAdjustedDistinct(vocabulary=2, of="corpus")
    assert measure(lists, examples).value == pytest.approx((2 / 1.5 + 1) / 2)
    assert measure(corpus, examples).value == pytest.approx(2 / 1.75)


@pytest.mark.parametrize("words", [5, 50, 5000])
def test_random_texts_of_any_length_have_an_ead_of_one(words: int) -> None:
    """The expectation is that of the draws; a share of distinct words would fall from 1 to 1/50."""
    draw = random.Random(0)
    lists = [Example((" ".join(draw.choices("abcdefghijklmnopqrst", k=words)),)) for _ in range(200)]
    assert measure(ExpectationAdjustedDistinct(vocabulary=20), lists).value == pytest.approx(1, abs=0.05)


# Compression


@pytest.mark.parametrize("texts", [DOGS, DOGS * 20, ("a",), ("é à",), ("", "")])
def test_compression_is_that_of_gzip(texts: tuple[str, ...]) -> None:
    whole = " ".join(texts).encode()
    for metric in (CompressionRatio(), CompressionRatio(of="corpus")):
        assert of(metric, *texts) == len(whole) / len(gzip.compress(whole))


def test_the_corpus_is_compressed_as_one() -> None:
    examples = [Example((text,)) for text in DOGS * 10]
    assert measure(CompressionRatio(of="corpus"), examples).value == of(CompressionRatio(), *DOGS * 10)
    rows = measure(CompressionRatio(of="corpus"), examples).statistics
    assert rows[0, 1] > rows[4:, 1].max()  # what came before costs little


@pytest.mark.skipif(zlib.ZLIB_RUNTIME_VERSION != "1.2.13", reason="the numbers are those of zlib 1.2.13")
def test_compression_is_that_of_the_authors_but_for_their_second_gzip() -> None:
    # `diversity` 0.3.1: compression_ratio gave 0.881 of 96 bytes and 15.268 of 1939. It compresses what is
    # compressed once more, into a file with a name of ten letters and a zero in its header.
    for texts, theirs in ((DOGS, 0.881), (DOGS * 20, 15.268)):
        whole = " ".join(texts).encode()
        once = round(len(whole) / of(CompressionRatio(), *texts))
        twice = len(gzip.compress(gzip.compress(whole))) + len("compressed\0")
        assert once < twice
        assert round(len(whole) / twice, 3) == theirs


def test_copies_compress_and_noise_does_not() -> None:
    draw = random.Random(0)
    noise = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=40)) for _ in range(8)]
    assert of(CompressionRatio(), *noise) < 1.6 < of(CompressionRatio(), *[noise[0]] * 8)
    ratios = [of(CompressionRatio(), *[noise[0]] * copies) for copies in (1, 2, 4, 8)]
    assert ratios == sorted(ratios)


# Self-repetition


@pytest.mark.parametrize(
    ("n", "texts", "value"),
    [
        (1, ("a b", "a c"), math.log(2)),  # each has one word of the other
        (1, ("a a", "a"), math.log(2)),  # different words count, and texts that have them
        (1, ("a b", "a b"), math.log(3)),
        (1, ("a b", "a", "b c"), (math.log(3) + math.log(2) + math.log(2)) / 3),
        (2, ("a b c", "a b", "b c"), (math.log(3) + 2 * math.log(2)) / 3),
        (4, ("a b c d", "a b c e"), 0),
        (4, ("a b c d", "x a b c d"), math.log(2)),
        (4, ("a b c d", "a b c d", "a b c d"), math.log(3)),
        (1, ("a a a",), 0),  # with itself a text has nothing to do
        (1, ("", ""), 0),
    ],
)
def test_self_repetition(n: int, texts: tuple[str, ...], value: float) -> None:
    assert of(SelfRepetition(n=n), *texts) == pytest.approx(value)
    assert of(SelfRepetition(n=n, of="corpus"), *texts) == pytest.approx(value)


@pytest.mark.parametrize(
    ("n", "theirs"), [(2, 1.5890269151739727), (3, 1.3823572718778556), (4, 1.0955066586684703)]
)
def test_self_repetition_is_that_of_the_authors(n: int, theirs: float) -> None:
    # self_repetition_score(DOGS, n) of `diversity` 0.3.1
    assert of(SelfRepetition(n=n), *DOGS) == pytest.approx(theirs, rel=1e-12)
    apart = [Example((text,)) for text in DOGS]
    assert measure(SelfRepetition(n=n, of="corpus"), apart).value == pytest.approx(theirs, rel=1e-12)
    assert measure(SelfRepetition(n=n), apart).value == 0  # in a list of one nothing is repeated


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_repeat_themselves_most(copies: int) -> None:
    """Six words are three 4-grams, each of which all the others have."""
    most = math.log(1 + 3 * (copies - 1))
    assert of(SelfRepetition(), *[DOGS[0]] * copies) == pytest.approx(most)
    assert of(SelfRepetition(), *([DOGS[0]] * copies)[1:], DOGS[1]) <= most


# Laws


@pytest.mark.parametrize("metric", [m for m in EVERY if "compression" not in m.name], ids=name)
def test_the_order_of_a_list_does_not_matter(metric: Metric) -> None:
    texts = [*DOGS, DOGS[0]]
    before = of(metric, *texts)
    for seed in range(5):
        random.Random(seed).shuffle(texts)
        assert of(metric, *texts) == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("metric", EVERY, ids=name)
def test_rows_are_per_example_and_add_up(metric: Metric) -> None:
    score = measure(metric, LISTS)
    assert score.statistics.shape == (3, 2)
    assert score.statistics.dtype == torch.double
    many = metric.score(score.statistics.sum(0).expand(4, 5, 2))
    torch.testing.assert_close(many, torch.full((4, 5), score.value).double())


@pytest.mark.parametrize("metric", EVERY, ids=name)
def test_a_mean_over_lists_is_that_and_may_be_resampled(metric: Metric) -> None:
    if resamples(metric):
        each = [measure(metric, [example]).value for example in LISTS]
        assert measure(metric, LISTS).value == pytest.approx(sum(each) / 3)
    assert resamples(metric) == metric.name.startswith("list")


@pytest.mark.parametrize("metric", EVERY, ids=name)
def test_an_empty_text_is_a_text(metric: Metric) -> None:
    assert math.isfinite(of(metric, "", "a b"))
    assert of(metric, "") == 0


@pytest.mark.parametrize("make", [ExpectationAdjustedDistinct, SelfRepetition])
def test_case_and_punctuation_are_looked_past_if_told(make: Any) -> None:
    plain = make(n=1, words=Words(lower=True, punctuation=False))
    assert of(plain, "Go, Tom!", "go") == of(make(n=1), "go tom", "go") != of(make(n=1), "Go, Tom!", "go")


# Signatures and mistakes


@pytest.mark.parametrize(
    ("metric", "called", "signature"),
    [
        (
            ExpectationAdjustedDistinct(n=2),
            "list_ead_2",
            f"ead|n:2|of:list|vocabulary:30522|tok:words|version:{__version__}",
        ),
        (
            CompressionRatio(of="corpus"),
            "corpus_compression",
            "compression|of:corpus|by:gzip-9|join:space|"
            f"zlib:{zlib.ZLIB_RUNTIME_VERSION}|version:{__version__}",
        ),
        (
            SelfRepetition(),
            "list_self_repetition_4",
            f"self_repetition|n:4|of:list|log:e|tok:words|version:{__version__}",
        ),
    ],
)
def test_signatures(metric: Metric, called: str, signature: str) -> None:
    assert (metric.name, metric.signature) == (called, signature)


@pytest.mark.parametrize("metric", EVERY, ids=name)
def test_a_list_of_none_is_refused(metric: Metric) -> None:
    with pytest.raises(ArgumentError) as caught:
        measure(metric, [LISTS[0], Example(())])
    said = f"examples[1] has no hypotheses: {metric.name} needs one or more, so leave this input out"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (ExpectationAdjustedDistinct, {"n": 0}, "n must be a whole number of at least 1, not 0"),
        (
            ExpectationAdjustedDistinct,
            {"vocabulary": 1},
            "vocabulary must be a whole number of at least 2, not 1",
        ),
        (ExpectationAdjustedDistinct, {"of": "all"}, "of must be 'list' or 'corpus', not 'all'"),
        (CompressionRatio, {"of": "all"}, "of must be 'list' or 'corpus', not 'all'"),
        (SelfRepetition, {"of": "all"}, "of must be 'list' or 'corpus', not 'all'"),
        (SelfRepetition, {"n": 2.5}, "n must be a whole number of at least 1, not 2.5"),
    ],
)
def test_settings(make: Any, settings: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(**settings)
    assert str(caught.value) == said
