"""One step of some groups: from candidate lists to survivors.

Groups depend on each other: each pays for saying what the groups before it say at this same step. The
plain way is one group after another. Here all groups pick at once, as if the others stood still, and
pick again until nobody changes their mind. Group g cannot change after round g+1, since it depends on
earlier groups alone, so this ends, and what it ends in is what one after another would have given. It
takes a handful of rounds where the plain way takes as many as there are groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.beams import Beams, append, below, take
from beamsplit.candidates import Candidates
from beamsplit.diversity import Diversity, Earlier
from beamsplit.errors import TermError
from beamsplit.strategies.plan import Ranked, Rule

__all__ = ["Interplay", "Picks", "settle"]


@dataclass(frozen=True, slots=True)
class Picks:
    """What groups have picked, best first, or one for each beam if they sample. [batch group pick]"""

    parent: Tensor  # beam that is extended
    token: Tensor
    log_prob: Tensor  # of the whole prefix
    score: Tensor  # of the whole prefix; -inf: no pick at all
    cost: Tensor  # what this token's penalty took off the score
    order: Tensor  # what they were picked by

    def first(self, count: int) -> Picks:
        """The best `count`."""
        if count >= self.token.shape[2]:
            return self
        return Picks(*(values[..., :count] for values in self._columns))

    def take(self, places: Tensor) -> Picks:
        """Those at these places [batch group n]."""
        return Picks(*(values.gather(2, places) for values in self._columns))

    @property
    def _columns(self) -> tuple[Tensor, ...]:
        return self.parent, self.token, self.log_prob, self.score, self.cost, self.order


@dataclass(frozen=True, slots=True)
class Interplay:
    """How groups that step together pay for what others say."""

    term: Diversity
    strengths: Tensor  # [group 1 1]
    follows: Tensor  # [1 group group 1]: does the second not come before the first?
    nothing: Tensor  # -1
    found: Tensor  # [batch group place length] what these groups have found in earlier steps
    outside: Earlier | None  # what a group that steps alone has to heed; n is batch

    def cost(
        self, beams: Beams, lists: Candidates, asked: tuple[Tensor, Tensor], said: _Choice | None
    ) -> Tensor | None:
        """[batch group beam k] for every candidate, when the groups among themselves say `said`.

        `asked` are the candidates and the beams' prefixes, as a term sees them.
        """
        if said is None and self.outside is None:
            return None
        tokens, prefix = asked
        penalty = self.term.penalty(tokens, prefix, self._earlier(beams, said))
        _check_shape(self.term, penalty, tokens)
        # Round once, and only then multiply: so it comes out the same for lists of any length.
        if penalty.is_floating_point():
            penalty = penalty.to(lists.gain.dtype)
        return self.strengths * penalty.view(lists.tokens.shape)

    def least(self, beams: Beams, prefix: Tensor, said: _Choice | None, dtype: torch.dtype) -> Tensor | None:
        """[batch group beam] what any candidate costs at least, listed or not, if the term can tell."""
        least = getattr(self.term, "least", None)
        if least is None or (said is None and self.outside is None):
            return None
        floor: Tensor = least(prefix, self._earlier(beams, said))
        # Rounded and multiplied as penalties are, which never puts the smaller above the larger.
        return self.strengths.squeeze(2) * floor.to(dtype).view(beams.score.shape)

    def _earlier(self, beams: Beams, said: _Choice | None) -> Earlier:
        if self.outside is not None:
            return self.outside
        assert said is not None
        ours = Earlier(
            self._seen(said.tokens),
            lambda: self._seen(said.spell(beams)),
            lambda: below(ours.beams, self._seen(self.found)),
        )
        return ours

    def _seen(self, held: Tensor) -> Tensor:
        """What each group may see of the others: [batch group x ...] -> [batch*group group*x ...]."""
        follows = self.follows if held.dim() == 3 else self.follows.unsqueeze(-1)
        seen = torch.where(follows, self.nothing, held.unsqueeze(1))  # [batch group group x ...]
        batch, groups, _, x = seen.shape[:4]
        return seen.view(batch * groups, groups * x, *seen.shape[4:])


@dataclass(frozen=True, slots=True)
class _Choice:
    """The best picks of each group in one round, as many as beams. [batch group beam]"""

    places: Tensor  # in the flattened lists
    tokens: Tensor  # -1 where there was nothing to pick
    width: int  # of the lists

    def spell(self, beams: Beams) -> Tensor:
        """The picks in full, -1 throughout where there was nothing: [batch group beam time+1]."""
        spelled = append(take(beams.tokens, self.places // self.width), self.tokens)
        return spelled.masked_fill((self.tokens < 0).unsqueeze(-1), -1)


def settle(
    rule: Rule, beams: Beams, lists: Candidates, count: int, interplay: Interplay | None
) -> tuple[Picks, Tensor]:
    """`count` picks for each group, each group having taken the groups before it into account.

    Second comes the bound [batch group beam] on the order of what was not listed.
    """
    ranked = rule.rank(beams.score, beams.log_prob, lists)
    cost = least = None
    if interplay is not None:
        cost, least = _settled_cost(rule, beams, lists, ranked.order, interplay)
    order = ranked.order if cost is None else ranked.order - cost
    bound = ranked.bound if least is None else ranked.bound - least
    places = rule.pick(order, count)
    return _picks(beams, lists, ranked, order, places, cost), bound


def _settled_cost(
    rule: Rule, beams: Beams, lists: Candidates, free: Tensor, interplay: Interplay
) -> tuple[Tensor | None, Tensor | None]:
    """What candidates cost when every group says what it says in view of these very costs.

    Second comes what any candidate costs at least, if that is known. `free` [batch group beam k] is what
    picks are ordered by where nothing costs anything.
    """
    groups, width = beams.score.shape[1:]
    listed = lists.tokens.flatten(2)
    all_real = bool(free.amin() > -torch.inf)  # not so if there is a NaN
    asked = lists.tokens.flatten(0, 1), beams.tokens.flatten(0, 1)
    cost = interplay.cost(beams, lists, asked, None)
    said: _Choice | None = None
    for _ in range(groups - 1):
        order = free if cost is None else free - cost
        places = rule.pick(order, width)
        if said is not None and torch.equal(said.places, places):
            break
        tokens = listed.gather(2, places)
        if not all_real:
            tokens = tokens.masked_fill(order.flatten(2).gather(2, places) == -torch.inf, -1)
        said = _Choice(places, tokens, lists.tokens.shape[-1])
        cost = interplay.cost(beams, lists, asked, said)
    if cost is not None:
        _check_values(interplay.term, cost)
    return cost, interplay.least(beams, asked[1], said, lists.gain.dtype)


def _picks(
    beams: Beams, lists: Candidates, ranked: Ranked, order: Tensor, places: Tensor, cost: Tensor | None
) -> Picks:
    parent = places // lists.tokens.shape[-1]
    picked = score = order.flatten(2).gather(2, places)
    paid = torch.zeros_like(picked) if cost is None else cost.flatten(2).gather(2, places)
    if ranked.score is not ranked.order:
        # What cannot be picked has no score, whatever the rule made of it.
        score = ranked.score.flatten(2).gather(2, places) - paid
        score = score.masked_fill(picked == -torch.inf, -torch.inf)
    return Picks(
        parent=parent,
        token=lists.tokens.flatten(2).gather(2, places),
        log_prob=beams.log_prob.gather(2, parent) + lists.log_prob.flatten(2).gather(2, places),
        score=score,
        cost=paid,
        order=picked,
    )


def _check_shape(term: Diversity, penalty: object, tokens: Tensor) -> None:
    if not isinstance(penalty, Tensor) or penalty.shape != tokens.shape or penalty.is_complex():
        got = list(penalty.shape) if isinstance(penalty, Tensor) else type(penalty).__name__
        raise TermError(
            f"{type(term).__name__}.penalty returned {got} for candidates of shape {list(tokens.shape)}: "
            "it must return one penalty for each candidate"
        )


def _check_values(term: Diversity, cost: Tensor) -> None:
    """Costs are strengths times penalties, so one look at the costs is a look at the penalties."""
    least, most = torch.aminmax(cost)  # NaN if there is one
    if float(least) >= 0 and float(most) < torch.inf:
        return
    bad = cost[~((cost >= 0) & (cost < torch.inf))].tolist()
    value = next((c for c in bad if c == c), bad[0])  # NaN last: the first group's is 0 times infinity
    raise TermError(
        f"{type(term).__name__}.penalty times its strength is {value:g}: "
        "a penalty must be finite and 0 or more (to reward, penalise the rest)"
    )
