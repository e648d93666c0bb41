"""Metrics of one text against its references, with the scores of the reference implementations.

Those of sacreBLEU take texts as they are. Those of COCO's caption evaluation take Penn Treebank tokens, in
lower case and without punctuation. All are in percent except CIDEr-D, which is as its authors define it:
about 1 for a good caption, 10 at most. If Java or SPICE's files are missing, `Unavailable` is raised.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from beamsplit.errors import ArgumentError
from beamsplit.metrics import coco, overlap
from beamsplit.metrics.base import Example, InParts
from beamsplit.metrics.coco import Unavailable
from beamsplit.models.text import normalised

__all__ = ["Bleu4", "ChrF", "CiderD", "Meteor", "RougeL", "SentenceBLEU", "Spice", "Unavailable"]

_AT_ONCE = 1000  # texts that METEOR scores in one call


# Metrics of sacreBLEU


@dataclass(frozen=True, kw_only=True)
class SentenceBLEU:
    """BLEU-4 of sentences, as in `sacrebleu.sentence_bleu`: 13a tokens, effective order, smoothed.

    With `normalise`, all spaces and apostrophes become plain ones first: French texts vary in these.
    """

    normalise: bool = False

    @property
    def name(self) -> str:
        return "sentence_bleu"

    @property
    def signature(self) -> str:
        return _sacrebleu_signature(self.name, self._program(), self.normalise)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _sacrebleu_scores(overlap.sacrebleu_bleu(self._program()), examples, self.normalise)

    def in_parts(self, examples: Sequence[Example]) -> InParts:
        return InParts(self.scores, examples)

    def _program(self) -> Any:
        return coco.need("sacrebleu.metrics").BLEU(tokenize="13a", effective_order=True)


@dataclass(frozen=True, kw_only=True)
class ChrF:
    """chrF of sentences, as in `sacrebleu.sentence_chrf`. `normalise` is as in `SentenceBLEU`."""

    normalise: bool = False

    @property
    def name(self) -> str:
        return "chrf"

    @property
    def signature(self) -> str:
        return _sacrebleu_signature(self.name, self._program(), self.normalise)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _sacrebleu_scores(overlap.sacrebleu_chrf(self._program()), examples, self.normalise)

    def in_parts(self, examples: Sequence[Example]) -> InParts:
        return InParts(self.scores, examples)

    def _program(self) -> Any:
        return coco.need("sacrebleu.metrics").CHRF()


def _sacrebleu_scores(
    scorer: Callable[[Sequence[str]], overlap.TextScorer], examples: Sequence[Example], normalise: bool
) -> list[list[float]]:
    _check_references(examples)
    # The texts of a list come again and again where each is compared with the others.
    change = lru_cache(overlap.RECENT)(normalised)
    texts = [_rewritten(each, change) for each in examples] if normalise else examples
    return _scores_by(scorer, texts)


def _rewritten(example: Example, change: Callable[[str], str]) -> Example:
    return Example(tuple(map(change, example.hypotheses)), tuple(map(change, example.references)))


def _sacrebleu_signature(name: str, program: Any, normalise: bool) -> str:
    program.num_refs = 1  # or there is no signature; the number depends on the examples, so it is left out
    parts = str(program.get_signature()).split("|")
    spaces = ["text:normalised"] if normalise else []
    return "|".join([name, *spaces, *(part for part in parts if not part.startswith("nrefs:"))])


# Metrics of COCO's caption evaluation


@dataclass(frozen=True, kw_only=True)
class Bleu4:
    """BLEU-4 as in COCO's evaluation of one picture: not smoothed, with the closest reference's length."""

    @property
    def name(self) -> str:
        return "bleu_4"

    @property
    def signature(self) -> str:
        return _coco_signature(self.name, "reflen:closest")

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _bleus(_in_tokens(examples))

    def in_parts(self, examples: Sequence[Example]) -> InParts:
        return InParts(_bleus, _in_tokens(examples))


@dataclass(frozen=True, kw_only=True)
class RougeL:
    """ROUGE-L: from the longest common subsequence, best precision and best recall over the references."""

    @property
    def name(self) -> str:
        return "rouge_l"

    @property
    def signature(self) -> str:
        return _coco_signature(self.name, "beta:1.2")

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _rouges(_in_tokens(examples))

    def in_parts(self, examples: Sequence[Example]) -> InParts:
        return InParts(_rouges, _in_tokens(examples))


@dataclass(frozen=True, kw_only=True)
class CiderD:
    """CIDEr-D: the cosine similarity of n-gram counts, weighted by how rare an n-gram is (tf-idf).

    How rare an n-gram is, is counted over all examples that are scored together, each once, however long its
    list. So score the whole set together, even to look at a part of it. One example alone scores 0.
    """

    @property
    def name(self) -> str:
        return "cider_d"

    @property
    def signature(self) -> str:
        return _coco_signature(self.name, "idf:references", "n:4", "sigma:6")

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        parts = self.in_parts(examples)
        return parts.scores(parts.examples)

    def in_parts(self, examples: Sequence[Example]) -> InParts:
        coco.need("pycocoevalcap.cider.cider_scorer")  # what these scores are those of
        tokenized = _in_tokens(examples)
        frequencies = overlap.CiderFrequencies.of([each.references for each in tokenized])
        return InParts(partial(_ciders, frequencies), tokenized)


def _bleus(tokenized: Sequence[Example]) -> list[list[float]]:
    return [[100 * score for score in scores] for scores in _scores_by(overlap.coco_bleu, tokenized)]


def _rouges(tokenized: Sequence[Example]) -> list[list[float]]:
    return [[100 * score for score in scores] for scores in _scores_by(overlap.coco_rouge, tokenized)]


def _ciders(frequencies: overlap.CiderFrequencies, tokenized: Sequence[Example]) -> list[list[float]]:
    return _scores_by(frequencies.scorer, tokenized)


@dataclass(frozen=True, kw_only=True)
class Meteor:
    """METEOR 1.5 for English: words are aligned by form, stem, synonym and paraphrase. Needs Java."""

    @property
    def name(self) -> str:
        return "meteor"

    @property
    def signature(self) -> str:
        return _coco_signature(self.name, "lang:en", "norm:yes", "jar:1.5")

    def prepare(self, examples: Sequence[Example]) -> None:
        """Tokenize texts at once that will be scored in several calls."""
        _in_tokens(examples)

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        return _score_once(_in_tokens(examples), self._scored)

    def _scored(self, pairs: list[_Pair]) -> list[float]:
        found: list[float] = []
        with coco.meteor() as program:
            for begin in range(0, len(pairs), _AT_ONCE):
                part = pairs[begin : begin + _AT_ONCE]
                _, scores = coco.meteor_scores(program, *zip(*part, strict=True))
                found += (100 * score for score in scores)
        return found


@dataclass(frozen=True, kw_only=True)
class Spice:
    """SPICE: agreement of objects, attributes and relations. Needs Java and CoreNLP, which is not shipped."""

    @property
    def name(self) -> str:
        return "spice"

    @property
    def signature(self) -> str:
        return _coco_signature(self.name, "jar:1.0", "corenlp:3.6.0")

    def scores(self, examples: Sequence[Example]) -> list[list[float]]:
        _check_spice()
        return _score_once(_in_tokens(examples), self._scored)

    def _scored(self, pairs: list[_Pair]) -> list[float]:
        program = coco.need("pycocoevalcap.spice.spice").Spice()
        try:
            _, found = program.compute_score(*_as_dicts(pairs))
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise Unavailable(
                "SPICE's Java program failed: it needs 8 GB of memory, and was written for Java 8"
            ) from error
        scores = [100 * float(each["All"]["f"]) for each in found]
        return [0.0 if math.isnan(score) else score for score in scores]  # where nothing could be parsed


def _check_spice() -> None:
    """Raise if a file is missing, before the package starts to download 380 MB."""
    module = coco.need("pycocoevalcap.spice.get_stanford_models")
    coco.check_java()
    folder = Path(module.SPICEDIR) / module.SPICELIB
    for jar in (f"{module.JAR}.jar", f"{module.JAR}-models.jar"):
        if not (folder / jar).exists():
            raise Unavailable(
                f"there is no {jar}, which SPICE runs on: "
                "python -m pycocoevalcap.spice.get_stanford_models downloads it"
            )


def _coco_signature(name: str, *how: str) -> str:
    return "|".join([name, *how, "tok:ptb", f"version:{coco.version()}"])


def _in_tokens(examples: Sequence[Example]) -> tuple[Example, ...]:
    _check_references(examples)
    coco.check_java()
    return _tokenized(tuple(examples))


@lru_cache(maxsize=1)  # several metrics score the same texts
def _tokenized(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    lists = iter(coco.tokens([texts for each in examples for texts in (each.hypotheses, each.references)]))
    return tuple(Example(tuple(next(lists)), tuple(next(lists))) for _ in examples)


def _as_dicts(pairs: list[_Pair]) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return references and texts in the form that pycocoevalcap takes."""
    return (
        {i: list(references) for i, (_, references) in enumerate(pairs)},
        {i: [text] for i, (text, _) in enumerate(pairs)},
    )


