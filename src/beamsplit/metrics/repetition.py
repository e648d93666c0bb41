"""Metrics of how much texts repeat each other's words, made for outputs of different lengths.

ExpectationAdjustedDistinct   Liu et al. 2022, "Rethinking and Refining the Distinct Metric"
CompressionRatio              Shaib et al. 2024, "Standardizing the Measurement of Text Diversity"
SelfRepetition                Salkar et al. 2022, "Self-Repetition in Abstractive Neural Summarizers",
                              as Shaib et al. compute it

They need nothing but texts. None of them sees meaning: a paraphrase counts as different, and two answers that
differ in a "not" as nearly the same.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.metrics.base import Example, lists_of, mean_of, ratio, signed
from beamsplit.metrics.diversity import Gram, Words, check_of, count_new
from beamsplit.ngrams import ngrams

__all__ = ["CompressionRatio", "ExpectationAdjustedDistinct", "SelfRepetition"]

BERT_VOCABULARY = 30522
"""The vocabulary that Liu et al. take: that of BERT's tokenizer."""

_COUNTLESS = 10**100  # of so many n-grams none is expected twice, nor of more, which no float can hold
_GZIP = 31  # the window size by which zlib writes gzip's header and checksum, as `gzip.compress` does
_LEVEL = 9  # gzip's own default in Python


@dataclass(frozen=True, kw_only=True)
class ExpectationAdjustedDistinct:
    """The number of distinct n-grams over the number expected of random text of this length (EAD).

    If C n-grams are drawn at random from V, V (1 - ((V-1)/V)^C) of them differ on average. So long texts lose
    less by being long than they do by `DistinctN`. V is `vocabulary` to the power of n: for words that is the
    paper's figure, and for longer n-grams nearly the distinct share of n-grams, since only a few of all that
    are possible can occur. Figures compare only if `vocabulary` is the same. A list without n-grams has 0.

    It does not see which words are rare: language repeats its frequent words in every long text, and random
    text does not. With of="corpus", all lists count as one; see `DistinctN` on what that excludes.
    """

    n: int = 1
    of: Literal["list", "corpus"] = "list"
    vocabulary: int = BERT_VOCABULARY
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)
        checks.at_least("vocabulary", self.vocabulary, 2)
        check_of(self.of)

    @property
    def name(self) -> str:
        return f"{self.of}_ead_{self.n}"

    @property
    def signature(self) -> str:
        return signed("ead", n=self.n, of=self.of, vocabulary=self.vocabulary, tok=self.words.signature)

    @property
    def resamples(self) -> bool:
        """Whether the metric can be bootstrapped."""
        return self.of == "list"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = [_grams(texts, self.n, self.words) for texts in lists_of(self, examples)]
        counts = [sum(map(len, texts)) for texts in lists]
        sets = [{gram for grams in texts for gram in grams} for texts in lists]
        if self.of == "corpus":
            return torch.tensor([count_new(sets), counts], dtype=torch.double).T
        rows = torch.tensor([list(map(len, sets)), counts], dtype=torch.double).T
        return mean_of(self._adjusted(rows).tolist())

    def score(self, total: Tensor) -> Tensor:
        return ratio(total) if self.of == "list" else self._adjusted(total)

    def _adjusted(self, counts: Tensor) -> Tensor:
        """Return distinct n-grams over those expected, from [distinct, all]: [... 2] -> [...]."""
        possible = float(min(self.vocabulary**self.n, _COUNTLESS))
        # 1 - ((V-1)/V)^C, by logarithms: of large V it would round to 0.
        expected = -possible * torch.expm1(counts[..., 1] * math.log1p(-1 / possible))
        return torch.where(counts[..., 1] > 0, counts[..., 0] / expected, 0.0)


