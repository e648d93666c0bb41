"""What candidates cost in view of what other groups pick: the diversity term at work in one step.

There are two ways to the same numbers. Any term can be asked for whole penalties, again for every round of
picks. A term whose penalties add up over earlier beams may say what any candidate pays for any other, once a
step; a round then adds up what it pays for those that were picked.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.diversity import Diversity, Earlier, Pairs
from beamsplit.diversity.term import TotalPairs, companion
from beamsplit.errors import TermError
from beamsplit.model import Shortlist
from beamsplit.search.state import Beams, append, stack_sequences, take

__all__ = ["Choice", "GroupPenalty", "Prices"]

_AT_ONCE = 2**24  # numbers that are held at once
_SHORT_OF_ONE = 1 - 2.0**-20  # so that no rounding puts what is times this above what is not


@dataclass(frozen=True, slots=True)
class Choice:
    """The best picks of each group in one round, as many as beams. [batch group beam]"""

    slots: Tensor  # in the flattened lists
    tokens: Tensor  # -1 where there was nothing to pick
    width: int  # of the lists
    all_real: bool  # there was something to pick everywhere

    def spell(self, beams: Beams) -> Tensor:
        """Return the picks in full, -1 throughout where there was nothing: [batch group beam time+1]."""
        spelled = append(take(beams.tokens, self.slots // self.width), self.tokens)
        return spelled.masked_fill((self.tokens < 0).unsqueeze(-1), -1)


class Prices(Protocol):
    """The penalties of one step, before any strength."""

    def settled(self) -> Tensor | None:
        """Return what candidates pay whatever these groups pick [n beam k]; None: nothing."""
        ...

    def of(self, picked: Choice) -> Tensor:
        """Return what candidates pay when groups pick these: [n beam k], or of that size."""
        ...

    def least(self, picked: Choice | None) -> Tensor | None:
        """Return what any token pays at least, listed or not [n beam]; None if that is not known."""
        ...

    def floors(self, picked: Choice | None) -> Tensor | None:
        """Return what each token of the vocabulary pays at least [batch group vocab]; None if not known."""
        ...


@dataclass(frozen=True, slots=True)
class GroupPenalty:
    """The penalties of groups that step together, for repeating each other."""

    term: Diversity
    strengths: Tensor  # [group 1 1]
    not_earlier: Tensor  # [1 group group 1]: does the second not come before the first?
    finished: Tensor  # [batch group slot length] what these groups have finished in earlier steps
    outside: Earlier | None  # what groups before all of these hold; n is batch

    def prices(self, beams: Beams, lists: Shortlist) -> Prices:
        """Return the penalties of a step, by the quicker of the two ways."""
        pairs = self.pairs(beams, lists)
        return _Asked(self, beams, lists) if pairs is None else _AddedUp(self, beams, lists, pairs)

    def pairs(self, beams: Beams, lists: Shortlist) -> Pairs | None:
        """Return what candidates pay for each other, where the term can tell and groups pay each other."""
        made = companion(self.term, "pairs", "penalty")
        if made is None or beams.score.shape[1] == 1:
            return None
        pairs: Pairs | None = made(lists.tokens.flatten(1, 2), beams.tokens.flatten(1, 2))
        return pairs

    def settled(self, beams: Beams, lists: Shortlist, pairs: Pairs) -> Tensor | None:
        """Return what candidates pay [n beam k] whatever these groups pick; None: nothing."""
        earlier = self.outside_of_each()
        if pairs.counts_finished and self.finished.shape[-1]:
            batch, groups, _, time = beams.tokens.shape
            none = beams.tokens.new_empty(batch * groups, 0, time + 1)
            finished = Earlier(none[..., 0], lambda: none, lambda: self._seen(self.finished))
            earlier = finished if earlier is None else _beside(earlier, finished)
        if earlier is None:
            return None
        return self.ask(lists.tokens.flatten(0, 1), beams.tokens.flatten(0, 1), earlier)

    def ask(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        """Return the term's own penalties [n beam k]."""
        penalty = self.term.penalty(tokens, prefix, earlier)
        _check_shape(self.term, penalty, tokens)
        return penalty

    def ask_least(self, prefix: Tensor, earlier: Earlier | None) -> Tensor | None:
        """Return the least that any token pays [n beam], listed or not, if the term can tell."""
        least = getattr(self.term, "least", None)
        if least is None or earlier is None:
            return None
        found: Tensor = least(prefix, earlier)
        return found

    def weigh(self, penalty: Tensor, lists: Shortlist) -> Tensor:
        """Return the costs [batch group beam k] of these penalties."""
        # Round once, and only then multiply: so it comes out the same for lists of any length.
        if penalty.is_floating_point():
            penalty = penalty.to(lists.gain.dtype)
        return self.strengths * penalty.view(lists.tokens.shape)

    def weigh_least(self, least: Tensor, beams: Beams, dtype: torch.dtype) -> Tensor:
        """Return the least costs [batch group beam] of these least penalties."""
        # Rounded and multiplied as penalties are, which never puts the smaller above the larger.
        return self.strengths.squeeze(2) * least.to(dtype).view(beams.score.shape)

    def weigh_floors(self, floors: Tensor) -> Tensor:
        """Return the least costs [batch group vocab] of these least penalties."""
        return floors.mul_(self.strengths.view(1, -1, 1) * _SHORT_OF_ONE)

    def outside_of_each(self) -> Earlier | None:
        """Return what groups before all of these hold, as each of these sees it: n is batch*group."""
        return None if self.outside is None else _for_each(self.outside, self.strengths.shape[0])

    def earlier(self, beams: Beams, picked: Choice) -> Earlier:
        """Return what each group is to keep away from: n is batch*group."""
        outside = self.outside_of_each()
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


