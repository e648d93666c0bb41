"""One step of some groups: from candidate lists to survivors.

Groups depend on each other: each pays for repeating what the groups before it pick at this same step. The
plain way is one group after another. Here all groups pick at once, as if the others stood still, and pick
again until nothing changes. Group g cannot change after round g+1, since it depends on earlier groups
alone, so this ends, and it ends in what one after another would have given. It takes a handful of rounds
where the plain way takes as many as there are groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from beamsplit.diversity import Diversity, Earlier
from beamsplit.errors import ArgumentError, TermError
from beamsplit.model import Shortlist
from beamsplit.search.plan import CodedRule, Ranked, Rule
from beamsplit.search.state import Beams, append, stack_sequences, take

__all__ = ["GroupPenalty", "Picks", "Selection", "settle", "split_ends"]


@dataclass(frozen=True, slots=True)
class Picks:
    """The picks of groups, best first, or one for each beam if they sample. [batch group pick]"""

    parent: Tensor  # beam that is extended
    token: Tensor
    log_prob: Tensor  # of the whole prefix
    score: Tensor  # of the whole prefix; -inf: no pick at all
    cost: Tensor  # what this token's penalty took off the score
    order: Tensor  # what they were picked by
    code: Tensor | None = None  # [batch group pick n] what the next token is drawn by, for a CodedRule

    def first(self, count: int) -> Picks:
        """Return the best `count`."""
        if count >= self.token.shape[2]:
            return self
        kept = Picks(*(values[..., :count] for values in self._columns))
        return kept if self.code is None else replace(kept, code=self.code[:, :, :count])

    def take(self, slots: Tensor) -> Picks:
        """Return those in these slots [batch group n]."""
        taken = Picks(*(values.gather(2, slots) for values in self._columns))
        return taken if self.code is None else replace(taken, code=take(self.code, slots))

    @property
    def _columns(self) -> tuple[Tensor, ...]:
        return self.parent, self.token, self.log_prob, self.score, self.cost, self.order


@dataclass(frozen=True, slots=True)
class Selection:
    """What some groups did in one step. Tensors are [batch group pick], best pick first; where groups
    sample, one pick for each beam, in the order of the beams.
    """

    groups: range
    time: int
    picks: Picks
    """The extensions that were considered to the last; a score of -inf marks an empty slot."""
    ended: Tensor
    """Whether the pick's token is an end."""
    survivors: Picks
    """Those that go on, best first; a score of -inf where there are too few."""
    width: int
    """How many candidates of each beam were looked at."""
    any_end: bool
    """Whether some of the best picks end."""
    doubt: Tensor | None = None
    """[batch group] whether a candidate outside the lists could have been picked; None: nowhere."""
    full: bool = False  # every beam is known to live on
    in_place: bool = False  # every beam is known to be extended where it stands
    beams_after: Beams | None = field(default=None, repr=False)  # what has come of it

    @property
    def certified(self) -> Tensor:
        """[batch group] whether no candidate outside the lists could have been picked."""
        if self.doubt is None:
            return self.picks.score.new_ones(self.picks.score.shape[:2], dtype=torch.bool)
        return ~self.doubt

    @property
    def live(self) -> Tensor:
        """[batch group beam] whether the beam lives on after this step."""
        assert self.beams_after is not None, "the step is not done yet"
        return self.beams_after.live

    @property
    def beam(self) -> Tensor:
        """What became of each pick: the beam it is from now on, or -1 if it ended or was dropped."""
        goes_on = ~self.ended
        beam = goes_on.cumsum(2) - 1
        known = goes_on & (beam < self.live.shape[2])
        beam = torch.where(known, beam, 0)
        return torch.where(known & self.live.gather(2, beam), beam, -1)


