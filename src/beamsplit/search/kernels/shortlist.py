"""One kernel from logits to candidate lists: each row's normaliser, its best tokens and a bound on the rest.

A program handles one row. It cuts the row into columns, as `search.shortlist.top_tokens` does: the best
tokens are in the columns with the largest maxima. The row is read twice, for the maxima and for the
normaliser, and the few columns of interest once more.

The normaliser may differ from torch's in its last bit, since the sum is taken in another order. It does not
depend on how long the lists are.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from beamsplit.model import Shortlist
from beamsplit.search.kernels import on_device_of, power_of_two
from beamsplit.search.shortlist import Scores

__all__ = ["LONGEST", "KernelReader", "knows", "shortlist"]

LONGEST = 64  # tokens of a list that the kernel makes
_COLUMNS = 2048
_LARGEST_VOCABULARY = 1 << 19  # vocabulary: the columns of interest must fit into a program's registers


def knows(logits: Tensor) -> bool:
    """Tell whether the kernel can read such logits [rows vocab]."""
    vocabulary = logits.shape[1]
    return (
        logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and logits.stride(1) == 1
        and LONGEST < vocabulary <= _LARGEST_VOCABULARY
    )


class KernelReader:
    """Reads logits by the kernel, and by torch where lists are longer than it can make them."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    @functools.cached_property
    def scores(self) -> Scores:
        log_prob = self._logits.float() - shortlist(self._logits, 1)[1].unsqueeze(1)
        return Scores(log_prob, log_prob, log_prob)

    def shortlist(self, width: int) -> Shortlist:
        if width <= LONGEST:
            return shortlist(self._logits, width)[0]
        return self.scores.shortlist(width)


def shortlist(logits: Tensor, width: int) -> tuple[Shortlist, Tensor]:
    """Return the `width` best tokens of each row, at most `LONGEST`; and the rows' normalisers [rows]."""
    rows, vocabulary = logits.shape
    tokens = torch.empty(rows, width, dtype=torch.long, device=logits.device)
    log_prob = torch.empty(rows, width, dtype=torch.float32, device=logits.device)
    rest = torch.empty(rows, dtype=torch.float32, device=logits.device)
    normaliser = torch.empty_like(rest)
    columns = min(_COLUMNS, power_of_two(vocabulary))
    height = power_of_two(-(-vocabulary // columns))
    width_block = power_of_two(width)
    with on_device_of(logits):
        _shortlist_kernel[(rows,)](
            logits,
            logits.stride(0),
            tokens,
            log_prob,
            rest,
            normaliser,
            vocabulary,
            width=width,
            columns=columns,
            height=height,
            width_block=width_block,
            num_warps=8,
            enable_fp_fusion=False,
        )
    return Shortlist(tokens, log_prob, rest), normaliser


@triton.jit  # type: ignore[untyped-decorator]
def _shortlist_kernel(  # type: ignore[no-untyped-def]  # the types are Triton's
    logits,  # [rows vocab]
    stride,
    tokens,  # [rows width] to be filled
    log_prob,
    rest,  # [rows]
    normaliser,
    vocabulary,
    width: tl.constexpr,
    columns: tl.constexpr,
    height: tl.constexpr,
    width_block: tl.constexpr,
):
    nothing = -float("inf")
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * stride
    column = tl.arange(0, columns)
    place = tl.arange(0, width_block)
    # The largest of each column, and of the row.
    maxima = tl.full([columns], nothing, tl.float32)
    for first in range(0, vocabulary, columns):
        value = tl.load(start + first + column, mask=first + column < vocabulary, other=nothing)
        maxima = tl.maximum(maxima, value.to(tl.float32))
    highest = tl.max(maxima, 0)
    # The normaliser. -inf minus -inf, NaN and +inf make it NaN, as they should.
    sums = tl.zeros([columns], tl.float32)
    for first in range(0, vocabulary, columns):
        value = tl.load(start + first + column, mask=first + column < vocabulary, other=nothing)
        sums += tl.where(first + column < vocabulary, tl.exp(value.to(tl.float32) - highest), 0.0)
    norm = highest + tl.log(tl.sum(sums, 0))
    tl.store(normaliser + row, norm)
    # The columns with the largest maxima, of equals the first. What has been taken is marked, since -inf
    # may be a value too; the bounds on `taken` matter where NaN compares to nothing.
    chosen = tl.full([width_block], columns, tl.int32)
    free = column < vocabulary
    for pick in range(width):
        best = tl.max(tl.where(free, maxima, nothing), 0)
        taken = tl.min(tl.where(free & (maxima == best), column, columns - 1), 0)
        chosen = tl.where(place == pick, taken, chosen)
        free = free & (column != taken)
    # Everything that stands in them.
    depth = tl.arange(0, height)
    token = chosen[:, None] + depth[None, :] * columns
    present = (token < vocabulary) & (chosen[:, None] < columns)
    value = tl.load(start + token, mask=present, other=nothing).to(tl.float32)
    # The best of that.
    best_tokens = tl.full([width_block], 0, tl.int32)
    best_values = tl.full([width_block], nothing, tl.float32)
    left = present
    for pick in range(width):
        best = tl.max(tl.max(tl.where(left, value, nothing), 1), 0)
        taken = tl.min(tl.min(tl.where(left & (value == best), token, vocabulary - 1), 1), 0)
        best_tokens = tl.where(place == pick, taken, best_tokens)
        best_values = tl.where(place == pick, best, best_values)
        left = left & (token != taken)
    # In the order of their ids.
    listed = place < width
    before = (best_tokens[None, :] < best_tokens[:, None]) & listed[None, :]
    rank = tl.sum(before.to(tl.int32), 1)
    tl.store(tokens + row * width + rank, best_tokens.to(tl.int64), mask=listed)
    tl.store(log_prob + row * width + rank, best_values - norm, mask=listed)
    tl.store(rest + row, tl.min(tl.where(listed, best_values, float("inf")), 0) - norm)
