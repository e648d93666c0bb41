"""Similarity by any encoder: cosines worked by hand, what an encoder may return, and what it may not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from beamsplit import ArgumentError, __version__
from beamsplit.metrics import (
    DistinctK,
    EmbeddingSpread,
    EncoderCosine,
    Example,
    Metric,
    SimilarBy,
    Spread,
    VectorCosine,
    Vendi,
    measure,
)

# Right, up, left, nowhere; and four in space.
PLACES = {
    "a": [1.0, 0.0],
    "b": [0.0, 2.0],
    "z": [-3.0, 0.0],
    "?": [0.0, 0.0],
    "!": [0.0, 0.0],
    "d": [1.0, 1.0],
}
SPACE = {"1": [1.0, 0, 0], "2": [1.0, 1, 0], "3": [0, 2.0, 1], "4": [-1, 0.5, 3.0]}


def encode(texts: list[str]) -> Any:
    return np.array([PLACES[text] for text in texts])


PLANE = EncoderCosine(encode=encode, name="plane")


def of(metric: Metric, *texts: str) -> float:
    return measure(metric, [Example(texts)]).value


@pytest.mark.parametrize(
    ("texts", "spread", "vendi"),
    [
        (("a", "b"), 1, 2),
        (("a", "a"), 0, 1),
        (("a", "z"), 2, 1),  # opposed, which to the eigenvalues is one direction
        (("a", "b", "d"), (1 + 2 * (1 - math.sqrt(1 / 2))) / 3, None),
        (("a", "?"), 1, 2),
        (("?", "!"), 1, 2),
        (("?", "?"), 0, 1),
        (("a",), 0, 1),
        (("?",), 0, 1),
    ],
)
def test_spread_and_vendi(texts: tuple[str, ...], spread: float, vendi: float | None) -> None:
    assert of(Spread(kernel=PLANE), *texts) == pytest.approx(spread, abs=1e-12)
    if vendi is not None:
        assert of(Vendi(kernel=PLANE), *texts) == pytest.approx(vendi)


def test_vendi_is_that_of_the_authors() -> None:
    # vendi.score_X of these four vectors by `vendi-score` 0.0.3
    space = EncoderCosine(encode=lambda texts: [SPACE[text] for text in texts], name="space")
    assert of(Vendi(kernel=space), *SPACE) == pytest.approx(2.589747786755201, rel=1e-9)
    assert of(Vendi(kernel=space), *reversed(SPACE)) == pytest.approx(2.589747786755201, rel=1e-9)


def test_spread_of_word_vectors_is_the_spread_that_was() -> None:
    vectors = {word: torch.tensor(vector) for word, vector in PLACES.items() if word in "abz"}
    texts = ("a b", "z", "a a b", "x")
    assert of(Spread(kernel=VectorCosine(vectors=vectors)), *texts) == of(
        EmbeddingSpread(vectors=vectors), *texts
    )


@pytest.mark.parametrize(
    "turned",
    [
        np.ndarray.tolist,
        torch.from_numpy,
        lambda found: torch.from_numpy(found).to(torch.bfloat16).requires_grad_(),
        lambda found: found.astype(np.float16),
        lambda found: found.astype(np.int64),
    ],
)
def test_what_an_encoder_may_return(turned: Any) -> None:
    other = EncoderCosine(encode=lambda texts: turned(encode(texts)), name="plane")
    assert torch.equal(other(["a", "b", "z", "?"]), PLANE(["a", "b", "z", "?"]))


def test_it_is_called_once_a_list_with_its_different_texts() -> None:
    asked = []

    def encoded(texts: list[str]) -> Any:
        asked.append(texts)
        return encode(texts)

    kernel = EncoderCosine(encode=encoded, name="plane")
    measure(Vendi(kernel=kernel), [Example(("a", "b", "a")), Example(("z",))])
    assert asked == [["a", "b"], ["z"]]


@pytest.mark.parametrize(("threshold", "classes"), [(0.5, 2), (0.8, 3), (-1, 1)])
def test_classes_by_an_encoder(threshold: float, classes: int) -> None:
    same = SimilarBy(kernel=PLANE, threshold=threshold)
    assert of(DistinctK(classes=same), "a", "d", "a", "z") == classes


def test_signatures() -> None:
    signature = f"spread|kernel:encoder-cosine|encoder:plane|version:{__version__}"
    assert (Spread(kernel=PLANE).name, Spread(kernel=PLANE).signature) == ("spread", signature)
    assert Vendi(kernel=PLANE).signature.startswith("vendi|kernel:encoder-cosine|encoder:plane|")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (np.zeros(2), "encode must return [2 dimensions] for 2 texts, not [2]"),
        (np.zeros((1, 3)), "encode must return [2 dimensions] for 2 texts, not [1, 3]"),
        (np.zeros((2, 0)), "encode must return [2 dimensions] for 2 texts, not [2, 0]"),
        ([[1.0], [math.inf]], "encode must return finite numbers, but did not for 'b'"),
        (None, "encode must return numbers [texts dimensions], not None"),
        ([[1.0], [1.0, 2.0]], "encode must return numbers [texts dimensions], not [[1.0], [1.0, 2.0]]"),
    ],
)
def test_an_encoder_has_to_be_one(found: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        of(Spread(kernel=EncoderCosine(encode=lambda _: found, name="none")), "a", "b")
    assert str(caught.value) == said


def test_an_encoder_has_a_name() -> None:
    with pytest.raises(ArgumentError) as caught:
        EncoderCosine(encode=encode, name="")
    assert str(caught.value) == "name must say in a few words, without a bar, what the encoder is, not ''"
