"""Measures of quality and diversity for lists of texts, with intervals and comparisons.

examples = [Example(("a man rows", "a red boat"), references=("a man in a boat",)), ...]
score = measure(DistinctN(n=2), examples)          a number with its signature
interval(score, DistinctN(n=2))                    its bootstrap interval
compare(score, other, DistinctN(n=2)).p            the p-value of a paired comparison

A metric is anything with a `name`, a `signature`, `statistics` and `score`: see `Metric`.
"""

from beamsplit.metrics.base import Example, Metric, Score, TextMetric, mean_of, measure, resamples
from beamsplit.metrics.checking import Checked, PassAtK, TextScore
from beamsplit.metrics.diversity import (
    DistinctN,
    EmbeddingSpread,
    Kernel,
    MeanLength,
    NGramCosine,
    SelfBLEU,
    Spread,
    TopLogProb,
    UniqueFraction,
    VectorCosine,
    Vectors,
    Vendi,
    Words,
)
from beamsplit.metrics.embedding import EncoderCosine
from beamsplit.metrics.meaning import Classes, DistinctK, SameBy, SemanticEntropy, SimilarBy, UtilityK
from beamsplit.metrics.oracle import ExpectedBest, Oracle, Top1, mbr_order, oracles
from beamsplit.metrics.quality import Bleu4, ChrF, CiderD, Meteor, RougeL, SentenceBLEU, Spice, Unavailable
from beamsplit.metrics.repetition import CompressionRatio, ExpectationAdjustedDistinct, SelfRepetition
from beamsplit.metrics.significance import Comparison, Interval, compare, interval

__all__ = [
    "Bleu4",
    "Checked",
    "ChrF",
    "CiderD",
    "Classes",
    "Comparison",
    "CompressionRatio",
    "DistinctK",
    "DistinctN",
    "EmbeddingSpread",
    "EncoderCosine",
    "Example",
    "ExpectationAdjustedDistinct",
    "ExpectedBest",
    "Interval",
    "Kernel",
    "MeanLength",
    "Meteor",
    "Metric",
    "NGramCosine",
    "Oracle",
    "PassAtK",
    "RougeL",
    "SameBy",
    "Score",
    "SelfBLEU",
    "SelfRepetition",
    "SemanticEntropy",
    "SentenceBLEU",
    "SimilarBy",
    "Spice",
    "Spread",
    "TextMetric",
    "TextScore",
    "Top1",
    "TopLogProb",
    "Unavailable",
    "UniqueFraction",
    "UtilityK",
    "VectorCosine",
    "Vectors",
    "Vendi",
    "Words",
    "compare",
    "interval",
    "mbr_order",
    "mean_of",
    "measure",
    "oracles",
    "resamples",
]
