"""GPU kernels, and the one door to them.

Each kernel has a twin in plain torch, which takes over where there is no GPU, no Triton, or a case that the
kernel does not know. Only this module decides. Modules of kernels are imported when first used, since not
everyone has Triton.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import operator
import os
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.diversity import Hamming
from beamsplit.model import FixedStep, Guided, LogProbs, Shortlist
from beamsplit.search.plan import Rule
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Picks, Selection
from beamsplit.search.shortlist import Reader, VocabularyReader
from beamsplit.search.state import Beams

__all__ = [
    "ENDS",
    "GAPS",
    "MOVES",
    "UNCERTAIN",
    "Chosen",
    "Costs",
    "Outcome",
    "Standing",
    "available",
    "can_pick_into",
    "go_on",
    "on_device_of",
    "pick_by_kernel",
    "pick_into",
    "power_of_two",
    "reader",
]


UNCERTAIN, ENDS, GAPS, MOVES = 1, 2, 4, 8  # bits of what a search has to know of a step
_MOST_PAIRS = 1 << 24  # of candidates that pay each other, of all inputs


class Costs(NamedTuple):
    """What candidates pay for each other. Without a table it is how often they are picked (Hamming)."""

    strengths: Tensor  # [group 1 1] which weigh it
    table: Tensor | None = None  # [batch c c] in float64, what the second candidate pays for the first
    settled: Tensor | None = None  # in float64, what each candidate pays whatever is picked; None: nothing
    least: Tensor | None = None  # [batch c group*beam] in float64, what any token pays for a candidate


class Chosen(NamedTuple):
    """What a kernel has decided in one step; the fields are those of `Selection`."""

    picks: Picks
    ended: Tensor
    survivors: Picks
    any_end: bool
    doubt: Tensor | None
    full: bool
    in_place: bool


class Standing(NamedTuple):
    """Where the beams of a search stand [batch group beam] that runs on a GPU by itself."""

    score: Tensor  # -inf where a group is done
    recorded: Tensor  # the same, for whoever follows
    log_prob: Tensor


class Outcome(NamedTuple):
    """The tensors that the kernel fills: few and large, since a small one costs as much as a small kernel."""

    picked: Tensor  # [3 batch group count] parent, token, whether it ends
    picked_scores: Tensor  # [3 batch group count] log_prob, score, cost
    live: Tensor  # [2 batch group keep] parent, token
    live_scores: Tensor  # [3 batch group keep] as above
    flags: Tensor  # [batch] int32

    @classmethod
    def like(cls, score: Tensor, index: Tensor, count: int, keep: int) -> Outcome:
        """Return tensors for beams with these scores [batch group beam]."""
        batch, groups, _ = score.shape
        return cls(
            index.new_empty(3, batch, groups, count),
            score.new_empty(3, batch, groups, count),
            index.new_empty(2, batch, groups, keep),
            score.new_empty(3, batch, groups, keep),
            torch.empty(batch, dtype=torch.int32, device=score.device),
        )

    @property
    def selection(self) -> Selection:
        """What was decided, as far as it is known without waiting for the kernel."""
        parent, token, ends = self.picked.unbind()
        live_parent, live_token = self.live.unbind()
        return Selection(
            range(parent.shape[1]),
            0,
            _picks(parent, token, self.picked_scores),
            ends.bool(),
            _picks(live_parent, live_token, self.live_scores),
            width=0,
            any_end=True,
        )

    @property
    def is_uncertain(self) -> bool:
        """Whether some group might have picked what was not listed. This waits for the kernel."""
        return bool(self._found & UNCERTAIN)

    @property
    def _found(self) -> int:
        """What there is to know of some input or other. This waits for the kernel."""
        of_inputs: list[int] = self.flags.tolist()
        return functools.reduce(operator.or_, of_inputs)

    def read(self) -> Chosen:
        """Return what was decided. This waits for the kernel."""
        found = self._found
        parent, token, ends = self.picked.unbind()
        live_parent, live_token = self.live.unbind()
        doubt = None
        if found & UNCERTAIN:
            doubt = torch.ones(parent.shape[:2], dtype=torch.bool, device=parent.device)
        return Chosen(
            _picks(parent, token, self.picked_scores),
            ends.bool(),
            survivors=_picks(live_parent, live_token, self.live_scores),
            any_end=bool(found & ENDS),
            doubt=doubt,
            full=not found & GAPS,
            in_place=not found & MOVES,
        )


def _picks(parent: Tensor, token: Tensor, scores: Tensor) -> Picks:
    log_prob, score, cost = scores.unbind()
    return Picks(parent=parent, token=token, log_prob=log_prob, score=score, cost=cost, order=score)


def available(tensor: Tensor) -> bool:
    """Tell whether Triton can work on this tensor: on a GPU, or anywhere while its interpreter is on.

    The environment variable BEAMSPLIT_KERNELS=0 says not to.
    """
    on_gpu = tensor.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    return on_gpu and os.environ.get("BEAMSPLIT_KERNELS") != "0" and _has_triton()


def reader(answer: Tensor | Guided | LogProbs, allowed: bool) -> Reader:
    """Return what makes candidate lists of logits: a kernel if one is allowed and knows such logits."""
    if allowed and isinstance(answer, Tensor):
        from beamsplit.search.kernels import shortlist

        if shortlist.knows(answer):
            return shortlist.KernelReader(answer)
    return VocabularyReader(answer)


def pick_by_kernel(
    rule: Rule,
    beams: Beams,
    lists: Shortlist,
    penalty: GroupPenalty | None,
    is_end: Tensor,
    count: int,
    keep: int,
) -> Chosen | None:
    """Let groups pick by a kernel; None if there is none for this rule, term or size."""
    if type(rule) is not Maximise:
        return None
    from beamsplit.search.kernels import choose

    _, groups, per_group = beams.score.shape
    if not choose.fits(groups, per_group, lists.tokens.shape[-1]):
        return None
    costs = None if penalty is None else _costs(penalty, beams, lists)
    if penalty is not None and costs is None:
        return None
    return choose.choose(beams, lists, costs, is_end, count, keep)


def _costs(penalty: GroupPenalty, beams: Beams, lists: Shortlist) -> Costs | None:
    """Return what candidates pay for each other, if the term can tell and there is room for it."""
    if type(penalty.term) is Hamming and penalty.outside is None:
        return Costs(penalty.strengths)
    batch, candidates = len(lists.tokens), lists.tokens[0].numel()
    if batch * candidates**2 > _MOST_PAIRS or penalty.outside is not None:
        return None
    pairs = penalty.pairs(beams, lists)
    if pairs is None:
        return None
    every = torch.arange(candidates, device=lists.tokens.device).expand(batch, -1)
    settled, least = penalty.settled(beams, lists, pairs), pairs.least(every)
    return Costs(
        penalty.strengths,
        pairs.of(every).flatten(2).double(),
        None if settled is None else settled.double(),
        None if least is None else least.double(),
    )


def can_pick_into(like: Tensor, groups: int, beams: int, width: int, pays: bool) -> bool:
    """Tell whether `pick_into` is quick for so many beams in each group, with lists of this width.

    `pays`: whether groups pay for repeating each other.
    """
    from beamsplit.search.kernels import sorting

    if not pays or groups <= sorting.MOST_GROUPS or _can_choose(like, groups, beams, width):
        return True
    return like.device.type == "cpu" and not available(like)  # where it does not matter


def _can_choose(like: Tensor, groups: int, beams: int, width: int) -> bool:
    if not available(like):
        return False
    from beamsplit.search.kernels import choose

    return choose.fits(groups, beams, width) and choose.is_quick(beams)


def pick_into(
    outcome: Outcome, beams: Beams, lists: Shortlist, penalty: GroupPenalty | None, is_end: Tensor
) -> None:
    """Let groups pick by the rule of beam search, and write down what they pick, without waiting for it."""
    strengths = None if penalty is None else penalty.strengths
    _, groups, per_group, width = lists.tokens.shape
    if _can_choose(beams.score, groups, per_group, width):
        from beamsplit.search.kernels import choose

        # A search runs ahead with the Hamming term alone, whose costs need no table.
        costs = None if strengths is None else Costs(strengths)
        choose.choose_into(outcome, beams.score, beams.log_prob, lists, costs, is_end)
        return
    from beamsplit.search.kernels.sorting import sort_into

    sort_into(outcome, beams.score, beams.log_prob, lists, strengths, is_end)


def go_on(step: FixedStep, standing: Standing, outcome: Outcome, done: Tensor | None) -> None:
    """Let survivors be the beams, but for groups [batch group] that are done, and set the next step."""
    if available(standing.score):
        from beamsplit.search.kernels.advance import advance_into

        advance_into(step, standing, outcome, done)
        return
    log_prob, score, _ = outcome.live_scores.unbind()
    if done is not None:
        score = score.masked_fill(done.unsqueeze(2), -torch.inf)
    for place, values in zip(standing, (score, score, log_prob), strict=True):
        place.copy_(values)
    parent, token = outcome.live.unbind()
    step.tokens.copy_(token.masked_fill(score == -torch.inf, 0).flatten())
    row = torch.arange(score.numel(), device=score.device).view_as(score)
    source = (row[..., :1] + parent).flatten()  # the row that each goes on from
    before = step.time * row.numel()
    step.table.index_copy_(1, step.time, (before + row.flatten()).to(torch.int32).unsqueeze(1))
    step.table.copy_(step.table.index_select(0, source))
    step.parents.copy_(before + source)
    step.time.add_(1)


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Return the context that a kernel for this tensor is launched in: Triton would use the current GPU."""
    if tensor.device.type != "cuda" or tensor.device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(tensor.device)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def power_of_two(size: int) -> int:
    """Return the least power of two that is no smaller: Triton's tensors have such sizes alone."""
    return 1 << max(size - 1, 0).bit_length()
