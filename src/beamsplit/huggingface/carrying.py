"""Which models can take a cache for beams, and how an ordinary cache is exchanged for one and back."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, EncoderDecoderCache
from transformers.generation.utils import GenerationMixin

from beamsplit.huggingface.attention_names import CARRIED, attention_name
from beamsplit.huggingface.beam_attention import beam_attention
from beamsplit.huggingface.beam_cache import BeamCache, CrossCache, NotCarriedError

__all__ = [
    "call_with_beams",
    "carry",
    "check_layers",
    "check_model",
    "give_up",
    "has_beam_cache",
    "is_wanted",
    "next_inputs",
    "padding_of",
    "plain_arguments",
]

LOG = logging.getLogger("beamsplit.huggingface")
LEAST_ON_CPU = 64  # tokens of a prompt: copying fewer costs no more than reading them apart

# transformers 5.3 takes the number of new tokens; earlier versions looked at `cache_position`.
_TAKES_LENGTH = (
    "next_sequence_length" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
)
_NAME = "past_key_values"
_proven: weakref.WeakSet[Any] = weakref.WeakSet()  # models that have made a step
_given_up: weakref.WeakSet[Any] = weakref.WeakSet()  # models that could not


def is_wanted(beam_cache: bool) -> bool:
    """Tell whether caches for beams are wanted: the environment variable BEAMSPLIT_BEAM_CACHE=0 says not."""
    return beam_cache and os.environ.get("BEAMSPLIT_BEAM_CACHE") != "0"


def has_beam_cache(kwargs: dict[str, Any]) -> bool:
    """Tell whether a model's next call is with a cache for beams."""
    cache = kwargs.get(_NAME)
    own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    return isinstance(own, BeamCache)


