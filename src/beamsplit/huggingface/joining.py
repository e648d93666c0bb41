"""Put together rows of a transformers model that have come to different lengths.

Shorter rows are padded on the left, as prompts of different lengths are in any batch: masks and positions
tell what is real. So this works for a model that takes a batch of such prompts, and whose cache has a place
for each token.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from beamsplit.errors import ModelError
from beamsplit.huggingface.carrying import plain_arguments

__all__ = ["can_join", "join_arguments", "join_sequences"]

_CACHE = "past_key_values"
_ALONG_TIME = ("attention_mask", "position_ids", "token_type_ids")


def can_join(model: Any) -> bool:
    """Tell whether rows of different lengths fit into one call of the model, as far as is known of its kind.

    The positions of an encoder-decoder's output, and the state of a recurrent model, know nothing of padding.
    """
    return not model.config.is_encoder_decoder and not getattr(model, "_is_stateful", False)


def join_sequences(sequences: Sequence[Tensor]) -> Tensor:
    """Return all rows [rows time], the shorter ones with their first token repeated on the left.

    A processor that looks at which tokens a row has sees no new one.
    """
    longest = max(each.shape[1] for each in sequences)
    return torch.cat(
        [torch.cat([each[:, :1].expand(-1, longest - each.shape[1]), each], dim=1) for each in sequences]
    )


def join_arguments(states: Sequence[dict[str, Any]], rows: Sequence[int]) -> dict[str, Any]:
    """Return the arguments of a model's next call with the rows of all states, which have so many each."""
    plain = [plain_arguments(kwargs) for kwargs in states]
    caches: list[Any] = [kwargs.get(_CACHE) for kwargs in plain]
    _check(caches)
    lengths = [cache.get_seq_length() for cache in caches]
    plain = [_with_mask(*each) for each in zip(plain, lengths, rows, strict=True)]
    longest = lengths.index(max(lengths))
    joined: dict[str, Any] = {_CACHE: _join_caches(caches)}
    for name in plain[0]:
        if name != _CACHE:
            joined[name] = _join_values(name, [kwargs.get(name) for kwargs in plain], rows, longest)
    return joined


def _check(caches: Sequence[Any]) -> None:
    for cache in caches:
        kinds = {type(layer) for layer in getattr(cache, "layers", None) or ()}
        if not kinds or not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
            raise ModelError(
                "rows of different lengths cannot be put together in this model's cache, which is made of "
                f"{', '.join(sorted(kind.__name__ for kind in kinds)) or type(cache).__name__}: use "
                "schedule='lockstep'"
            )


def _with_mask(kwargs: dict[str, Any], length: int, rows: int) -> dict[str, Any]:
    """Return arguments that say which tokens are real, the next one among them."""
    if kwargs.get("attention_mask") is not None:
        return kwargs
    device = kwargs[_CACHE].layers[0].keys.device
    return {**kwargs, "attention_mask": torch.ones(rows, length + 1, dtype=torch.long, device=device)}


def _join_caches(caches: Sequence[Any]) -> Any:
    joined = copy.copy(caches[0])
    joined.layers = [_join_layers(layers) for layers in zip(*(cache.layers for cache in caches), strict=True)]
    return joined


def _join_layers(layers: Sequence[Any]) -> Any:
    joined = copy.copy(max(layers, key=lambda layer: layer.get_seq_length()))
    most = max(layer.keys.shape[-2] for layer in layers)
    for name in ("keys", "values"):
        parts = [getattr(layer, name) for layer in layers]
        setattr(joined, name, torch.cat([pad(part, (0, 0, most - part.shape[-2], 0)) for part in parts]))
    return joined


def _join_values(name: str, values: Sequence[Any], rows: Sequence[int], longest: int) -> Any:
    """Return an argument for all rows. `longest` is the state that has come furthest."""
    first = values[0]
    if name == "cache_position":
        return values[longest]
    if not isinstance(first, Tensor) or not first.dim():
        return values[longest]
    axis = 1 if name == "position_ids" and first.dim() == 3 else 0
    if any(value.shape[axis] != count for value, count in zip(values, rows, strict=True)):
        return values[longest]  # it has no rows
    if name in _ALONG_TIME:
        most = max(value.shape[-1] for value in values)
        values = [pad(value, (most - value.shape[-1], 0)) for value in values]
    if len({(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}) > 1:
        shapes = " and ".join(sorted({str(list(value.shape)) for value in values}))
        raise ModelError(f"rows of different lengths cannot be put together: {name} is {shapes}")
    return torch.cat(list(values), dim=axis)
