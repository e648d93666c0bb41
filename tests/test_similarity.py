"""How alike texts are in meaning: worked by hand, and laws of every similarity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError, Hypothesis, select
from beamsplit.selecting import choose
from beamsplit.similarity import (
    ContentAlike,
    EncoderAlike,
    MeanAlike,
    Similarity,
    TextsAlike,
    TokensAlike,
    make_similarity,
    prepare,
)
from search.cases import normal

VOCABULARY = 300


def said(text: str | None, *tokens: int) -> Hypothesis:
    return Hypothesis(tokens, 0.0, 0.0, text=text)


def encode(texts: Sequence[str]) -> Any:
    """Count letters."""
    return [[float(text.count(letter)) for letter in "abcdef"] for text in texts]


TEXTS = ["", "a bad cab", "take a walk", "Walking is good.", "a bad cab", "feed a bee", "?"]
OUTPUTS = [said(text, *(5 + ord(letter) % 250 for letter in text)) for text in TEXTS]
EVERY: dict[str, Similarity] = {
    "content": ContentAlike(),
    "tokens": TokensAlike(normal(0, VOCABULARY, 8)),
    "encoder": EncoderAlike(encode),
    "texts": TextsAlike(lambda one, other: float(one == other)),
    "mean": MeanAlike((ContentAlike(), EncoderAlike(encode))),
}


@pytest.mark.parametrize("name", EVERY)
def test_likeness_is_from_0_to_1_and_the_same_in_both_directions(name: str) -> None:
    alike = EVERY[name]
    for one in OUTPUTS:
        assert alike(one, one) == pytest.approx(1)
        for other in OUTPUTS:
            assert 0 <= alike(one, other) <= 1 + 1e-6
            assert alike(one, other) == alike(other, one)
    assert alike(OUTPUTS[1], OUTPUTS[4]) == pytest.approx(1)  # copies


@pytest.mark.parametrize("name", EVERY)
def test_likeness_does_not_depend_on_what_is_compared_beside(name: str) -> None:
    alone = EVERY[name](OUTPUTS[2], OUTPUTS[3])
    prepare(EVERY[name], OUTPUTS)
    assert EVERY[name](OUTPUTS[2], OUTPUTS[3]) == pytest.approx(alone, abs=1e-6)


# Words of content


def test_content_worked_by_hand() -> None:
    """Stems {go, walk} and {walk}: Dice 2/3. Pieces {" go ", " wal", walk, "alk "} and those of walking."""
    pieces = 2 * 2 / (4 + 6)  # " wal" and "walk" of 4 and of " wal walk alki lkin king ing "
    assert ContentAlike()(said("Go for a walk!"), said("walking")) == pytest.approx((2 / 3 + pieces) / 2)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("the cat", "a cat", 1.0),  # common words do not count
        ("cats", "cat", (1 + 2 * 1 / 5) / 2),  # " cat" of " cat cats ats " and of " cat cat "
        ("red", "blue", 0.0),
        ("the", "of", 0.0),  # nothing is left
        ("the", "the", 1.0),
    ],
)
def test_content_of_short_texts(first: str, second: str, expected: float) -> None:
    found = ContentAlike()(said(first), said(second))
    assert found == pytest.approx(expected)


def test_content_needs_texts() -> None:
    with pytest.raises(ArgumentError, match="have none"):
        ContentAlike()(said(None, 1), said("b", 2))


# Token vectors


def test_tokens_with_like_vectors_are_alike() -> None:
    vectors = normal(1, VOCABULARY, 8)
    vectors[200], vectors[210] = vectors[100], -vectors[100]
    alike = TokensAlike(vectors)
    twin, opposite = alike(said("", 100), said("", 200)), alike(said("", 100), said("", 210))
    assert twin > 0.999
    assert opposite < 0.2
    assert alike(said("", 5, 100), said("", 7, 200)) > alike(said("", 5, 100), said("", 7, 150))


def test_directions_are_white_under_zipfs_law() -> None:
    """The vectors of tokens, whitened, have the covariance 1 if tokens occur by 1 / (rank + 100)."""
    vectors = normal(2, VOCABULARY, 6) * torch.tensor([9.0, 3.0, 1.0, 1.0, 0.3, 0.1]) + 4
    alike = TokensAlike(vectors)
    share = 1 / (torch.arange(VOCABULARY) + 100.0)
    share /= share.sum()
    white = (vectors - alike._mean) @ alike._axes
    assert torch.allclose((white * share[:, None]).T @ white, torch.eye(6), atol=1e-3)
    assert torch.allclose(share @ white, torch.zeros(6), atol=1e-4)


def test_wide_vectors_are_whitened_by_fewer_tokens() -> None:
    vectors = normal(3, 40, 1100)  # fewer tokens than dimensions
    alike = TokensAlike(vectors)
    assert alike(said("", 3), said("", 3)) == 1.0
    assert alike(said("", 3), said("", 30)) < 0.5
    assert math.isfinite(alike(said("", 3, 4, 5), said("", 5, 6)))


def test_signs_count_for_nothing() -> None:
    texts = {299: "!", 298: "x"}
    alike = TokensAlike(normal(4, VOCABULARY, 8), lambda tokens: texts.get(tokens[0], "word"))
    assert alike(said("", 50, 299, 298), said("", 50)) == pytest.approx(1, abs=1e-6)
    assert alike(said("", 299), said("", 50)) == 0


def test_vectors_have_rows() -> None:
    with pytest.raises(ArgumentError, match="shape"):
        TokensAlike(torch.zeros(3))


# Encoders


def test_an_encoder_reads_each_text_once_and_many_at_once() -> None:
    calls: list[list[str]] = []

    def counted(texts: list[str]) -> Any:
        calls.append(texts)
        return encode(texts)

    alike = EncoderAlike(counted)
    prepare(alike, [said("ab"), said("cd"), said("ab")])
    assert alike(said("ab"), said("cd")) == 0
    assert alike(said("ab"), said("aabb")) == pytest.approx(1)
    assert calls == [["ab", "cd"], ["aabb"]]


@pytest.mark.parametrize(
    "returned", [[[1.0]], [[1.0], [float("nan")]], [1.0, 2.0], "ab", [[1.0], [1.0, 2.0]]], ids=str
)
def test_an_encoder_must_return_a_vector_for_each_text(returned: Any) -> None:
    with pytest.raises(ArgumentError, match="encode must return"):
        EncoderAlike(lambda texts: returned)(said("a"), said("b"))


def test_a_function_of_texts_stays_between_0_and_1() -> None:
    with pytest.raises(ArgumentError, match="return 0 to 1"):
        TextsAlike(lambda one, other: 1.5)(said("a"), said("b"))


# Names


def test_names() -> None:
    vectors = normal(0, VOCABULARY, 8)
    assert isinstance(make_similarity("content"), ContentAlike)
    assert isinstance(make_similarity("meaning"), ContentAlike)
    assert isinstance(make_similarity("meaning", lambda: vectors), MeanAlike)
    assert isinstance(make_similarity("tokens", lambda: vectors), TokensAlike)

    class Encoder:
        encode = staticmethod(encode)

    assert isinstance(make_similarity(Encoder()), EncoderAlike)
    own = TextsAlike(lambda one, other: 0.0)
    assert make_similarity(own) is own


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("contents", "did you mean 'content'"),
        ("encoder:", "there is no similarity"),
        (7, "similarity must be"),
        (ContentAlike, "similarity must be"),
        ("tokens", "has no word_vectors"),
    ],
)
def test_what_is_no_similarity_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_similarity(given)


def test_an_encoder_by_name_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match="pip install sentence-transformers"):
        make_similarity("encoder:some/model")


# To choose outputs by


def test_outputs_may_be_chosen_by_meaning() -> None:
    texts = ["go for a walk", "take a long walk", "walking is good", "read a book"]
    for similarity in ("meaning", "content", ContentAlike(), EVERY["encoder"]):
        assert len(select(texts, 2, by="k-medoids", similarity=similarity)) == 2
    assert "read a book" in select(texts, 2, by="dpp", diversity=0.9, similarity="meaning").texts


def test_an_encoder_is_asked_once_for_a_list() -> None:
    calls: list[int] = []

    class Counting:
        def encode(self, texts: list[str]) -> Any:
            calls.append(len(texts))
            return encode(texts)

    found = select(["ab", "cd", "ab", "ef"], 2, similarity=Counting())
    assert len(found) == 2
    assert calls == [3]
    assert choose(found, 1, similarity="content") == [0]
