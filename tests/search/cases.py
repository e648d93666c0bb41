"""What tests of the search share: made-up models, and every term, schedule and kind of strategy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

from beamsplit import (
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    Diversity,
    DivMBest,
    Embedding,
    Hamming,
    JoinableModel,
    NGram,
    Sampling,
    StochasticBeamSearch,
    Strategy,
)
from beamsplit.testing import MarkovModel, PrefixHashModel

law = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow],
)
"""For laws that hold of every case: the same cases every time."""


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return random numbers that spread as logits do."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * 2


def made_up_model(kind: str, vocabulary: int, seed: int) -> JoinableModel:
    """Return a model of one of the kinds "smooth", "ties" and "markov"."""
    if kind == "markov":
        return MarkovModel(normal(seed, vocabulary, vocabulary))
    return PrefixHashModel(vocabulary, seed=seed, levels=3 if kind == "ties" else None)


def _embedding(of: Hamming | Cumulative | NGram) -> Callable[[int], Diversity]:
    """A softened term over word vectors with a twin pair and a word that has none."""

    def make(vocabulary: int) -> Diversity:
        vectors = normal(vocabulary, vocabulary, 4)
        vectors[2] = vectors[1]
        vectors[0] = 0.0
        return Embedding(vectors=vectors, of=of)

    return make


TERMS: dict[str, Callable[[int], Diversity]] = {
    "hamming": lambda _: Hamming(),
    "cumulative": lambda _: Cumulative(),
    "cumulative-slow": lambda _: Cumulative(temperature=3.0),
    "unigram": lambda _: NGram(n=1),
    "bigram": lambda _: NGram(n=2),
    "trigram": lambda _: NGram(n=3),
    "soft-hamming": _embedding(Hamming()),
    "soft-cumulative": _embedding(Cumulative(temperature=2.0)),
    "soft-unigram": _embedding(NGram(n=1)),
    "soft-bigram": _embedding(NGram(n=2)),
    "soft-trigram": _embedding(NGram(n=3)),
}
"""Every term, given the size of the vocabulary."""

MAXIMISING: dict[str, Strategy] = {
    "greedy": BeamSearch(beams=1),
    "beam": BeamSearch(beams=3),
    "diverse": DiverseBeamSearch(groups=3, beams_per_group=2),
    "diverse-bigram": DiverseBeamSearch(groups=2, beams_per_group=2, diversity=NGram(n=2)),
    "staggered": DiverseBeamSearch(groups=3, beams_per_group=2, diversity=Cumulative(), schedule="staggered"),
    "siblings": DiverseSiblings(beams=3, rate=0.5),
    "divmbest": DivMBest(runs=3, beams=2),
}
SAMPLING: dict[str, Strategy] = {
    "sampling": Sampling(samples=3),
    "nucleus": Sampling(samples=3, top_k=4, top_p=0.9, min_p=0.01),
    "diverse-sampling": DiverseSampling(groups=2, samples_per_group=2),
    "staggered-sampling": DiverseSampling(groups=3, samples_per_group=1, schedule="staggered"),
    "arithmetic": ArithmeticSampling(samples=3),
    "diverse-arithmetic": DiverseArithmeticSampling(groups=2, samples_per_group=2, top_p=0.9),
}
STRATEGIES = MAXIMISING | SAMPLING | {"stochastic": StochasticBeamSearch(beams=3)}

every_term = pytest.mark.parametrize("term", TERMS)
every_schedule = pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
