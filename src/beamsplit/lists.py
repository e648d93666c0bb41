"""The candidate lists of one step: made of logits, by a kernel or by torch, with noise if groups sample."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from beamsplit import noise
from beamsplit.candidates import Candidates, Scores, check_finite, check_shape, read
from beamsplit.cohort import Cohort
from beamsplit.model import Logits, plain

if TYPE_CHECKING:
    from beamsplit.loop import Search

__all__ = ["Lists"]


class Lists:
    """The candidate lists of one step, made when asked for and as long as asked for."""

    def __init__(self, search: Search, logits: Logits, rows: int, cohorts: list[Cohort]) -> None:
        self._search = search
        self._logits = logits
        self._lists: dict[int, Candidates] = {}
        check_shape(plain(logits), rows, search.vocabulary)
        young = [cohort for cohort in cohorts if cohort.time + 1 < search.limits.min_length]
        self._has_kernel = not young and not search.guided and search.has_kernels and self._is_known()
        if search.guided or young:  # guidance may be infinite without being NaN, a ruled-out NaN hides
            self.check_finite()
        for cohort in young:
            self._rule_out_ends(cohort)

    def _is_known(self) -> bool:
        from beamsplit.kernels import shortlist

        return shortlist.knows(plain(self._logits))

    @functools.cached_property
    def _scores(self) -> Scores:
        if not self._has_kernel:
            return read(self._logits)
        from beamsplit.kernels import shortlist

        logits = plain(self._logits)
        log_prob = logits.float() - shortlist.shortlist(logits, 1)[1].unsqueeze(1)
        return Scores(log_prob, log_prob, log_prob)

    def check_finite(self) -> None:
        check_finite(self._scores, self._logits)

    def of(self, cohort: Cohort, width: int) -> Candidates:
        """Lists for the beams of a cohort: tensors are [batch group beam k]."""
        if self._search.plan.rule.noisy and bool(cohort.beams.live.any()):
            return self._perturbed(cohort, width)
        if width not in self._lists:
            self._lists[width] = self._shortlist(width)
        lists = self._lists[width]
        alone = len(self._search.cohorts) == 1
        if alone and cohort.dense:  # then its rows are all there are, in the order of the beams
            return lists.shaped(cohort.beams.row)
        return lists.at(cohort.beams.row)

    def _shortlist(self, width: int) -> Candidates:
        if self._has_kernel:
            from beamsplit.kernels import shortlist

            if width <= shortlist.LONGEST:
                return shortlist.shortlist(plain(self._logits), width)[0]
        return self._scores.shortlist(width)

    def _perturbed(self, cohort: Cohort, width: int) -> Candidates:
        """Beams that share a row, as all do at first, must not share their noise: a row for each."""
        search, beams = self._search, cohort.beams
        keys = noise.slot_keys(search.seeds, cohort.groups, cohort.time, beams.score.shape[2])
        scores = self._scores.rows(beams.row[beams.live])
        gumbels = noise.gumbel(keys[beams.live], search.vocabulary, scores.gain.dtype)
        lists = search.plan.rule.perturb(scores, gumbels).shortlist(width)
        place = beams.live.flatten().cumsum(0).view_as(beams.row) - 1
        return lists.at(place.clamp(min=0))

    def _rule_out_ends(self, cohort: Cohort) -> None:
        rows = cohort.beams.row[cohort.beams.live].unsqueeze(1)
        ends = torch.tensor(self._search.limits.ends, dtype=torch.long, device=rows.device)
        self._scores.log_prob[rows, ends] = -torch.inf
        self._scores.gain[rows, ends] = -torch.inf
