"""Chunk-wise search: groups that differ in what they say, not only in how they say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Search
from beamsplit.search.chunks.boundaries import Chunk, check_chunk
from beamsplit.search.chunks.searching import Chunking, chunked
from beamsplit.search.plan import Plan, extended_strengths, own_strengths
from beamsplit.search.truncation import Truncation
from beamsplit.similarity.names import GivenSimilarity, check_similarity
from beamsplit.strategies.diverse import DiverseBeamSearch
from beamsplit.strategies.sampling import DiverseSampling

__all__ = ["DiverseChunks"]

_BEAM_STRENGTH = 1.0  # by which beams that are proposals keep apart: enough to make them different


@dataclass(frozen=True, kw_only=True)
class DiverseChunks:
    """Groups whose every step is a chunk of text, such as a sentence. Each group finds one output.

    At each step a group has `proposals` ways to go on, up to the end of a chunk. It takes the one of highest
    score less `strength` times its likeness of meaning to what the groups before it say: to the one that is
    most like it. The score is that of the output so far: log-probability per token, unless another scorer is
    given. The first group has nobody to avoid and takes the best, whatever the others do. At the first step,
    a group may also take what earlier groups proposed and left.

    `chunk` is "sentence", "line", a number of tokens, or a function that is given the text of a chunk and
    tells whether it is complete. A chunk has `longest` tokens at most.

    Proposals are samples, drawn with `temperature`, `top_k`, `top_p` and `min_p`; or, with `propose="beams"`,
    the beams of a diverse beam search. `first_proposals` may be another number for the first step. The model
    computes the tokens of all proposals, and one more for each chunk that is taken: what it costs to sample
    so many chunks. docs/novelty.md has figures of these defaults, and of other strengths and temperatures.

    `similarity` is a name ("meaning", "content", "tokens", "encoder:NAME"), an encoder with a method
    `encode`, or a function of two hypotheses. None of them asks the model that is decoded. The model must
    have a `to_text`.

    Lists are in the order of the groups, so that the first few outputs are likely and different too.
    """

    groups: int
    proposals: int = 4
    first_proposals: int | None = None
    strength: float | Sequence[float] = 3.0
    chunk: Chunk = "sentence"
    longest: int = 60
    propose: Literal["samples", "beams"] = "samples"
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = 0.95
    min_p: float | None = None
    similarity: GivenSimilarity = "meaning"

    def __post_init__(self) -> None:
        checks.at_least("groups", self.groups, 1)
        checks.at_least("proposals", self.proposals, 1)
        if self.first_proposals is not None:
            checks.at_least("first_proposals", self.first_proposals, 1)
        checks.at_least("longest", self.longest, 1)
        own_strengths(self, self.groups)
        check_chunk(self.chunk)
        check_similarity(self.similarity)
        if self.propose not in ("samples", "beams"):
            raise ArgumentError(
                f"propose must be 'samples' or 'beams', not {checks.short_repr(self.propose)}"
            )
        self.plan()

    @property
    def kept_per_group(self) -> int:
        return 1

    @property
    def group_count(self) -> int:
        return int(self.groups)

    def extended(self, groups: int, strength: float | Sequence[float] | None = None) -> DiverseChunks:
        """Return the same strategy with so many groups more, which have this strength."""
        strengths = extended_strengths(self.strength, self.group_count, groups, strength)
        return replace(self, groups=self.group_count + groups, strength=strengths)

    def plan(self) -> Plan:
        """Return the plan of the search for the first proposals."""
        first = self.proposals if self.first_proposals is None else self.first_proposals
        return self._plan_of(self.group_count, first)

    def search(self, options: DecodeOptions, abilities: Abilities) -> Search:
        """Return the search."""
        return self.resume(options, abilities, None)

    def resume(self, options: DecodeOptions, abilities: Abilities, memory: Any) -> Search:
        """Return the search for groups that the memory does not have."""
        if abilities.fixed_rows:
            raise ArgumentError(
                "DiverseChunks asks for more rows or fewer as it goes, and the model has fixed_rows = True: "
                "use DiverseBeamSearch"
            )
        how = Chunking(
            groups=self.group_count,
            strengths=checks.strengths(self.strength, self.groups),
            chunk=self.chunk,
            longest=int(self.longest),
            first_plan=self.plan(),
            next_plan=self._plan_of(1, self.proposals),
            similarity=self.similarity,
            truncation=self._truncation if self.propose == "samples" else None,
        )
        return chunked(how, options, abilities, memory)

    @property
    def _truncation(self) -> Truncation:
        return Truncation(self.temperature, self.top_k, self.top_p, self.min_p)

    def _plan_of(self, groups: int, proposals: int) -> Plan:
        """Return the plan of a search for so many proposals of each of so many groups."""
        if self.propose == "beams":
            beams = groups * int(proposals)
            return DiverseBeamSearch(groups=beams, beams_per_group=1, strength=_BEAM_STRENGTH).plan()
        return DiverseSampling(
            groups=groups,
            samples_per_group=int(proposals),
            strength=0.0,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
        ).plan()
