"""Metrics of the diversity, length and likelihood of the texts of a list.

They need no references. A list of one text is as diverse as a list of copies of it: not at all. An empty list
is an error. The order of a list matters to `TopLogProb` only.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.metrics.base import Example, lists_of, mean_of, ratio, signed
from beamsplit.metrics.coco import need
from beamsplit.ngrams import distinct_ratio, ngrams

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

__all__ = [
    "DistinctN",
    "EmbeddingSpread",
    "Kernel",
    "MeanLength",
    "NGramCosine",
    "SelfBLEU",
    "Spread",
    "TopLogProb",
    "UniqueFraction",
    "VectorCosine",
    "Vectors",
    "Vendi",
    "Words",
]

Gram: TypeAlias = tuple[str, ...]
Vectors: TypeAlias = Mapping[str, Tensor] | tuple[Sequence[str], Tensor]
"""A vector [dim] for each word, or words and their vectors [words dim]."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """Splits a text into words at white space. It may also ignore case and remove punctuation.

    >>> Words()("It's late, Tom.")
    ("It's", 'late,', 'Tom.')
    >>> Words(lower=True, punctuation=False)("It's late, Tom.")
    ('its', 'late', 'tom')
    """

    lower: bool = False
    punctuation: bool = True

    @property
    def signature(self) -> str:
        return "words" + "+lower" * self.lower + "-punctuation" * (not self.punctuation)

    def __call__(self, text: str) -> Gram:
        text = text.lower() if self.lower else text
        text = text if self.punctuation else "".join(filter(_is_not_punctuation, text))
        return tuple(text.split())


# Metrics of the paper


@dataclass(frozen=True, kw_only=True)
class DistinctN:
    """The number of distinct n-grams divided by the number of words (not of n-grams), as in the paper.

    With of="list" it is the mean over lists; with of="corpus" all lists count as one. In a corpus, the row of
    a list counts the n-grams that no list before it has. So all rows add up to the score of the whole, but
    the sum of some rows means nothing: to measure a part, measure it by itself. A bootstrap does not work
    either: it draws some inputs twice, which adds no new n-grams, so its scores would all be too low.
    """

    n: int = 1
    of: Literal["list", "corpus"] = "list"
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)
        check_of(self.of)

    @property
    def name(self) -> str:
        return f"{self.of}_distinct_{self.n}"

    @property
    def signature(self) -> str:
        return signed("distinct", n=self.n, of=self.of, tok=self.words.signature)

    @property
    def resamples(self) -> bool:
        """Whether the metric can be bootstrapped."""
        return self.of == "list"

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = [[self.words(text) for text in texts] for texts in lists_of(self, examples)]
        if self.of == "list":
            return mean_of([distinct_ratio(texts, self.n) for texts in lists])
        grams = [{gram for words in texts for gram in ngrams(words, self.n)} for texts in lists]
        totals = [sum(map(len, texts)) for texts in lists]
        return torch.tensor([count_new(grams), totals], dtype=torch.double).T

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class MeanLength:
    """The mean number of words in a text."""

    words: Words = field(default_factory=Words)

    @property
    def name(self) -> str:
        return "length"

    @property
    def signature(self) -> str:
        return signed("length", tok=self.words.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = list(lists_of(self, examples))
        lengths = [sum(len(self.words(text)) for text in texts) for texts in lists]
        return torch.tensor([lengths, list(map(len, lists))], dtype=torch.double).T

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class TopLogProb:
    """The mean log-probability of the first text of a list."""

    @property
    def name(self) -> str:
        return "top_log_prob"

    @property
    def signature(self) -> str:
        return signed("top_log_prob")

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = enumerate(lists_of(self, examples))
        return mean_of([_first_log_prob(examples[row], f"examples[{row}]") for row, _ in lists])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


# Beyond the paper


@dataclass(frozen=True, kw_only=True)
class UniqueFraction:
    """The share of distinct texts in a list, the mean over lists.

    Texts with the same words are the same.
    """

    words: Words = field(default_factory=Words)

    @property
    def name(self) -> str:
        return "unique"

    @property
    def signature(self) -> str:
        return signed("unique", tok=self.words.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        lists = lists_of(self, examples)
        return mean_of([len({self.words(text) for text in texts}) / len(texts) for texts in lists])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class SelfBLEU:
    """BLEU of each text against the rest of its list, from 0 to 100: lower is more diverse.

    The mean over a list of sacreBLEU's sentence BLEU, then over lists (Zhu et al. 2018).
    """

    n: int = 4

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)

    @property
    def name(self) -> str:
        return f"self_bleu_{self.n}"

    @property
    def signature(self) -> str:
        parts = dict(part.split(":", 1) for part in str(self._bleu.get_signature()).split("|"))
        kept = {key: parts[key] for key in ("case", "eff", "tok", "smooth")}
        return signed("self_bleu", n=self.n, **kept, sacrebleu=parts["version"])

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return mean_of([_mean_self_bleu(self._bleu, texts) for texts in lists_of(self, examples)])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)

    @functools.cached_property
    def _bleu(self) -> BLEU:
        bleu: BLEU = need("sacrebleu.metrics").BLEU(max_ngram_order=self.n, effective_order=True)
        bleu.num_refs = -1  # without it there is no signature; -1, since lists differ in length
        return bleu


class Kernel(Protocol):
    """The similarity of texts: [n n], symmetric, with no negative eigenvalue, and 1 on the diagonal."""

    @property
    def signature(self) -> str: ...
    def __call__(self, texts: Sequence[str]) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class NGramCosine:
    """The cosine similarity of two texts' n-gram counts, the mean over orders of n-grams.

    A text that is too short for an n-gram resembles only its copies.
    """

    orders: tuple[int, ...] = (1, 2, 3, 4)
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        if not self.orders:
            raise ArgumentError("orders is empty: name an order of n-grams, for example (1, 2)")
        for index, order in enumerate(self.orders):
            checks.at_least(f"orders[{index}]", order, 1)

    @property
    def signature(self) -> str:
        return f"ngrams-{'-'.join(map(str, self.orders))}|tok:{self.words.signature}"

    def __call__(self, texts: Sequence[str]) -> Tensor:
        lists = [self.words(text) for text in texts]
        return torch.stack([_count_cosine(lists, order) for order in self.orders]).mean(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorCosine:
    """The cosine similarity of two texts' mean word vectors.

    Words without a vector are skipped. A text of such words alone resembles only its copies.
    """

    vectors: Vectors
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        _check_vectors(*_split(self.vectors))

    @functools.cached_property
    def signature(self) -> str:
        known, matrix = _split(self.vectors)
        return f"vectors-{len(known)}x{matrix.shape[1]}-{_digest(known, matrix)}|tok:{self.words.signature}"

    def __call__(self, texts: Sequence[str]) -> Tensor:
        lists = [self.words(text) for text in texts]
        return cosine_of(torch.stack([self._mean(words) for words in lists]), lists)

    def _mean(self, words: Gram) -> Tensor:
        rows, matrix = self._table
        found = matrix[[rows[word] for word in words if word in rows]].double()
        return found.sum(0) / max(len(found), 1)

    @functools.cached_property
    def _table(self) -> tuple[dict[str, int], Tensor]:
        known, matrix = _split(self.vectors)
        return {word: row for row, word in enumerate(known)}, matrix


@dataclass(frozen=True, kw_only=True)
class Vendi:
    """The effective number of different texts: from 1 (all the same) to the length of the list.

    It is the exponential of the entropy of the eigenvalues of the kernel divided by the list's length, the
    mean over lists (Friedman & Dieng 2022). The default kernel is the one that they use for texts.
    """

    kernel: Kernel = field(default_factory=NGramCosine)

    @property
    def name(self) -> str:
        return "vendi"

    @property
    def signature(self) -> str:
        return signed("vendi", kernel=self.kernel.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return mean_of([_vendi(self.kernel(texts), len(texts)) for texts in lists_of(self, examples)])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One minus the similarity of two texts: the mean over pairs of texts, then over lists.

    A list of one has 0. With a cosine it is the usual pairwise distance of embeddings. It does not see
    whether a list has two distant groups of copies or texts that are all a little apart; `Vendi` does.
    """

    kernel: Kernel

    @property
    def name(self) -> str:
        return "spread"

    @property
    def signature(self) -> str:
        return signed("spread", kernel=self.kernel.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return mean_of([_spread(self._similarity(texts)) for texts in lists_of(self, examples)])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)

    def _similarity(self, texts: Sequence[str]) -> Tensor:
        similarity = self.kernel(texts)
        check_similarity(similarity, len(texts))
        return similarity


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbeddingSpread:
    """One minus the cosine of mean word vectors: `Spread` by `VectorCosine`, under a name of its own.

    It is 0 if all vectors have one direction, 1 if they are at right angles, and more if they are opposed.
    """

    vectors: Vectors
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        _check_vectors(*_split(self.vectors))

    @property
    def name(self) -> str:
        return "embedding_spread"

    @property
    def signature(self) -> str:
        return signed("embedding_spread", kernel=self._kernel.signature)

    def statistics(self, examples: Sequence[Example]) -> Tensor:
        return mean_of([_spread(self._kernel(texts)) for texts in lists_of(self, examples)])

    def score(self, total: Tensor) -> Tensor:
        return ratio(total)

    @functools.cached_property
    def _kernel(self) -> VectorCosine:
        return VectorCosine(vectors=self.vectors, words=self.words)


