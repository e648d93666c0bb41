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

__all__ = ["Chosen", "available", "on_device_of", "pick_by_kernel", "power_of_two", "reader"]


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
    if penalty is not None and (type(penalty.term) is not Hamming or penalty.outside is not None):
        return None
    from beamsplit.search.kernels import choose

    if not choose.fits(beams, lists.tokens.shape[-1]):
        return None
    return choose.choose(beams, lists, None if penalty is None else penalty.strengths, is_end, count, keep)


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
