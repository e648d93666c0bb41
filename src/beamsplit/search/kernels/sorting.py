"""One step of beam search in groups by sorting, with nothing that a captured graph cannot hold.

It asks the device for no value, and every size comes from a shape. It is the twin of `choose`, and takes its
place where there is no kernel, where groups are too wide for one program, or where sorting is quicker.

Of equals, the lower slot comes first: lists are sorted by token, so that is the lower beam and then the lower
token. `topk` promises no order of equals on a GPU, so this is a stable sort.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from beamsplit.model import Shortlist
from beamsplit.search.kernels import ENDS, GAPS, MOVES, UNCERTAIN, Outcome

__all__ = ["MOST_GROUPS", "sort_into"]

MOST_GROUPS = 64
"""That pay for each other: they pick one after another, in some ten operations each."""


class _Ranked(NamedTuple):
    """The best slots of each group, best first. [batch group count]"""

    order: Tensor  # what they are ranked by; -inf: nothing
    slots: Tensor  # in the flattened lists
    cost: Tensor  # what the penalty took off


def sort_into(
    outcome: Outcome,
    score: Tensor,
    log_prob: Tensor,
    lists: Shortlist,
    strengths: Tensor | None,
    is_end: Tensor,
) -> None:
    """Let groups pick, whose beams have this score and log_prob [batch group beam], without waiting.

    `strengths` [group 1 1] are those of the Hamming term; without them nobody pays.
    """
    per_group, width = lists.tokens.shape[2:]
    keep = outcome.live.shape[3]
    tokens, bound = lists.tokens.flatten(2), (score + lists.rest).amax(2)
    best = _ranked(score, lists, strengths, outcome.picked.shape[3])
    parent, token = best.slots // width, tokens.gather(2, best.slots)
    total = log_prob.gather(2, parent) + lists.log_prob.flatten(2).gather(2, best.slots)
    ended = is_end[token]
    outcome.picked.copy_(torch.stack([parent, token, ended.long()]))
    outcome.picked_scores.copy_(torch.stack([total, best.order, best.cost]))
    # Those that do not end, in their order, and behind them those that do, which leave a gap.
    place = ended.to(torch.uint8).argsort(dim=2, stable=True)[..., :keep]
    gap = ended.gather(2, place)
    live, live_scores = (
        values.gather(3, place.expand(len(values), *place.shape))
        for values in (outcome.picked[:2], outcome.picked_scores)
    )
    live_scores[1].masked_fill_(gap, -torch.inf)
    outcome.live.copy_(live)
    outcome.live_scores.copy_(live_scores)
    gap = live_scores[1] == -torch.inf
    # The last pick that matters is the last to go on, or the last of all if too few do.
    worst = torch.maximum(live_scores[1, ..., -1], best.order[..., -1])
    secure = (worst > bound) | (bound == -torch.inf)
    moves = torch.ones_like(gap)
    if keep == per_group:
        moves = ~gap & (live[0] != torch.arange(keep, device=live.device))
    ends = (ended & (best.order > -torch.inf))[..., :keep]
    found = _bit(~secure, UNCERTAIN) + _bit(ends, ENDS) + _bit(gap, GAPS) + _bit(moves, MOVES)
    outcome.flags.copy_(found)


def _bit(told: Tensor, bit: int) -> Tensor:
    """Return the bit for each input of which this is so somewhere: [batch ...] -> [batch]."""
    return told.flatten(1).any(1).to(torch.int32) * bit


def _ranked(score: Tensor, lists: Shortlist, strengths: Tensor | None, count: int) -> _Ranked:
    order, per_group = (score.unsqueeze(3) + lists.gain).flatten(2), score.shape[2]
    tokens = lists.tokens.flatten(2)
    listed = tokens.shape[2]
    if listed < count:  # then there is nothing behind what is listed
        order = pad(order, (0, count - listed), value=-torch.inf)
        tokens = pad(tokens, (0, count - listed), value=-1)
    if strengths is None or score.shape[1] == 1:
        values, slots = _first(order, count)
        best = _Ranked(values, slots, torch.zeros_like(values))
    else:
        best = _one_after_another(order, tokens, strengths, per_group, count)
    return best._replace(slots=best.slots.clamp(max=listed - 1))


def _first(order: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest values along the last axis, and their slots."""
    values, slots = order.sort(dim=-1, descending=True, stable=True)
    return values[..., :count], slots[..., :count]


def _one_after_another(
    order: Tensor, tokens: Tensor, strengths: Tensor, per_group: int, count: int
) -> _Ranked:
    """Let each group pay for the tokens that the best picks of the groups before it have."""
    said = tokens[:, 0, :0]  # [batch picks]
    found = []
    for group, own in enumerate(tokens.unbind(1)):
        times = (own.unsqueeze(2) == said.unsqueeze(1)).sum(2).to(order.dtype)
        cost = strengths[group, 0] * times
        values, slots = _first(order[:, group] - cost, count)
        found.append(_Ranked(values, slots, cost.gather(1, slots)))
        words = own.gather(1, slots[:, :per_group])
        # What is no pick says nothing: -2, since -1 stands for no candidate.
        words = words.masked_fill(values[:, :per_group] == -torch.inf, -2)
        said = torch.cat([said, words], 1)
    return _Ranked(*(torch.stack(parts, 1) for parts in zip(*found, strict=True)))
