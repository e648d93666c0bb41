"""Chunk-wise search: groups that differ in meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from beamsplit import checks
from beamsplit.diversity import Hamming
from beamsplit.errors import ArgumentError
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Search
from beamsplit.search.chunks.boundaries import Chunk, check_chunk
from beamsplit.search.chunks.searching import Chunking, chunked
from beamsplit.search.plan import Plan, extended_strengths, own_strengths
from beamsplit.similarity import GivenSimilarity, check_similarity
from beamsplit.strategies.diverse import DiverseBeamSearch
from beamsplit.strategies.sampling import DiverseSampling

__all__ = ["DiverseChunks"]


@dataclass(frozen=True, kw_only=True)
class DiverseChunks:
    """Groups whose every step is a chunk of text."""

    groups: int
    proposals: int = 4
    strength: float | Sequence[float] = 1.0
    chunk: Chunk = "sentence"
    longest: int = 60
    propose: Literal["samples", "beams"] = "samples"
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    similarity: GivenSimilarity = "meaning"

    def __post_init__(self) -> None:
        checks.at_least("groups", self.groups, 1)
        checks.at_least("proposals", self.proposals, 1)
        own_strengths(self, self.groups)
        check_chunk(self.chunk)
        checks.at_least("longest", self.longest, 1)
        check_similarity(self.similarity)
        self.plan()

    @property
    def kept_per_group(self) -> int:
        return 1

    @property
    def group_count(self) -> int:
        return int(self.groups)

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> DiverseChunks:
        strengths = extended_strengths(self.strength, self.group_count, groups, strength)
        return replace(self, groups=self.group_count + groups, strength=strengths)

    def plan(self) -> Plan:
        return self._plan_of(self.group_count)

    def _plan_of(self, groups: int) -> Plan:
        if self.propose == "samples":
            return DiverseSampling(
                groups=groups,
                samples_per_group=self.proposals,
                strength=0.0,
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                min_p=self.min_p,
            ).plan()
        return DiverseBeamSearch(groups=groups * self.proposals, beams_per_group=1, strength=1.0).plan()

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        return self.resume(options, abilities, None)

    def resume(self, options: DecodeOptions, abilities: Abilities, memory: Any) -> Search:
        if abilities.fixed_rows:
            raise ArgumentError("fixed rows")
        how = Chunking(
            groups=self.group_count,
            strengths=checks.strengths(self.strength, self.groups),
            chunk=self.chunk,
            longest=int(self.longest),
            make_plan=self._plan_of,
            similarity=self.similarity,
        )
        return chunked(how, options, abilities, memory)
