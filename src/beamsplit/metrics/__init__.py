"""How good and how different the texts of lists are, and how sure one may be of that.

examples = [Example(("a man rows", "a red boat"), references=("a man in a boat",)), ...]
score = measure(DistinctN(n=2), examples)          a figure with its signature
interval(score, DistinctN(n=2))                    where it would lie with other inputs of the kind
compare(score, other, DistinctN(n=2)).p            whether the other's is larger by chance

A metric is anything with a `name`, a `signature`, `statistics` and `score`: see `Metric`.
"""

from beamsplit.metrics.base import Example, Metric, Score, TextMetric, mean_of, measure, resamples
from beamsplit.metrics.diversity import (
    DistinctN,
    EmbeddingSpread,
    Kernel,
    MeanLength,
    NGramCosine,
    SelfBLEU,
    TopLogProb,
    UniqueFraction,
    VectorCosine,
    Vectors,
    Vendi,
    Words,
)
from beamsplit.metrics.oracle import ExpectedBest, Oracle, Top1, mbr_order, oracles
from beamsplit.metrics.quality import Bleu4, ChrF, CiderD, Meteor, RougeL, SentenceBLEU, Spice, Unavailable
from beamsplit.metrics.significance import Comparison, Interval, compare, interval

__all__ = [
    "Bleu4",
    "ChrF",
    "CiderD",
    "Comparison",
    "DistinctN",
    "EmbeddingSpread",
    "Example",
    "ExpectedBest",
    "Interval",
    "Kernel",
    "MeanLength",
    "Meteor",
    "Metric",
    "NGramCosine",
    "Oracle",
    "RougeL",
    "Score",
    "SelfBLEU",
    "SentenceBLEU",
    "Spice",
    "TextMetric",
    "Top1",
    "TopLogProb",
    "Unavailable",
    "UniqueFraction",
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
