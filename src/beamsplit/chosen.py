"""What one step has decided for some groups: the picks, which of them end, and which go on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from beamsplit.selection import Picks
from beamsplit.strategies.plan import Rule

__all__ = ["Chosen"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The picks of some groups, and what is to become of them."""

    picks: Picks
    ends: Tensor  # [batch group pick]
    any_end: bool  # among the best
    live: Picks  # those to go on, best first; a score of -inf where there are too few
    width: int
    secure: bool  # nothing unlisted could have been picked
    full: bool = False  # every beam is known to live on
    in_place: bool = False  # every beam is known to be extended where it stands

    @classmethod
    def of(cls, rule: Rule, picks: Picks, bound: Tensor, ends: Tensor, keep: int, width: int) -> Chosen:
        if not bool(ends[..., :keep].any()):
            live = picks.first(keep)
            secure = rule.secure(picks.order, live.order[..., -1], bound)
            return cls(picks, ends, False, live, width, secure)
        places = ends.to(torch.uint8).argsort(dim=2, stable=True)[..., :keep]
        live, dead = picks.take(places), ends.gather(2, places)
        live = replace(
            live,
            score=live.score.masked_fill(dead, -torch.inf),
            order=live.order.masked_fill(dead, -torch.inf),
        )
        # The last pick that matters is the last to go on, or the last of all if too few do.
        worst = torch.maximum(live.order[..., -1], picks.order[..., -1])
        return cls(picks, ends, True, live, width, rule.secure(picks.order, worst, bound))
