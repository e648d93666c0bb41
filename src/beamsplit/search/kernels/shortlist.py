"""From logits to candidate lists: each row's normaliser, its best tokens and a bound on the rest.

A row is cut into columns, as `search.shortlist.top_tokens` does: the best tokens are in the columns with the
largest maxima. The first kernel reads the logits once; its programs have a part of the columns of a row each,
and leave their maxima and a sum of exponentials. The second has a program for each row, which picks the
columns of interest and the best tokens in them.

The normaliser may differ from torch's in its last bit, since the sum is taken in another order. It does not
depend on how long the lists are.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from beamsplit.model import Shortlist
from beamsplit.search.kernels import on_device_of, power_of_two
from beamsplit.search.shortlist import Scores

__all__ = ["LONGEST", "KernelReader", "knows", "long_list", "shortlist"]

LONGEST = 64  # tokens of a list that the kernel makes
_COLUMNS = 2048
_PART = 128  # columns of a program that reads logits
_DEPTH = 64  # of them at once
_LARGEST_VOCABULARY = 1 << 19  # vocabulary: the columns of interest must fit into a program's registers


def knows(logits: Tensor) -> bool:
    """Tell whether the kernels can read such logits [rows vocab]."""
    vocabulary = logits.shape[1]
    return (
        logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and logits.stride(1) == 1
        and LONGEST < vocabulary <= _LARGEST_VOCABULARY
    )


class KernelReader:
    """Reads logits by the kernels, and by torch where lists are longer than they can make them."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    @functools.cached_property
    def scores(self) -> Scores:
        log_prob = self._logits.float() - shortlist(self._logits, 1)[1].unsqueeze(1)
        return Scores(log_prob, log_prob, log_prob)

    def shortlist(self, width: int) -> Shortlist:
        if width <= LONGEST:
            return shortlist(self._logits, width)[0]
        if width < min(_columns_of(self._logits) + 1, self._logits.shape[1]):
            return long_list(self._logits, width)
        return self.scores.shortlist(width)


def shortlist(logits: Tensor, width: int) -> tuple[Shortlist, Tensor]:
    """Return the `width` best tokens of each row, at most `LONGEST`; and the rows' normalisers [rows]."""
    read = _read(logits, width)
    return read.lists, read.normaliser


def long_list(logits: Tensor, width: int) -> Shortlist:
    """Return the `width` best tokens of each row: fewer than all, and at most as many as there are columns.

    Logits are read once by a kernel. What stands in the columns of interest is little, and goes through
    torch.
    """
    read, vocabulary = _read(logits, 1), logits.shape[1]
    columns = read.maxima.shape[1]
    top = torch.arange(0, vocabulary, columns, device=logits.device)
    chosen = read.maxima.topk(width, sorted=False).indices  # [rows width]
    token = (chosen.unsqueeze(2) + top).flatten(1)
    value = logits.gather(1, token.clamp(max=vocabulary - 1)).float()
    value = value.masked_fill(token >= vocabulary, -torch.inf)
    best = value.topk(width, sorted=False).indices
    # Where a row has too few real tokens, it has the last one in their place, which is as good as none.
    tokens, order = token.gather(1, best).clamp(max=vocabulary - 1).sort(dim=1)
    log_prob = value.gather(1, best).gather(1, order) - read.normaliser.unsqueeze(1)
    return Shortlist(tokens, log_prob, log_prob.amin(1))


class _Read(NamedTuple):
    """What the kernels make of logits."""

    lists: Shortlist
    normaliser: Tensor  # [rows]
    maxima: Tensor  # [rows columns]


def _columns_of(logits: Tensor) -> int:
    return min(_COLUMNS, power_of_two(logits.shape[1]))


