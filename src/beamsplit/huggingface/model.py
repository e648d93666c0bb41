"""A transformers model as a `StepModel`: one prefill row an input, then one row a live beam."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.generation.utils import GenerationMixin

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.huggingface.cache import check_cache, same, select_rows
from beamsplit.huggingface.processors import Processors
from beamsplit.model import Logits

__all__ = ["Prompt", "TransformersModel", "from_transformers"]

# transformers 5.3 asks for the number of new tokens where its forerunners looked at `cache_position`.
_TELLS_LENGTH = (
    "next_sequence_length" in inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
)
_UNBOUNDED = 1 << 20  # more tokens than anyone asks for: `decode` has a limit of its own


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `generate` has made of a user's inputs when it hands over to a decoding loop."""

    input_ids: Tensor  # [batch time] a prompt, or what an encoder-decoder's output begins with
    kwargs: dict[str, Any]  # for the model's first call
    processors: Processors
    config: Any

    def every(self, nth: int) -> Prompt:
        """Without the rows in between, for inputs that were repeated."""
        batch = self.input_ids.shape[0]
        rows = torch.arange(0, batch, nth, device=self.input_ids.device)
        kwargs = select_rows(self.kwargs, rows, batch, same_inputs=False)
        return replace(self, input_ids=self.input_ids[rows], kwargs=kwargs)


@dataclass(frozen=True, slots=True)
class _State:
    kwargs: dict[str, Any]  # for the model's next call
    sequences: Tensor  # [rows time] prompt and output
    owner: Tensor  # [rows] the input that the row belongs to
    processors: Processors


Observer = Callable[[Tensor, Logits], None]


class TransformersModel:
    """A model of transformers, given what turns inputs into a `Prompt` and tokens into text."""

    def __init__(
        self,
        model: Any,
        prepare: Callable[[Any], Prompt],
        *,
        end: Sequence[int] = (),
        to_text: Callable[[tuple[int, ...]], str] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.end = list(end)
        self.to_text = to_text
        self._model = model
        self._prepare = prepare
        self._observer = observer

    @torch.no_grad()
    def start(self, inputs: Any) -> tuple[Logits, _State]:
        prompt = self._prepare(inputs)
        kwargs = dict(prompt.kwargs)
        outputs = _prefill(self._model, prompt.input_ids, prompt.config, kwargs)
        owner = torch.arange(prompt.input_ids.shape[0], device=prompt.input_ids.device)
        state = _State(kwargs, prompt.input_ids, owner, prompt.processors)
        logits, state = self._answer(outputs, state)
        check_cache(state.kwargs)
        return logits, state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: _State) -> tuple[Logits, _State]:
        sequences = torch.cat([state.sequences, tokens.unsqueeze(1)], dim=1)
        length = {"next_sequence_length": 1} if _TELLS_LENGTH else {}
        inputs = self._model.prepare_inputs_for_generation(sequences, **length, **state.kwargs)
        outputs = self._model(**inputs, return_dict=True)
        return self._answer(outputs, replace(state, sequences=sequences))

    def select(self, state: _State, rows: Tensor) -> _State:
        owner = state.owner[rows]
        kwargs = select_rows(state.kwargs, rows, len(state.owner), same(owner, state.owner))
        return _State(kwargs, state.sequences[rows], owner, state.processors)

    def _answer(self, outputs: Any, state: _State) -> tuple[Logits, _State]:
        is_encoder_decoder = self._model.config.is_encoder_decoder
        kwargs = self._model._update_model_kwargs_for_generation(
            outputs, dict(state.kwargs), is_encoder_decoder=is_encoder_decoder
        )
        logits = plain = outputs.logits[:, -1]
        if state.processors:
            logits = state.processors.guide(plain.float(), state.sequences, state.owner)
        if self._observer is not None:
            self._observer(plain, logits)
        return logits, replace(state, kwargs=kwargs)


def _prefill(model: Any, input_ids: Tensor, config: Any, kwargs: dict[str, Any]) -> Any:
    """The model's first call. May add to `kwargs`."""
    if hasattr(model, "_prefill"):  # since transformers 5.0
        return model._prefill(input_ids, config, kwargs)
    model._get_initial_cache_position(input_ids.shape[1], input_ids.device, kwargs)
    return model(**model.prepare_inputs_for_generation(input_ids, **kwargs), return_dict=True)


