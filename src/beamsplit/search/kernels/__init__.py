"""GPU kernels, and the one door to them.

Each kernel has a twin in plain torch, which takes over where there is no GPU, no Triton, or a case that the
kernel does not know. Only this module decides. Modules of kernels are imported when first used, since not
everyone has Triton.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.diversity import Hamming
from beamsplit.model import Guided, LogProbs, Shortlist
from beamsplit.search.plan import Rule
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Picks
from beamsplit.search.shortlist import Reader, VocabularyReader
from beamsplit.search.state import Beams

__all__ = ["Chosen", "Costs", "available", "on_device_of", "pick_by_kernel", "power_of_two", "reader"]


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

    if not choose.fits(beams, lists.tokens.shape[-1]):
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