# Helpers


def check_of(of: str) -> None:
    """Raise if this is not what a metric can be of."""
    if of not in ("list", "corpus"):
        raise ArgumentError(f"of must be 'list' or 'corpus', not {checks.short_repr(of)}")


def _is_not_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] not in "PS"  # punctuation and symbols, in any script


def count_new(sets: Sequence[set[Gram]]) -> list[int]:
    """Return, for each set, the number of members that are in no set before it."""
    seen: set[Gram] = set()
    found = []
    for members in sets:
        found.append(len(members - seen))
        seen |= members
    return found


def _first_log_prob(example: Example, where: str) -> float:
    given, texts = len(example.log_probs), len(example.hypotheses)
    if given != texts:
        raise ArgumentError(f"{where} has {given} log_probs for {texts} hypotheses: give one for each")
    if not math.isfinite(first := example.log_probs[0]):
        raise ArgumentError(f"{where}.log_probs[0] must be finite, not {first}: leave this input out")
    return first


def _mean_self_bleu(bleu: BLEU, texts: Sequence[str]) -> float:
    """Return the mean of `bleu.sentence_score(text, others)`. N-grams are counted once, not once a pair."""
    texts = texts if len(texts) > 1 else [*texts, *texts]
    lists = [tuple(bleu.tokenizer(text.rstrip()).split()) for text in texts]
    lengths = [len(words) for words in lists]
    correct = [_clipped_matches(lists, n) for n in range(1, bleu.max_ngram_order + 1)]
    scores = [
        _bleu_of(bleu, matches, length, _closest(length, lengths[:row] + lengths[row + 1 :]))
        for row, (length, matches) in enumerate(zip(lengths, zip(*correct, strict=True), strict=True))
    ]
    return sum(scores) / len(scores)


