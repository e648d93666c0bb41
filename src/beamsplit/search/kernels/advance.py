"""One kernel that lets the beams of a step be those of the next, where all of it stays on a GPU.

A program has some steps of the table of one input, whose rows go on from each other and from no others. The
first of them also has the beams themselves.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from beamsplit.model import FixedStep
from beamsplit.search.kernels import Outcome, Standing, on_device_of, power_of_two

__all__ = ["advance_into"]

_AT_ONCE = 4096  # entries of the table


def advance_into(step: FixedStep, standing: Standing, outcome: Outcome, done: Tensor | None) -> None:
    """Do what `kernels.go_on` does."""
    batch, groups, keep = standing.score.shape
    steps = step.table.shape[1]
    row_block = power_of_two(groups * keep)
    step_block = min(max(_AT_ONCE // row_block, 8), power_of_two(steps))
    with on_device_of(standing.score):
        _advance_kernel[(batch, triton.cdiv(steps, step_block))](
            outcome.live,
            outcome.live_scores,
            standing.score if done is None else done,
            *standing,
            step.tokens,
            step.parents,
            step.table,
            step.table.stride(0),
            step.time,
            batch,
            groups,
            steps,
            has_done=done is not None,
            keep=keep,
            row_block=row_block,
            step_block=step_block,
            num_warps=4,
        )
    step.time.add_(1)


@triton.jit  # type: ignore[untyped-decorator]
def _advance_kernel(  # type: ignore[no-untyped-def]  # the types are Triton's
    live,  # [2 batch group keep] parent, token
    live_scores,  # [3 batch group keep] log_prob, score, cost
    done,  # [batch group]
    score,  # [batch group keep] to be filled, as are all that follow
    recorded,  # the same
    log_prob,
    tokens,  # [rows]
    parents,  # [rows]
    table,  # [rows steps]
    table_row,
    time,  # [1] the step, which stays as it is
    batch,
    groups,
    steps,
    has_done: tl.constexpr,
    keep: tl.constexpr,
    row_block: tl.constexpr,
    step_block: tl.constexpr,
):
    nothing = -float("inf")
    of_input = tl.program_id(0).to(tl.int64)
    rows = groups * keep
    row = tl.arange(0, row_block)
    is_row = row < rows
    at = of_input * rows + row
    size = batch * rows
    source = at - row % keep + tl.load(live + at, mask=is_row, other=0)
    now = tl.load(time)
    slot = now * size + source  # of what the model has read in this step
    # The table: all is read before anything is written.
    step = tl.program_id(1) * step_block + tl.arange(0, step_block)
    here = is_row[:, None] & (step < steps)[None, :]
    past = here & (step < now)[None, :]
    entries = tl.load(table + source[:, None] * table_row + step[None, :], mask=past, other=0)
    entries = tl.where((step == now)[None, :], slot[:, None].to(tl.int32), entries)
    tl.debug_barrier()
    tl.store(table + at[:, None] * table_row + step[None, :], entries, mask=here & (step <= now)[None, :])
    if tl.program_id(1) == 0:
        value = tl.load(live_scores + size + at, mask=is_row, other=nothing)
        if has_done:
            is_done = tl.load(done + of_input * groups + row // keep, mask=is_row, other=0)
            value = tl.where(is_done != 0, nothing, value)
        token = tl.load(live + size + at, mask=is_row, other=0)
        tl.store(score + at, value, mask=is_row)
        tl.store(recorded + at, value, mask=is_row)
        tl.store(log_prob + at, tl.load(live_scores + at, mask=is_row, other=0.0), mask=is_row)
        tl.store(tokens + at, tl.where(value == nothing, 0, token), mask=is_row)
        tl.store(parents + at, slot, mask=is_row)