@dataclass(frozen=True, slots=True)
class GroupPenalty:
    """The penalties of groups that step together, for repeating each other."""

    term: Diversity
    strengths: Tensor  # [group 1 1]
    not_earlier: Tensor  # [1 group group 1]: does the second not come before the first?
    finished: Tensor  # [batch group slot length] what these groups have finished in earlier steps
    outside: Earlier | None  # what groups before all of these hold; n is batch

    def cost(
        self, beams: Beams, lists: Shortlist, asked: tuple[Tensor, Tensor], picked: _Choice | None
    ) -> Tensor | None:
        """Return [batch group beam k] for every candidate, when the groups among themselves pick `picked`.

        `asked` are the candidates and the beams' prefixes, as a term sees them.
        """
        if picked is None and self.outside is None:
            return None
        penalty = self.penalties(beams, asked, picked)
        # Round once, and only then multiply: so it comes out the same for lists of any length.
        if penalty.is_floating_point():
            penalty = penalty.to(lists.gain.dtype)
        return self.strengths * penalty.view(lists.tokens.shape)

    def penalties(self, beams: Beams, asked: tuple[Tensor, Tensor], picked: _Choice | None) -> Tensor:
        """Return the term's own penalties [n beam k], before any strength."""
        tokens, prefix = asked
        penalty = self.term.penalty(tokens, prefix, self._earlier(beams, picked))
        _check_shape(self.term, penalty, tokens)
        return penalty

    def least(
        self, beams: Beams, prefix: Tensor, picked: _Choice | None, dtype: torch.dtype
    ) -> Tensor | None:
        """Return [batch group beam] the least that any token costs, listed or not, if the term can tell."""
        least = getattr(self.term, "least", None)
        if least is None or (picked is None and self.outside is None):
            return None
        floor: Tensor = least(prefix, self._earlier(beams, picked))
        # Rounded and multiplied as penalties are, which never puts the smaller above the larger.
        return self.strengths.squeeze(2) * floor.to(dtype).view(beams.score.shape)

    def _earlier(self, beams: Beams, picked: _Choice | None) -> Earlier:
        outside = None if self.outside is None else _for_each(self.outside, beams.score.shape[1])
        if picked is None:
            assert outside is not None
            return outside
        ours = Earlier(
            self._seen(picked.tokens),
            lambda: self._seen(picked.spell(beams)),
            lambda: stack_sequences(ours.beams, self._seen(self.finished)),
        )
        return ours if outside is None else _beside(outside, ours)

    def _seen(self, held: Tensor) -> Tensor:
        """Return what each group may see of the others: [batch group x ...] -> [batch*group group*x ...]."""
        not_earlier = self.not_earlier if held.dim() == 3 else self.not_earlier.unsqueeze(-1)
        seen = held.unsqueeze(1).masked_fill(not_earlier, -1)  # [batch group group x ...]
        batch, groups, _, x = seen.shape[:4]
        return seen.view(batch * groups, groups * x, *seen.shape[4:])


def _for_each(earlier: Earlier, groups: int) -> Earlier:
    """Return what each of so many groups sees of this: n is batch*group instead of batch."""
    if groups == 1:
        return earlier

    def repeated(held: Tensor) -> Tensor:
        return held.repeat_interleave(groups, dim=0)

    return Earlier(
        repeated(earlier.tokens), lambda: repeated(earlier.beams), lambda: repeated(earlier.sequences)
    )