@dataclass(frozen=True, kw_only=True)
class CompressionRatio:
    """The size of texts, in bytes, over their size when gzip has compressed them: lower is more diverse.

    The texts of a list are joined by spaces; the score is the mean over lists, or with of="corpus" the ratio
    of all lists together, as Shaib et al. have it. See `DistinctN` on what a corpus excludes.

    It does not see whether a list is diverse or just short: gzip's header and checksum of 18 bytes count, so
    that a few short texts have a ratio below 1, and only lists of about the same length compare. Nor does it
    see repetition that is more than 32 kB apart. The order of texts changes it a little; another version of
    zlib may, too, which is why the signature names it.
    """

    of: Literal["list", "corpus"] = "list"

    def __post_init__(self) -> None:
        check_of(self.of)

    @property
    def name(self) -> str:
        return f"{self.of}_compression"

    @property
    def signature(self) -> str:
        by = f"gzip-{_LEVEL}"
        return signed("compression", of=self.of, by=by, join="space", zlib=zlib.ZLIB_RUNTIME_VERSION)

    @property
    def resamples(self) -> bool:
        """Whether the metric can be bootstrapped."""
        return self.of == "list"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        joined = [" ".join(texts).encode() for texts in lists_of(self, examples)]
        if self.of == "list":
            return mean_of([len(text) / _zipped_sizes([text])[0] for text in joined])
        parts = [text if row == 0 else b" " + text for row, text in enumerate(joined)]
        # What each list adds: all rows add up to the sizes of the whole.
        added = [after - before for before, after in pairwise([0, *_zipped_sizes(parts)])]
        return torch.tensor([list(map(len, parts)), added], dtype=torch.double).T

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class SelfRepetition:
    """How much texts repeat n-grams of other texts: 0 if nothing, lower is more diverse.

    For each n-gram of a text, the other texts that have it, too, are counted. The score is the logarithm of
    one plus the sum of these counts: the mean over the texts of a list, then over lists. With of="corpus",
    all lists count as one; see `DistinctN` on what that excludes.

    It does not see repetition within a text, nor any that is shorter than n words; longer texts and longer
    lists have more to repeat, so only lists of about the same size compare.
    """

    n: int = 4
    of: Literal["list", "corpus"] = "list"
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)
        check_of(self.of)

    @property
    def name(self) -> str:
        return f"{self.of}_self_repetition_{self.n}"

    @property
    def signature(self) -> str:
        return signed("self_repetition", n=self.n, of=self.of, log="e", tok=self.words.signature)

    @property
    def resamples(self) -> bool:
        """Whether the metric can be bootstrapped."""
        return self.of == "list"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = [
            [set(grams) for grams in _grams(texts, self.n, self.words)] for texts in lists_of(self, examples)
        ]
        if self.of == "list":
            return mean_of([sum(_repeated(sets, _having(sets))) / len(sets) for sets in lists])
        having = _having(grams for sets in lists for grams in sets)
        sums = [sum(_repeated(sets, having)) for sets in lists]
        return torch.tensor([sums, list(map(len, lists))], dtype=torch.double).T

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


# Helpers


def _grams(texts: Sequence[str], n: int, words: Words) -> list[list[Gram]]:
    return [ngrams(words(text), n) for text in texts]


def _having(sets: Iterable[set[Gram]]) -> Counter[Gram]:
    """Return how many texts have each n-gram."""
    return Counter(gram for grams in sets for gram in grams)


def _repeated(sets: Sequence[set[Gram]], having: Counter[Gram]) -> list[float]:
    """Return for each text the logarithm of 1 + how often other texts have an n-gram of it."""
    return [math.log1p(sum(having[gram] - 1 for gram in grams)) for grams in sets]


def _zipped_sizes(parts: Sequence[bytes]) -> list[int]:
    """Return the sizes of the first part, of the first two together, and so on, compressed by gzip."""
    stream = zlib.compressobj(_LEVEL, wbits=_GZIP)
    written, sizes = 0, []
    for part in parts:
        written += len(stream.compress(part))
        sizes.append(written + len(stream.copy().flush()))
    return sizes
