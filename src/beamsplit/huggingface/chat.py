"""Chat models of transformers: messages by the tokenizer's chat template, and the token that ends a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.messages import Conversation, goes_on, text_of_content

__all__ = [
    "NO_ARGUMENTS",
    "check_template",
    "check_template_arguments",
    "end_of_turn",
    "has_template",
    "refused_messages",
    "render",
]

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
"""Of a chat template: what it is given besides messages."""


def has_template(processor: Any) -> bool:
    """Tell whether a tokenizer or processor has a chat template, as those of chat models have."""
    return bool(getattr(processor, "chat_template", None))


def render(processor: Any, conversation: Conversation, template: Mapping[str, Any] = NO_ARGUMENTS) -> str:
    """Return a conversation of texts as the model reads it, up to where its answer begins.

    If the last message is the assistant's own, the answer goes on with it. `template` are arguments of the
    template's own, such as enable_thinking.
    """
    check_template(processor)
    begun = goes_on(conversation)
    if begun and text_of_content(conversation[-1].get("content")) is None:
        raise ArgumentError(
            "the last message is the assistant's and has no text to go on with: add the message that follows"
        )
    with refused_messages():
        return _write(
            processor,
            conversation,
            {**template, "add_generation_prompt": not begun, "continue_final_message": begun},
        )


def _write(processor: Any, conversation: Conversation, options: dict[str, Any]) -> str:
    """Return what the template makes of messages, with their texts as they are or as lists of parts.

    Most templates read texts. Those of models that see pictures may read lists alone: a text is nothing to
    them, and would be lost without a word.
    """
    said = (text_of_content(conversation[-1].get("content")) or "").strip()
    written, failed = "", None
    try:
        written = _apply(processor, conversation, lambda text: text, options)
    except Exception as error:
        failed = error
    if failed is None and said in written:
        return written
    with suppress(Exception):
        by_parts = _apply(processor, conversation, lambda text: [{"type": "text", "text": text}], options)
        if said in by_parts:
            return by_parts
    if failed is not None:
        raise failed
    return written


def _apply(
    processor: Any, conversation: Conversation, content: Callable[[str], Any], options: dict[str, Any]
) -> str:
    messages = []
    for message in conversation:
        text = text_of_content(message.get("content"))
        messages.append(dict(message) if text is None else {**message, "content": content(text)})
    written: str = processor.apply_chat_template(messages, tokenize=False, **options)
    return written


def check_template(processor: Any) -> None:
    """Raise if there is no chat template."""
    if not has_template(processor):
        raise ArgumentError(
            f"the inputs are messages, and this {type(processor).__name__} has no chat template: give texts, "
            "a model that was trained to chat, or set tokenizer.chat_template"
        )


@contextmanager
def refused_messages() -> Iterator[None]:
    """Turn whatever a template raises, such as for a role that it does not know, into one line."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ArgumentError(f"the model's chat template refuses these messages: {reason}") from error


def check_template_arguments(template: Any) -> dict[str, Any]:
    """Return arguments of a chat template. Raise unless they are named, and left to the caller."""
    if template is None:
        return {}
    if not isinstance(template, Mapping) or not all(isinstance(name, str) for name in template):
        raise ArgumentError(
            f"chat_template_kwargs must be a dictionary such as {{'enable_thinking': False}}, not "
            f"{checks.short_repr(template)}"
        )
    for name in ("add_generation_prompt", "continue_final_message", "tokenize", "return_tensors"):
        if name in template:
            raise ArgumentError(f"chat_template_kwargs has {name}, which is set here: leave it out")
    return dict(template)


def end_of_turn(processor: Any, template: Mapping[str, Any] = NO_ARGUMENTS) -> int | None:
    """Return the token by which the chat template ends an answer; None if it ends it by no special token.

    Not every generation config names it: some know only the end of a whole text.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if not has_template(processor):
        return None
    answer = "Beamsplit"
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": answer}]
    try:
        with refused_messages():
            _, found, after = _write(processor, messages, dict(template)).rpartition(answer)
    except (ArgumentError, ImportError):
        return None
    specials: Mapping[str, int] = getattr(tokenizer, "added_tokens_encoder", {})
    # The tokenizer takes the longest that there is.
    ends = [word for word in specials if word and after.lstrip().startswith(word)]
    return specials[max(ends, key=len)] if found and ends else None