# Helpers of both


class _Pair(NamedTuple):
    text: str
    references: tuple[str, ...]


def _score_once(
    examples: Sequence[Example], scored: Callable[[list[_Pair]], Iterable[float]]
) -> list[list[float]]:
    """Return the scores of all hypotheses. Each example's distinct texts are scored only once."""
    pairs = [_Pair(text, example.references) for example in examples for text in _distinct(example)]
    found = iter(scored(pairs) if pairs else [])
    return _for_all(examples, [[float(next(found)) for _ in _distinct(example)] for example in examples])


def _scores_by(
    scorer: Callable[[Sequence[str]], overlap.TextScorer], examples: Sequence[Example]
) -> list[list[float]]:
    """Return the scores of all hypotheses. Each example's references are read only once."""
    return _for_all(examples, [list(map(scorer(each.references), _distinct(each))) for each in examples])


def _for_all(examples: Sequence[Example], found: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the scores of all hypotheses, given those of each example's distinct texts."""
    lists = []
    for example, scores in zip(examples, found, strict=True):
        score_of = dict(zip(_distinct(example), scores, strict=True))
        lists.append([score_of[text] for text in example.hypotheses])
    return lists


def _distinct(example: Example) -> list[str]:
    return list(dict.fromkeys(example.hypotheses))


def _check_references(examples: Sequence[Example]) -> None:
    for index, example in enumerate(examples):
        if not example.references:
            raise ArgumentError(f"example {index} has no references: this metric needs one at least")
        if not all(text.strip() for text in example.references):
            raise ArgumentError(f"example {index} has an empty reference: leave it out")