def carry(model: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's next call with a cache for beams, if it can take one.

    `kwargs` are those after the first call, one row an input.
    """
    if model in _given_up or not _is_tried(model) or not _is_worth_it(kwargs.get(_NAME)):
        return kwargs
    try:
        check_model(model)
        return {**kwargs, _NAME: _exchanged(model, kwargs)}
    except NotCarriedError as reason:
        _note(model, reason)
        return kwargs


def give_up(model: Any, kwargs: dict[str, Any], reason: Exception) -> dict[str, Any]:
    """Return the arguments of a model's next call with an ordinary cache, and use no other from here on."""
    _note(model, reason)
    return plain_arguments(kwargs)


def plain_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's next call with an ordinary cache."""
    if not has_beam_cache(kwargs):
        return kwargs
    cache = kwargs[_NAME]
    if not isinstance(cache, EncoderDecoderCache):
        return {**kwargs, _NAME: cache.expanded()}
    return {**kwargs, _NAME: _both(cache, lambda each: each.expanded())}


def call_with_beams(
    model: Any, kwargs: dict[str, Any], call: Callable[[dict[str, Any]], Any]
) -> tuple[Any, dict[str, Any]]:
    """Call a model for one step with its cache for beams: `call` takes the arguments of that step.

    Returns what the call returned, and the arguments. Raises a NotCarriedError if the model cannot be called
    in this way: whatever its first such call raises is taken for that.
    """
    cache = kwargs[_NAME]
    stepping = (
        _both(cache, lambda each: each.stepping())
        if isinstance(cache, EncoderDecoderCache)
        else cache.stepping()
    )
    kwargs = {**kwargs, _NAME: stepping}
    try:
        with beam_attention(model, stepping):
            outputs = call(kwargs)
        if outputs.get(_NAME) is not stepping:
            raise NotCarriedError("it returns another cache than it was given")
    except NotCarriedError:
        raise
    except Exception as error:
        if model in _proven:
            raise
        raise NotCarriedError(f"its step raises {type(error).__name__}: {error}") from error
    _proven.add(model)
    return outputs, kwargs


def next_inputs(model: Any, sequences: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what transformers calls a model with on the last token of each sequence [rows time]."""
    length = {"next_sequence_length": 1} if _TAKES_LENGTH else {}
    inputs: dict[str, Any] = model.prepare_inputs_for_generation(sequences, **length, **kwargs)
    return inputs


def _is_tried(model: Any) -> bool:
    """Tell whether the model is where such caches have been measured: on a CPU, or where the user says so."""
    return os.environ.get("BEAMSPLIT_BEAM_CACHE") == "1" or bool(model.device.type == "cpu")


def _is_worth_it(cache: Any) -> bool:
    """Tell whether a cache holds so much that it pays to store it once an input."""
    if isinstance(cache, EncoderDecoderCache) or not getattr(cache, "layers", None):
        return True
    keys = getattr(cache.layers[0], "keys", None)
    is_on_cpu = isinstance(keys, Tensor) and keys.device.type == "cpu"
    return not is_on_cpu or cache.get_seq_length() >= LEAST_ON_CPU


def _note(model: Any, reason: Exception) -> None:
    if model not in _given_up:
        _given_up.add(model)
        LOG.info("%s keeps a cache for each beam, with the prompt in it: %s", type(model).__name__, reason)


def _both(cache: Any, function: Callable[[Any], Any]) -> Any:
    made = copy.copy(cache)
    made.self_attention_cache = function(cache.self_attention_cache)
    made.cross_attention_cache = function(cache.cross_attention_cache)
    made.is_updated = dict(cache.is_updated)
    return made


def check_model(model: Any) -> None:
    """Raise a NotCarriedError if it is known before a step that the model cannot take a cache for beams."""
    if type(model).__module__.startswith("transformers_modules"):
        raise NotCarriedError("its code is not part of transformers")
    if getattr(model, "_compiled_call_impl", None) is not None or hasattr(model, "_orig_mod"):
        raise NotCarriedError("it is compiled")
    if len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1:
        raise NotCarriedError("it is spread over several devices")
    decoder = model.config.get_text_config(decoder=True)
    name = attention_name(decoder)
    if name not in CARRIED:
        raise NotCarriedError(
            f"its attn_implementation is {name!r}, and only {' and '.join(CARRIED)} can be replaced"
        )
    if getattr(decoder, "output_attentions", False) or getattr(model.config, "output_attentions", False):
        raise NotCarriedError("its config asks for output_attentions")


def _exchanged(model: Any, kwargs: dict[str, Any]) -> Any:
    """Return a cache for beams with what an ordinary one has of the prompts, one row an input."""
    cache = kwargs.get(_NAME)
    if cache is None:
        raise NotCarriedError("its cache is not in past_key_values")
    if not isinstance(cache, EncoderDecoderCache):
        check_layers(cache)
        return BeamCache.of(cache, padding_of(kwargs.get("attention_mask"), cache))
    check_layers(cache.self_attention_cache)
    check_layers(cache.cross_attention_cache)
    made = copy.copy(cache)
    own = "decoder_attention_mask" if model.config.is_encoder_decoder else "attention_mask"
    padding = padding_of(kwargs.get(own), cache.self_attention_cache)
    made.self_attention_cache = BeamCache.of(cache.self_attention_cache, padding)
    mask = kwargs.get("attention_mask")
    made.cross_attention_cache = CrossCache.of(
        cache.cross_attention_cache, isinstance(mask, Tensor) and not bool(mask.all())
    )
    made.is_updated = dict(cache.is_updated)
    return made


def check_layers(cache: Any) -> None:
    for layer in cache.layers:
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise NotCarriedError(f"its cache is made of {type(layer).__name__}")
        if not isinstance(layer.keys, Tensor) or layer.keys.dim() != 4:
            raise NotCarriedError("some of its layers share keys with others")
    if not cache.layers or len({layer.keys.device for layer in cache.layers}) > 1:
        raise NotCarriedError(
            "its cache is on several devices" if cache.layers else "its cache has no layers"
        )
    if len({layer.get_seq_length() for layer in cache.layers}) > 1:
        raise NotCarriedError("its layers have read different numbers of tokens")


def padding_of(mask: Any, cache: Any) -> Tensor | None:
    """Return which tokens of the prompts are real [inputs tokens]; None if all are."""
    if not isinstance(mask, Tensor) or bool(mask.all()):
        return None
    length = cache.get_seq_length()
    if mask.dim() != 2 or mask.shape[1] < length:
        raise NotCarriedError(f"it has a mask of shape {list(mask.shape)} for a prompt of {length}")
    return mask[:, :length].to(device=cache.layers[0].keys.device, dtype=torch.bool)
