"""A model's first call, on the prompts: transformers' own, or the same compiled.

What is compiled is for one shape, so prompts are made longer to one of a few lengths. The tokens that are
added come last, where a causal model's other tokens do not see them, and their keys and values are dropped.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from beamsplit.huggingface import compiling
from beamsplit.huggingface.attention_names import attention_name, renamed
from beamsplit.huggingface.fixed import ShownLayer, bucket
from beamsplit.huggingface.fixing import are_close, is_proven

__all__ = ["prefill"]

LOG = logging.getLogger("beamsplit.huggingface")

KeysValues: TypeAlias = list[tuple[Tensor, Tensor]]
"""Of each layer [rows heads tokens size]."""

_proven: weakref.WeakSet[Any] = weakref.WeakSet()
_given_up: weakref.WeakSet[Any] = weakref.WeakSet()


def prefill(model: Any, input_ids: Tensor, config: Any, kwargs: dict[str, Any]) -> Any:
    """Call the model on the prompts [inputs tokens]. May add to `kwargs`."""
    if compiling.are_wanted(model.device) and model not in _given_up and is_proven(model):
        found = _by_compiler(model, input_ids, config, kwargs)
        if found is not None:
            return found
    return _as_it_is(model, input_ids, config, kwargs)


def _as_it_is(model: Any, input_ids: Tensor, config: Any, kwargs: dict[str, Any]) -> Any:
    if hasattr(model, "_prefill"):  # since transformers 5.0
        return model._prefill(input_ids, config, kwargs)
    model._get_initial_cache_position(input_ids.shape[1], input_ids.device, kwargs)
    return model(**model.prepare_inputs_for_generation(input_ids, **kwargs), return_dict=True)


def _by_compiler(model: Any, input_ids: Tensor, config: Any, kwargs: dict[str, Any]) -> Any | None:
    """Return what the model answers; None if it cannot be compiled for such prompts."""
    inputs, length = input_ids.shape
    shape = "prompt", inputs, bucket(length)
    arguments = _arguments(model, input_ids, kwargs)
    if arguments is None or not compiling.has_room(model, shape):
        return None
    try:
        with compiling.first_run(model, shape, f"prompts of {bucket(length)} tokens"), renamed(model):
            logits, read = _compiled()(model, arguments, input_ids.new_tensor([length - 1]))
        if model not in _proven:
            expected = _as_it_is(model, input_ids, config, {**kwargs, "past_key_values": DynamicCache()})
            if not are_close(logits[:, -1].float().log_softmax(-1), expected.logits[:, -1]):
                raise RuntimeError("its prompts come out otherwise")
            _proven.add(model)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a compiler raises, the model itself still works
        _given_up.add(model)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        LOG.info("%s reads prompts without a compiler: %s", type(model).__name__, reason)
        return None
    cache = kwargs["past_key_values"]
    for layer, (keys, values) in enumerate(read):
        cache.update(keys[:, :, :length], values[:, :, :length], layer)
    return CausalLMOutputWithPast(logits=logits, past_key_values=cache)


_REPLACED = ("attention_mask", "cache_position", "input_ids", "logits_to_keep", "past_key_values")


def _arguments(model: Any, input_ids: Tensor, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of the call for prompts that were made longer; None for those it is not for.

    These are prompts with padding or anything beside their tokens, and models whose layers do not see all.
    """
    cache: Any = kwargs.get("past_key_values")
    mask = kwargs.get("attention_mask")
    if (
        model.config.is_encoder_decoder
        or not hasattr(model, "_prefill")
        or attention_name(model.config.get_text_config()) != "sdpa"
        or type(cache) is not DynamicCache
        or any(type(layer) is not DynamicLayer for layer in cache.layers)
        or cache.get_seq_length()
        or (mask is not None and not bool(mask.all()))
    ):
        return None
    prepared = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **kwargs)
    length, longer = input_ids.shape[1], bucket(input_ids.shape[1])
    arguments = {
        name: value for name, value in prepared.items() if name not in _REPLACED and value is not None
    }
    places = torch.arange(longer, device=input_ids.device).unsqueeze(0)
    if "position_ids" in arguments:
        arguments["position_ids"] = places
    if any(isinstance(value, Tensor) for name, value in arguments.items() if name != "position_ids"):
        return None
    arguments["input_ids"] = torch.nn.functional.pad(input_ids, (0, longer - length))
    return arguments


@functools.cache
def _compiled() -> Callable[..., tuple[Tensor, KeysValues]]:
    made: Callable[..., tuple[Tensor, KeysValues]] = torch.compile(_read, dynamic=False, fullgraph=True)
    return made


def _read(model: Any, arguments: dict[str, Any], last: Tensor) -> tuple[Tensor, KeysValues]:
    """Return the logits after the token at `last`, and the keys and values of all tokens."""
    cache = _TakingCache(model.config.get_text_config().num_hidden_layers)
    answer = model(**arguments, past_key_values=cache, logits_to_keep=last, use_cache=True, return_dict=True)
    return answer.logits, cache.taken


class _TakingCache(Cache):  # type: ignore[misc]
    """A cache that begins empty and keeps what it is given."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[ShownLayer() for _ in range(layers)])
        self.taken: KeysValues = []

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.taken.append((key_states, value_states))
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: Any, layer_idx: int) -> tuple[Any, int]:
        return query_length, 0
