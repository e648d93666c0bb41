"""N-grams of words, and how many of them differ: what metrics and comparisons both count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["distinct_ratio", "ngrams"]


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Return the n-grams of a text, in order.

    >>> ngrams("a red boat".split(), 2)
    [('a', 'red'), ('red', 'boat')]
    """
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def distinct_ratio(texts: Iterable[Sequence[str]], n: int) -> float:
    """Return the number of different n-grams over the number of words, as the paper counts: not over n-grams.

    Without any words it is 0: nothing in such a list is distinct.

    >>> distinct_ratio(["a b".split(), "a c".split()], 1)
    0.75
    """
    texts = list(texts)
    different = {gram for words in texts for gram in ngrams(words, n)}
    return len(different) / max(sum(map(len, texts)), 1)
