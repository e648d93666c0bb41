"""Text to numbers and back."""

from __future__ import annotations

import unicodedata

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beamsplit import ArgumentError
from beamsplit.models.text import (
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    Pieces,
    Vocabulary,
    mask_special_tokens,
    normalised,
    words_of,
)
from research.data import Pair
from research.training.sentences import learn_pieces

# Normal form

NORMAL = {
    "Qu’est-ce\u202f?": "Qu'est-ce ?",  # a narrow space
    "«\u00a0Oui\u00a0!\u00a0»": "« Oui ! »",  # no-break spaces
    "‘so’": "'so'",
    "  two\n lines\t": "two lines",
    "cafe\u0301": "café",
    "co\u00adop\u200bera\ufefftion": "cooperation",  # what cannot be seen
    "": "",
    "\u2003": "",
    "“Déjà vu”": "“Déjà vu”",  # the rest stays
}


@pytest.mark.parametrize(("text", "expected"), NORMAL.items())
def test_normalised(text: str, expected: str) -> None:
    assert normalised(text) == expected


TRICKY = st.text(alphabet=st.sampled_from(" \u00a0\u202f\u2028\te'’‘A\u030a\u1100\u1161K\u212a?«"))


@given(st.text() | TRICKY)
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert once == once.strip()
    assert not set(once) & set("\u00a0\u202f’‘\t\n\u00ad\u200b\ufeff")


@given(st.text() | TRICKY)
def test_normalised_text_is_composed(text: str) -> None:
    assert unicodedata.is_normalized("NFC", normalised(text))


def test_what_cannot_be_seen_does_not_keep_letters_apart() -> None:
    assert normalised("e\u00ad\u0301") == "é"


# Words

WORDS = {
    "A man's hat.": ["a", "man", "'s", "hat"],
    "Don’t STOP, it's 5 o'clock!": ["don", "'t", "stop", "it", "'s", "5", "o", "'clock"],
    "black-and-white t-shirt": ["black-and-white", "t-shirt"],
    "well - hardly -- ever-": ["well", "hardly", "ever"],
    "2,000 dogs/cats (two)": ["2", "000", "dogs", "cats", "two"],
    "...": [],
    "": [],
}


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_words_of(text: str, expected: list[str]) -> None:
    assert words_of(text) == expected


def test_ids_come_after_the_four_that_every_vocabulary_has() -> None:
    assert (PAD, UNKNOWN, BEGIN, END) == (0, 1, 2, 3)
    words = Vocabulary(["a", "man", "'s", "hat"])
    assert len(words) == 8
    assert words.ids("The man's hat") == [UNKNOWN, 5, 6, 7]
    assert (words.id("hat"), words.id("Hat")) == (7, None)
    assert words.text([BEGIN, 4, 5, 6, UNKNOWN, 7, END, PAD]) == "a man's hat"


@given(st.lists(st.sampled_from(["a", "man", "'s", "hat", "t-shirt"])))
def test_the_words_of_a_text_of_words_are_those(words: list[str]) -> None:
    vocabulary = Vocabulary(["a", "man", "'s", "hat", "t-shirt"])
    ids = [vocabulary.ids(word)[0] for word in words]
    assert vocabulary.ids(vocabulary.text(ids)) == ids


def test_counted_words_are_the_most_frequent_first_then_by_name() -> None:
    texts = ["a dog, a cat", "A cat and a bird", "an emu"]  # a 4, cat 2, and the rest 1
    assert Vocabulary.counted(texts, 1).words == ("a", "cat", "an", "and", "bird", "dog", "emu")
    assert Vocabulary.counted(reversed(texts), 1).words == Vocabulary.counted(texts, 1).words
    assert Vocabulary.counted(texts, 2).words == ("a", "cat")
    assert Vocabulary.counted(texts, 5).words == ()


def test_words_twice() -> None:
    with pytest.raises(ArgumentError, match=r"^words must be different from each other$"):
        Vocabulary(["a", "b", "a"])


# Pieces


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return learn_pieces([Pair("the cat sees the dog.", ("le chat voit le chien.",))], 60)


@pytest.mark.parametrize("text", ["the cat sees the dog.", "le chien voit", "a", ""])
def test_pieces_there_and_back(pieces: Pieces, text: str) -> None:
    (ids,) = pieces.ids([text])
    assert pieces.text(ids) == text
    assert all(END < i < len(pieces) for i in ids)
    assert pieces.text([BEGIN, *ids, END, PAD]) == text


def test_pieces_of_unknown_letters(pieces: Pieces) -> None:
    assert UNKNOWN in pieces.ids(["cat 猫"])[0]
    assert pieces.text([UNKNOWN]) == ""  # not the sign that sentencepiece writes


def test_pieces_from_their_bytes(pieces: Pieces) -> None:
    again = Pieces(pieces.model)
    assert len(again) == len(pieces)
    assert again.ids(["the cat"]) == pieces.ids(["the cat"])


def test_what_cannot_be_said() -> None:
    assert mask_special_tokens(torch.zeros(2, 6)).tolist() == [[-torch.inf] * 3 + [0.0] * 3] * 2
