"""Small models with the same weights under any version of transformers.

What a version draws when it initialises a model is its own affair, so every weight is drawn here, by a
generator of Python's that is seeded with the weight's name.
"""

from __future__ import annotations

import functools
import importlib
import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["NAMES", "VOCABULARY", "build_model", "checksum", "log_probs", "transformers"]

# Not an import statement: type checkers would read the whole of it.
transformers: Any = importlib.import_module("transformers")

VOCABULARY = 48
_WIDTH = 24
_POSITIONS = 64

_SEQ2SEQ = {
    "d_model": _WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 2 * _WIDTH,
    "decoder_ffn_dim": 2 * _WIDTH,
    "max_position_embeddings": _POSITIONS,
    "pad_token_id": 0,
    "forced_eos_token_id": None,
    "scale_embedding": True,
}


@dataclass(frozen=True)
class _Recipe:
    model: str
    config: str
    settings: dict[str, Any]
    embedding: float  # standard deviations
    output: float | None  # None: the embedding is the output layer too
    gain: float = 1.3  # of a matrix


_RECIPES = {
    "gpt2": _Recipe(
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "n_embd": _WIDTH,
            "n_layer": 2,
            "n_head": 2,
            "n_positions": _POSITIONS,
            "bos_token_id": None,
            "eos_token_id": None,
            "tie_word_embeddings": False,
        },
        embedding=1.0,
        output=0.5,
    ),
    "llama": _Recipe(
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "hidden_size": _WIDTH,
            "intermediate_size": 2 * _WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": _POSITIONS,
            "bos_token_id": None,
            "eos_token_id": None,
            "tie_word_embeddings": False,
        },
        embedding=1.0,
        output=0.5,
    ),
    "bart": _Recipe(
        "BartForConditionalGeneration",
        "BartConfig",
        _SEQ2SEQ | {"bos_token_id": None, "eos_token_id": 2, "decoder_start_token_id": 2},
        embedding=0.5,
        output=None,
    ),
    "t5": _Recipe(
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "d_model": _WIDTH,
            "d_kv": _WIDTH // 2,
            "d_ff": 2 * _WIDTH,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "num_heads": 2,
            "pad_token_id": 0,
            "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
        embedding=2.5,  # T5 scales its outputs down where they are tied, which version 5 has them always
        output=None,
        gain=4.0,
    ),
    "marian": _Recipe(
        "MarianMTModel",
        "MarianConfig",
        _SEQ2SEQ | {"eos_token_id": 1, "decoder_start_token_id": 0},
        embedding=0.5,
        output=None,
    ),
}
NAMES = tuple(_RECIPES)


@functools.cache
def build_model(name: str) -> Any:
    """The model of this name, on the CPU, in float32; nothing is preset for `generate`."""
    recipe = _RECIPES[name]
    config = getattr(transformers, recipe.config)(vocab_size=VOCABULARY, **recipe.settings)
    config._attn_implementation = "eager"  # the others round differently from version to version
    model = getattr(transformers, recipe.model)(config).eval()
    state = model.state_dict()  # shares memory with the weights, tied or not
    with torch.no_grad():
        for weight_name, weight in state.items():
            _fill(name, recipe, weight_name, weight)
    model.generation_config = transformers.GenerationConfig()
    return model


def _fill(name: str, recipe: _Recipe, weight_name: str, weight: Tensor) -> None:
    if name == "marian" and "embed_positions" in weight_name:
        return  # sines, which are part of the architecture
    if weight_name == "final_logits_bias":
        weight.zero_()
        return
    key, mean, deviation = _distribution(recipe, weight_name, weight)
    generator = random.Random(f"{name}/{key}")
    values = [generator.gauss(mean, deviation) for _ in range(weight.numel())]
    weight.copy_(torch.tensor(values, dtype=weight.dtype).view(weight.shape))


def _distribution(recipe: _Recipe, weight_name: str, weight: Tensor) -> tuple[str, float, float]:
    """What to seed with, the mean and the standard deviation."""
    last = weight_name.split(".")[-2:]
    if last == ["lm_head", "weight"] and recipe.output is not None:
        return "output", 0.0, recipe.output
    if last[0] in ("lm_head", "embed_tokens", "shared", "wte"):
        return "embedding", 0.0, recipe.embedding  # tied, under whichever name it comes first
    if last[0] in ("wpe", "embed_positions"):
        return weight_name, 0.0, 0.5
    if last[0] in ("q", "k"):  # T5 does not scale its attention: strong weights would blow up rounding
        return weight_name, 0.0, 0.5 / min(weight.shape) ** 0.5
    if weight.dim() == 2:
        return weight_name, 0.0, recipe.gain / min(weight.shape) ** 0.5
    mean = 1.0 if last[1] == "weight" else 0.0  # only norms have weights with one axis
    return weight_name, mean, 0.1


def checksum(model: Any) -> list[float]:
    """A few logits for a fixed input: models for which they agree have the same weights."""
    ids = torch.arange(3, 10).unsqueeze(0)
    with torch.no_grad():
        kwargs = {"decoder_input_ids": ids + 9} if model.config.is_encoder_decoder else {}
        logits = model(input_ids=ids, **kwargs).logits
    return [round(value, 4) for value in logits[0, 1::3, ::7].flatten().tolist()]


def log_probs(model: Any, source: tuple[int, ...], prefixes: Tensor) -> Tensor:
    """[prefix vocabulary] after these prefixes, from scratch: no padding and no cache.

    A prefix begins with the prompt or with the decoder's first token; `source` is what an encoder reads.
    """
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            ids = torch.tensor([source]).expand(len(prefixes), -1)
            mask = torch.ones_like(ids)
            outputs = model(input_ids=ids, attention_mask=mask, decoder_input_ids=prefixes, use_cache=False)
        else:
            outputs = model(input_ids=prefixes, use_cache=False)
    return torch.log_softmax(outputs.logits[:, -1].float(), dim=-1)
