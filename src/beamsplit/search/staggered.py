"""Groups that march in step: all of them in lockstep, a single one each when they are staggered."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from beamsplit.beams import Beams, Found, append, below, take
from beamsplit.diversity import Earlier
from beamsplit.selection import Picks

__all__ = ["Cohort", "Said", "look_back"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a cohort held at one time step, for later cohorts to see. -1: no token there."""

    beams: Tensor  # [batch e time+1] what was picked at this step, with all that came before
    found: Tensor  # [batch f length] hypotheses from earlier steps
    found_now: Tensor  # [batch f length] hypotheses after this step

    def inputs(self, keep: Tensor) -> Said:
        """Of these inputs alone."""
        return Said(self.beams[keep], self.found[keep], self.found_now[keep])


@dataclass(slots=True)
class Cohort:
    """The beams of some groups, what these groups have found, and what later cohorts may look back at."""

    groups: range
    beams: Beams
    found: Found
    strengths: Tensor  # [group 1 1]
    follows: Tensor  # [1 group group 1]: does the second not come before the first?
    said: deque[Said]  # a step each, newest last
    line: Tensor  # 0, 1, 2, ...: the rows of the beams when all are live
    time: int = 0
    any_found: bool = False
    dense: bool = False  # every beam is live
    unmoved: bool = False  # every beam is known to stand where it stood a step ago, and to have been live

    def keep_inputs(self, keep: Tensor) -> None:
        """Forget all other inputs."""
        self.beams = self.beams.inputs(keep)
        self.found = self.found.inputs(keep)
        self.said = deque((said.inputs(keep) for said in self.said), self.said.maxlen)

    def spell(self, picks: Picks) -> Tensor:
        """The picks in full, -1 where nothing was picked: [batch group pick time+1]."""
        spelled = append(take(self.beams.tokens, picks.parent), picks.token)
        return spelled.masked_fill((picks.score == -torch.inf).unsqueeze(-1), -1)

    def extend(self, picks: Picks, in_place: bool = False) -> None:
        """Let these picks [batch group beam] be the beams from now on; each that of its own if `in_place`."""
        tokens, row = self.beams.tokens, self.beams.row
        if not in_place:
            tokens, row = take(tokens, picks.parent), row.gather(2, picks.parent)
        self.beams = Beams(append(tokens, picks.token), picks.log_prob, picks.score, row)

    def stop(self, done: Tensor) -> None:
        """Give up the beams of groups that are done [batch group]."""
        score = self.beams.score.masked_fill(done.unsqueeze(2), -torch.inf)
        self.beams = replace(self.beams, score=score)

    def hand_out_rows(self) -> tuple[Tensor, Tensor]:
        """Give each live beam a row of the model's next answer, counting from 0. Returns, for each row,
        the row of the last answer that it goes on from, and its token.
        """
        beams = self.beams
        if self.unmoved:  # then the rows are still those of last time
            return beams.row.flatten(), beams.tokens[..., -1].flatten()
        if self.dense:
            rows, tokens = beams.row.flatten(), beams.tokens[..., -1].flatten()
            place = self.line
            if place.shape != rows.shape:
                place = self.line = torch.arange(len(rows), device=rows.device)
            place = place.view_as(beams.row)
        else:
            rows, tokens = beams.row[beams.live], beams.tokens[..., -1][beams.live]
            place = (beams.live.flatten().cumsum(0).view_as(beams.row) - 1).clamp(min=0)
        self.beams = replace(beams, row=place)
        return rows, tokens

    def shift_rows(self, above: int, count: int) -> None:
        """Make room for rows of other cohorts above; there are `count` in all."""
        if above:
            self.beams = replace(self.beams, row=(self.beams.row + above).clamp(max=count - 1))

    def record(self, spelled: Tensor, found_before: Tensor) -> None:
        """Note a step for later cohorts."""
        self.said.append(
            Said(spelled.flatten(1, 2), found_before.flatten(1, 2), self.found.tokens.flatten(1, 2))
        )


def look_back(cohorts: Sequence[Cohort]) -> list[Said]:
    """What each of these cohorts held when it stood where the cohort after them is to step now."""
    return [cohort.said[-1 - lead] for lead, cohort in zip(range(len(cohorts), 0, -1), cohorts, strict=True)]


def as_earlier(said: Sequence[Said]) -> Earlier:
    """A term's view of it."""
    beams = torch.cat([s.beams for s in said], dim=1)
    return Earlier(beams[..., -1], lambda: beams, lambda: reduce(below, [s.found for s in said], beams))
