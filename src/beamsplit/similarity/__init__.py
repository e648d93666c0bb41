"""How alike two outputs are in meaning, from 0 to 1. None of these downloads anything.

ContentAlike()             the words of content that both have, in any form
TokensAlike(vectors)       the token vectors of the model that is decoded
EncoderAlike(encode)       the vectors of any sentence encoder
TextsAlike(function)       a function of two texts
MeanAlike((one, other))    the mean of several

A similarity is a function of two hypotheses. What else is there is for speed: `prepare` is told beforehand
which hypotheses will be compared.
"""

from typing import TYPE_CHECKING

from beamsplit.lazy import package_dir, package_getattr

if TYPE_CHECKING:
    from beamsplit.similarity.base import MeanAlike, Similarity, TextsAlike, prepare
    from beamsplit.similarity.content import ContentAlike
    from beamsplit.similarity.encoder import EncoderAlike
    from beamsplit.similarity.names import (
        SIMILARITIES,
        GivenSimilarity,
        check_similarity,
        make_similarity,
    )
    from beamsplit.similarity.tokens import TokensAlike

__all__ = [
    "SIMILARITIES",
    "ContentAlike",
    "EncoderAlike",
    "GivenSimilarity",
    "MeanAlike",
    "Similarity",
    "TextsAlike",
    "TokensAlike",
    "check_similarity",
    "make_similarity",
    "prepare",
]

# So that the names of similarities can be read without torch.
__getattr__ = package_getattr(
    __name__,
    {
        "beamsplit.similarity.base": "MeanAlike Similarity TextsAlike prepare",
        "beamsplit.similarity.content": "ContentAlike",
        "beamsplit.similarity.encoder": "EncoderAlike",
        "beamsplit.similarity.names": "SIMILARITIES GivenSimilarity check_similarity make_similarity",
        "beamsplit.similarity.tokens": "TokensAlike",
    },
)
__dir__ = package_dir(__all__)
