"""Groups that step together: their beams, the rows behind these, and what they have finished.

In lockstep these are all groups. In the staggered schedule there is one frontier for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from beamsplit.diversity import Earlier
from beamsplit.options import DecodeOptions
from beamsplit.search import noise
from beamsplit.search.asks import Advance
from beamsplit.search.plan import CodedRule, Rule
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rows import Rows, are_all
from beamsplit.search.select import Picks, Selection
from beamsplit.search.setting import Setting, safe_width
from beamsplit.search.state import Beams, FinishedPool, append, take
from beamsplit.search.stopping import ask_stop

__all__ = ["Avoid", "Frontier", "short_width"]

_SHORT = 8  # candidates listed for a beam, unless that turns out to be too few
_SLACK = 4  # candidates listed beyond those that can matter, so that a tie at the list's end seldom does


@dataclass(frozen=True, slots=True)
class Avoid:
    """Sequences that every group is to keep away from."""

    sequences: Tensor  # [batch e length], -1 after their ends
    doubt: Tensor | None = None  # [batch] whether they are in doubt; None: none are


@dataclass(slots=True, eq=False)
class Frontier:
    """Groups that step together."""

    setting: Setting
    groups: range
    inputs: Tensor  # [batch] the caller's inputs that are still being decoded
    seeds: Tensor  # [batch] a key for each, which its noise depends on
    beams: Beams
    rows: Rows
    pool: FinishedPool
    strengths: Tensor  # [group 1 1]
    not_earlier: Tensor  # [1 group group 1]: does the second not come before the first?
    avoid: Tensor | None  # [batch e length]
    width: int  # of candidate lists, after the first step
    time: int = 0
    may_rise: bool = False  # whether totals may rise, since the model guides
    doubt: Tensor | None = None  # [batch group] whether some choice so far was not certain; None: none was
    any_finished: bool = False
    dense: bool = False  # every beam is live
    by_floors: bool = False  # lists of the likeliest tokens were too short, and those by floors were used

    @classmethod
    def roots(cls, setting: Setting, groups: range, avoid: Avoid | None = None, above: int = 0) -> Frontier:
        """Return groups before their first step. Their rows come below so many others."""
        plan, options, device = setting.plan, setting.options, setting.like.device
        size, beams = len(groups), plan.beams_per_group
        seeds = noise.input_keys(options.input_seeds(setting.batch), device)
        strengths = setting.like.new_tensor(plan.strengths or (0.0,) * plan.groups).view(-1, 1, 1)
        if avoid is None:
            strengths[0] = 0.0  # the first group has nobody to avoid
        return cls(
            setting=setting,
            groups=groups,
            inputs=torch.arange(setting.batch, device=device),
            seeds=seeds,
            beams=Beams.roots(_root_scores(setting, seeds, groups), _root_codes(setting, seeds, groups)),
            rows=Rows.roots(setting.batch, size, beams, device, above),
            pool=FinishedPool.empty(setting.batch, size, setting.slots, setting.like),
            strengths=strengths[groups.start : groups.stop],
            not_earlier=torch.ones(1, size, size, dtype=torch.bool, device=device).triu().unsqueeze(3),
            avoid=None if avoid is None else avoid.sequences.to(device),
            doubt=None if avoid is None or avoid.doubt is None else _for_groups(avoid.doubt.to(device), size),
            width=short_width(options),
        )

    # Before a step

    @property
    def is_last_step(self) -> bool:
        return self.time + 1 == self.setting.options.max_length

    @property
    def rule(self) -> Rule:
        """The rule of this step: one that draws by codes has those of these beams."""
        rule, code = self.setting.plan.rule, self.beams.code
        if code is None:
            return rule
        assert isinstance(rule, CodedRule)
        keys = noise.slot_keys(self.seeds, self.groups, self.time, code.shape[2])
        return rule.holding(code, noise.uniform(keys))

    @property
    def first_width(self) -> int:
        """How many candidates to list at first.

        The first step may well need as many as can matter, since all beams spring from one; later ones
        seldom do. Codes are for the whole vocabulary.
        """
        if self.beams.code is not None:
            assert self.setting.vocabulary is not None
            return self.setting.vocabulary
        if self.time:
            return self.width
        return self.setting.options.list_width or safe_width(self.setting.plan, self.setting.options) + _SLACK

    def penalty(self, outside: Earlier | None) -> GroupPenalty | None:
        """Return what groups pay in this step; None if nobody pays.

        `outside` is what earlier groups hold that do not step together with these.
        """
        plan = self.setting.plan
        if not plan.penalises:
            return None
        if self.avoid is not None:
            outside = Earlier.of(self.avoid, self.time)
        if outside is None and len(self.groups) == 1:
            return None
        assert plan.diversity is not None
        return GroupPenalty(plan.diversity, self.strengths, self.not_earlier, self.pool.tokens, outside)

    def ends(self, picks: Picks) -> Tensor:
        """Tell which picks [batch group pick] are complete."""
        ends = self.setting.ends(picks.token)
        stop = self.setting.options.stop
        if stop is None or self.time + 1 < self.setting.options.min_length:
            return ends
        spelled = self.spell(picks).clamp(min=0)
        inputs = self.inputs.view(-1, 1, 1).expand_as(picks.token)
        stopped = ask_stop(stop, inputs.flatten(), spelled.flatten(0, 2))
        return ends | stopped.to(ends.device).view_as(ends)

    # After a step

    def apply(self, selection: Selection, elsewhere: Tensor | None = None) -> Selection:
        """Let the picks be the beams from now on: finish those that end, and stop groups that are done.

        `elsewhere` [batch f length] is what groups before all of these have finished.
        """
        self._note_doubt(selection)
        if selection.any_end or self.is_last_step:
            self._collect(selection, elsewhere)
        self._extend(selection)
        self._stop_done(selection, elsewhere)
        return replace(selection, beams_after=self.beams)

    def spell(self, picks: Picks) -> Tensor:
        """Return the picks in full, -1 where nothing was picked: [batch group pick time+1]."""
        spelled = append(take(self.beams.tokens, picks.parent), picks.token)
        return spelled.masked_fill((picks.score == -torch.inf).unsqueeze(-1), -1)

    def freeze(self) -> Callable[[], FinishedPool]:
        """Return a function that returns the pool of this moment, as if live beams were complete."""
        beams, pool, time, doubt = self.beams, self.pool, self.time, self.doubt
        scorer = self.setting.options.ranking

        def unfinished() -> FinishedPool:
            score = scorer.final(beams.score, max(time, 1))
            if not time:
                score = torch.full_like(score, -torch.inf)
            ended, certified = torch.zeros_like(beams.live), _certified(doubt, score)
            return pool.add(FinishedPool(beams.tokens, beams.log_prob, score, ended, certified))

        return unfinished

    def _note_doubt(self, selection: Selection) -> None:
        if selection.doubt is not None:
            self.doubt = selection.doubt if self.doubt is None else self.doubt | selection.doubt

    def _collect(self, selection: Selection, elsewhere: Tensor | None) -> None:
        picks = selection.picks
        score = self.setting.options.ranking.final(picks.score, self.time + 1)
        found = FinishedPool(
            self.spell(picks), picks.log_prob, score, selection.ended, _certified(self.doubt, score)
        )
        self.pool = self.setting.stopping.collect(self.pool, found, selection, elsewhere, self.may_rise)
        self.any_finished = True

    def _extend(self, selection: Selection) -> None:
        kept = selection.survivors.first(self.setting.plan.beams_per_group)
        tokens = self.beams.tokens
        if not (selection.full and selection.in_place):
            tokens, self.rows = take(tokens, kept.parent), self.rows.follow(kept.parent)
        self.beams = Beams(append(tokens, kept.token), kept.log_prob, kept.score, kept.code)
        self.time += 1

    def _stop_done(self, selection: Selection, elsewhere: Tensor | None) -> None:
        """Give up beams that can no longer become one of their group's hypotheses."""
        if self.time == self.setting.options.max_length:
            self._stop(torch.ones_like(self.beams.live[..., 0]))
            self.dense = False
        elif self.any_finished:
            self._stop(self.setting.stopping.done(self.pool, selection, elsewhere, self.may_rise))
            self.dense = bool(self.beams.live.all())
        else:
            self.dense = selection.full or bool(self.beams.live.all())

    def _stop(self, done: Tensor) -> None:
        score = self.beams.score.masked_fill(done.unsqueeze(2), -torch.inf)
        self.beams = replace(self.beams, score=score)

    # Between steps

    @property
    def is_done(self) -> bool:
        """Whether no input is left to decode."""
        if self.setting.abilities.fixed_rows:  # inputs stay, whether they are done or not
            return not self.dense and not bool(self.beams.live.any())
        return not len(self.inputs)

    def keep_inputs(self, keep: Tensor) -> None:
        """Forget all other inputs."""
        self.inputs, self.seeds = self.inputs[keep], self.seeds[keep]
        self.beams, self.rows = self.beams.inputs(keep), self.rows.inputs(keep)
        self.pool = self.pool.inputs(keep)
        self.avoid = None if self.avoid is None else self.avoid[keep]
        self.doubt = None if self.doubt is None else self.doubt[keep]

    def hand_out_rows(self) -> tuple[Tensor, Tensor]:
        """Give each live beam a row of the model's next answer, and move to these rows.

        Returns, for each row, its token, and the row of the last answer that it goes on from.
        """
        # A copy: the model may write into what it is given.
        tokens = self.beams.tokens[..., -1].clone(memory_format=torch.contiguous_format)
        if self.dense or self.setting.abilities.fixed_rows:
            if not self.dense:
                tokens = tokens.masked_fill(~self.beams.live, 0)
            parents, self.rows = self.rows.hand_out()
            return tokens.flatten(), parents
        parents, self.rows = self.rows.hand_out(self.beams.live)
        return tokens[self.beams.live], parents

    def ask(self) -> Advance:
        """Return what the model is to go on with, if these are all groups there are."""
        fixed = self.setting.abilities.fixed_rows
        stayed, count = self.rows.in_order and (self.dense or fixed), self.rows.count
        tokens, parents = self.hand_out_rows()
        # Rows that stay as they are need no copy, but for the roots: these may be the caller's inputs.
        if stayed or (self.time > 1 and not fixed and are_all(parents, count)):
            return Advance(tokens, None)
        return Advance(tokens, parents)


