"""The whole vocabulary in one step, each token by the most that it can score in view of what groups pick.

Where tokens cost much, and all of them something, those that can be picked are not the likeliest ones: lists
of the likeliest would have to be long before they are certain. A term may know what each token costs at least
(`TotalPairs.floors`). Then lists are made of the tokens that may score best, and the best of the others tells
whether they are certain.
"""

from __future__ import annotations

import torch
from torch import Tensor

from beamsplit.model import Shortlist
from beamsplit.search.rows import Rows
from beamsplit.search.shortlist import Scores, top_tokens
from beamsplit.search.state import Beams

__all__ = ["LONG", "Priced"]

_FEW = 16  # candidates of a beam that are listed in any case
LONG = 64  # candidates that a list has at least; most are left out, so that this costs little


class Priced:
    """The most that each extension of each beam can score."""

    def __init__(
        self, scores: Scores, beams: Beams, rows: Rows, floors: Tensor, *, picked: Tensor, worst: Tensor
    ) -> None:
        """`floors` [batch group vocab] are what tokens cost at least in view of what is `picked`.

        That is a token for each beam [batch group beam]; `worst` [batch group] is the score of the last pick.
        """
        self._scores, self._rows, self._picked, self._worst = scores, rows.index, picked, worst
        gain = scores.gain[rows.index.flatten()].view(*rows.index.shape, -1)
        # In the order in which the search adds up: so rounding puts none of these below a score.
        self._most = gain.add_(beams.score.unsqueeze(3)).sub_(floors.unsqueeze(2))  # [batch group beam vocab]

    def bound(self, listed: Tensor) -> Tensor:
        """Return the most that a token can score which is not listed: [batch group beam]."""
        some = listed.amax(3, keepdim=True)  # stands in for empty places
        places = torch.where(listed < 0, some, listed).clamp(min=0)
        kept = self._most.gather(3, places)
        bound = self._most.scatter_(3, places, -torch.inf).amax(3)
        self._most.scatter_(3, places, kept)
        return bound

    def may_tell_more(self, before: Priced | None) -> bool:
        """Whether lists of the same length may be certain, if they are made of what scores best now.

        `before` is what the last lists were made by.
        """
        return before is None or not torch.equal(self._picked, before._picked)

    def shortlist(self, width: int) -> Shortlist:
        """Return the tokens that may score best, as many for each beam. Of the others no gain is known.

        Beyond the first few, those are left out that cannot come up to the worst pick.
        """
        flat = self._most.flatten(0, 2)
        tokens = top_tokens(flat, width)
        if width > _FEW:
            most = flat.gather(1, tokens)
            enough = torch.minimum(most.topk(_FEW, sorted=True).values[:, -1:], self._spread(self._worst))
            tokens = tokens.masked_fill(most < enough, -1)
        tokens = tokens.sort(dim=1).values.view(*self._rows.shape, width)
        at, empty = (self._rows.unsqueeze(3), tokens.clamp(min=0)), tokens < 0
        log_prob = self._scores.log_prob[at].masked_fill(empty, -torch.inf)
        gain = log_prob
        if self._scores.gain is not self._scores.log_prob:
            gain = self._scores.gain[at].masked_fill(empty, -torch.inf)
        # Not infinite, which with the score of a dead beam would be no number.
        unknown = torch.finfo(log_prob.dtype).max
        return Shortlist(tokens, log_prob, torch.full_like(log_prob[..., 0], unknown), gain, gain)

    def _spread(self, of_groups: Tensor) -> Tensor:
        """Give each row what its group has: [batch group] -> [rows 1]."""
        return of_groups.unsqueeze(2).expand_as(self._rows).reshape(-1, 1)