class _Asked:
    """Penalties for which the term is asked in every round."""

    def __init__(self, penalty: GroupPenalty, beams: Beams, lists: Shortlist) -> None:
        self._penalty, self._beams = penalty, beams
        self._tokens, self._prefix = lists.tokens.flatten(0, 1), beams.tokens.flatten(0, 1)

    def settled(self) -> Tensor | None:
        earlier = self._penalty.outside_of_each()
        return None if earlier is None else self._penalty.ask(self._tokens, self._prefix, earlier)

    def of(self, picked: Choice) -> Tensor:
        earlier = self._penalty.earlier(self._beams, picked)
        return self._penalty.ask(self._tokens, self._prefix, earlier)

    def least(self, picked: Choice | None) -> Tensor | None:
        if picked is None:
            return self._penalty.ask_least(self._prefix, self._penalty.outside_of_each())
        return self._penalty.ask_least(self._prefix, self._penalty.earlier(self._beams, picked))

    def floors(self, picked: Choice | None) -> None:
        return None


class _AddedUp:
    """Penalties that are added up over the picks of earlier groups."""

    def __init__(self, penalty: GroupPenalty, beams: Beams, lists: Shortlist, pairs: Pairs) -> None:
        self._penalty, self._beams, self._lists, self._pairs = penalty, beams, lists, pairs
        self._settled = penalty.settled(beams, lists, pairs)
        _, groups, per_group, width = lists.tokens.shape
        size = per_group * width
        # [group 1] the slot in the lists of an input where those of a group begin
        self._starts = torch.arange(0, groups * size, size, device=lists.tokens.device).unsqueeze(1)
        # [1 e group 1] is the pick that of a group no earlier than this one?
        self._hidden = penalty.not_earlier.transpose(1, 2).repeat_interleave(per_group, 1)

    def settled(self) -> Tensor | None:
        return self._settled

    def of(self, picked: Choice) -> Tensor:
        slots, hidden = self._ungrouped(picked)
        if isinstance(self._pairs, TotalPairs):
            return self._with_settled(self._pairs.totals(slots, _seen(slots, hidden)))
        some = max(1, _AT_ONCE // self._lists.tokens.numel())
        parts = zip(torch.split(slots, some, 1), torch.split(hidden, some, 1), strict=True)
        paid = [self._sum(self._pairs.of(these), hides) for these, hides in parts]
        return self._with_settled(functools.reduce(operator.add, paid))

    def least(self, picked: Choice | None) -> Tensor | None:
        outside = self._penalty.ask_least(self._beams.tokens.flatten(0, 1), self._penalty.outside_of_each())
        if picked is None:
            return outside
        slots, hidden = self._ungrouped(picked)
        least = self._pairs.least(slots)
        if least is None:
            return outside
        total = self._sum(least, hidden)
        return total if outside is None else outside.view(total.shape) + total

    def floors(self, picked: Choice | None) -> Tensor | None:
        if picked is None or not isinstance(self._pairs, TotalPairs):
            return None
        slots, hidden = self._ungrouped(picked)
        return self._pairs.floors(slots, _seen(slots, hidden))

    def _with_settled(self, total: Tensor) -> Tensor:
        return total if self._settled is None else self._settled.view(total.shape) + total

    def _ungrouped(self, picked: Choice) -> tuple[Tensor, Tensor]:
        """Return the slots [batch e] of the picks among those of an input, and from whom they are hidden."""
        slots, hidden = (picked.slots + self._starts).flatten(1), self._hidden
        if not picked.all_real:
            hidden = hidden | (picked.tokens < 0).flatten(1)[..., None, None]
        return slots, hidden

    def _sum(self, paid: Tensor, hidden: Tensor) -> Tensor:
        """Add up what is paid [batch e beam ...] to those from whom it is not hidden: [batch group rest]."""
        by_group = paid.reshape(*paid.shape[:2], hidden.shape[2], -1)
        return by_group.masked_fill(hidden, 0).sum(1)


def _seen(slots: Tensor, hidden: Tensor) -> Tensor:
    """Return whether a group sees a pick [batch e group], of what is hidden from it [1|batch e group 1]."""
    return ~hidden.squeeze(3).expand(*slots.shape, -1)


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


def _check_shape(term: Diversity, penalty: object, tokens: Tensor) -> None:
    if not isinstance(penalty, Tensor) or penalty.shape != tokens.shape or penalty.is_complex():
        got = list(penalty.shape) if isinstance(penalty, Tensor) else type(penalty).__name__
        raise TermError(
            f"{type(term).__name__}.penalty returned {got} for candidates of shape {list(tokens.shape)}: "
            "it must return one penalty for each candidate"
        )