def _read(logits: Tensor, width: int) -> _Read:
    rows, vocabulary = logits.shape
    columns = _columns_of(logits)
    height, part = power_of_two(-(-vocabulary // columns)), min(_PART, columns)
    width_block = power_of_two(width)
    tokens = torch.empty(rows, width, dtype=torch.long, device=logits.device)
    log_prob = torch.empty(rows, width, dtype=torch.float32, device=logits.device)
    rest = torch.empty(rows, dtype=torch.float32, device=logits.device)
    normaliser = torch.empty_like(rest)
    maxima = torch.empty(rows, columns, dtype=torch.float32, device=logits.device)
    sums = torch.empty(rows, 2, columns // part, dtype=torch.float32, device=logits.device)
    with on_device_of(logits):
        _columns_kernel[(rows, columns // part)](
            logits,
            logits.stride(0),
            maxima,
            sums,
            vocabulary,
            columns=columns,
            part=part,
            depth=min(_DEPTH, height),
            num_warps=4,
            enable_fp_fusion=False,
        )
        _lists_kernel[(rows,)](
            logits,
            logits.stride(0),
            maxima,
            sums,
            tokens,
            log_prob,
            rest,
            normaliser,
            vocabulary,
            width=width,
            columns=columns,
            parts=columns // part,
            height=height,
            width_block=width_block,
            num_warps=4 if width_block * height <= 4096 else 8,
            enable_fp_fusion=False,
        )
    return _Read(Shortlist(tokens, log_prob, rest), normaliser, maxima)


@triton.jit  # type: ignore[untyped-decorator]
def _columns_kernel(  # type: ignore[no-untyped-def]  # the types are Triton's
    logits,  # [rows vocab]
    stride,
    maxima,  # [rows columns] to be filled
    sums,  # [rows 2 parts] the largest of a part of the columns, and the sum of exponentials less that
    vocabulary,
    columns: tl.constexpr,
    part: tl.constexpr,
    depth: tl.constexpr,
):
    nothing = -float("inf")
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * stride
    column = tl.program_id(1) * part + tl.arange(0, part)
    place = tl.arange(0, depth)[:, None] * columns + column[None, :]
    best = tl.full([part], nothing, tl.float32)
    highest = nothing
    total = 0.0
    for first in range(0, vocabulary, depth * columns):
        here = first + place < vocabulary
        value = tl.load(start + first + place, mask=here, other=nothing).to(tl.float32)
        best = tl.maximum(best, tl.max(value, 0))
        now = tl.max(best, 0)
        # -inf minus -inf would be no number, where the row as a whole may have one.
        base = tl.where(now == nothing, 0.0, now)
        shares = tl.where(here, tl.exp(value - base), 0.0)
        total = total * tl.exp(highest - base) + tl.sum(tl.sum(shares, 0), 0)
        highest = now
    tl.store(maxima + row * columns + column, best)
    parts = columns // part
    at = sums + row * 2 * parts + tl.program_id(1)
    tl.store(at, highest)
    tl.store(at + parts, total)


@triton.jit
def _key(value, number):  # type: ignore[no-untyped-def]
    """Return integers in the order of float32 values, and of equal ones in the reverse order of numbers."""
    bits = (value + 0.0).to(tl.int32, bitcast=True)  # 0.0 added to -0.0 is 0.0
    order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (order.to(tl.int64) << 32) | (0x7FFFFFFF - number).to(tl.int64)


@triton.jit
def _number_of(key):  # type: ignore[no-untyped-def]
    return 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32)


@triton.jit
def _value_of(key):  # type: ignore[no-untyped-def]
    order = (key >> 32).to(tl.int32)
    return (order ^ ((order >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def _lists_kernel(  # type: ignore[no-untyped-def]
    logits,  # [rows vocab]
    stride,
    maxima,  # [rows columns]
    sums,  # [rows 2 parts]
    tokens,  # [rows width] to be filled
    log_prob,
    rest,  # [rows]
    normaliser,
    vocabulary,
    width: tl.constexpr,
    columns: tl.constexpr,
    parts: tl.constexpr,
    height: tl.constexpr,
    width_block: tl.constexpr,
):
    nothing = -float("inf")
    taken_key = -0x7FFFFFFFFFFFFFFF - 1  # of what has been taken, or is not there: less than any other
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, columns)
    place = tl.arange(0, width_block)
    keys = _key(tl.load(maxima + row * columns + column), column)
    keys = tl.where(column < vocabulary, keys, taken_key)
    # The normaliser. -inf minus -inf, NaN and +inf make it NaN, as they should.
    part = tl.arange(0, parts)
    at = sums + row * 2 * parts + part
    highest, total = tl.load(at), tl.load(at + parts)
    top = tl.max(highest, 0)
    norm = top + tl.log(tl.sum(total * tl.exp(highest - top), 0))
    tl.store(normaliser + row, norm)
    # The columns with the largest maxima.
    chosen = tl.full([width_block], columns, tl.int32)
    for pick in range(width):
        best = tl.max(keys, 0)
        chosen = tl.where(place == pick, _number_of(best), chosen)
        keys = tl.where(keys == best, taken_key, keys)
    # Everything that stands in them, and the best of that.
    token = chosen[:, None] + tl.arange(0, height)[None, :] * columns
    present = (token < vocabulary) & (chosen[:, None] < columns)
    value = tl.load(logits + row * stride + token, mask=present, other=nothing).to(tl.float32)
    keys = tl.where(present, _key(value, token), taken_key)
    best_keys = tl.full([width_block], taken_key, tl.int64)
    for pick in range(width):
        best = tl.max(tl.max(keys, 1), 0)
        best_keys = tl.where(place == pick, best, best_keys)
        keys = tl.where(keys == best, taken_key, keys)
    # In the order of their ids.
    listed = place < width
    best_tokens, best_values = _number_of(best_keys), _value_of(best_keys)
    before = (best_tokens[None, :] < best_tokens[:, None]) & listed[None, :]
    rank = tl.sum(before.to(tl.int32), 1)
    tl.store(tokens + row * width + rank, best_tokens.to(tl.int64), mask=listed)
    tl.store(log_prob + row * width + rank, best_values - norm, mask=listed)
    tl.store(rest + row, tl.min(tl.where(listed, best_values, float("inf")), 0) - norm)
