"""The loop that turns the crank, for every model, strategy, term and schedule.

start the model                          one row an input
every step:
    read the logits                      all rows at once, one pass over the vocabulary
    list candidates, let groups pick     again from longer lists if the picks are not certain
    extend the beams                     ends go to the group's hypotheses; done groups stop
    step the model                       one row a live beam, however many groups
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from beamsplit import kernels, noise
from beamsplit.beams import Beams, Found, below, widen
from beamsplit.candidates import Candidates, check_shape, join_logits
from beamsplit.chosen import Chosen
from beamsplit.cohort import Cohort, as_earlier, look_back
from beamsplit.diversity import Earlier, Hamming
from beamsplit.errors import ArgumentError, ModelError
from beamsplit.hypotheses import Hypotheses
from beamsplit.limits import Limits
from beamsplit.lists import Lists
from beamsplit.model import Guided, Logits, State, StepModel, answer, copied, joinable, plain, score_type
from beamsplit.results import Outcome, assemble
from beamsplit.selection import Interplay, Picks, settle
from beamsplit.step import Move, Step
from beamsplit.strategies.beam import Maximise
from beamsplit.strategies.plan import Plan

__all__ = ["Search"]

_SHORT = 8  # candidates listed for a beam, unless that turns out to be too few
_SLACK = 4  # candidates listed beyond those that can matter, so that a tie at the list's end seldom does


class _Answer(NamedTuple):
    """What the model last said, and the state it said it in."""

    logits: Logits
    state: State
    rows: int


class Search:
    """The state of one search, and the verbs of its loop."""

    def __init__(self, model: StepModel, plan: Plan, limits: Limits, against: Tensor | None = None) -> None:
        self.model = model
        self.plan = plan
        self.limits = limits
        self.against = against  # [batch e length] sequences that every group is to keep away from
        self.places = plan.beams * (plan.groups if limits.unique else 1)  # for hypotheses of a group
        self.left: list[Outcome] = []  # of inputs that have left the batch

    @torch.no_grad()
    def steps(self, inputs: Any) -> Iterator[Step]:
        roots = self._begin(*answer(self.model.start(inputs), "start"))
        if not self.batch:
            return
        last: _Answer | None = None
        for number in range(self.limits.max_length + len(self.cohorts) - 1):
            now = self._start_cohort(number, last, roots)
            moves = self._advance(number, now)
            yield Step(number, self.inputs, moves, self._snapshot())
            self._dismiss_finished(number)
            if not len(self.inputs):
                return
            last = self._step_model(now, must_copy=number < len(self.cohorts))

    def _snapshot(self) -> Callable[[], list[Hypotheses]]:
        """What there is to return at this moment, put together only if someone asks."""
        left, inputs = tuple(self.left), self.inputs
        present = [(cohort.found, cohort.beams, cohort.time) for cohort in self.cohorts]

        def assembled() -> list[Hypotheses]:
            founds = [found.add(self._unfinished(beams, time)) for found, beams, time in present]
            outcomes = [*left, Outcome(inputs, Found.beside(founds))]
            per_group = self.limits.return_per_group or self.plan.beams
            return assemble(outcomes, self.batch, self.limits.scorer, per_group, self.limits.unique)

        return assembled

    def _unfinished(self, beams: Beams, time: int) -> Found:
        """Live beams as if they were complete."""
        score = self.limits.scorer.final(beams.score, max(time, 1))
        if not time:
            score = torch.full_like(score, -torch.inf)
        return Found(beams.tokens, beams.log_prob, score, torch.zeros_like(beams.live))

    # Before the first step

    def _begin(self, logits: Logits, state: State) -> _Answer:
        check_shape(plain(logits), None, None)
        self.batch, self.vocabulary = plain(logits).shape
        like = plain(logits).new_empty(0, dtype=score_type(logits))
        self.device = like.device
        self.has_kernels = kernels.available(like)
        self.guided = isinstance(logits, Guided)
        self.may_rise = isinstance(logits, Guided) and not logits.bounded
        self.groups_of_old = bool(getattr(self.limits.scorer, "groups_of_old", False))
        self._check_plan()
        self.inputs = torch.arange(self.batch, device=self.device)
        self.seeds = self.limits.seeds(self.batch, self.device)
        self.against = None if self.against is None else self.against.to(self.device)
        self.nothing = torch.tensor(-1, device=self.device)
        self.is_end = torch.zeros(self.vocabulary, dtype=torch.bool, device=self.device)
        self.is_end[self.limits.ends] = True
        self.cohorts = self._make_cohorts(like)
        self.width = self.limits.list_width or _SHORT + len(self.limits.ends)  # after the first step
        if len(self.cohorts) > 1:  # they are looked at again when later groups start
            logits = copied(logits)
        return _Answer(logits, state, self.batch)

    def _check_plan(self) -> None:
        self.limits.check_vocabulary(self.vocabulary)
        term = self.plan.diversity
        known = getattr(term, "vocabulary", self.vocabulary)
        if known != self.vocabulary:
            raise ArgumentError(
                f"{type(term).__name__} knows {known} tokens and the model's vocabulary has "
                f"{self.vocabulary}: give it one row for each token of the model"
            )
        if self.guided and self.plan.rule.normalised:
            raise ArgumentError(
                "StochasticBeamSearch samples from the model's own distribution, which guidance changes: "
                "use Sampling, or the model without AntiLanguageModel"
            )

    def _make_cohorts(self, like: Tensor) -> list[Cohort]:
        groups = self.plan.groups
        size = 1 if self.plan.schedule == "staggered" else groups
        strengths = like.new_tensor(self.plan.strengths or (0.0,) * groups).view(-1, 1, 1)
        if self.against is None:
            strengths[0] = 0.0  # the first group has nobody to heed
        follows = torch.ones(1, size, size, dtype=torch.bool, device=self.device).triu().unsqueeze(3)
        return [
            Cohort(
                groups=range(first, first + size),
                beams=Beams.roots(self._root_scores(range(first, first + size), like)),
                found=Found.none(self.batch, size, self.places, like),
                strengths=strengths[first : first + size],
                follows=follows,
                said=deque(maxlen=groups - first),
                line=self.inputs,
            )
            for first in range(0, groups, size)
        ]

    def _root_scores(self, groups: range, like: Tensor) -> Tensor:
        """[batch group beam]"""
        if not self.plan.rule.noisy:
            return self.plan.rule.roots(like.new_zeros(self.batch, len(groups), self.plan.beams))
        keys = noise.slot_keys(self.seeds, groups, -1, self.plan.beams)
        return self.plan.rule.roots(noise.gumbel(keys.flatten(), 1, like.dtype).view(keys.shape))

    def _safe_width(self) -> int:
        """So many candidates that, with a local term, none beyond them can survive, ties aside.

        The first step may well need as many, since all beams spring from one; later ones seldom do.
        """
        if self.limits.list_width is not None:
            return self.limits.list_width
        survivors = max(self.plan.rule.survivors(self.plan.beams), self.places if self.limits.unique else 0)
        penalised = self.plan.beams * (self.plan.groups - 1) if any(self.plan.strengths) else 0
        return survivors + len(self.limits.ends) + penalised + _SLACK

    # The verbs of a step

    def _start_cohort(self, number: int, last: _Answer | None, roots: _Answer) -> _Answer:
        """Rows for the groups whose first step this is, below the rows of those already on their way."""
        if number >= len(self.cohorts):
            assert last is not None, "a search without beams has ended"
            return last
        cohort = self.cohorts[number]
        above = last.rows if last else 0
        row = above + torch.arange(self.batch, device=self.device)[:, None, None]
        cohort.beams = replace(cohort.beams, row=row.expand_as(cohort.beams.row))
        if last is None:
            return roots
        state = joinable(self.model).join([last.state, roots.state])
        return _Answer(join_logits(last.logits, roots.logits), state, above + roots.rows)

    def _advance(self, number: int, now: _Answer) -> tuple[Move, ...]:
        """Every group on its way takes a step, in the order of the groups."""
        started = self.cohorts[: number + 1]
        lists = Lists(self, now.logits, now.rows, started)
        return tuple(self._step_cohort(place, cohort, lists) for place, cohort in enumerate(started))

    def _step_cohort(self, place: int, cohort: Cohort, lists: Lists) -> Move:
        chosen = self._choose(place, cohort, lists)
        found_before = cohort.found.tokens
        if chosen.any_end or self._is_last(cohort):
            self._collect(place, cohort, chosen)
        if place + 1 < len(self.cohorts):
            cohort.record(cohort.spell(chosen.picks.first(self.plan.beams)), found_before)
        cohort.extend(chosen.live.first(self.plan.beams), in_place=chosen.full and chosen.in_place)
        cohort.time += 1
        self._stop_done(place, cohort, chosen)
        return Move(cohort.groups, cohort.time - 1, chosen.picks, chosen.ends, chosen.width, cohort.beams)

    def _choose(self, place: int, cohort: Cohort, lists: Lists) -> Chosen:
        """Let the groups pick, from lists long enough that the picks are certain."""
        keep = self.places if self._is_last(cohort) else self.plan.beams
        count = keep + self.plan.beams * self.limits.ends_per_beam  # so that enough are left when some end
        interplay = self._interplay(place, cohort)
        width = first = self.width if cohort.time else self._safe_width()
        while True:
            chosen = self._pick(cohort, lists.of(cohort, width), count, keep, interplay)
            whole = width >= self.vocabulary
            if not whole and chosen.secure:
                break
            lists.check_finite()  # what is NaN is not secure, so there is no need to look before
            if whole:
                break
            width *= 4
        if width > first:
            self.width = 2 * first  # what was too short once will be so again
        return chosen

    def _pick(
        self, cohort: Cohort, lists: Candidates, count: int, keep: int, interplay: Interplay | None
    ) -> Chosen:
        beams, rule, width = cohort.beams, self.plan.rule, lists.tokens.shape[-1]
        if self._has_kernel(interplay):
            from beamsplit.kernels import choose

            if choose.fits(beams, width):
                strengths = None if interplay is None else interplay.strengths
                return choose.choose(beams, lists, strengths, self.is_end, count, keep)
        picks, bound = settle(rule, beams, lists, count, interplay)
        return Chosen.of(rule, picks, bound, self._ends(cohort, picks), keep, width)

    def _has_kernel(self, interplay: Interplay | None) -> bool:
        if not self.has_kernels or type(self.plan.rule) is not Maximise or self.limits.stop is not None:
            return False
        return interplay is None or (type(interplay.term) is Hamming and interplay.outside is None)

    def _ends(self, cohort: Cohort, picks: Picks) -> Tensor:
        """[batch group pick]: is the pick complete?"""
        ends = self.is_end[picks.token]
        if self.limits.stop is None:
            return ends
        spelled = cohort.spell(picks).clamp(min=0)
        inputs = self.inputs.view(-1, 1, 1).expand_as(picks.token)
        stopped = self.limits.stop(inputs.flatten(), spelled.flatten(0, 2))
        if not isinstance(stopped, Tensor) or stopped.shape != (inputs.numel(),):
            got = list(stopped.shape) if isinstance(stopped, Tensor) else type(stopped).__name__
            raise ArgumentError(
                f"stop returned {got} for {inputs.numel()} outputs: it must say yes or no to each"
            )
        return ends | stopped.to(ends.device, torch.bool).view_as(ends)

    def _is_last(self, cohort: Cohort) -> bool:
        return cohort.time + 1 == self.limits.max_length

    def _interplay(self, place: int, cohort: Cohort) -> Interplay | None:
        if self.plan.diversity is None or not any(self.plan.strengths):
            return None
        outside = self._outside(place, cohort.time)
        if outside is None and len(cohort.groups) == 1:
            return None
        term, found = self.plan.diversity, cohort.found.tokens
        return Interplay(term, cohort.strengths, cohort.follows, self.nothing, found, outside)

    def _outside(self, place: int, time: int) -> Earlier | None:
        """What a cohort's first group has to heed already: earlier cohorts, or `against`."""
        if self.against is not None:
            return Earlier.of(self.against, time)
        return as_earlier(look_back(self.cohorts[:place])) if place else None

    def _collect(self, place: int, cohort: Cohort, chosen: Chosen) -> None:
        """Move hypotheses that are complete to what the groups have found.

        An end counts if it is among the best picks, as many as there are beams. At the last step all
        that would live on is complete too.
        """
        picks, ends = chosen.picks, chosen.ends
        complete = ends.clone()
        complete[..., self.plan.beams :] = False
        spelled = cohort.spell(picks)
        score = self.limits.scorer.final(picks.score, cohort.time + 1)

        def with_these(complete: Tensor) -> Found:
            scored = score.masked_fill(~complete, -torch.inf)
            return cohort.found.add(Found(spelled, picks.log_prob, scored, ends))

        if self._is_last(cohort):
            unfinished = ~ends & ((~ends).cumsum(2) <= self.places)
            if self.groups_of_old:
                worst, bound = self._rivals(place, cohort, with_these(complete), chosen, cohort.time + 1)
                unfinished &= ((worst < bound) | (worst == -torch.inf)).unsqueeze(2)
            complete |= unfinished
        cohort.found = with_these(complete)
        cohort.any_found = True

    def _stop_done(self, place: int, cohort: Cohort, chosen: Chosen) -> None:
        """Give up beams that can no longer become one of their group's hypotheses."""
        if cohort.time == self.limits.max_length:
            cohort.stop(torch.ones_like(cohort.beams.live[..., 0]))
        elif cohort.any_found:
            worst, bound = self._rivals(place, cohort, cohort.found, chosen, cohort.time)
            cohort.stop((worst > -torch.inf) & (worst >= bound))
        elif chosen.full:
            cohort.unmoved = cohort.dense and chosen.in_place
            cohort.dense = True
            return
        cohort.unmoved = False
        cohort.dense = bool(cohort.beams.live.all())

    def _rivals(
        self, place: int, cohort: Cohort, found: Found, chosen: Chosen, length: int
    ) -> tuple[Tensor, Tensor]:
        """[batch group] each: the score of the last of a group's hypotheses that count, -inf if they are
        fewer than its beams, and a bound on what may come. A group is done when the first beats the second.
        """
        best = (chosen.picks if self.groups_of_old else chosen.live).score.amax(2)
        bound = self.limits.scorer.bound(best, length, self.limits.max_length)
        if self.may_rise:
            bound = bound.masked_fill((bound > -torch.inf) & (best > -torch.inf), torch.inf)
        score = self._fresh_scores(place, found) if self.limits.unique else found.score
        return score[..., self.plan.beams - 1], bound

    def _fresh_scores(self, place: int, found: Found) -> Tensor:
        """[batch group place] of what no earlier group has found, best first."""
        lower = [said.found_now for said in look_back(self.cohorts[:place])]
        fresh = []
        for g in range(found.score.shape[1]):
            tokens, score = found.tokens[:, g], found.score[:, g]
            if lower:
                score = score.masked_fill(_among(tokens, functools.reduce(below, lower)), -torch.inf)
            fresh.append(score.sort(dim=1, descending=True).values)
            lower = [functools.reduce(below, [*lower, tokens])]
        return torch.stack(fresh, dim=1)

    def _dismiss_finished(self, number: int) -> None:
        """Inputs without a live beam leave the batch."""
        if number + 1 < len(self.cohorts):
            return
        if any(cohort.dense for cohort in self.cohorts):
            return
        live = torch.stack([c.beams.live.flatten(1).any(1) for c in self.cohorts]).any(0)
        if bool(live.all()):
            return
        found = Found.beside([cohort.found for cohort in self.cohorts])
        self.left.append(Outcome(self.inputs[~live], found.inputs((~live).nonzero().squeeze(1))))
        keep = live.nonzero().squeeze(1)
        self.inputs, self.seeds = self.inputs[keep], self.seeds[keep]
        self.against = None if self.against is None else self.against[keep]
        for cohort in self.cohorts:
            cohort.keep_inputs(keep)

    def _step_model(self, last: _Answer, must_copy: bool) -> _Answer | None:
        """One row for each live beam, whichever group it is in."""
        parts = [cohort.hand_out_rows() for cohort in self.cohorts if cohort.time]
        count = sum(len(rows) for rows, _ in parts)
        if not count:
            return None
        above = 0
        for cohort, (rows, _) in zip(self.cohorts, parts, strict=False):
            cohort.shift_rows(above, count)
            above += len(rows)
        rows = torch.cat([rows for rows, _ in parts]) if len(parts) > 1 else parts[0][0]
        tokens = torch.cat([tokens for _, tokens in parts]) if len(parts) > 1 else parts[0][1]
        state = last.state
        # Rows that stay as they are need no copy, except of roots, which later groups start from too.
        if must_copy or not self._are_all(rows, last.rows):
            state = self.model.select(state, rows)
        logits, state = answer(self.model.step(tokens, state), "step")
        if isinstance(logits, Guided) != self.guided:
            raise ModelError("the model returned guidance in some steps and none in others: return zeros")
        return _Answer(logits, state, count)

    def _are_all(self, rows: Tensor, count: int) -> bool:
        """Whether these are all rows that there were, in their order."""
        if len(self.cohorts) == 1 and self.cohorts[0].unmoved:
            return True
        if len(rows) != count:
            return False
        alone = len(self.cohorts) == 1 and self.cohorts[0].dense
        return torch.equal(rows, self.cohorts[0].line if alone else torch.arange(count, device=self.device))


def _among(sequences: Tensor, others: Tensor) -> Tensor:
    """[batch p length], [batch q length'] -> [batch p]: is the sequence one of the others?"""
    width = max(sequences.shape[-1], others.shape[-1])
    pairs = widen(sequences, width).unsqueeze(2) == widen(others, width).unsqueeze(1)
    return pairs.all(-1).any(-1)
