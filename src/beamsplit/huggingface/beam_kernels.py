"""Two kernels for the attention of one decoding step of many beams; `reading` has their twin.

The first reads prompts. A program has a block of queries, of all rows of an input that share a key head, and
one of several equal parts ("splits") of the prompt's keys. It leaves what it found, and the logarithm of the
sum of its weights. How many splits there are follows from shapes, and how long they are from the prompt's
real length: programs that have no keys end at once.

They have run in Triton's interpreter, and not been timed on a GPU yet.

The second has a program for each row and key head. It puts together the new token, the splits of the prompt
and the row's own earlier tokens, and writes the new key and value into the pool.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from beamsplit.huggingface.reading import BeamStore, BeamTable, KeysValues, OwnTokens, Scoring
from beamsplit.search.kernels import on_device_of, power_of_two

__all__ = ["knows", "read_by_kernels"]

_PROGRAMS = 2 * 132  # of the kernel that reads prompts: two for each multiprocessor of a large GPU
_LEAST_SPLIT = 64  # keys
_MOST_SPLITS = 64
_IN_REGISTERS = 1 << 14  # numbers of one tensor that a program of the second kernel can hold
_LARGEST_SIZE = 256  # of a head
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def knows(query: Tensor, store: BeamStore, new: KeysValues | None) -> bool:
    """Tell whether the kernels can read such tensors."""
    tensors = [query, *(store.prompt or ()), *(store.pool or ()), *(new or ())]
    return (
        query.dtype in _DTYPES
        and query.shape[-1] <= _LARGEST_SIZE
        and all(each.dtype == query.dtype and each.stride(-1) == 1 for each in tensors)
    )


class _Found(NamedTuple):
    """What the queries found in each split of the prompt."""

    out: Tensor  # [splits rows heads size] float32; not set where a weight is -inf
    weight: Tensor  # [splits rows heads] float32; not set for rows that are in no place of the grid
    splits: int


def read_by_kernels(
    query: Tensor,
    store: BeamStore,
    table: BeamTable,
    scoring: Scoring,
    new: KeysValues | None = None,
) -> Tensor:
    """Do what `reading.read_beams` does, for tensors that the kernels know."""
    with on_device_of(query):
        if store.prompt is None:
            found = _Found(query, query, 0)
        else:
            found = _read_prompt(query, store.prompt, table, scoring)
        return _read_own(query, store, table, scoring, new, found)


def _read_prompt(query: Tensor, prompt: KeysValues, table: BeamTable, scoring: Scoring) -> _Found:
    keys, values = prompt
    (rows, heads, size), (inputs, kv_heads, places, _) = query.shape, keys.shape
    width, group = table.grid.shape[1], heads // kv_heads
    block_size = max(power_of_two(size), 16)
    shape = _prompt_shape(width * group, block_size, query.element_size())
    blocks = triton.cdiv(width * group, shape.queries)
    splits = _count_splits(inputs * kv_heads * blocks, places)
    out = torch.empty(splits, rows, heads, size, dtype=torch.float32, device=query.device)
    weight = torch.empty(splits, rows, heads, dtype=torch.float32, device=query.device)
    _prompt_kernel[(inputs * kv_heads, blocks, splits)](
        query,
        *query.stride()[:2],
        keys,
        *keys.stride()[:3],
        values,
        *values.stride()[:3],
        table.span,
        table.span.stride(0),
        table.grid,
        table.grid.stride(0),
        table.span if table.own is None else table.own.length,
        *_bias(scoring, unused=query),
        out,
        weight,
        rows,
        width,
        places,
        *_numbers(scoring),
        size=size,
        kv_heads=kv_heads,
        group=group,
        has_cap=scoring.softcap is not None,
        has_window=scoring.window is not None,
        has_bias=scoring.bias is not None,
        widen=_must_widen(query),
        least_split=_LEAST_SPLIT,
        block_queries=shape.queries,
        block_keys=shape.keys,
        block_size=block_size,
        num_warps=shape.warps,
        num_stages=shape.stages,
        enable_fp_fusion=True,
    )
    return _Found(out, weight, splits)


class _PromptShape(NamedTuple):
    queries: int
    keys: int
    warps: int
    stages: int


def _prompt_shape(queries: int, block_size: int, bytes_each: int) -> _PromptShape:
    """Return how a program reads a prompt: queries and keys at once, at least 16 of each for tl.dot.

    Products of float32 are taken without tensor cores, whose operands fill registers: blocks are smaller.
    """
    most_queries, most_keys = (128, 64) if bytes_each == 2 else (32, 32)
    row = block_size * bytes_each
    block_queries = max(16, min(power_of_two(queries), most_queries, (1 << 15) // row))
    block_keys = max(16, min(most_keys, (1 << 14) // row))
    warps = 8 if block_queries == 128 or block_size == 256 else 4
    return _PromptShape(block_queries, block_keys, warps, 3 if row <= 128 else 2)


def _count_splits(programs: int, places: int) -> int:
    """Return a power of two, so that few versions of the second kernel are compiled."""
    wanted = min(triton.cdiv(_PROGRAMS, programs), _MOST_SPLITS)
    return min(power_of_two(wanted + 1) // 2, power_of_two(triton.cdiv(places, _LEAST_SPLIT)))


def _read_own(
    query: Tensor,
    store: BeamStore,
    table: BeamTable,
    scoring: Scoring,
    new: KeysValues | None,
    found: _Found,
) -> Tensor:
    rows, heads, size = query.shape
    # Where there are no tokens of rows' own, something is passed that is not looked at.
    new_keys, new_values = new or (query, query)
    pool_keys, pool_values = store.pool or (query, query)
    own = table.own or OwnTokens(table.span, table.span, table.span)
    kv_heads = (new or store.prompt or (query,))[0].shape[1]
    group, block_size = heads // kv_heads, max(power_of_two(size), 16)
    shape = _own_shape(rows * kv_heads, group, block_size, own.past.shape[1], query.element_size())
    result = torch.empty(rows, heads, size, dtype=query.dtype, device=query.device)
    _own_kernel[(rows, kv_heads)](
        query,
        *query.stride()[:2],
        new_keys,
        *new_keys.stride()[:2],
        new_values,
        *new_values.stride()[:2],
        pool_keys,
        *pool_keys.stride()[:2],
        pool_values,
        *pool_values.stride()[:2],
        own.past,
        own.past.stride(0),
        own.length,
        own.target,
        table.input_of,
        *_bias(scoring, unused=query),
        table.span if scoring.bias is None else scoring.bias.own,
        query if scoring.sinks is None else scoring.sinks,
        found.out,
        found.weight,
        result,
        rows,
        *_numbers(scoring),
        size=size,
        heads=heads,
        group=group,
        has_own=new is not None,
        has_cap=scoring.softcap is not None,
        has_window=scoring.window is not None,
        has_bias=scoring.bias is not None,
        has_sinks=scoring.sinks is not None,
        widen=_must_widen(query),
        splits=found.splits,
        splits_at_once=max(min(found.splits, _IN_REGISTERS // (2 * shape.group * block_size), 8), 1),
        by_dot=shape.by_dot,
        block_group=shape.group,
        block_tokens=shape.tokens,
        block_size=block_size,
        num_warps=shape.warps,
        enable_fp_fusion=True,
    )
    return result


class _OwnShape(NamedTuple):
    by_dot: bool
    group: int
    tokens: int
    warps: int


def _own_shape(programs: int, group: int, block_size: int, tokens: int, bytes_each: int) -> _OwnShape:
    """Return how a program reads a row's own tokens.

    tl.dot wants 16 queries at least; in half precision it pays to add empty ones where there are some, since
    else there is a number for each (query, token, component) in registers. Few programs take longer steps:
    they mostly wait for memory. Of many, each is a warp or two, which need not wait for each other.
    """
    few = programs <= _PROGRAMS
    if group >= (4 if bytes_each == 2 else 16):
        room = max(16, min(_IN_REGISTERS // (block_size * bytes_each), 128 if few else 64))
        block_tokens = min(max(power_of_two(tokens), 16), room)
        warps = 8 if few and block_tokens >= 64 else 4
        return _OwnShape(True, max(power_of_two(group), 16), block_tokens, warps)
    block_group = power_of_two(group)
    numbers = block_group * block_size  # for each token
    warps = 8 if few and tokens >= 64 else min(max(numbers // 128, 1), 4)
    room = max(16, min(_IN_REGISTERS // numbers, 128) if few else 64 * 32 * warps // numbers)
    return _OwnShape(False, block_group, min(max(power_of_two(tokens), 16), room), warps)


def _must_widen(query: Tensor) -> bool:
    """Tell whether tl.dot needs float32: the interpreter would multiply the bits of bfloat16."""
    return query.dtype == torch.bfloat16 and os.environ.get("TRITON_INTERPRET") == "1"


def _numbers(scoring: Scoring) -> tuple[float, float, int]:
    return scoring.scale, scoring.softcap or 1.0, scoring.window or 0


def _bias(scoring: Scoring, unused: Tensor) -> tuple[Tensor, int, int]:
    """Return a bias and its strides; without one, another tensor that is not looked at."""
    values = unused if scoring.bias is None else scoring.bias.values
    return values, values.stride(0), values.stride(1)


@triton.jit  # type: ignore[untyped-decorator]
def _capped(scores, cap, has_cap: tl.constexpr):  # type: ignore[no-untyped-def]  # the types are Triton's
    if has_cap:
        # cap * tanh(scores / cap), by exp alone: Triton's tanh is not everywhere the same function.
        scores = cap - 2 * cap / (tl.exp(2 * scores / cap) + 1)
    return scores


@triton.jit  # type: ignore[untyped-decorator]
def _compare(query, keys, by_dot: tl.constexpr, widen: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiply queries [m size] by keys [n size]: [m n]."""
    if by_dot:
        if widen:
            query, keys = query.to(tl.float32), keys.to(tl.float32)
        product = tl.dot(query, tl.trans(keys), input_precision="ieee")
    else:
        product = tl.sum(query.to(tl.float32)[:, None, :] * keys.to(tl.float32)[None, :, :], 2)
    return product