def _clipped_matches(lists: Sequence[Gram], n: int) -> list[int]:
    """Return how many n-grams of each text are matched, each no more often than in one of the other texts."""
    counts = _count_table([ngrams(words, n) for words in lists])
    second, first = np.partition(counts, len(lists) - 2, axis=0)[-2:]
    # The largest count in another text is the second largest if this text itself has the largest.
    others = np.where(counts == first, second, first)
    found: list[int] = np.minimum(counts, others).sum(1).tolist()
    return found


def _closest(length: int, others: Sequence[int]) -> int:
    return min(others, key=lambda other: (abs(other - length), other))


@functools.lru_cache(2**16)  # few different counts, many texts
def _bleu_of(bleu: BLEU, correct: tuple[int, ...], length: int, closest: int) -> float:
    return bleu.compute_bleu(
        list(correct),
        [max(0, length - n) for n in range(bleu.max_ngram_order)],
        sys_len=length,
        ref_len=closest,
        smooth_method=bleu.smooth_method,
        smooth_value=bleu.smooth_value,
        effective_order=bleu.effective_order,
        max_ngram_order=bleu.max_ngram_order,
    ).score


def _count_cosine(lists: Sequence[Gram], n: int) -> Tensor:
    counts = _count_table([ngrams(words, n) or [words] for words in lists])
    unit = torch.nn.functional.normalize(torch.from_numpy(counts.astype(np.float64)), dim=1)
    return unit @ unit.T


