"""Attention of one decoding step of many beams: what is read, the plain way, and the door to the kernels.

Each row is a beam with one new token. It attends to the prompt of its input, which is stored once an input;
to its own earlier tokens, found in a pool by their slots; and to the new token itself. Nothing here waits for
the device, and all sizes come from shapes, so that a step can be captured as a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from beamsplit.huggingface.attending import Part, merge
from beamsplit.search.kernels import available

__all__ = [
    "BeamStore",
    "BeamTable",
    "Bias",
    "KeysValues",
    "OwnTokens",
    "Scoring",
    "read_beams",
    "read_by_torch",
]


KeysValues: TypeAlias = tuple[Tensor, Tensor]
"""Keys and values. The last axis of each is dense; the others may have any stride."""


@dataclass(frozen=True)
class BeamStore:
    """Keys and values of one layer."""

    prompt: KeysValues | None = None  # [inputs kv_heads places size]
    pool: KeysValues | None = None  # [slots kv_heads size]; None where rows have no tokens of their own


@dataclass(frozen=True)
class OwnTokens:
    """Where rows find the tokens that they have generated, and put the new one. All are int32."""

    past: Tensor  # [rows tokens]: the slots of a row's earlier tokens
    length: Tensor  # [rows]: how many of them there are
    target: Tensor  # [rows]: the slot that the new token is written to, -1 for none


@dataclass(frozen=True)
class BeamTable:
    """Where the rows of one step find their tokens: the same for all layers. All are int32.

    What lies outside of spans and lengths is never used, whatever it is.
    """

    span: Tensor  # [inputs 2]: places from the first up to the second hold an input's prompt
    grid: Tensor  # [inputs width]: the rows of each input, -1 for none
    input_of: Tensor  # [rows]: a row's input, -1 if it is in no place of the grid
    own: OwnTokens | None = None


@dataclass(frozen=True)
class Bias:
    """What is added to scores, by the position of a key: the same for all rows."""

    values: Tensor  # [heads positions], those of the prompt's places first
    own: Tensor  # [] the position of the first token of rows' own


@dataclass(frozen=True)
class Scoring:
    """How queries are compared with keys."""

    scale: float
    softcap: float | None = None
    window: int | None = None  # a key is seen if its distance is less; the new token has distance 0
    bias: Bias | None = None  # added after the cap
    sinks: Tensor | None = None  # [heads] the score of a key without a value, which every query sees


def read_beams(
    query: Tensor,
    store: BeamStore,
    table: BeamTable,
    scoring: Scoring,
    new: KeysValues | None = None,
) -> Tensor:
    """Return what the queries [rows heads size] find, in their shape and dtype.

    `new` is the keys and values of the new tokens, each [rows kv_heads size]. They are written into the pool
    at `table.own.target`. Two rows may not write to the same slot, and none may have it in its past. Without
    `new`, rows read only the prompt, as in cross-attention; there can be no window then.

    A row that is in no place of the grid reads no prompt.
    """
    if new is None and scoring.window is not None:
        raise ValueError(f"window is {scoring.window}, but prompts read alone have no window: leave it out")
    if available(query):
        from beamsplit.huggingface import beam_kernels

        if beam_kernels.knows(query, store, new):
            return beam_kernels.read_by_kernels(query, store, table, scoring, new)
    return read_by_torch(query, store, table, scoring, new)


def read_by_torch(
    query: Tensor,
    store: BeamStore,
    table: BeamTable,
    scoring: Scoring,
    new: KeysValues | None = None,
) -> Tensor:
    """Do what `read_beams` does, in plain torch."""
    parts = []
    if store.prompt is not None:
        parts.append(_read_prompt(query, store.prompt, table, scoring))
    if new is not None:
        assert store.pool is not None
        assert table.own is not None
        parts.append(_read_own(query, store.pool, table.own, scoring, new))
        for pool, each in zip(store.pool, new, strict=True):
            _write(pool, table.own.target, each)
    out = parts[0].out if len(parts) == 1 else merge(*parts)
    if scoring.sinks is not None:
        weight = torch.stack([part.weight for part in parts]).logsumexp(0)  # [rows kv_heads group]
        sinks = scoring.sinks.float().view(1, *weight.shape[1:])
        out = out * torch.sigmoid(weight - sinks).unsqueeze(3)
    return out.reshape(query.shape).to(query.dtype)


def _read_prompt(query: Tensor, prompt: KeysValues, table: BeamTable, scoring: Scoring) -> Part:
    """Let all rows of an input read its prompt together: a part of [rows kv_heads group]."""
    keys, values = prompt
    (rows, heads, size), (inputs, kv_heads, places, _) = query.shape, keys.shape
    width, group = table.grid.shape[1], heads // kv_heads
    place = torch.arange(places, device=query.device)
    real = (place >= table.span[:, :1]) & (place < table.span[:, 1:])  # [inputs places]
    seen = real[:, None].expand(inputs, width, places)
    row = table.grid.clamp(min=0).long()
    if scoring.window is not None:
        assert table.own is not None
        distance = table.span[:, 1:, None] - place + table.own.length[row][:, :, None]
        seen = seen & (distance < scoring.window)
    # [inputs kv_heads width*group ...]: the queries of an input as one block.
    block = query[row].view(inputs, width, kv_heads, group, size).transpose(1, 2).flatten(2, 3)
    seen = seen[:, None, :, None].expand(inputs, 1, width, group, places).flatten(2, 3)
    added = None
    if scoring.bias is not None:
        of_head = scoring.bias.values[:, :places].reshape(1, kv_heads, 1, group, places)
        added = of_head.expand(1, kv_heads, width, group, places).flatten(2, 3)
    part = _attend(block, keys, values.masked_fill(~real[:, None, :, None], 0), seen, scoring, added)
    # Back to rows. Empty places go to one row more, which is cut off.
    to = table.grid.masked_fill(table.grid < 0, rows).long().flatten()
    out = block.new_zeros(rows + 1, kv_heads, group, size, dtype=torch.float32)
    weight = torch.full_like(out[..., 0], -torch.inf)
    out[to] = part.out.view(inputs, kv_heads, width, group, size).transpose(1, 2).flatten(0, 1)
    weight[to] = part.weight.view(inputs, kv_heads, width, group).transpose(1, 2).flatten(0, 1)
    return Part(out[:rows], weight[:rows])


def _read_own(query: Tensor, pool: KeysValues, own: OwnTokens, scoring: Scoring, new: KeysValues) -> Part:
    """Let each row read its own tokens, the new one last: a part of [rows kv_heads group]."""
    (rows, tokens), kv_heads, length = own.past.shape, new[0].shape[1], own.length[:, None]
    token = torch.arange(tokens + 1, device=query.device)
    # The new token stands behind the places of all others.
    distance = (length - token).masked_fill(token == tokens, 0)
    seen = (token < length) | (token == tokens)
    if scoring.window is not None:
        seen = seen & (distance < scoring.window)
    is_past = seen[:, :tokens]
    slots = own.past.masked_fill(~is_past, 0).long()
    # [rows kv_heads tokens+1 size]
    keys, values = (
        torch.cat([stored[slots].masked_fill(~is_past[:, :, None, None], 0), each[:, None]], 1).transpose(
            1, 2
        )
        for stored, each in zip(pool, new, strict=True)
    )
    block = query.reshape(rows, kv_heads, -1, query.shape[2])
    added = None
    if scoring.bias is not None:
        position = scoring.bias.own + torch.where(token == tokens, length, token)  # [rows tokens+1]
        position = position.clamp(max=scoring.bias.values.shape[1] - 1)  # of what is not there
        of_row = scoring.bias.values[:, position].transpose(0, 1)  # [rows heads tokens+1]
        added = of_row.reshape(rows, kv_heads, -1, tokens + 1)
    return _attend(block, keys, values, seen[:, None, None], scoring, added)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, seen: Tensor, scoring: Scoring, added: Tensor | None
) -> Part:
    """Return what queries [a b m size] find in keys [a b n size] that they see; nothing found is zero.

    `added` [1 or a, b, m, n] is added to their scores.
    """
    scores = torch.matmul(query.float(), keys.float().transpose(2, 3)) * scoring.scale
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    if added is not None:
        scores = scores + added.float()
    scores = scores.masked_fill(~seen, -torch.inf)
    weight = torch.logsumexp(scores, dim=3)
    least = torch.finfo(weight.dtype).min  # -inf minus -inf would be no number
    share = torch.exp(scores - weight.clamp(min=least).unsqueeze(3))
    return Part(torch.matmul(share, values.float()), weight)


def _write(pool: Tensor, target: Tensor, new: Tensor) -> None:
    """Write new tokens into the pool.

    A row without a target repeats what another row writes: no shape may depend on how many there are. If no
    row has one, all write to slot 0 what is there.
    """
    has_target = target >= 0
    row = torch.arange(len(target), device=target.device)
    source = torch.where(has_target, row, target.argmax())
    to = target[source].clamp(min=0).long()
    pool[to] = torch.where(has_target[source][:, None, None], new[source], pool[to])