def from_transformers(model: Any, processor: Any = None, **generation: Any) -> TransformersModel:
    """A transformers model for `decode` and `steps`, with its tokenizer or processor for words.

    Inputs may be texts (one or a list), pictures, sound (arrays at the processor's sampling rate), a
    dictionary of the processor's arguments (`{"text": [...], "images": [...]}`), or what the processor
    returned. `generation` are settings of `generate` that shape the next word, such as
    repetition_penalty=1.2; those of the model's own generation config hold unless they are given here. How
    to search, and for how long, is up to `decode`.
    """
    if not callable(getattr(model, "generate", None)):
        raise ArgumentError(
            f"model must be one of transformers that can generate, not {checks.shown(type(model).__name__)}: "
            "load it with AutoModelForCausalLM, AutoModelForSeq2SeqLM, ..."
        )
    generation = {"max_new_tokens": _UNBOUNDED, **generation}

    def prepare(inputs: Any) -> Prompt:
        encoded = _encode(model, processor, inputs)
        made: Prompt = model.generate(
            **encoded,
            **generation,
            num_beams=1,
            num_return_sequences=1,
            do_sample=False,
            custom_generate=_capture,
        )
        return made

    decode = getattr(processor, "decode", None)
    return TransformersModel(
        model,
        prepare,
        end=end_tokens(model.generation_config.eos_token_id),
        to_text=decode and (lambda tokens: decode(list(tokens), skip_special_tokens=True)),
    )


def _capture(
    _: Any, input_ids: Tensor, *, logits_processor: Any, generation_config: Any, **kwargs: Any
) -> Prompt:
    """In place of a decoding loop: hand over what it would have begun with."""
    kwargs.pop("stopping_criteria", None)
    return Prompt(input_ids, kwargs, Processors(logits_processor), generation_config)


def end_tokens(ids: Any) -> list[int]:
    """One id, several or none, as a list."""
    ids = checks.once(ids)
    if ids is None:
        return []
    return list(ids) if isinstance(ids, list) else [ids]


def _encode(model: Any, processor: Any, inputs: Any) -> dict[str, Any]:
    """What `generate` takes. Mappings of tensors already are that."""
    if isinstance(inputs, Tensor):
        return {"inputs": inputs}
    if isinstance(inputs, Mapping) and any(isinstance(value, Tensor) for value in inputs.values()):
        return {name: _moved(value, model) for name, value in inputs.items()}
    if processor is None:
        raise ArgumentError(
            f"{checks.shown(inputs)} must be turned into tensors first: give from_transformers the model's "
            "tokenizer or processor, or inputs that these have returned"
        )
    tokenizer = getattr(processor, "tokenizer", processor)
    arguments = _arguments(model, processor, inputs)
    if "text" in arguments and getattr(tokenizer, "pad_token_id", 0) is None:
        encoded = _pad([tokenizer(text)["input_ids"] for text in arguments["text"]])
    else:
        encoded = processor(**arguments, return_tensors="pt")
    return {name: _moved(value, model) for name, value in encoded.items()}


def _pad(rows: list[list[int]]) -> dict[str, Tensor]:
    """On the left, for tokenizers that have no token to do it with: what is masked may be any token."""
    longest = max(len(row) for row in rows)
    return {
        "input_ids": torch.tensor([[0] * (longest - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
    }


def _moved(value: Any, model: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    # Pictures and sound come as float32, whatever the model computes in.
    return value.to(model.device, model.dtype if value.is_floating_point() else None)


def _arguments(model: Any, processor: Any, inputs: Any) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return {"padding": True, **inputs}
    inputs = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Sequence) else list(inputs)
    first = inputs[0]
    if isinstance(first, str):
        # Output goes on where a prompt ends, so padding must come before it.
        side = {} if model.config.is_encoder_decoder else {"padding_side": "left"}
        return {"text": inputs, "padding": True, **side}
    if hasattr(first, "convert"):  # a PIL image
        return {"images": inputs}
    rate = getattr(getattr(processor, "feature_extractor", processor), "sampling_rate", None)
    if rate is not None:
        return {"audio": inputs, "sampling_rate": rate}
    return {"images": inputs}
