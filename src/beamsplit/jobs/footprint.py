"""Estimate what memory a batch takes beyond the weights, so that batches can be cut to what there is.

An estimate: what a beam keeps for each token it has, what an input keeps for each token of its prompt, and
the scores of the whole vocabulary for each beam. A batch that does not fit all the same is halved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from beamsplit.errors import ArgumentError
from beamsplit.messages import text_length

__all__ = ["Footprint", "footprint_of", "parse_memory"]

_SCORES = 12  # bytes a token of the vocabulary: logits, log-probabilities, and what sorting them takes
_LAYERS_AT_ONCE = 16  # numbers as long as a hidden state that reading a prompt token needs at the same time
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_memory(text: str) -> int:
    """Return a number of bytes, of a text for people.

    >>> parse_memory("40GB") == 40 << 30, parse_memory("1.5 MiB") == 3 << 19, parse_memory("100")
    (True, True, 100)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or not (size := int(float(found[1]) * _UNITS[found[2].upper()])):
        raise ArgumentError(f"{text!r} is no amount of memory: give one such as 40GB or 500MB")
    return size


@dataclass(frozen=True)
class Footprint:
    """What a batch takes, and what there is."""

    memory: int
    """Bytes that a batch may take."""
    input: int
    """Bytes of an input, beside its prompt: all its beams."""
    token: int
    """Bytes of a token of its prompt."""
    length: Callable[[Any], int]
    """Returns how many tokens a prompt has, or more."""

    def bytes_of(self, count: int, longest: int) -> int:
        """Return what a batch takes of so many inputs, whose longest prompt has so many tokens."""
        return count * (self.input + longest * self.token)

    def cut(self, order: Sequence[int], values: Sequence[Any], most: int) -> Iterator[list[int]]:
        """Yield the places of the inputs of each batch; the order is from the shortest to the longest.

        An input that does not fit is alone.
        """
        batch: list[int] = []
        longest = 0
        for place in order:
            longest = max(longest, self.length(values[place]))
            if batch and (len(batch) == most or self.bytes_of(len(batch) + 1, longest) > self.memory):
                yield batch
                batch = []
                longest = self.length(values[place])
            batch.append(place)
        if batch:
            yield batch


def footprint_of(model: Any, rows: int, max_length: int, memory: int) -> Footprint:
    """Return what a batch of so many beams an input takes. Raise if nobody knows that of the model."""
    module = getattr(model, "module", model)
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            "nobody knows how much memory a batch of this model takes: give a batch size, and leave the "
            "memory out"
        )
    kept, hidden, size = _of_config(getattr(module, "config", None), module)
    scores = _SCORES * _vocabulary(module)
    return Footprint(
        memory=memory,
        input=rows * (max_length * kept + scores),
        token=kept + _LAYERS_AT_ONCE * hidden * size,
        length=_length_in_tokens(getattr(model, "tokenizer", None)),
    )


def _of_config(config: Any, module: nn.Module) -> tuple[int, int, int]:
    """Return the bytes that are kept for a token, the width of a hidden state, and the bytes of a number."""
    size = next((each.element_size() for each in module.parameters()), torch.float32.itemsize)
    if config is None or not hasattr(config, "get_text_config"):
        widest = max((max(each.shape) for each in module.parameters() if each.ndim == 2), default=1)
        return 0, min(widest, 1 << 12), size  # a recurrent network keeps nothing for each token
    text = config.get_text_config(decoder=True)
    hidden = int(_first(text, "hidden_size", "d_model", "n_embd"))
    heads = int(_first(text, "num_attention_heads", "decoder_attention_heads", "n_head", "num_heads"))
    layers = int(_first(text, "decoder_layers", "num_hidden_layers", "n_layer", "num_layers"))
    each = int(getattr(text, "head_dim", None) or hidden // heads)
    groups = int(getattr(text, "num_key_value_heads", None) or heads)
    return 2 * layers * groups * each * size, hidden, size


def _first(config: Any, *names: str) -> Any:
    found = next((getattr(config, name) for name in names if getattr(config, name, None)), None)
    if found is None:
        raise ArgumentError(
            f"the config of this model has no {names[0]}, by which its memory is told: give a batch size, "
            "and leave the memory out"
        )
    return found


def _vocabulary(module: nn.Module) -> int:
    tables = [each.num_embeddings for each in module.modules() if isinstance(each, nn.Embedding)]
    return max(tables, default=0)


def _length_in_tokens(tokenizer: Any) -> Callable[[Any], int]:
    """Return what tells the length of a prompt: by the tokenizer, or else by its letters, which are more."""

    def length(value: Any) -> int:
        if tokenizer is not None and isinstance(value, str):
            return len(tokenizer(value)["input_ids"])
        return text_length(value)

    return length
