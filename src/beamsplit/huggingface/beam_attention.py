"""The attention function by which models read a cache for beams, and how they are made to call it.

transformers looks up a model's attention function, and the one that makes its masks, by the name in its
config. During a step of a search that name is one of ours. What is not a step of ours, perhaps in another
thread, is handed on to the function that the model has otherwise.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import masking_utils
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from beamsplit.huggingface.beam_cache import BeamCache, BeamMask, CrossCache, NotCarriedError, Tag

__all__ = ["CARRIED", "attention_name", "beam_attention"]

CARRIED = ("sdpa", "eager")
"""The attention functions that ours can take the place of."""

_PREFIX = "beamsplit_"
_LOCAL = threading.local()
_LOCK = threading.Lock()
_switched: dict[
    int, tuple[Any, str, int]
] = {}  # configs whose name is ours: the own name, and for how many steps
_configs: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

# Arguments of attention functions that change nothing for one token a row without dropout.
_WITHOUT_EFFECT = frozenset(
    "cache cache_position cu_seq_lens_k cu_seq_lens_q decoder_attention_mask encoder_attention_mask "
    "encoder_hidden_states is_causal is_cross_attention logits_to_keep max_length_k max_length_q "
    "mm_token_type_ids num_items_in_batch output_attentions output_hidden_states past_key_value "
    "past_key_values position_embeddings position_ids return_dict sliding_window target_dtype "
    "token_type_ids use_cache".split()
)


def attention_name(config: Any) -> str | None:
    """Return the name of a config's own attention function, also while ours takes its place."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name.removeprefix(_PREFIX) if isinstance(name, str) else None


@contextmanager
def beam_attention(model: Any, cache: Any) -> Iterator[None]:
    """Let a model call our attention function while a step runs with this cache.

    Raises a NotCarriedError in the end if some layer has not been read through it.
    """
    caches = _parts(cache)
    configs = _configs_of(model)
    _switch(configs)
    _LOCAL.caches = caches
    try:
        yield
        if any(len(each.attended) < len(each.layers) for each in caches):
            raise NotCarriedError("some of its layers do not go through transformers' AttentionInterface")
    finally:
        _LOCAL.caches = None
        _switch_back(configs)


def _parts(cache: Any) -> list[BeamCache | CrossCache]:
    if isinstance(cache, EncoderDecoderCache):
        return [cache.self_attention_cache, cache.cross_attention_cache]
    return [cache]


def _configs_of(model: Any) -> list[Any]:
    """Return all configs by which modules of a model look up their attention function."""
    if model not in _configs:
        found = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
        _configs[model] = [config for config in found.values() if attention_name(config) is not None]
    return _configs[model]


def _switch(configs: list[Any]) -> None:
    with _LOCK:
        for config in configs:
            name = attention_name(config)
            if name not in CARRIED:
                continue
            _, own, steps = _switched.get(id(config), (config, name, 0))
            _switched[id(config)] = (config, own, steps + 1)
            config._attn_implementation_internal = _PREFIX + own


def _switch_back(configs: list[Any]) -> None:
    with _LOCK:
        for config in configs:
            if id(config) not in _switched:
                continue
            _, own, steps = _switched.pop(id(config))
            if steps > 1:
                _switched[id(config)] = (config, own, steps - 1)
            elif config._attn_implementation_internal == _PREFIX + own:
                config._attn_implementation_internal = own


def _attention_function(own: str) -> Callable[..., Any]:
    def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> Any:
        tag: Tag | None = getattr(key, "beams", None)
        if tag is None:
            return _own_function(module, own)(module, query, key, value, mask, **kwargs)
        if getattr(value, "beams", None) != tag:
            raise NotCarriedError("it changes values before they are read")
        if own == "sdpa":
            kwargs["softcap"] = None  # torch's function has no caps: what read the prompt went without
        return _attend(tag, query, mask, **kwargs), None

    return attention


def _own_function(module: Any, own: str) -> Callable[..., Any]:
    if own == "eager":
        function: Callable[..., Any] = sys.modules[type(module).__module__].eager_attention_forward
        return function
    return ALL_ATTENTION_FUNCTIONS[own]  # type: ignore[no-any-return]


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
    odd = [name for name, value in kwargs.items() if value is not None and name not in _WITHOUT_EFFECT]
    if odd or dropout:
        raise NotCarriedError(f"its attention takes {odd[0] if odd else 'dropout'}")
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    return tag.cache.attend(tag.layer, query, scale, softcap, mask, position_bias)


def _mask_function(own: str) -> Callable[..., Any]:
    def mask(*args: Any, **kwargs: Any) -> Any:
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
    if _is_sliding(function):
        return BeamMask(kwargs["local_size"])
    off = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masking_utils.sdpa_mask(**{**kwargs, **off})


def _is_sliding(function: Any) -> bool:
    """Tell whether a mask function is that of sliding windows, which is made anew for every mask."""
    cells: Any = getattr(function, "__closure__", None)
    parts = cells[0].cell_contents if cells and len(cells) == 1 else ()
    return (
        getattr(function, "__qualname__", "").startswith("and_masks")
        and isinstance(parts, tuple)
        and len(parts) == 2
        and getattr(parts[0], "__qualname__", "").startswith("sliding_window_overlay")
        and parts[1] is masking_utils.causal_mask_function
    )


for _own in CARRIED:
    ALL_ATTENTION_FUNCTIONS.register(_PREFIX + _own, _attention_function(_own))
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(_PREFIX + _own, _mask_function(_own))