def _count_table(grams: Sequence[Sequence[Gram]]) -> NDArray[np.int64]:
    """Return how often each text has each n-gram: [texts n-grams], n-grams in the order they come in."""
    columns: dict[Gram, int] = {}
    cells = [columns.setdefault(gram, len(columns)) for found in grams for gram in found]
    rows = np.repeat(np.arange(len(grams)), list(map(len, grams)))
    flat = np.bincount(
        rows * len(columns) + np.array(cells, dtype=np.int64), minlength=len(grams) * len(columns)
    )
    return flat.reshape(len(grams), len(columns))


def cosine_of(vectors: Tensor, things: Sequence[Hashable]) -> Tensor:
    """Return the cosines of vectors [n dim] of things: [n n]. Where one is zero, only copies are alike."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    unknown = (unit == 0).all(1)
    copies = torch.tensor([[a == b for a in things] for b in things]) & unknown
    return (unit @ unit.T).masked_fill(copies, 1.0)


def _vendi(similarity: Tensor, texts: int) -> float:
    check_similarity(similarity, texts)
    values = torch.linalg.eigvalsh(similarity.double() / texts)
    if values[0] < -1e-6:
        raise ArgumentError(
            f"kernel has the eigenvalue {float(values[0]) * texts:.2g}: "
            "take a kernel without negative eigenvalues, such as a cosine"
        )
    return float(torch.special.entr(values.clamp(min=0)).sum().exp())


def check_similarity(similarity: Tensor, texts: int) -> None:
    if list(similarity.shape) != [texts, texts]:
        raise ArgumentError(
            f"kernel must give [{texts} {texts}] for {texts} texts, not {list(similarity.shape)}"
        )
    ones = torch.ones_like(similarity.diagonal())
    if not torch.allclose(similarity.diagonal(), ones, atol=1e-4):
        raise ArgumentError(
            "kernel must give 1 for a text and itself, not "
            f"{checks.short_repr(similarity.diagonal().tolist())}"
        )
    if not torch.allclose(similarity, similarity.T, atol=1e-4):
        raise ArgumentError("kernel must be symmetric: the order of two texts must not change the result")


def _spread(similarity: Tensor) -> float:
    """Return the mean of one minus similarity [n n] over pairs; 0 for a list of one, which has no pairs."""
    texts = len(similarity)
    pairs = similarity[*torch.triu_indices(texts, texts, offset=1)]
    return float((1.0 - pairs).mean()) if texts > 1 else 0.0


def _split(vectors: Vectors) -> tuple[Sequence[str], Tensor]:
    if not isinstance(vectors, Mapping):
        return vectors
    if not vectors:
        raise ArgumentError("vectors are empty: give a vector for each word")
    shapes = {tuple(vector.shape) for vector in vectors.values()}
    if len(shapes) > 1:
        raise ArgumentError(f"vectors must be of one length, not {' and '.join(map(str, sorted(shapes)))}")
    return list(vectors), torch.stack(list(vectors.values()))


def _check_vectors(words: Sequence[str], matrix: Tensor) -> None:
    if matrix.dim() != 2 or len(matrix) != len(words) or not matrix.numel():
        raise ArgumentError(
            f"vectors must be [words dimensions] for {len(words)} words, not {list(matrix.shape)}"
        )
    if not bool(matrix.isfinite().all()):
        row = int((~matrix.isfinite()).any(1).nonzero()[0, 0])
        raise ArgumentError(f"vectors must be finite, but that of {words[row]!r} is not: leave the word out")


def _digest(words: Sequence[str], matrix: Tensor) -> str:
    """Return a short hash of these words and vectors, so that signatures tell them from others."""
    plain = matrix.detach().double().cpu().contiguous()
    content = ctypes.string_at(plain.data_ptr(), plain.nbytes)
    return hashlib.sha256("\n".join(words).encode() + content).hexdigest()[:8]
