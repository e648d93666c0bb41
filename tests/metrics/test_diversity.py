"""How different, long and likely the texts of a list are: figures worked by hand, laws, parity."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import (
    DistinctN,
    EmbeddingSpread,
    Example,
    MeanLength,
    Metric,
    NGramCosine,
    SelfBLEU,
    TopLogProb,
    UniqueFraction,
    VectorCosine,
    Vendi,
    Words,
    measure,
)

SEEN = (Example(("a b a", "a b c")), Example(("a b",)))
VECTORS = {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([0.0, 2.0]), "z": torch.tensor([-1.0, 0.0])}
PLAIN = Words(lower=True, punctuation=False)


class Identity:
    """A kernel for which no two texts have anything in common."""

    signature = "identity"

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return torch.eye(len(texts))


class Fixed:
    """A kernel that says what it was told."""

    signature = "fixed"

    def __init__(self, *rows: list[float]) -> None:
        self.similarity = torch.tensor(rows)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return self.similarity


EVERY: list[Metric] = [
    DistinctN(n=2),
    DistinctN(n=2, of="corpus"),
    MeanLength(),
    TopLogProb(),
    UniqueFraction(),
    SelfBLEU(),
    Vendi(),
    Vendi(kernel=VectorCosine(vectors=VECTORS)),
    EmbeddingSpread(vectors=VECTORS),
]


def of(metric: Metric, *texts: str) -> float:
    """The figure of one list."""
    return measure(metric, [Example(texts, log_probs=(-1.0,) * len(texts))]).value


def complaint(metric: Metric, *examples: Example) -> str:
    with pytest.raises(ArgumentError) as caught:
        measure(metric, examples)
    return str(caught.value)


# Words


@pytest.mark.parametrize(
    ("words", "said", "signature"),
    [
        (Words(), ("It's", "A", "«", "TEST»."), "words"),
        (Words(lower=True), ("it's", "a", "«", "test»."), "words+lower"),
        (Words(punctuation=False), ("Its", "A", "TEST"), "words-punctuation"),
        (PLAIN, ("its", "a", "test"), "words+lower-punctuation"),
    ],
)
def test_words(words: Words, said: tuple[str, ...], signature: str) -> None:
    assert words(" It's A\n« TEST». ") == said
    assert words.signature == signature


def test_accents_are_no_punctuation() -> None:
    assert PLAIN("E\u0301te\u0301, 5\u202f% !") == ("e\u0301te\u0301", "5")


# Distinct n-grams. SEEN: 6 words with a, b, c; ab, ba, bc; aba, abc. And 2 words with a, b; ab.


@pytest.mark.parametrize(
    ("n", "value"), [(1, (3 / 6 + 2 / 2) / 2), (2, (3 / 6 + 1 / 2) / 2), (3, 1 / 6), (4, 0)]
)
def test_distinct_of_lists(n: int, value: float) -> None:
    assert measure(DistinctN(n=n), SEEN).value == pytest.approx(value)


@pytest.mark.parametrize(("n", "value"), [(1, 3 / 8), (2, 3 / 8), (3, 2 / 8), (4, 0)])
def test_distinct_of_the_corpus(n: int, value: float) -> None:
    assert measure(DistinctN(n=n, of="corpus"), SEEN).value == value
    assert measure(DistinctN(n=n, of="corpus"), SEEN[::-1]).value == value


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_corpus_of_one_list_is_that_list(n: int) -> None:
    assert measure(DistinctN(n=n), SEEN[:1]).value == measure(DistinctN(n=n, of="corpus"), SEEN[:1]).value


def test_ngrams_do_not_cross_texts() -> None:
    assert of(DistinctN(n=2), "a", "b") == 0


def test_distinct_looks_past_case_and_punctuation_if_told() -> None:
    assert of(DistinctN(n=1), "Go!", "go") == 1
    assert of(DistinctN(n=1, words=PLAIN), "Go!", "go") == 0.5


@pytest.mark.parametrize("kind", ["list", "corpus"])
def test_texts_without_words_have_nothing_distinct(kind: Any) -> None:
    assert of(DistinctN(n=1, of=kind), "", " ") == 0


# Length, log-probability, copies


def test_length_is_a_mean_over_texts() -> None:
    assert measure(MeanLength(), SEEN).value == 8 / 3


def test_the_first_log_probability() -> None:
    examples = [Example(("a", "b"), log_probs=(-1.0, -9.0)), Example(("a",), log_probs=(-2.0,))]
    assert measure(TopLogProb(), examples).value == -1.5


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (("a", "b", "c"), 1),
        (("a", "b", "a", "a"), 1 / 2),
        (("a b", " a  b"), 1 / 2),
        (("a", "A"), 1),
        (("a",), 1),
    ],
)
def test_unique(texts: tuple[str, ...], value: float) -> None:
    assert of(UniqueFraction(), *texts) == value


# Self-BLEU


@pytest.mark.parametrize(
    ("n", "texts", "value"),
    [
        (1, ("a b", "a c"), 50),  # one word of two
        (2, ("a b c d", "a b c e"), 100 * math.sqrt(3 / 4 * 2 / 3)),
        (1, ("a b", "a b c"), (100 * math.exp(1 - 3 / 2) + 100 * 2 / 3) / 2),  # too short; a word too many
        (1, ("a a", "a", "b"), 100 * (1 / 2 + 1 + 0) / 3),  # others have one a, and no b
        (4, ("a b c d e", "a b c d e"), 100),
        (4, ("a b c d e",), 100),
    ],
)
def test_self_bleu(n: int, texts: tuple[str, ...], value: float) -> None:
    assert of(SelfBLEU(n=n), *texts) == pytest.approx(value)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_self_bleu_is_that_of_sacrebleu(n: int) -> None:
    draw = random.Random(n)
    bleu = BLEU(max_ngram_order=n, effective_order=True)
    for size in (2, 3, 7):
        texts = [
            " ".join(draw.choices(["a", "b", "c,", "d.", "E"], k=draw.randint(0, 9))) for _ in range(size)
        ]
        texts[-1] = draw.choice(texts)  # perhaps a copy
        scores = [bleu.sentence_score(text, texts[:i] + texts[i + 1 :]).score for i, text in enumerate(texts)]
        assert of(SelfBLEU(n=n), *texts) == pytest.approx(sum(scores) / size, rel=1e-12)


# Vendi: two texts that are s alike have the eigenvalues (1 + s) / 2 and (1 - s) / 2


def vendi_of_two(s: float) -> float:
    high, low = (1 + s) / 2, (1 - s) / 2
    return math.exp(-high * math.log(high) - low * math.log(low))


@pytest.mark.parametrize(
    ("orders", "alike"),
    [((1,), 1 / 2), ((1, 2), 1 / 4), ((1, 2, 3, 4), 1 / 8)],  # a b and a c share a word and nothing longer
)
def test_vendi_of_two(orders: tuple[int, ...], alike: float) -> None:
    assert of(Vendi(kernel=NGramCosine(orders=orders)), "a b", "a c") == pytest.approx(vendi_of_two(alike))


def test_ngram_cosine_counts() -> None:
    # a a b is (2, 1) and b is (0, 1); of pairs, b has none.
    torch.testing.assert_close(
        NGramCosine(orders=(1, 2))(["a a b", "b", "b"]),
        torch.tensor([[1, 0.5 / 5**0.5, 0.5 / 5**0.5], [0.5 / 5**0.5, 1, 1], [0.5 / 5**0.5, 1, 1]]).double(),
    )


def test_ngram_cosine_is_that_of_the_authors() -> None:
    # Vendi-Score's ngram_vendi_score, written with the same parts of scikit-learn.
    feature_extraction = pytest.importorskip("sklearn.feature_extraction.text")
    draw = random.Random(0)
    texts = [" ".join(draw.choices("a b c d".split(), k=draw.randint(4, 9))) for _ in range(6)]
    kernels = []
    for n in (1, 2, 3, 4):
        counter = feature_extraction.CountVectorizer(
            tokenizer=str.split, token_pattern=None, ngram_range=(n, n), lowercase=False
        )
        counts = torch.tensor(counter.fit_transform(texts).toarray()).double()
        unit = counts / counts.norm(dim=1, keepdim=True)
        kernels.append(unit @ unit.T)
    torch.testing.assert_close(NGramCosine()(texts), torch.stack(kernels).mean(0))


@pytest.mark.parametrize("texts", [1, 2, 5])
def test_vendi_counts_texts_that_have_nothing_in_common(texts: int) -> None:
    said = [f"{i} {i} {i}" for i in range(texts)]
    assert of(Vendi(kernel=Identity()), *said) == pytest.approx(texts)
    assert of(Vendi(), *said) == pytest.approx(texts)


# Word vectors: a to the right, b up, z to the left


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (("a", "b"), 1),
        (("a", "a a"), 0),
        (("a", "z"), 2),
        (("a", "a ? a"), 0),  # ? has no vector
        (("a", "a a b"), 1 - math.sqrt(1 / 2)),  # b is twice as long
        (("a", "b", "a a b"), (1 + 2 * (1 - math.sqrt(1 / 2))) / 3),
        (("a", "?"), 1),
        (("?", "!"), 1),
        (("?", "?"), 0),
        (("a z", "a"), 1),  # right and left cancel
        (("a",), 0),
    ],
)
def test_embedding_spread(texts: tuple[str, ...], value: float) -> None:
    assert of(EmbeddingSpread(vectors=VECTORS), *texts) == pytest.approx(value)


def test_vectors_as_words_and_rows() -> None:
    rows = (list(VECTORS), torch.stack(list(VECTORS.values())).half())
    texts = ("a b", "a a b", "z b b")
    first, second = EmbeddingSpread(vectors=VECTORS), EmbeddingSpread(vectors=rows)
    assert of(first, *texts) == of(second, *texts)
    assert first.signature == second.signature


def test_vendi_with_vectors() -> None:
    assert of(Vendi(kernel=VectorCosine(vectors=VECTORS)), "a", "a a b") == pytest.approx(
        vendi_of_two(0.5**0.5)
    )
    assert of(Vendi(kernel=VectorCosine(vectors=VECTORS)), "?", "!", "a") == pytest.approx(3)


# Laws


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_the_order_of_a_list_does_not_matter(metric: Metric) -> None:
    texts = ["a b a", "a b c", "b", "a b", "c c a b a", "b"]
    before = of(metric, *texts)
    for seed in range(5):
        random.Random(seed).shuffle(texts)
        assert of(metric, *texts) == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("text", ["a b c d e", "a", "?"])
def test_copies_are_not_diverse(text: str, copies: int) -> None:
    texts = (text,) * copies
    assert of(Vendi(), *texts) == pytest.approx(1)
    assert of(Vendi(kernel=VectorCosine(vectors=VECTORS)), *texts) == pytest.approx(1)
    assert of(EmbeddingSpread(vectors=VECTORS), *texts) == pytest.approx(0)
    assert of(SelfBLEU(), *texts) == pytest.approx(100)
    assert of(UniqueFraction(), *texts) == 1 / copies
    assert of(DistinctN(n=1), *texts) == pytest.approx(of(DistinctN(n=1), text) / copies)


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_rows_are_per_example_and_add_up(metric: Metric) -> None:
    examples = [Example((f"a b {i}", "b a"), log_probs=(-1.0, -2.0)) for i in range(3)]
    score = measure(metric, examples)
    assert score.statistics.shape == (3, 2)
    assert score.statistics.dtype == torch.double
    many = metric.score(score.statistics.sum(0).expand(4, 5, 2))
    torch.testing.assert_close(many, torch.full((4, 5), score.value).double())


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_an_empty_text_is_a_text(metric: Metric) -> None:
    assert math.isfinite(of(metric, "", "a b"))
    assert math.isfinite(of(metric, "", ""))


# Signatures


@pytest.mark.parametrize(
    ("metric", "name", "signature"),
    [
        (DistinctN(n=2), "list_distinct_2", "distinct|n:2|of:list|tok:words|"),
        (DistinctN(n=3, of="corpus"), "corpus_distinct_3", "distinct|n:3|of:corpus|tok:words|"),
        (MeanLength(words=PLAIN), "length", "length|tok:words+lower-punctuation|"),
        (TopLogProb(), "top_log_prob", "top_log_prob|"),
        (UniqueFraction(), "unique", "unique|tok:words|"),
        (SelfBLEU(n=3), "self_bleu_3", "self_bleu|n:3|case:mixed|eff:yes|tok:13a|smooth:exp|sacrebleu:"),
        (Vendi(), "vendi", "vendi|kernel:ngrams-1-2-3-4|tok:words|"),
        (EmbeddingSpread(vectors=VECTORS), "embedding_spread", "embedding_spread|kernel:vectors-3x2-"),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_signatures(metric: Metric, name: str, signature: str) -> None:
    assert metric.name == name
    assert metric.signature.startswith(signature)
    assert metric.signature.rpartition("|")[2] == f"version:{__version__}"


def test_other_vectors_sign_otherwise() -> None:
    other = {**VECTORS, "a": torch.tensor([1.0, 0.1])}
    assert VectorCosine(vectors=other).signature != VectorCosine(vectors=VECTORS).signature


# Mistakes


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_a_list_of_none_is_refused(metric: Metric) -> None:
    said = f"examples[1] has no hypotheses: {metric.name} needs one or more, so leave this input out"
    assert complaint(metric, Example(("a",), log_probs=(-1.0,)), Example(())) == said


@pytest.mark.parametrize(
    ("log_probs", "said"),
    [
        ((), "examples[0] has 0 log_probs for 2 hypotheses: give one for each"),
        ((-1.0,), "examples[0] has 1 log_probs for 2 hypotheses: give one for each"),
        ((math.nan, -1.0), "examples[0].log_probs[0] must be finite, not nan: leave this input out"),
    ],
)
def test_log_probabilities_are_needed(log_probs: tuple[float, ...], said: str) -> None:
    assert complaint(TopLogProb(), Example(("a", "b"), log_probs=log_probs)) == said


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (Fixed([1.0]), "kernel must give [2 2] for 2 texts, not [1, 1]"),
        (Fixed([1.0, 0.0], [0.0, 0.5]), "kernel must give 1 for a text and itself, not [1.0, 0.5]"),
        (
            Fixed([1.0, 0.0], [0.5, 1.0]),
            "kernel must be symmetric: the order of two texts must not change the result",
        ),
        (
            Fixed([1.0, 3.0], [3.0, 1.0]),
            "kernel has the eigenvalue -2: take a kernel without negative eigenvalues, such as a cosine",
        ),
    ],
)
def test_a_kernel_has_to_be_one(kernel: Fixed, said: str) -> None:
    assert complaint(Vendi(kernel=kernel), Example(("a", "b"))) == said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n": 0}, "n must be a whole number of at least 1, not 0"),
        ({"of": "lists"}, "of must be 'list' or 'corpus', not 'lists'"),
    ],
)
def test_settings_of_distinct(settings: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        DistinctN(**settings)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ((), "orders is empty: name an order of n-grams, for example (1, 2)"),
        ((1, 0), "orders[1] must be a whole number of at least 1, not 0"),
    ],
)
def test_settings_of_the_kernel(orders: tuple[int, ...], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        NGramCosine(orders=orders)
    assert str(caught.value) == said


@pytest.mark.parametrize("make", [EmbeddingSpread, VectorCosine])
@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ({}, "vectors are empty: give a vector for each word"),
        (
            {"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(2)},
            "vectors must be of one length, not (2,) and (3,)",
        ),
        ((["a"], torch.zeros(2, 3)), "vectors must be [words dimensions] for 1 words, not [2, 3]"),
        ((["a"], torch.zeros(1)), "vectors must be [words dimensions] for 1 words, not [1]"),
        (
            (["a", "b"], torch.tensor([[1.0], [math.nan]])),
            "vectors must be finite, but that of 'b' is not: leave the word out",
        ),
    ],
)
def test_vectors_are_checked(make: Any, vectors: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(vectors=vectors)
    assert str(caught.value) == said
