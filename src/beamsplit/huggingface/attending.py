"""Attention in parts: what queries find in some of their keys, and two such parts put together.

A part has, beside what was found, the logarithm of the sum of all its weights. With that, attention over all
keys is the mean of attention over two sets of them. Softmax and merging are in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Part", "attend", "merge"]


class Part(NamedTuple):
    """What queries found in some of their keys."""

    out: Tensor  # [a b queries size]
    weight: Tensor  # [a b queries] float32, the logarithm of the sum of the weights


def attend(
    query: Tensor, key: Tensor, value: Tensor, scale: float, softcap: float | None, bias: Tensor | None
) -> Part:
    """Return what queries [a b queries size] find in keys and values [a b keys size].

    `bias` is added to scores, after they are capped: [1 or a, 1 or b, 1 or queries, keys].
    """
    if softcap is None and key.shape[3] == value.shape[3]:
        if query.device.type == "cpu":
            return _on_cpu(query, key, value, scale, bias)
        if query.device.type == "cuda" and bias is None and _suits_flash(query):
            return _by_flash(query, key, value, scale)
    return _by_products(query, key, value, scale, softcap, bias)


def merge(first: Part, second: Part) -> Tensor:
    """Return what queries find in the keys of both parts: [a b queries size]."""
    share = torch.sigmoid(first.weight - second.weight).unsqueeze(3)
    return torch.lerp(second.out.float(), first.out.float(), share).to(first.out.dtype)


def _by_products(
    query: Tensor, key: Tensor, value: Tensor, scale: float, softcap: float | None, bias: Tensor | None
) -> Part:
    scores = torch.matmul(query, key.transpose(2, 3)).float() * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    weight = torch.logsumexp(scores, dim=3)
    return Part(torch.matmul(torch.softmax(scores, dim=3).to(value.dtype), value), weight)


def _on_cpu(query: Tensor, key: Tensor, value: Tensor, scale: float, bias: Tensor | None) -> Part:
    if bias is not None:
        bias = bias.to(query.dtype)
    out, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, attn_mask=bias, scale=scale
    )
    return Part(out, weight)


def _suits_flash(query: Tensor) -> bool:
    return (
        query.dtype in (torch.float16, torch.bfloat16) and query.shape[3] <= 256 and query.shape[3] % 8 == 0
    )


def _by_flash(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Part:
    found = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, scale=scale)
    return Part(found[0], found[1][..., : query.shape[2]])
