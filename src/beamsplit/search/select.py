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
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError, TermError
from beamsplit.model import Shortlist
from beamsplit.search.plan import CodedRule, Ranked, Rule
from beamsplit.search.pricing import Choice, GroupPenalty
from beamsplit.search.state import Beams, take

__all__ = ["Picks", "Selection", "Settled", "settle", "settle_with_floors", "split_ends"]


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
    chunks: Tensor | None = field(default=None, repr=False)
    """[batch group pick length] all tokens that a pick adds, -1 after them; None: its `token` alone."""

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


def settle(
    rule: Rule, beams: Beams, lists: Shortlist, count: int, penalty: GroupPenalty | None
) -> tuple[Picks, Tensor]:
    """Return `count` picks for each group, each group having taken the groups before it into account.

    Second comes the bound [batch group beam] on the order of what was not listed.
    """
    settled = settle_with_floors(rule, beams, lists, count, penalty)
    return settled.picks, settled.bound


class Settled(NamedTuple):
    """What groups pick, each having taken the groups before it into account."""

    picks: Picks
    bound: Tensor  # [batch group beam] on the order of what was not listed
    floors: Callable[[], Tensor | None]
    """Returns what each token costs at least [batch group vocab] in view of the picks; None if not known."""


def settle_with_floors(
    rule: Rule, beams: Beams, lists: Shortlist, count: int, penalty: GroupPenalty | None
) -> Settled:
    """Do what `settle` does, and keep what it takes to say what tokens cost that are not listed."""
    ranked = rule.rank(beams.score, beams.log_prob, lists, beams.tokens.shape[-1])
    cost, least = None, None
    floors: Callable[[], Tensor | None] = _unknown
    if penalty is not None:
        cost, least, floors = _settled_cost(rule, beams, lists, ranked.order, penalty)
    order = ranked.order if cost is None else ranked.order - cost
    bound = ranked.bound if least is None else ranked.bound - least
    if beams.code is None:
        return Settled(_picks(beams, lists, ranked, order, rule.pick(order, count), cost), bound, floors)
    assert isinstance(rule, CodedRule)
    slots, code = rule.draw(order)
    return Settled(replace(_picks(beams, lists, ranked, order, slots, cost), code=code), bound, floors)


def _unknown() -> None:
    return None


def _settled_cost(
    rule: Rule, beams: Beams, lists: Shortlist, free: Tensor, penalty: GroupPenalty
) -> tuple[Tensor | None, Tensor | None, Callable[[], Tensor | None]]:
    """Return what candidates cost when every group picks what it picks in view of these very costs.

    Second comes what any candidate costs at least, if that is known; third, a function that returns the same
    for each token by itself. `free` [batch group beam k] is what
    picks are ordered by where nothing costs anything.
    """
    groups, beam_count = beams.score.shape[1:]
    listed, width = lists.tokens.flatten(2), lists.tokens.shape[-1]
    all_real = bool(free.amin() > -torch.inf)  # not so if there is a NaN
    prices, picked = penalty.prices(beams, lists), None
    paid = prices.settled()
    cost = None if paid is None else penalty.weigh(paid, lists)
    for _ in range(groups - 1):
        order = free if cost is None else free - cost
        slots = rule.pick(order, beam_count)
        if picked is not None and torch.equal(picked.slots, slots):
            break
        tokens = listed.gather(2, slots)
        if not all_real:
            tokens = tokens.masked_fill(order.flatten(2).gather(2, slots) == -torch.inf, -1)
        picked = Choice(slots, tokens, width, all_real)
        paid = prices.of(picked)
        cost = penalty.weigh(paid, lists)
    if cost is not None and paid is not None:
        _check_values(penalty, cost, paid)
    least = prices.least(picked)

    def floors() -> Tensor | None:
        found = prices.floors(picked)
        return None if found is None else penalty.weigh_floors(found)

    return cost, None if least is None else penalty.weigh_least(least, beams, lists.gain.dtype), floors


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


def _check_values(penalty: GroupPenalty, cost: Tensor, paid: Tensor) -> None:
    """Raise unless all costs are finite and 0 or more.

    Costs are strengths times penalties, so one look at the costs is a look at the penalties.
    """
    least, most = torch.stack(torch.aminmax(cost)).tolist()  # NaN if there is one
    if least >= 0 and most < torch.inf:
        return
    if bool((paid >= 0).all()) and bool((paid < torch.inf).all()):
        strength, largest = float(penalty.strengths.max()), float(paid.max())
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
