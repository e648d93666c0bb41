"""How alike two outputs are in meaning, from 0 to 1. None of these downloads anything.

WordsAlike()               the words of content that both have, in any form
TokensAlike(vectors)       the token vectors of the model that is decoded
EncoderAlike(encode)       the vectors of any sentence encoder
TextsAlike(function)       a function of two texts
MeanAlike((one, other))    the mean of several

A similarity is a function of two hypotheses. What else is there is for speed: `prepare` is told beforehand
which hypotheses will be compared.
"""

from __future__ import annotations

from beamsplit.similarity.base import MeanAlike, Similarity, TextsAlike, prepare
from beamsplit.similarity.encoder import EncoderAlike
from beamsplit.similarity.names import SIMILARITIES, GivenSimilarity, check_similarity, make_similarity
from beamsplit.similarity.tokens import TokensAlike
from beamsplit.similarity.words import WordsAlike

__all__ = [
    "SIMILARITIES",
    "EncoderAlike",
    "GivenSimilarity",
    "MeanAlike",
    "Similarity",
    "TextsAlike",
    "TokensAlike",
    "WordsAlike",
    "check_similarity",
    "make_similarity",
    "prepare",
]
