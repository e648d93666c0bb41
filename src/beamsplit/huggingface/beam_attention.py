"""The attention function by which models read a cache for beams, and how they are made to call it.

transformers looks up a model's attention function, and the one that makes its masks, by the name in its
config. During a step of a search that name is one of ours. What is not a step of ours, perhaps in another
thread, is handed on to the function that the model has otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from beamsplit.huggingface import fixed_attention
from beamsplit.huggingface.attention_names import (
    CARRIED,
    PREFIX,
    is_sliding,
    own_function,
    refuse_odd,
    renamed,
)
from beamsplit.huggingface.beam_cache import BeamCache, BeamMask, CrossCache, NotCarriedError, Tag

__all__ = ["beam_attention"]

_LOCAL = threading.local()


@contextmanager
def beam_attention(model: Any, cache: Any) -> Iterator[None]:
    """Let a model call our attention function while a step runs with this cache.

    Raises a NotCarriedError in the end if some layer has not been read through it.
    """
    caches = _parts(cache)
    _LOCAL.caches = caches
    try:
        with renamed(model):
            yield
        if any(len(each.attended) < len(each.layers) for each in caches):
            raise NotCarriedError("some of its layers do not go through transformers' AttentionInterface")
    finally:
        _LOCAL.caches = None


def _parts(cache: Any) -> list[BeamCache | CrossCache]:
    if isinstance(cache, EncoderDecoderCache):
        return [cache.self_attention_cache, cache.cross_attention_cache]
    return [cache]


def _attention_function(own: str) -> Callable[..., Any]:
    def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> Any:
        if fixed_attention.is_reading():
            if torch.compiler.is_compiling() and query.shape[2] > 1:  # prompts, which have no padding
                return own_function(module, own)(module, query, key, value, None, **kwargs)
            return fixed_attention.attention(own, module, query, key, value, **kwargs)
        tag: Tag | None = getattr(key, "beams", None)
        if tag is None:
            return own_function(module, own)(module, query, key, value, mask, **kwargs)
        if getattr(value, "beams", None) != tag:
            raise NotCarriedError("it changes values before they are read")
        if own == "sdpa":
            kwargs["softcap"] = None  # torch's function has no caps: what read the prompt went without
        return _attend(tag, query, mask, **kwargs), None

    return attention


def _attend(
    tag: Tag,
    query: Tensor,
    mask: Any,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    refuse_odd(kwargs, dropout)
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    return tag.cache.attend(tag.layer, query, scale, softcap, mask, position_bias)


def _mask_function(own: str) -> Callable[..., Any]:
    def mask(*args: Any, **kwargs: Any) -> Any:
        if fixed_attention.is_reading():
            return fixed_attention.mask(kwargs.get("mask_function"))
        caches: list[BeamCache | CrossCache] | None = getattr(_LOCAL, "caches", None)
        if caches is None:
            return masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[own](*args, **kwargs)
        return _step_mask(caches, kwargs)

    return mask


def _step_mask(caches: list[BeamCache | CrossCache], kwargs: dict[str, Any]) -> Any:
    """Return the mask of a step: most need no tensor, since the cache knows which tokens are real."""
    function, given = (
        kwargs.get("mask_function", masking_utils.causal_mask_function),
        kwargs.get("attention_mask"),
    )
    if function is masking_utils.causal_mask_function:
        return BeamMask()
    if function is getattr(masking_utils, "bidirectional_mask_function", None):
        for cache in caches:
            if isinstance(cache, CrossCache) and cache.is_padded and given is not None:
                cache.note_padding(given)
        return BeamMask()
    if is_sliding(function):
        return BeamMask(kwargs["local_size"])
    off = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masking_utils.sdpa_mask(**{**kwargs, **off})


for _own in CARRIED:
    ALL_ATTENTION_FUNCTIONS.register(PREFIX + _own, _attention_function(_own))
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(PREFIX + _own, _mask_function(_own))
