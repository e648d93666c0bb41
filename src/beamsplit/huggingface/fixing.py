"""Which models can take steps of a fixed number of rows, and the steps that are kept for the next call."""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from transformers.cache_utils import EncoderDecoderCache

from beamsplit.huggingface import compiling
from beamsplit.huggingface.beam_cache import NotCarriedError
from beamsplit.huggingface.carrying import check_layers, check_model, next_inputs, padding_of
from beamsplit.huggingface.fixed import ENCODED, FixedBeams, Layer, Prompts, Shape
from beamsplit.model import FixedStep, Room

__all__ = ["are_close", "fix_step", "is_proven"]

LOG = logging.getLogger("beamsplit.huggingface")
_KEPT = 4  # steps for each model, with their memory
_SHARE = 16  # of a GPU's memory they may take one part of so many, but for the last one
_MOST_STEPS = 1024  # that memory is set aside for
_CLOSE = 1e-3  # log-probabilities of float32 that rounding makes differ are closer than this
_CLOSE_HALF = 0.1  # and those of half precision differ by a smaller share of what they vary by
_NEVER = -100.0  # a log-probability below which all are alike, -inf included

_LOCK = threading.Lock()
_kept: weakref.WeakKeyDictionary[Any, list[tuple[Any, FixedBeams]]] = weakref.WeakKeyDictionary()
_proven: weakref.WeakSet[Any] = weakref.WeakSet()
_given_up: weakref.WeakSet[Any] = weakref.WeakSet()


def fix_step(
    model: Any,
    kwargs: dict[str, Any],
    prompt_ids: Tensor,
    batch: int,
    room: Room,
    check: Callable[[FixedBeams], bool],
) -> FixedStep | None:
    """Return a step that goes on from these arguments of a model's next call; None if there is none.

    Args:
        model: the model.
        kwargs: after the first call, one row an input.
        prompt_ids: [inputs tokens] what it has read.
        batch: how many inputs there are.
        room: what the search needs.
        check: tells whether a new step does what the model does. It is asked once for each model.
    """
    if model in _given_up or room.length > _MOST_STEPS:
        return None
    try:
        prompts = _prompts(model, kwargs, prompt_ids, batch)
        shape = Shape.of(batch, room.beams, room.length, prompts)
        return _taken(model, shape, prompts) or _made(model, shape, prompts, check)
    except NotCarriedError as reason:
        _give_up(model, reason)
    except torch.cuda.OutOfMemoryError:
        LOG.info("%s is stepped without graphs this time: there is no memory for all steps", _name(model))
        _forget(model)
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError) as error:
        if model in _proven:
            raise
        _give_up(model, error)
    return None


def _give_up(model: Any, reason: Exception) -> None:
    if model not in _given_up:
        _given_up.add(model)
        LOG.info("%s is stepped without graphs: %s", _name(model), reason)


def _name(model: Any) -> str:
    return type(model).__name__


def _forget(model: Any) -> None:
    """Give back the memory of steps that are kept."""
    with _LOCK:
        _kept.pop(model, None)
    torch.cuda.empty_cache()


def _taken(model: Any, shape: Shape, prompts: Prompts) -> FixedBeams | None:
    """Return a step that an earlier call has left, for these inputs."""
    key = _key_of(model, shape, prompts)
    with _LOCK:
        kept = _kept.setdefault(model, [])
        index = next((index for index, (its, _) in enumerate(kept) if its == key), None)
        if index is None:
            return None
        _, step = kept.pop(index)
    step.load(prompts)
    return step


def _made(model: Any, shape: Shape, prompts: Prompts, check: Callable[[FixedBeams], bool]) -> FixedBeams:
    if model not in _proven:
        _prove(model, FixedBeams(model, shape, prompts, _call), check)
    key, reference = _key_of(model, shape, prompts), weakref.ref(model)
    is_compiled = compiling.are_wanted(model.device) and compiling.has_room(model, ("step", shape.rows))
    step = FixedBeams(model, shape, prompts, _compiled() if is_compiled else _call, is_compiled=is_compiled)
    step.on_close = lambda done: _keep(reference(), key, done)
    return step