def short_width(options: DecodeOptions) -> int:
    """Return how many candidates later steps list for a beam, unless that turns out to be too few."""
    return options.list_width or _SHORT + len(options.ends)


def _for_groups(doubt: Tensor, groups: int) -> Tensor:
    return doubt.unsqueeze(1).expand(-1, groups)


def _certified(doubt: Tensor | None, like: Tensor) -> Tensor | None:
    """Return [batch group slot] whether a group was never in doubt, for hypotheses such as `like`."""
    return None if doubt is None else (~doubt).unsqueeze(2).expand_as(like)


def _root_scores(setting: Setting, seeds: Tensor, groups: range) -> Tensor:
    """Return the scores that beams begin with: [batch group beam]."""
    rule, beams = setting.plan.rule, setting.plan.beams_per_group
    if not rule.noisy:
        return rule.roots(setting.like.new_zeros(setting.batch, len(groups), beams))
    keys = noise.slot_keys(seeds, groups, -1, beams)
    return rule.roots(noise.gumbel(keys.flatten(), 1, setting.like.dtype).view(keys.shape))


def _root_codes(setting: Setting, seeds: Tensor, groups: range) -> Tensor | None:
    """Return the codes that beams begin with [batch group beam n]; None if the rule has none."""
    rule, beams = setting.plan.rule, setting.plan.beams_per_group
    if not isinstance(rule, CodedRule):
        return None
    return rule.root_codes(noise.uniform(noise.slot_keys(seeds, groups, -1, 1)), beams)
