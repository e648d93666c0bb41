"""The rounds of a chunk-wise search.

every round:
    ask the model about what each group has said     one row a group that is not done
    propose the next chunks                          all groups in one batch
    let the groups choose, in order                  score less likeness to the groups before
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch

from beamsplit.errors import ArgumentError
from beamsplit.model import Answer, Drawing, Room, device_of, rows_of
from beamsplit.options import DecodeOptions
from beamsplit.scoring import LengthNormalised
from beamsplit.search.asks import Abilities, Advance, Ask, Forget, Search, Start
from beamsplit.search.chunks.boundaries import Chunk, longest_of, make_ends, marks_of
from beamsplit.search.chunks.choosing import Judge, Proposed, Turn
from beamsplit.search.chunks.drawing import draw
from beamsplit.search.chunks.paths import Path, Root
from beamsplit.search.chunks.proposing import Asked, Keeper, propose
from beamsplit.search.chunks.showing import assembled, selection_of
from beamsplit.search.plan import Plan
from beamsplit.search.setting import room_of
from beamsplit.search.step import Step
from beamsplit.search.truncation import Truncation
from beamsplit.similarity import GivenSimilarity, make_similarity, prepare

__all__ = ["Chunking", "Memory", "chunked"]

Memory = tuple[tuple[Path, ...], ...]
"""The paths of earlier groups, by input."""

_Proposing = Generator[Ask, Any, Proposed]

_SCATTER = 1_000_003  # so that seeds of groups and rounds do not meet
_SEEDS = 2**31  # what engines take for a seed is below this


@dataclass(frozen=True, slots=True)
class Chunking:
    """How to search."""

    groups: int
    strengths: Sequence[float]
    chunk: Chunk
    longest: int
    first_plan: Plan
    """Of the search for first chunks, from an input, for all groups."""
    next_plan: Plan
    """Of the search for further chunks, from what one group has said."""
    similarity: GivenSimilarity
    truncation: Truncation | None
    """What samples are drawn by; None if chunks are found by beams."""


def chunked(
    how: Chunking, options: DecodeOptions, abilities: Abilities, memory: Memory | None = None
) -> Search:
    """Search round by round. Groups that a memory has are not searched again."""
    to_text = abilities.to_text
    if to_text is None:
        raise ArgumentError(
            "a chunk-wise search reads what it has said, and the model has no to_text: give it a method "
            "to_text(tokens) that returns their text, or use DiverseBeamSearch"
        )
    answer = yield Start(_room(how, options), keeps="first" if abilities.draws else "last")
    if rows_of(answer):
        yield from _Rounds(how, options, replace(abilities, to_text=to_text), answer, memory).run()


def _room(how: Chunking, options: DecodeOptions) -> Room:
    wanted = room_of(how.first_plan, options)
    later = how.groups * how.next_plan.groups * how.next_plan.beams_per_group
    return replace(wanted, beams=max(wanted.beams, later))


class _Rounds:
    """The rounds for a batch of inputs."""

    def __init__(
        self,
        how: Chunking,
        options: DecodeOptions,
        abilities: Abilities,
        answer: Answer,
        memory: Memory | None,
    ) -> None:
        assert abilities.to_text is not None
        self._how = how
        self._options = options
        self._abilities = abilities
        self._to_text = abilities.to_text
        self._ends = make_ends(how.chunk, abilities.to_text)
        scorer = LengthNormalised() if options.scorer is None else options.scorer
        similarity = make_similarity(how.similarity, abilities.word_vectors, abilities.to_text)
        self._judge = Judge(scorer, how.strengths, similarity, options.unique)
        self._first = answer
        self._keeper = Keeper(device_of(answer))
        self._drawing = _drawing(how, options) if abilities.draws else None
        batch = rows_of(answer)
        self._seeds = options.input_seeds(batch)
        self._earlier = len(memory[0]) if memory else 0
        new = [Path()] * (how.groups - self._earlier)
        self._paths = [[*(memory[index] if memory else ()), *new] for index in range(batch)]

    def run(self) -> Search:
        """Run all rounds."""
        for number in range(self._options.max_length):
            kept_before = self._keeper.count
            proposed = yield from (self._propose(number) if number else self._propose_first())
            yield self._choose(number, proposed)
            if all(path.done for of_input in self._paths for path in of_input):
                return
            yield Forget(kept_before)

    # Proposals

    def _propose_first(self) -> _Proposing:
        """Return first chunks. All groups of an input go on from the same root."""
        roots = [Root(index, range(self._how.groups)) for index in range(len(self._paths))]
        if self._drawing is not None:
            return (yield from self._draw(roots, self._how.first_plan.beams_per_group, 0))
        return (yield from self._propose_from(roots, self._first, 0))

    def _propose(self, number: int) -> _Proposing:
        """Return the next chunks of groups that are not done."""
        roots = [
            Root(index, range(group, group + 1), path)
            for index, of_input in enumerate(self._paths)
            for group, path in enumerate(of_input)
            if not path.done
        ]
        if self._drawing is not None:
            return (yield from self._draw(roots, self._how.next_plan.beams_per_group, number))
        if (yield from self._keeper.recall(roots)):
            return (yield from self._go_on(roots, number))
        # The model cannot put together what it left at different steps: one after another, then.
        found: list[Any] = []
        for part in _by_source(roots):
            yield from self._keeper.recall(part)
            found += yield from self._go_on(part, number)
        return found

    def _draw(self, roots: Sequence[Root], count: int, number: int) -> _Proposing:
        """Return chunks that the model draws by itself."""
        assert self._drawing is not None
        pairs = [(*self._seed(root, number), group) for root in roots for group in root.groups]
        seeds = [((seed * _SCATTER + place) * _SCATTER + group) % _SEEDS for seed, place, group in pairs]
        left = [self._options.max_length - len(root.tokens) for root in roots for _ in root.groups]
        most = tuple(min(longest_of(self._how.chunk, self._how.longest), each) for each in left)
        drawing = replace(self._drawing, count=count, seeds=tuple(seeds), most=most)
        found = yield from draw(roots, drawing, self._options, self._ends, self._to_text)
        return list(zip(roots, found, strict=True))

    def _go_on(self, roots: Sequence[Root], number: int) -> _Proposing:
        """Ask the model about the last tokens of what was recalled, and propose what may follow."""
        last = torch.tensor([root.tokens[-1] for root in roots], device=device_of(self._first))
        answer = yield Advance(last, None)
        return (yield from self._propose_from(roots, answer, number))

    def _propose_from(self, roots: Sequence[Root], answer: Answer, number: int) -> _Proposing:
        asked = Asked(
            roots=roots,
            plan=self._how.next_plan if number else self._how.first_plan,
            options=self._options,
            seeds=[self._seed(root, number) for root in roots],
            ends=self._ends,
            longest=self._how.longest,
        )
        found = yield from propose(asked, answer, self._abilities, self._keeper)
        return list(zip(roots, found, strict=True))

    def _seed(self, root: Root, number: int) -> tuple[int, int]:
        """Return the seed and the number of a root: another seed for each group and round."""
        seed, place = self._seeds[root.input]
        return seed + (number * _SCATTER + root.groups.start + 1) * _SCATTER * bool(number), place

    # Choices

    def _choose(self, number: int, proposed: Proposed) -> Step:
        """Let the groups of each input choose, in their order."""
        ordered = sorted(proposed, key=lambda each: (each[0].input, each[0].groups.start))
        by_input = {index: list(each) for index, each in groupby(ordered, key=lambda each: each[0].input)}
        turns = {
            index: Turn(self._paths[index], number, of_input, self._to_text, self._options.max_length)
            for index, of_input in by_input.items()
        }
        prepare(self._judge.similarity, [said for turn in turns.values() for said in turn.said])
        choices = []
        for index, turn in turns.items():
            self._paths[index], made = turn.choose(self._judge)
            choices.append(made[self._earlier :])
        return Step(
            number,
            torch.tensor(list(by_input), device="cpu"),
            (selection_of(choices, range(self._earlier, self._how.groups), number),),
            assembled(self._paths),
            memory=_remembered(self._paths),
        )


def _drawing(how: Chunking, options: DecodeOptions) -> Drawing | None:
    """Return how a model is to draw chunks by itself; None if it cannot know what is asked for."""
    marks, truncation = marks_of(how.chunk), how.truncation
    if marks is None or truncation is None or options.stop is not None or options.model_temperature != 1:
        return None
    return Drawing(
        count=1,
        seeds=(),
        most=(),
        ends=tuple(options.ends),
        marks=marks[0],
        least=marks[1],
        temperature=truncation.temperature,
        top_k=truncation.top_k,
        top_p=truncation.top_p,
        min_p=truncation.min_p,
    )


def _by_source(roots: Sequence[Root]) -> list[list[Root]]:
    """Return the roots in parts whose states were kept together."""
    parts: dict[int, list[Root]] = {}
    for root in roots:
        assert root.path.where is not None, "it is not done"
        parts.setdefault(root.path.where.source, []).append(root)
    return list(parts.values())


def _remembered(paths: Sequence[Sequence[Path]]) -> Callable[[], Memory]:
    """Return a function that returns what it takes to add groups to these."""
    now = [tuple(of_input) for of_input in paths]
    return lambda: tuple(tuple(replace(path, where=None) for path in of_input) for of_input in now)
