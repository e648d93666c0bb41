"""The choice of a round: one group after another, by score less likeness of meaning to the groups before it.

A group chooses among its own proposals, and among those that earlier groups made from the same prefix and
did not take: in the first round, all groups go on from nothing. So a later group has more to choose from,
and no group depends on a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from beamsplit.hypotheses import Hypothesis
from beamsplit.scoring import Scorer
from beamsplit.search.chunks.paths import Path, Proposal, Root
from beamsplit.similarity import Similarity

__all__ = ["Candidate", "Choice", "Judge", "Turn"]

Proposed = Sequence[tuple[Root, Sequence[Sequence[Proposal]]]]
"""Roots with the proposals of each of their groups."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a path may become."""

    path: Path
    tokens: tuple[int, ...]  # the chunk alone
    place: int  # among the texts that are compared


@dataclass(frozen=True, slots=True)
class Choice:
    """What a group chose among, and the cost of each; the chosen one comes first."""

    candidates: tuple[Candidate, ...] = ()
    costs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Judge:
    """By what groups choose."""

    scorer: Scorer
    strengths: Sequence[float]
    similarity: Similarity
    unique: bool

    def score(self, path: Path) -> float:
        """Return the score of a path, without a penalty."""
        total = torch.tensor(path.gain, dtype=torch.double, device="cpu")
        return float(self.scorer.final(total, len(path.tokens)))


class Turn:
    """A round of one input: what its groups may choose among, and what is compared for that."""

    def __init__(
        self,
        paths: Sequence[Path],
        number: int,
        proposed: Proposed,
        to_text: Callable[[tuple[int, ...]], str],
        max_length: int,
    ) -> None:
        self.said: list[Hypothesis] = []
        self._paths = list(paths)
        self._number = number
        self._to_text = to_text
        self._most = max_length
        self._places: dict[int, int] = {}  # of what groups say that do not choose
        self._roots: dict[int, Root] = {}
        self._candidates: dict[int, list[Candidate]] = {}
        choosing = {group for root, _ in proposed for group in root.groups if not paths[group].done}
        for group in range(len(paths)):
            if group not in choosing:
                self._places[group] = self._add(paths[group].tokens_after(number))
        for root, by_group in proposed:
            for group, proposals in zip(root.groups, by_group, strict=True):
                self._roots[group] = root
                self._candidates[group] = [self._candidate(root, each) for each in proposals]

    def _add(self, tokens: tuple[int, ...]) -> int:
        text = self._to_text(tokens) if tokens else ""
        self.said.append(Hypothesis(tokens, 0.0, 0.0, text=" ".join(text.split())))
        return len(self.said) - 1

    def _candidate(self, root: Root, proposal: Proposal) -> Candidate:
        place = self._add(root.tokens + proposal.tokens)
        path = root.path.extended(proposal, self._most)
        return Candidate(path, proposal.tokens, place)

    def choose(self, judge: Judge) -> tuple[list[Path], list[Choice | None]]:
        """Return the paths after this round, and what each group chose among; None if it did not choose."""
        before: list[int] = []  # places of what earlier groups say
        taken: set[tuple[int, tuple[int, ...]]] = set()  # chunks, by the first group of their root
        choices: list[Choice | None] = []
        for group in range(len(self._paths)):
            if group in self._places:
                before.append(self._places[group])
                if group in self._roots:  # it has chosen before, in another search
                    root, said = self._roots[group], self._paths[group].tokens_after(self._number)
                    taken.add((root.groups.start, said[len(root.tokens) :]))
                choices.append(None)
                continue
            choice = self._ranked(group, taken, before, judge)
            self._follow(group, choice)
            choices.append(choice)
            if choice.candidates:
                taken.add((self._roots[group].groups.start, choice.candidates[0].tokens))
                before.append(choice.candidates[0].place)
        return self._paths, choices

    def _open_to(self, group: int, taken: set[tuple[int, tuple[int, ...]]]) -> list[Candidate]:
        """Return what a group may choose among: what is taken, only if there is nothing else."""
        root = self._roots[group]
        proposed = [each for of in root.groups if of <= group for each in self._candidates[of]]
        candidates = list({each.tokens: each for each in reversed(proposed)}.values())[::-1]
        left = [each for each in candidates if (root.groups.start, each.tokens) not in taken]
        return left or candidates

    def _ranked(
        self,
        group: int,
        taken: set[tuple[int, tuple[int, ...]]],
        before: Sequence[int],
        judge: Judge,
    ) -> Choice:
        """Return the candidates of a group, best first."""
        candidates = self._open_to(group, taken)
        strength = judge.strengths[group] if before else 0.0
        costs = [
            strength * self._likeness(each.place, before, judge) if strength else 0.0 for each in candidates
        ]
        scores = [judge.score(each.path) - cost for each, cost in zip(candidates, costs, strict=True)]
        known = {path.tokens for path in self._paths[:group] if path.done} if judge.unique else set()

        def rank(index: int) -> tuple[bool, float, int]:
            return candidates[index].path.tokens in known, -scores[index], index

        order = sorted(range(len(candidates)), key=rank)
        ranked = [
            replace(candidates[index], path=replace(candidates[index].path, score=scores[index]))
            for index in order
        ]
        return Choice(tuple(ranked), tuple(costs[index] for index in order))

    def _likeness(self, place: int, before: Sequence[int], judge: Judge) -> float:
        """Return how like a text is to what earlier groups say: to the one that is most like it."""
        return max(judge.similarity(self.said[place], self.said[other]) for other in before)

    def _follow(self, group: int, choice: Choice) -> None:
        """Let the group go on to what it chose. If nothing may follow, it has said all that it can."""
        path = self._paths[group]
        if not choice.candidates:
            self._paths[group] = replace(path, done=True)
            return
        chosen = choice.candidates[0].path
        self._paths[group] = replace(chosen, marks=(*path.marks, len(chosen.tokens)))