def _prove(model: Any, step: FixedBeams, check: Callable[[FixedBeams], bool]) -> None:
    """Raise unless a step does what the model does."""
    is_same = check(step)
    if not step.has_read_all_layers:
        raise NotCarriedError("some of its layers do not go through transformers' AttentionInterface")
    if not is_same:
        raise NotCarriedError("its steps come out otherwise when their rows are fixed")
    _proven.add(model)


def is_proven(model: Any) -> bool:
    """Tell whether steps of this model have been seen to do what the model does."""
    return model in _proven


def are_close(found: Tensor, logits: Tensor) -> bool:
    """Tell whether log-probabilities [rows vocab] are those of a model's logits, but for rounding.

    Rounding to half precision in every layer makes log-probabilities differ by a few percent of what they
    vary by from token to token, whatever their size. In float32 hardly anything differs.
    """
    found, expected = (each.clamp(min=_NEVER) for each in (found, logits.float().log_softmax(-1)))
    off = found - expected
    if logits.dtype == torch.float32:
        return bool(off.abs().max() <= _CLOSE)
    return bool((off.std(-1) <= _CLOSE_HALF * expected.std(-1)).all())


def _keep(model: Any, key: Hashable, step: FixedBeams) -> None:
    """Keep a step for the next call, and forget the oldest if there are too many."""
    if model is not None:
        with _LOCK:
            kept = _kept.setdefault(model, [])
            kept.append((key, step))
            del kept[:-_KEPT]
            while len(kept) > 1 and sum(each.bytes for _, each in kept) > _most_bytes(step):
                del kept[0]


def _most_bytes(step: FixedBeams) -> float:
    """Return how much memory steps may keep when nobody searches."""
    device = step.tokens.device
    if device.type != "cuda":
        return float("inf")
    return torch.cuda.get_device_properties(device).total_memory / _SHARE


def _key_of(model: Any, shape: Shape, prompts: Prompts) -> Hashable:
    """Return what a captured step depends on: a graph knows weights by their place in memory."""
    weights = tuple(each.data_ptr() for each in model.parameters())
    arguments = tuple(sorted((name, repr(value)) for name, value in prompts.plain_arguments.items()))
    wanted = compiling.are_wanted(model.device)
    return shape, hash(weights), model.dtype, prompts.positions is None, arguments, wanted


def _call(model: Any, arguments: dict[str, Any], cache: Any) -> Tensor:
    logits: Tensor = model(**arguments, past_key_values=cache, return_dict=True).logits
    return logits[:, -1]


@functools.cache
def _compiled() -> Callable[..., Tensor]:
    made: Callable[..., Tensor] = torch.compile(_call, dynamic=False)
    return made


# What a model has read of its inputs

_CHANGING = (
    "attention_mask cache_position decoder_attention_mask decoder_input_ids decoder_position_ids input_ids "
    "inputs_embeds past_key_values position_ids"
).split()
# What positions in text and pictures are made of: nobody asks where a model is told the positions.
_OF_POSITIONS = "image_grid_thw mm_token_type_ids second_per_grid_ts video_grid_thw".split()


