"""The attention function of steps whose rows and tensors stay where they are.

A model finds it by name through transformers' AttentionInterface, as it finds any other. It is an operator of
torch, so that a compiler takes it as it is. What it reads, and where new keys are written, is known to the
step alone: the model hands over the keys and values of the new tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import masking_utils

from beamsplit.huggingface.attention_names import is_sliding, refuse_odd, renamed
from beamsplit.huggingface.beam_cache import NotCarriedError

__all__ = ["CROSS", "Reader", "attention", "is_reading", "mask", "read_by", "reading_with"]

CROSS = "beamsplit_cross"
"""The attribute of a tensor of keys that says that a decoder reads them of encoded inputs."""

_LOCK = threading.RLock()
_owner: int | None = None  # the thread whose models read in this way
_reader: Reader | None = None  # what they read


class Reader(Protocol):
    """What a step reads with the queries of a layer."""

    def read(
        self,
        layer: int,
        query: Tensor,
        new: tuple[Tensor, Tensor] | None,
        scale: float,
        softcap: float | None,
        bias: Tensor | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Return what queries [rows heads size] find. `new` are keys and values [rows key_heads size].

        Without them, rows read encoded inputs. `bias` [heads positions] is added to the scores of keys, and
        `sinks` [heads] are scores of a key that has no value.
        """
        ...


@contextmanager
def read_by(model: Any, reader: Reader) -> Iterator[None]:
    """Let a model's layers read by this reader, in this thread. No other thread's do meanwhile."""
    global _owner
    with _LOCK, renamed(model), reading_with(reader):
        _owner = threading.get_ident()
        try:
            yield
        finally:
            _owner = None


@contextmanager
def reading_with(reader: Reader | None) -> Iterator[Reader | None]:
    """Let the operator read by this reader. Gives what it has read by so far."""
    global _reader
    before, _reader = _reader, reader
    try:
        yield before
    finally:
        _reader = before


def is_reading() -> bool:
    """Tell whether it is a step of this kind that asks: another thread may call the same model."""
    return torch.compiler.is_compiling() or _owner == threading.get_ident()


@torch.library.custom_op("beamsplit::read", mutates_args=())  # what it writes, nobody else reads
def _read(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    layer: int,
    is_cross: bool,
    scale: float,
    softcap: float,
    bias: Tensor | None,
    sinks: Tensor | None,
) -> Tensor:
    new = None if is_cross else (keys, values)
    assert _reader is not None, "a step calls the model"
    return _reader.read(layer, query, new, scale, softcap or None, bias, sinks)


@_read.register_fake
def _(query: Tensor, *_args: Any) -> Tensor:
    return torch.empty_like(query, memory_format=torch.contiguous_format)


def attention(
    own: str,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Do what transformers asks of an attention function: [rows heads 1 size] -> [rows 1 heads size].

    `own` is the name of the one that this takes the place of. Keys of new tokens may be repeated, to be as
    many as a row can have: then a bias of positions is for all of these.
    """
    refuse_odd(kwargs, dropout)
    if query.shape[2] != 1:
        raise NotCarriedError("it does not read one token a step")
    is_cross = getattr(key, CROSS, False)
    found = _read(
        query.squeeze(2),
        key if is_cross else key[:, :, 0],
        value if is_cross else value[:, :, 0],
        module.layer_idx,
        is_cross,
        query.shape[3] ** -0.5 if scaling is None else scaling,
        0.0 if own == "sdpa" else softcap or 0.0,  # torch's function has no caps: prompts are read without
        None if position_bias is None else _for_all_rows(position_bias, query.shape[1], key.shape[2]),
        s_aux,
    )
    return found.unsqueeze(1), None


def _for_all_rows(bias: Tensor, heads: int, keys: int) -> Tensor:
    """[1 heads 1 keys] -> [heads keys]"""
    if bias.shape != (1, heads, 1, keys) or keys == 1:
        raise NotCarriedError(f"its attention takes a bias of shape {list(bias.shape)}")
    return bias[0, :, 0]


def mask(function: Any) -> None:
    """Return no mask, since the step knows which tokens are real; raise if it would be of an odd kind."""
    plain = masking_utils.causal_mask_function, getattr(masking_utils, "bidirectional_mask_function", None)
    if function is not None and function not in plain and not is_sliding(function):
        raise NotCarriedError("its mask is neither causal nor of a sliding window")
