"""The name under which a model looks up its attention function, for as long as a step takes."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from beamsplit.huggingface.beam_cache import NotCarriedError

__all__ = ["CARRIED", "PREFIX", "attention_name", "is_sliding", "own_function", "refuse_odd", "renamed"]

CARRIED = ("sdpa", "eager")
"""The attention functions that ours can take the place of."""

PREFIX = "beamsplit_"

_LOCK = threading.Lock()
# Configs whose name is ours: the own name, and for how many steps.
_switched: dict[int, tuple[Any, str, int]] = {}
_configs: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

# Arguments of attention functions that change nothing for one token a row without dropout.
_WITHOUT_EFFECT = frozenset(
    "cache cache_position cu_seq_lens_k cu_seq_lens_q decoder_attention_mask encoder_attention_mask "
    "encoder_hidden_states is_causal is_cross_attention logits_to_keep max_length_k max_length_q "
    "mm_token_type_ids num_items_in_batch output_attentions output_hidden_states output_router_logits "
    "past_key_value past_key_values position_embeddings position_ids return_dict sliding_window target_dtype "
    "token_type_ids use_cache".split()
)


def attention_name(config: Any) -> str | None:
    """Return the name of a config's own attention function, also while ours takes its place."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name.removeprefix(PREFIX) if isinstance(name, str) else None


def own_function(module: Any, own: str) -> Callable[..., Any]:
    """Return the function of this name that ours takes the place of, in a layer of a model."""
    if own == "eager":
        function: Callable[..., Any] = sys.modules[type(module).__module__].eager_attention_forward
        return function
    return ALL_ATTENTION_FUNCTIONS[own]  # type: ignore[no-any-return]


def refuse_odd(arguments: dict[str, Any], dropout: float) -> None:
    """Raise a NotCarriedError if an attention function of ours is given what it does not know."""
    odd = [name for name, given in arguments.items() if given is not None and name not in _WITHOUT_EFFECT]
    if odd or dropout:
        raise NotCarriedError(f"its attention takes {odd[0] if odd else 'dropout'}")


def is_sliding(function: Any) -> bool:
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


@contextmanager
def renamed(model: Any) -> Iterator[None]:
    """Let a model look up its attention function under our name."""
    configs = _configs_of(model)
    _switch(configs)
    try:
        yield
    finally:
        _switch_back(configs)


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
            config._attn_implementation_internal = PREFIX + own


def _switch_back(configs: list[Any]) -> None:
    with _LOCK:
        for config in configs:
            if id(config) not in _switched:
                continue
            _, own, steps = _switched.pop(id(config))
            if steps > 1:
                _switched[id(config)] = (config, own, steps - 1)
            elif config._attn_implementation_internal == PREFIX + own:
                config._attn_implementation_internal = own