def _prompts(model: Any, kwargs: dict[str, Any], ids: Tensor, batch: int) -> Prompts:
    check_model(model)
    if model.training:
        raise NotCarriedError("it is in training mode")
    encoded = model.config.is_encoder_decoder
    prefix = "decoder_" if encoded else ""
    own_cache, cross_cache = _caches(kwargs["past_key_values"])
    own, length = _layers(own_cache), int(own_cache.get_seq_length())
    mask = padding_of(kwargs.get(f"{prefix}attention_mask"), own_cache)
    inputs = next_inputs(model, torch.cat([ids, ids[:, -1:]], dim=1), kwargs)
    positions = inputs.get(f"{prefix}position_ids")
    left_out = _CHANGING if positions is None else [*_CHANGING, *_OF_POSITIONS]
    arguments = {name: value for name, value in inputs.items() if name not in left_out and value is not None}
    _check_arguments(arguments)
    return Prompts(
        own=own,
        cross=() if cross_cache is None else _layers(cross_cache),
        spans={layer.window: _span(mask, batch, length, layer.keys) for layer in own},
        cross_span=None if cross_cache is None else _cross_span(kwargs, batch, cross_cache),
        length=length,
        positions=None if positions is None else _one_a_row(positions, batch),
        arguments=arguments,
        token_name=f"{prefix}input_ids",
        position_name=f"{prefix}position_ids",
        takes_places=inputs.get("cache_position") is not None,
        has_bias=_has_bias(model, own, length),
    )


def _has_bias(model: Any, own: tuple[Layer, ...], length: int) -> bool:
    """Tell whether a model adds a bias of positions to scores, as T5 does."""
    if not any(hasattr(module, "compute_bias") for module in model.modules()):
        return False
    if any(layer.window is not None or layer.keys.shape[2] != length for layer in own):
        raise NotCarriedError("it has a bias of positions, and does not keep all of them")
    return True


def _caches(cache: Any) -> tuple[Any, Any | None]:
    """Return the cache of what a model has said, and that of what it has encoded, if it has an encoder."""
    if isinstance(cache, EncoderDecoderCache):
        return cache.self_attention_cache, cache.cross_attention_cache
    return cache, None


def _layers(cache: Any) -> tuple[Layer, ...]:
    check_layers(cache)
    return tuple(
        Layer(layer.keys, layer.values, getattr(layer, "sliding_window", None)) for layer in cache.layers
    )


def _cross_span(kwargs: dict[str, Any], batch: int, cache: Any) -> Tensor:
    keys, mask = cache.layers[0].keys, kwargs.get("attention_mask")
    stored = keys.shape[2]
    if not isinstance(mask, Tensor) or bool(mask.all()):
        return _span(None, batch, stored, keys)
    if mask.shape != (batch, stored):
        raise NotCarriedError(f"it has a mask of shape {list(mask.shape)} for {stored} encoded tokens")
    return _span(mask, batch, stored, keys)


def _span(mask: Tensor | None, batch: int, length: int, keys: Tensor) -> Tensor:
    """Return where the real tokens are among those that are stored, the last few: [inputs 2]."""
    stored, device = keys.shape[2], keys.device
    if mask is None:
        return torch.tensor([[0, stored]], dtype=torch.int32, device=device).repeat(batch, 1)
    real = mask[:, :length].to(device).bool()
    count = real.sum(1)
    first = real.int().argmax(1)
    place = torch.arange(length, device=device)
    in_a_row = (place >= first[:, None]) & (place < (first + count)[:, None])
    if real.shape[0] != batch or not bool((in_a_row == real).all()):
        raise NotCarriedError("the real tokens of its inputs are not next to each other")
    start, end = first - (length - stored), first + count - (length - stored)
    return torch.stack([start.clamp(min=0), end.clamp(min=0)], 1).to(torch.int32)


def _check_arguments(arguments: dict[str, Any]) -> None:
    """Raise if a step takes tensors: they would be those of the first inputs for ever."""
    for name, value in arguments.items():
        is_tensor = any(isinstance(each, Tensor) for each in tree_leaves(value))
        if is_tensor and name != ENCODED:
            raise NotCarriedError(f"its step takes {name}")


def _one_a_row(positions: Tensor, batch: int) -> Tensor:
    """[... 1 or inputs 1] -> [... inputs 1]"""
    return positions.expand(*positions.shape[:-2], batch, 1)