@triton.jit  # type: ignore[untyped-decorator]
def _mix(share, values, by_dot: tl.constexpr, widen: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiply shares [m n] by values [n size]: [m size]."""
    if by_dot:
        share = share.to(values.dtype)
        if widen:
            share, values = share.to(tl.float32), values.to(tl.float32)
        product = tl.dot(share, values, input_precision="ieee")
    else:
        product = tl.sum(share[:, :, None] * values.to(tl.float32)[None, :, :], 1)
    return product


@triton.jit
def _finite(highest):  # type: ignore[no-untyped-def]
    """Return what scores are lowered by: -inf minus -inf would be no number."""
    return tl.where(highest == -float("inf"), 0.0, highest)


@triton.jit  # type: ignore[untyped-decorator]
def _add(  # type: ignore[no-untyped-def]
    highest, total, out, scores, values, by_dot: tl.constexpr, widen: tl.constexpr
):
    """Add keys to what has been found: the highest score, the sum of weights and the weighted values."""
    now = tl.maximum(highest, tl.max(scores, 1))
    base = _finite(now)
    share = tl.exp(scores - base[:, None])
    fading = tl.exp(highest - base)
    total = total * fading + tl.sum(share, 1)
    out = out * fading[:, None] + _mix(share, values, by_dot, widen)
    return now, total, out


@triton.jit  # type: ignore[untyped-decorator]
def _prompt_kernel(  # type: ignore[no-untyped-def]
    query,  # [rows heads size]
    query_row,
    query_head,
    keys,  # [inputs kv_heads places size]
    keys_input,
    keys_head,
    keys_place,
    values,
    values_input,
    values_head,
    values_place,
    span,  # [inputs 2]
    span_input,
    grid,  # [inputs width]
    grid_input,
    length,  # [rows]
    bias,  # [heads positions]
    bias_head,
    bias_place,
    out,  # [splits rows heads size] to be filled
    weight,  # [splits rows heads] to be filled
    rows,
    width,
    places,
    scale,
    cap,
    window,
    size: tl.constexpr,
    kv_heads: tl.constexpr,
    group: tl.constexpr,
    has_cap: tl.constexpr,
    has_window: tl.constexpr,
    has_bias: tl.constexpr,
    widen: tl.constexpr,
    least_split: tl.constexpr,
    block_queries: tl.constexpr,
    block_keys: tl.constexpr,
    block_size: tl.constexpr,
):
    of_input = (tl.program_id(0) // kv_heads).to(tl.int64)
    kv_head = (tl.program_id(0) % kv_heads).to(tl.int64)
    split = tl.program_id(2)
    column = tl.arange(0, block_size)
    inside = column < size
    # The queries: those of the heads that share a key head, row by row.
    number = tl.program_id(1) * block_queries + tl.arange(0, block_queries)
    place = number // group
    row = tl.load(grid + of_input * grid_input + place, mask=place < width, other=-1)
    is_row = row >= 0
    row = tl.maximum(row, 0).to(tl.int64)
    head = kv_head * group + number % group
    # The keys that some query sees, and this split of them.
    begin = tl.maximum(tl.load(span + of_input * span_input), 0)
    end = tl.minimum(tl.load(span + of_input * span_input + 1), places)
    nearest = tl.where(is_row, 0, end)
    if has_window:
        ago = tl.load(length + row, mask=is_row, other=0)
        nearest = tl.where(is_row, end + ago - window + 1, end)
    begin = tl.maximum(begin, tl.min(nearest, 0))
    count = tl.maximum(end - begin, 0)
    splits = tl.num_programs(2)
    in_split = tl.cdiv(tl.cdiv(count, splits), least_split) * least_split
    first = begin + split * in_split
    last = tl.minimum(first + in_split, end)
    # (A scalar is spread before it is compared, here and below: the interpreter's masks want that.)
    wanted = (tl.where(is_row, first, last) < last)[:, None] & inside[None, :]
    at = query + row[:, None] * query_row + head[:, None] * query_head + column[None, :]
    queries = tl.load(at, mask=wanted, other=0.0)
    highest = tl.full([block_queries], -float("inf"), tl.float32)
    total = tl.zeros([block_queries], tl.float32)
    sums = tl.zeros([block_queries, block_size], tl.float32)
    keys += of_input * keys_input + kv_head * keys_head
    values += of_input * values_input + kv_head * values_head
    for start in range(first, last, block_keys):
        key = start + tl.arange(0, block_keys)
        here = (key < last)[:, None] & inside[None, :]
        far = key.to(tl.int64)[:, None]
        some_keys = tl.load(keys + far * keys_place + column[None, :], mask=here, other=0.0)
        some_values = tl.load(values + far * values_place + column[None, :], mask=here, other=0.0)
        scores = _capped(_compare(queries, some_keys, True, widen) * scale, cap, has_cap)
        if has_bias:
            at_bias = bias + head[:, None] * bias_head + key[None, :] * bias_place
            scores += tl.load(at_bias, mask=is_row[:, None] & (key < last)[None, :], other=0.0)
        seen = (key < last)[None, :]
        if has_window:
            seen = seen & (key[None, :] >= nearest[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        highest, total, sums = _add(highest, total, sums, scores, some_values, True, widen)
    found = total > 0
    divisor = tl.where(found, total, 1.0)
    entry = (split.to(tl.int64) * rows + row) * (kv_heads * group) + head
    logarithm = tl.where(found, highest + tl.log(divisor), -float("inf"))
    tl.store(weight + entry, logarithm, mask=is_row)
    to = out + entry[:, None] * size + column[None, :]
    tl.store(to, sums / divisor[:, None], mask=wanted & found[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _own_kernel(  # type: ignore[no-untyped-def]
    query,  # [rows heads size]
    query_row,
    query_head,
    new_keys,  # [rows kv_heads size]
    new_keys_row,
    new_keys_head,
    new_values,
    new_values_row,
    new_values_head,
    pool_keys,  # [slots kv_heads size]; one slot of each row is filled
    pool_keys_slot,
    pool_keys_head,
    pool_values,
    pool_values_slot,
    pool_values_head,
    past,  # [rows tokens]
    past_row,
    length,  # [rows]
    target,  # [rows]
    input_of,  # [rows]
    bias,  # [heads positions]
    bias_head,
    bias_place,
    bias_own,  # [] the position of the first token
    sinks,  # [heads]
    prompt_out,  # [splits rows heads size]
    prompt_weight,  # [splits rows heads]
    result,  # [rows heads size] to be filled
    rows,
    scale,
    cap,
    window,
    size: tl.constexpr,
    heads: tl.constexpr,
    group: tl.constexpr,
    has_own: tl.constexpr,
    has_cap: tl.constexpr,
    has_window: tl.constexpr,
    has_bias: tl.constexpr,
    has_sinks: tl.constexpr,
    widen: tl.constexpr,
    splits: tl.constexpr,
    splits_at_once: tl.constexpr,
    by_dot: tl.constexpr,
    block_group: tl.constexpr,
    block_tokens: tl.constexpr,
    block_size: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, block_size)
    inside = column < size
    member = tl.arange(0, block_group)
    head = kv_head * group + member
    is_head = member < group
    wanted = is_head[:, None] & inside[None, :]
    at = query + row * query_row + head[:, None] * query_head + column[None, :]
    queries = tl.load(at, mask=wanted, other=0.0)
    highest = tl.full([block_group], -float("inf"), tl.float32)
    total = tl.zeros([block_group], tl.float32)
    sums = tl.zeros([block_group, block_size], tl.float32)
    if has_own:
        count = tl.load(length + row)
        begin = 0
        if has_window:
            begin = tl.maximum(count - window + 1, 0)
        token = begin + tl.arange(0, block_tokens)
        past += row * past_row
        slot = tl.load(past + token, mask=token < count, other=0)
        # The new token.
        key = tl.load(
            new_keys + row * new_keys_row + kv_head * new_keys_head + column, mask=inside, other=0.0
        )
        at_value = new_values + row * new_values_row + kv_head * new_values_head + column
        value = tl.load(at_value, mask=inside, other=0.0)
        to = tl.load(target + row).to(tl.int64)
        pool_keys += kv_head * pool_keys_head
        pool_values += kv_head * pool_values_head
        written = tl.where(inside, to, -1) >= 0
        tl.store(pool_keys + to * pool_keys_slot + column, key, mask=written)
        tl.store(pool_values + to * pool_values_slot + column, value, mask=written)
        product = tl.sum(queries.to(tl.float32) * key.to(tl.float32)[None, :], 1)
        highest = _capped(product * scale, cap, has_cap)
        if has_bias:
            bias_of_own = bias + head * bias_head + tl.load(bias_own) * bias_place
            highest += tl.load(bias_of_own + count * bias_place, mask=is_head, other=0.0)
        total = total + 1.0
        sums = sums + value.to(tl.float32)[None, :]
    if splits > 0:
        # The prompt. All weights first, so that what was found need not be scaled anew for each split.
        with_prompt = tl.where(is_head, tl.load(input_of + row), -1) >= 0
        split = tl.arange(0, splits).to(tl.int64)
        entry = (split[:, None] * rows + row) * heads + head[None, :]
        weights = tl.load(prompt_weight + entry, mask=with_prompt[None, :], other=-float("inf"))
        now = tl.maximum(highest, tl.max(weights, 0))
        base = _finite(now)
        fading = tl.exp(highest - base)
        total = total * fading + tl.sum(tl.exp(weights - base[None, :]), 0)
        sums = sums * fading[:, None]
        highest = now
        for start in tl.static_range(0, splits, splits_at_once):
            split = (start + tl.arange(0, splits_at_once)).to(tl.int64)
            entry = (split[:, None] * rows + row) * heads + head[None, :]
            weights = tl.load(prompt_weight + entry, mask=with_prompt[None, :], other=-float("inf"))
            filled = (weights > -float("inf"))[:, :, None] & inside[None, None, :]
            at_out = prompt_out + entry[:, :, None] * size + column[None, None, :]
            some = tl.load(at_out, mask=filled, other=0.0)
            sums += tl.sum(tl.exp(weights - base[None, :])[:, :, None] * some, 0)
    if has_own:
        for start in range(begin, count, block_tokens):
            token = start + tl.arange(0, block_tokens)
            here = (token < count)[:, None] & inside[None, :]
            far = slot.to(tl.int64)[:, None]
            some_keys = tl.load(pool_keys + far * pool_keys_slot + column[None, :], mask=here, other=0.0)
            some_values = tl.load(
                pool_values + far * pool_values_slot + column[None, :], mask=here, other=0.0
            )
            # Ask for the next slots while these tokens are on their way.
            slot = tl.load(past + token + block_tokens, mask=token + block_tokens < count, other=0)
            scores = _capped(_compare(queries, some_keys, by_dot, widen) * scale, cap, has_cap)
            if has_bias:
                at_bias = bias_of_own[:, None] + token[None, :] * bias_place
                scores += tl.load(at_bias, mask=is_head[:, None] & (token < count)[None, :], other=0.0)
            scores = tl.where((token < count)[None, :], scores, -float("inf"))
            highest, total, sums = _add(highest, total, sums, scores, some_values, by_dot, widen)
    if has_sinks:
        sink = tl.load(sinks + head, mask=is_head, other=0.0).to(tl.float32)
        base = tl.maximum(highest, sink)
        fading = tl.exp(highest - base)
        total = total * fading + tl.exp(sink - base)
        sums = sums * fading[:, None]
    mean = sums / tl.where(total > 0, total, 1.0)[:, None]
    to_result = result + (row * heads + head[:, None]) * size + column[None, :]
    tl.store(to_result, mean.to(result.dtype.element_ty), mask=wanted)
