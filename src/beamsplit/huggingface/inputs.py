"""Encoding of inputs: texts, messages, pictures and sound, as arguments of `generate`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.huggingface.chat import NO_ARGUMENTS, check_template, refused_messages, render
from beamsplit.messages import Conversation, goes_on, read_conversations, text_of_content

__all__ = ["encode"]


def encode(
    model: Any, processor: Any, inputs: Any, template: Mapping[str, Any] = NO_ARGUMENTS
) -> dict[str, Any]:
    """Return inputs as arguments of `generate`. Mappings of tensors already are.

    `template` are arguments of the chat template, for messages.
    """
    if isinstance(inputs, Tensor):
        return {"inputs": inputs}
    if isinstance(inputs, Mapping) and any(isinstance(value, Tensor) for value in inputs.values()):
        return {name: _moved(value, model) for name, value in inputs.items()}
    if processor is None:
        raise ArgumentError(
            f"{checks.short_repr(inputs)} must be turned into tensors first: give from_transformers the "
            "model's tokenizer or processor, or inputs that these have returned"
        )
    conversations = read_conversations(inputs)
    if conversations is None:
        encoded = _call(processor, _arguments(model, processor, inputs))
    else:
        encoded = _encode_chat(model, processor, conversations, template)
    return {name: _moved(value, model) for name, value in encoded.items()}


def _encode_chat(
    model: Any, processor: Any, conversations: list[Conversation], template: Mapping[str, Any]
) -> Mapping[str, Any]:
    check_template(processor)
    if _has_pictures(conversations):  # or sound among the words, which only the processor can place
        return _encode_pictures(model, processor, conversations, template)
    texts = [render(processor, each, template) for each in conversations]
    # The template has written all special tokens that there are.
    return _call(processor, {**_padding(model), "text": texts, "add_special_tokens": False})


def _encode_pictures(
    model: Any, processor: Any, conversations: list[Conversation], template: Mapping[str, Any]
) -> Mapping[str, Any]:
    begun = [goes_on(each) for each in conversations]
    if any(begun) and not all(begun):
        raise ArgumentError(
            f"input {begun.index(True)} ends with a message of the assistant, and input {begun.index(False)} "
            "does not: with pictures or sound, decode them apart"
        )
    takes = inspect.signature(processor.apply_chat_template).parameters
    # Since transformers 5, arguments of the processor itself have a place of their own.
    padding = {"processor_kwargs": _padding(model)} if "processor_kwargs" in takes else _padding(model)
    with refused_messages():
        encoded: Mapping[str, Any] = processor.apply_chat_template(
            [[dict(message) for message in each] for each in conversations],
            **template,
            add_generation_prompt=not begun[0],
            continue_final_message=begun[0],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            **padding,
        )
    return encoded


def _has_pictures(conversations: list[Conversation]) -> bool:
    contents = [message.get("content") for each in conversations for message in each]
    return any(content is not None and text_of_content(content) is None for content in contents)


def _call(processor: Any, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Call the processor. If its tokenizer has no padding token, pad texts here."""
    tokenizer = getattr(processor, "tokenizer", processor)
    texts = arguments.get("text", ())
    if texts and getattr(tokenizer, "pad_token_id", 0) is None:
        others = {name: value for name, value in arguments.items() if not name.startswith("padding")}
        if len(texts) > 1 and set(others) <= {"text", "add_special_tokens"}:
            left = arguments.get("padding_side") == "left"
            specials = others.get("add_special_tokens", True)
            return _pad([tokenizer(text, add_special_tokens=specials)["input_ids"] for text in texts], left)
        if len(texts) > 1:
            raise ArgumentError(
                f"{len(texts)} texts need padding, and the tokenizer has no token for it: "
                "set tokenizer.pad_token"
            )
        arguments = others
    encoded: Mapping[str, Any] = processor(**arguments, return_tensors="pt")
    return encoded


def _pad(rows: list[list[int]], left: bool) -> dict[str, Tensor]:
    """Pad rows of ids with token 0, which the attention mask hides."""
    longest = max(len(row) for row in rows)
    ids, mask = [], []
    for row in rows:
        fill, ones = [0] * (longest - len(row)), [1] * len(row)
        ids.append(fill + row if left else row + fill)
        mask.append(fill + ones if left else ones + fill)
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def _moved(value: Any, model: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    # Pictures and sound come as float32, whatever the model computes in.
    return value.to(model.device, model.dtype if value.is_floating_point() else None)


def _arguments(model: Any, processor: Any, inputs: Any) -> dict[str, Any]:
    """Return the arguments to call the processor with."""
    if isinstance(inputs, Mapping):
        given = dict(inputs)
        if "text" not in given:
            return given
        texts = [given["text"]] if isinstance(given["text"], str) else list(given["text"])
        return {**_padding(model), **given, "text": texts}
    inputs = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Sequence) else list(inputs)
    if isinstance(inputs[0], str):
        return {**_padding(model), "text": inputs}
    if hasattr(processor, "convert_ids_to_tokens"):  # a tokenizer, which takes nothing else
        raise ArgumentError(
            f"a tokenizer takes texts, not {checks.short_repr(inputs[0])}: give a text or a list of texts, "
            "messages, or ids as a tensor"
        )
    extractor = getattr(processor, "feature_extractor", processor)
    if hasattr(extractor, "sampling_rate") and not hasattr(
        inputs[0], "convert"
    ):  # only pictures have `convert`
        name = "audio" if extractor is not processor else "raw_speech"
        return {name: inputs, "sampling_rate": extractor.sampling_rate}
    return {"images": inputs}


def _padding(model: Any) -> dict[str, Any]:
    """Return the settings of padding. A decoder continues its prompt, so there padding comes first."""
    return {"padding": True} if model.config.is_encoder_decoder else {"padding": True, "padding_side": "left"}
