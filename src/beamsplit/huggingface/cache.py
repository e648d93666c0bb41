"""Selection of rows from a transformers cache, and from the other arguments of a model's next call."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, EncoderDecoderCache

from beamsplit.errors import ModelError
from beamsplit.huggingface.beam_cache import BeamCache, CrossCache

__all__ = ["check_cache", "has_rows", "same_rows", "select_rows"]

_CACHE_NAMES = ("past_key_values", "cache_params")


def check_cache(model: Any, kwargs: dict[str, Any]) -> None:
    """Raise unless the model keeps a cache whose rows can be repeated, permuted and dropped."""
    if hidden := _hidden_state(model, kwargs):
        raise ModelError(
            f"{type(model).__name__} keeps {hidden} in its modules, where a search cannot reach it: "
            "it cannot be decoded by beams with this release of transformers"
        )
    caches = [kwargs[name] for name in _CACHE_NAMES if kwargs.get(name) is not None]
    if not caches:
        raise ModelError(
            "the model returned no cache, and without one every step would read the whole prompt again: "
            "call it with use_cache=True, or choose a model that has a cache"
        )
    for cache in caches:
        _check_rows(cache)


def _hidden_state(model: Any, kwargs: dict[str, Any]) -> str | None:
    """Return what a model keeps of a sequence outside its cache, if anything."""
    if type(model).__name__.startswith("RecurrentGemma"):
        return "recurrent states"
    inner = getattr(model, "model", model)
    if getattr(inner, "rope_deltas", None) is not None and kwargs.get("position_ids") is None:
        return "offsets of positions"  # Qwen2-VL and similar models before 5.3: one for each input
    return None


def _check_rows(cache: Any) -> None:
    if isinstance(cache, EncoderDecoderCache):
        _check_rows(cache.self_attention_cache)
        _check_rows(cache.cross_attention_cache)
        return
    if not isinstance(cache, Cache) or getattr(cache, "layers", None) is None:
        raise ModelError(
            f"the model's cache is a {type(cache).__name__}, whose rows cannot be told apart: "
            "only models with a transformers Cache of layers can be searched"
        )
    kinds = {base.__name__ for layer in cache.layers for base in type(layer).__mro__}
    fixed = sorted(kind for kind in kinds if "Static" in kind or "Quantized" in kind)
    if fixed or getattr(cache, "offloading", False):
        raise ModelError(
            f"the model's cache is {'made of ' + fixed[0] if fixed else 'offloaded'}, which cannot follow "
            "beams that come and go: leave cache_implementation out, or set it to 'dynamic'"
        )


def select_rows(kwargs: dict[str, Any], rows: Tensor, before: int, same_inputs: bool) -> dict[str, Any]:
    """Return the arguments of the next call for these rows, out of `before` rows.

    Masks, positions and the encoder's output are the same for all beams of an input. So if every row still
    belongs to the same input (`same_inputs`), they stay as they are, and so does the cross-attention cache.
    """
    selected = {}
    for name, value in kwargs.items():
        if name in _CACHE_NAMES and value is not None:
            selected[name] = _select_cache(value, rows, same_inputs)
        else:
            selected[name] = value if same_inputs else _select_value(name, value, rows, before)
    return selected


def _select_cache(cache: Any, rows: Tensor, same_inputs: bool) -> Any:
    if isinstance(cache, BeamCache):
        return cache.select(rows, same_inputs)
    if isinstance(cache, CrossCache):
        return cache.select(rows)
    selected = copy.copy(cache)
    if isinstance(cache, EncoderDecoderCache):
        selected.self_attention_cache = _select_cache(cache.self_attention_cache, rows, same_inputs)
        if not same_inputs:
            selected.cross_attention_cache = _select_cache(cache.cross_attention_cache, rows, same_inputs)
        selected.is_updated = dict(cache.is_updated)
    else:
        selected.layers = [_select_layer(layer, rows) for layer in cache.layers]
    return selected


def _select_layer(layer: Any, rows: Tensor) -> Any:
    """Return a copy that shares no dictionary with the original: some layers keep their tensors in one."""
    selected = copy.copy(layer)
    for name, value in vars(layer).items():
        if isinstance(value, dict):
            setattr(selected, name, dict(value))
    selected.reorder_cache(rows)
    return selected


def _select_value(name: str, value: Any, rows: Tensor, before: int) -> Any:
    """Return the rows of a tensor, or of all tensors in an encoder's output.

    What has no rows stays as it is, such as pictures, which only the first call reads.
    """
    if name == "cache_position":  # has an entry for each token, and there may be as many tokens as rows
        return value
    if isinstance(value, Tensor):
        axis = _row_axis(name, value)
        if value.dim() <= axis or value.shape[axis] != before:
            return value
        return value.index_select(axis, rows.to(value.device))
    if isinstance(value, tuple):
        return tuple(_select_value(name, each, rows, before) for each in value)
    if isinstance(value, dict) and any(isinstance(each, Tensor) for each in value.values()):
        selected = copy.copy(value)
        for key, each in value.items():
            selected[key] = _select_value(key, each, rows, before)
        return selected
    return value


def _row_axis(name: str, value: Tensor) -> int:
    """Return the axis of rows. Positions of text and pictures together are [3 rows time]."""
    return 1 if name == "position_ids" and value.dim() == 3 else 0


def has_rows(kwargs: dict[str, Any], count: int) -> bool:
    """Tell whether every tensor has so many rows, one for each prompt. Pictures may have more or fewer."""
    if kwargs.get("mm_encoder_outputs") is not None:
        return False
    return all(
        value.shape[_row_axis(name, value)] == count
        for name, value in kwargs.items()
        if isinstance(value, Tensor) and value.dim() and name != "cache_position"
    )


def same_rows(first: Tensor, second: Tensor) -> bool:
    """Tell whether both have the same entries."""
    return first.shape == second.shape and torch.equal(first, second)