def _beside(one: Earlier, other: Earlier) -> Earlier:
    """Return what both hold."""
    return Earlier(
        torch.cat([one.tokens, other.tokens], dim=1),
        lambda: torch.cat([one.beams, other.beams], dim=1),
        lambda: stack_sequences(one.sequences, other.sequences),
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """The best picks of each group in one round, as many as beams. [batch group beam]"""

    slots: Tensor  # in the flattened lists
    tokens: Tensor  # -1 where there was nothing to pick
    width: int  # of the lists

    def spell(self, beams: Beams) -> Tensor:
        """Return the picks in full, -1 throughout where there was nothing: [batch group beam time+1]."""
        spelled = append(take(beams.tokens, self.slots // self.width), self.tokens)
        return spelled.masked_fill((self.tokens < 0).unsqueeze(-1), -1)


def settle(
    rule: Rule, beams: Beams, lists: Shortlist, count: int, penalty: GroupPenalty | None
) -> tuple[Picks, Tensor]:
    """Return `count` picks for each group, each group having taken the groups before it into account.

    Second comes the bound [batch group beam] on the order of what was not listed.
    """
    ranked = rule.rank(beams.score, beams.log_prob, lists, beams.tokens.shape[-1])
    cost = least = None
    if penalty is not None:
        cost, least = _settled_cost(rule, beams, lists, ranked.order, penalty)
    order = ranked.order if cost is None else ranked.order - cost
    bound = ranked.bound if least is None else ranked.bound - least
    if beams.code is None:
        return _picks(beams, lists, ranked, order, rule.pick(order, count), cost), bound
    assert isinstance(rule, CodedRule)
    slots, code = rule.draw(order)
    return replace(_picks(beams, lists, ranked, order, slots, cost), code=code), bound


def _settled_cost(
    rule: Rule, beams: Beams, lists: Shortlist, free: Tensor, penalty: GroupPenalty
) -> tuple[Tensor | None, Tensor | None]:
    """Return what candidates cost when every group picks what it picks in view of these very costs.

    Second comes what any candidate costs at least, if that is known. `free` [batch group beam k] is what
    picks are ordered by where nothing costs anything.
    """
    groups, beam_count = beams.score.shape[1:]
    listed = lists.tokens.flatten(2)
    all_real = bool(free.amin() > -torch.inf)  # not so if there is a NaN
    asked = lists.tokens.flatten(0, 1), beams.tokens.flatten(0, 1)
    cost = penalty.cost(beams, lists, asked, None)
    picked: _Choice | None = None
    for _ in range(groups - 1):
        order = free if cost is None else free - cost
        slots = rule.pick(order, beam_count)
        if picked is not None and torch.equal(picked.slots, slots):
            break
        tokens = listed.gather(2, slots)
        if not all_real:
            tokens = tokens.masked_fill(order.flatten(2).gather(2, slots) == -torch.inf, -1)
        picked = _Choice(slots, tokens, lists.tokens.shape[-1])
        cost = penalty.cost(beams, lists, asked, picked)
    if cost is not None:
        _check_values(penalty, cost, lambda: penalty.penalties(beams, asked, picked))
    return cost, penalty.least(beams, asked[1], picked, lists.gain.dtype)


def _picks(
    beams: Beams, lists: Shortlist, ranked: Ranked, order: Tensor, slots: Tensor, cost: Tensor | None
) -> Picks:
    parent = slots // lists.tokens.shape[-1]
    picked = score = order.flatten(2).gather(2, slots)
    paid = torch.zeros_like(picked) if cost is None else cost.flatten(2).gather(2, slots)
    if ranked.score is not ranked.order:
        # What cannot be picked has no score, whatever the rule made of it.
        score = ranked.score.flatten(2).gather(2, slots) - paid
        score = score.masked_fill(picked == -torch.inf, -torch.inf)
    return Picks(
        parent=parent,
        token=lists.tokens.flatten(2).gather(2, slots),
        log_prob=beams.log_prob.gather(2, parent) + lists.log_prob.flatten(2).gather(2, slots),
        score=score,
        cost=paid,
        order=picked,
    )


def split_ends(
    rule: Rule, picks: Picks, bound: Tensor, ended: Tensor, count: int, keep: int
) -> tuple[Picks, Tensor, bool]:
    """Split the picks, of which `count` were wanted, into those that end and those that go on.

    Returns the first `keep` that go on; whether nothing unlisted could have been picked [batch group]; and
    whether any of the best picks end.
    """
    any_end = bool(ended[..., :keep].any())
    if not any_end:
        survivors = picks.first(keep)
        worst = survivors.order[..., -1]
    else:
        slots = ended.to(torch.uint8).argsort(dim=2, stable=True)[..., :keep]
        survivors, dead = picks.take(slots), ended.gather(2, slots)
        survivors = replace(
            survivors,
            score=survivors.score.masked_fill(dead, -torch.inf),
            order=survivors.order.masked_fill(dead, -torch.inf),
        )
        # The last pick that matters is the last to go on, or the last of all if too few do.
        worst = torch.maximum(survivors.order[..., -1], picks.order[..., -1])
    if picks.token.shape[2] < count:  # then anything that is not listed might have filled the gap
        worst = torch.full_like(worst, -torch.inf)
    return survivors, rule.secure(picks.order, worst, bound), any_end


def _check_shape(term: Diversity, penalty: object, tokens: Tensor) -> None:
    if not isinstance(penalty, Tensor) or penalty.shape != tokens.shape or penalty.is_complex():
        got = list(penalty.shape) if isinstance(penalty, Tensor) else type(penalty).__name__
        raise TermError(
            f"{type(term).__name__}.penalty returned {got} for candidates of shape {list(tokens.shape)}: "
            "it must return one penalty for each candidate"
        )


def _check_values(penalty: GroupPenalty, cost: Tensor, penalties: Callable[[], Tensor]) -> None:
    """Raise unless all costs are finite and 0 or more.

    Costs are strengths times penalties, so one look at the costs is a look at the penalties.
    """
    least, most = torch.aminmax(cost)  # NaN if there is one
    if float(least) >= 0 and float(most) < torch.inf:
        return
    if bool(((of_term := penalties()) >= 0).all()) and bool((of_term < torch.inf).all()):
        strength, largest = float(penalty.strengths.max()), float(of_term.max())
        raise ArgumentError(
            f"strength={strength:g} times a penalty of {largest:g} is more than "
            f"{str(cost.dtype).removeprefix('torch.')} holds: give a smaller strength"
        )
    values = cost[~((cost >= 0) & (cost < torch.inf))].tolist()
    value = next((c for c in values if c == c), values[0])  # NaN last: the first group's is 0 times infinity
    raise TermError(
        f"{type(penalty.term).__name__}.penalty times its strength is {value:g}: "
        "a penalty must be finite and 0 or more (to reward, penalise the rest)"
    )
