"""Similarities by name, for people and for settings."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.similarity.base import MeanAlike, Similarity
from beamsplit.similarity.content import ContentAlike

__all__ = ["SIMILARITIES", "GivenSimilarity", "check_similarity", "make_similarity"]

SIMILARITIES = {
    "meaning": "the mean of content and tokens, or content alone where the model has no token vectors",
    "content": "words of content that both have, in any form",
    "tokens": "the model's own token vectors",
    "encoder:NAME": "a sentence-transformers model: a folder or a name on the hub",
}
_ENCODER = "encoder:"

GivenSimilarity: TypeAlias = str | Similarity | Any
"""A name, a function of two hypotheses, or an encoder: anything with a method `encode(texts)`."""

ToText: TypeAlias = Callable[[tuple[int, ...]], str]


def check_similarity(given: GivenSimilarity) -> None:
    """Raise unless this names a similarity or is one."""
    if isinstance(given, str):
        is_encoder = given.startswith(_ENCODER) and len(given) > len(_ENCODER)
        if given not in ("meaning", "content", "tokens") and not is_encoder:
            hint = checks.nearest(given, SIMILARITIES, f"there are {', '.join(SIMILARITIES)}")
            raise ArgumentError(f"there is no similarity {given!r}: {hint}")
    elif isinstance(given, type) or not (callable(given) or callable(getattr(given, "encode", None))):
        raise ArgumentError(
            "similarity must be a name, a function of two hypotheses or an encoder with a method encode, not "
            f"{checks.short_repr(given)}"
        )


def make_similarity(
    given: GivenSimilarity, vectors: Callable[[], Any] = lambda: None, to_text: ToText | None = None
) -> Similarity:
    """Return a similarity. `vectors` returns the decoded model's token vectors, or None."""
    check_similarity(given)
    if not isinstance(given, str):
        encode = getattr(given, "encode", None)
        return _encoder_alike(encode) if callable(encode) else given
    if given.startswith(_ENCODER):
        return _encoder_alike(_load_encoder(given.removeprefix(_ENCODER)))
    if given == "content":
        return ContentAlike()
    table = vectors()
    if table is None:
        if given == "meaning":
            return ContentAlike()
        raise ArgumentError(
            "similarity='tokens' needs the vectors of the model's tokens, and the model has no word_vectors: "
            "use 'content', or an encoder"
        )
    from beamsplit.similarity.tokens import TokensAlike

    by_tokens = TokensAlike(table, to_text)
    return by_tokens if given == "tokens" else MeanAlike((ContentAlike(), by_tokens))


def _encoder_alike(encode: Callable[[list[str]], Any]) -> Similarity:
    from beamsplit.similarity.encoder import EncoderAlike  # which needs torch

    return EncoderAlike(encode)


def _load_encoder(name: str) -> Callable[[list[str]], Any]:
    try:
        transformers = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise ImportError(
            f"similarity={_ENCODER + name!r} needs sentence-transformers: pip install sentence-transformers"
        ) from error
    encode: Callable[[list[str]], Any] = transformers.SentenceTransformer(name).encode
    return encode
