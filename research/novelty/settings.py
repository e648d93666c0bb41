"""What is compared: runs, which decode, and rows of the table, which keep eight answers of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from beamsplit import (
    ArithmeticSampling,
    BeamSearch,
    DiverseBeamSearch,
    DiverseChunks,
    DiverseSampling,
    LateBranching,
    LengthNormalised,
    Sampling,
    Strategy,
)
from beamsplit.diversity.names import make_term, read_term
from beamsplit.similarity import Similarity, make_similarity
from beamsplit.strategies.defaults import DEFAULTS
from beamsplit.strategies.spec import StrategySpec

__all__ = [
    "KEPT",
    "LONGEST",
    "REFERENCE",
    "SEED",
    "WIDE",
    "Row",
    "Run",
    "chunks",
    "rows_of_table",
    "runs",
    "similarity_of_search",
]

KEPT = 8
"""Answers that a reader sees."""
WIDE = 32
"""Rows that each method may compute for a token of every answer: four for each answer kept."""
LONGEST = 64
SEED = 1

LIMITS: dict[str, Any] = {"no_repeat_ngram": 4, "min_length": 2}
"""What all methods have alike: no loops, no empty answers."""
SEARCHED: dict[str, Any] = {**LIMITS, "scorer": LengthNormalised(stop="first")}
BEST_OF_GROUP: dict[str, Any] = {**SEARCHED, "return_per_group": 1}

REFERENCE = "nucleus 0.9, 8"
"""The row that sets the quality that the others must have."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A way to decode. Rows of several kinds may be made of what it finds."""

    name: str
    strategy: Strategy
    options: Mapping[str, Any] = field(default_factory=lambda: SEARCHED)

    @property
    def file(self) -> str:
        return re.sub(r"[^\w.]+", "-", self.name) + ".json"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A setting of a family: a run, and which eight of its outputs are kept. Of each family one is chosen."""

    family: str
    run: str
    keep: str = "first"
    diversity: float = 0.5
    """The weight of being different, where `keep` has one."""

    @property
    def name(self) -> str:
        weight = f" {self.diversity:g}" if self.keep in _WEIGHTS else ""
        return self.run if self.keep == "first" else f"{self.run}; {self.keep}{weight}"


_WEIGHTS = {"dpp": (0.3, 0.5, 0.8), "diverse-mbr": (0.3, 0.5, 0.8), "mmr": (2.0, 4.0, 8.0, 16.0)}
"""Of ways to keep eight that weigh being different."""
KEEPS = {
    "likeliest": "likeliest 8",
    "dpp": "8 by dpp",
    "diverse-mbr": "8 by diverse MBR",
    "mmr": "8 by score less likeness",
    "farthest": "8 farthest",
    "farthest of the likelier": "8 farthest of the likelier 16",
}
"""How eight of many samples are kept, and how the table calls that."""


def chunks() -> dict[str, list[Run]]:
    """Return the runs of the chunk-wise search, by family. Each keeps all that it finds, which is eight."""
    wide, half = WIDE // KEPT, WIDE // KEPT // 2
    return {
        "chunk-wise, as by default": [
            Run(name=f"DiverseChunks(groups={KEPT})", strategy=DiverseChunks(groups=KEPT), options=LIMITS)
        ],
        "chunk-wise, sentences, 8 x 4": [_chunks("sentence", wide, *each) for each in _OF_SENTENCES],
        "chunk-wise, tokens, 8 x 4": [_chunks(chunk, wide, *each) for chunk, *each in _OF_TOKENS],
        "chunk-wise by beams, 8 x 4": [_chunks_by_beams(12, 6.0)],
        "chunk-wise, tokens, 8 x 2": [_chunks(12, half, 0.8, 0.95, 6.0)],
    }


_OF_SENTENCES = [(t, p, s) for t, p in ((0.8, 0.95), (1.0, 0.9)) for s in (6.0, 12.0)]
_OF_TOKENS: list[tuple[int, float, float, float]] = [
    *((12, 1.0, 0.9, s) for s in (6.0, 12.0, 24.0)),
    (12, 0.8, 0.95, 12.0),
    (6, 1.0, 0.9, 12.0),
    (20, 1.0, 0.9, 12.0),
]


def _chunks(chunk: str | int, proposals: int, temperature: float, top_p: float, strength: float) -> Run:
    strategy = DiverseChunks(
        groups=KEPT,
        proposals=proposals,
        strength=strength,
        chunk=chunk,
        temperature=temperature,
        top_p=top_p,
    )
    name = f"chunks {chunk} {KEPT}x{proposals}, {temperature:g} top-p {top_p:g}, strength {strength:g}"
    return Run(name=name, strategy=strategy, options=LIMITS)


def _chunks_by_beams(chunk: str | int, strength: float) -> Run:
    proposals = WIDE // KEPT
    strategy = DiverseChunks(
        groups=KEPT, proposals=proposals, strength=strength, chunk=chunk, propose="beams"
    )
    name = f"chunks {chunk} {KEPT}x{proposals} by beams, strength {strength:g}"
    return Run(name=name, strategy=strategy, options=LIMITS)


def similarity_of_search(model: Any) -> Similarity:
    """Return how alike two answers are to a method that chooses, which is not what measures them.

    The chunk-wise search has the same, so that no method sees more than another.
    """
    return make_similarity("meaning", lambda: model.word_vectors, model.to_text)


# Runs


def runs(model: Any) -> dict[str, Run]:
    """Return all runs by name."""
    return {run.name: run for run in [*_samples(), *_new(), *_searches(model)]}


def _new() -> Iterator[Run]:
    for made in chunks().values():
        yield from made


_TEMPERATURES = (0.7, 0.8, 0.9, 1.0)
_MIN_P = (0.05, 0.1)
_ARITHMETIC = (0.8, 1.0)
_DIVERSE_SAMPLING = ((0.8, 1.0), (0.8, 3.0))  # temperature, strength
_TERMS = {
    "hamming": (1.5, 3.0),
    "cumulative:temperature=2": (3.0, 6.0),
    "ngram:n=2": (1.0, 3.0),
    "embedding": (3.0,),
}
_LATE = (0.4, 0.8)
_LATE_WIDE = 22  # which cost as much: its rounds follow more branches than it returns


def _samples() -> Iterator[Run]:
    yield _run("nucleus 0.9 x32", Sampling(samples=WIDE, top_p=0.9), LIMITS)
    for temperature in _TEMPERATURES:
        yield _run(f"sampling {temperature:g} x32", Sampling(samples=WIDE, temperature=temperature), LIMITS)
    for least in _MIN_P:
        yield _run(f"min-p {least:g} x32", Sampling(samples=WIDE, min_p=least), LIMITS)
    for samples in (KEPT, WIDE):
        for temperature in _ARITHMETIC:
            strategy = ArithmeticSampling(samples=samples, temperature=temperature)
            yield _run(f"arithmetic {temperature:g} x{samples}", strategy, LIMITS)
    for temperature, strength in _DIVERSE_SAMPLING:
        sampled = DiverseSampling(
            groups=KEPT, samples_per_group=WIDE // KEPT, strength=strength, temperature=temperature
        )
        yield _run(_of_diverse_sampling(temperature, strength), sampled, BEST_OF_GROUP)


def _searches(model: Any) -> Iterator[Run]:
    for term, strengths in _TERMS.items():
        for strength in strengths:
            yield _run(_of_groups(term, strength), _groups(model, term, strength))
    for strength in _LATE:
        strategy = LateBranching(outputs=_LATE_WIDE, strength=strength)
        yield _run(f"late branching {strength:g} x{_LATE_WIDE}", strategy, SEARCHED)
    for beams in (KEPT, WIDE):
        yield _run(f"beam search x{beams}", BeamSearch(beams=beams), SEARCHED)
    yield _run("default for chats", *_default(model))


def _default(model: Any) -> tuple[Strategy, dict[str, Any]]:
    defaults = DEFAULTS["chat"]
    options = {key: value for key, value in defaults.decode_options().items() if key != "max_length"}
    return StrategySpec.of_widths(defaults.strategy, defaults.widths).make(model), options


def _groups(model: Any, term: str, strength: float) -> DiverseBeamSearch:
    diversity = make_term(read_term(term), model)
    return DiverseBeamSearch(
        groups=KEPT, beams_per_group=WIDE // KEPT, strength=strength, diversity=diversity
    )


def _run(name: str, strategy: Strategy, options: Mapping[str, Any] = BEST_OF_GROUP) -> Run:
    return Run(name=name, strategy=strategy, options=options)


def _of_groups(term: str, strength: float) -> str:
    return f"DBS {term.partition(':')[0]} {strength:g}, {KEPT} groups of {WIDE // KEPT}"


def _of_diverse_sampling(temperature: float, strength: float) -> str:
    return f"diverse sampling {temperature:g}, strength {strength:g}, {KEPT} groups of {WIDE // KEPT}"


# Rows of the table


def rows_of_table() -> list[Row]:
    """Return all settings; those of one family next to each other."""
    new = (Row(family=family, run=run.name) for family, made in chunks().items() for run in made)
    return [*_cheap(), *_wide(), *new]


def _cheap() -> Iterator[Row]:
    """Yield rows at the cost of eight answers, for reference."""
    yield Row(family=REFERENCE, run="nucleus 0.9 x32", keep="any 8")
    yield Row(family="sampling, T 1, 8", run="sampling 1 x32", keep="any 8")
    for temperature in _TEMPERATURES[:-1]:
        yield Row(family="sampling, best T, 8", run=f"sampling {temperature:g} x32", keep="any 8")
    for least in _MIN_P:
        yield Row(family="min-p, 8", run=f"min-p {least:g} x32", keep="any 8")
    for temperature in _ARITHMETIC:
        yield Row(family="arithmetic sampling, 8", run=f"arithmetic {temperature:g} x{KEPT}")
    yield Row(family="beam search, 8", run=f"beam search x{KEPT}")
    yield Row(family="default for chats (DBS 8 x 2)", run="default for chats")


def _wide() -> Iterator[Row]:
    """Yield rows at four times that cost."""
    sampled = {
        "nucleus 0.9, 32": ["nucleus 0.9 x32"],
        "sampling, best T, 32": [f"sampling {temperature:g} x32" for temperature in _TEMPERATURES],
        "min-p, 32": [f"min-p {least:g} x32" for least in _MIN_P],
        "arithmetic sampling, 32": [f"arithmetic {temperature:g} x{WIDE}" for temperature in _ARITHMETIC],
    }
    for family, names in sampled.items():
        for keep, title in KEEPS.items():
            for name in names:
                for weight in _WEIGHTS.get(keep, (0.5,)):
                    yield Row(family=f"{family}: {title}", run=name, keep=keep, diversity=weight)
    for temperature, strength in _DIVERSE_SAMPLING:
        yield Row(family="diverse sampling, 8 x 4", run=_of_diverse_sampling(temperature, strength))
    yield Row(family="beam search, 32", run=f"beam search x{WIDE}")
    for term, strengths in _TERMS.items():
        for strength in strengths:
            family = f"DBS {term.partition(':')[0]}, 8 x 4"
            yield Row(family=family, run=_of_groups(term, strength))
    for strength in _LATE:
        yield Row(family="late branching, 22", run=f"late branching {strength:g} x{_LATE_WIDE}")
