"""Chat models: messages in, by the tokenizer's chat template, and the token that ends a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = [
    "Conversation",
    "Message",
    "check_template",
    "end_of_turn",
    "has_template",
    "read_conversations",
    "refused_messages",
    "render",
]

Message: TypeAlias = Mapping[str, Any]
"""A dictionary with a role and a content, as in `{"role": "user", "content": "Hello"}`."""

Conversation: TypeAlias = Sequence[Message]

_EXAMPLE = '[{"role": "user", "content": "..."}]'


def read_conversations(inputs: Any) -> list[Conversation] | None:
    """Return the inputs if they are conversations, one or a list of them; None if they are something else."""
    if isinstance(inputs, str | Mapping) or not isinstance(inputs, Sequence) or not inputs:
        return None
    conversations = [inputs] if _is_message(inputs[0]) else list(inputs)
    is_conversation = [_is_conversation(each) for each in conversations]
    if not any(is_conversation):
        return None
    for number, conversation in enumerate(conversations):
        if not is_conversation[number]:
            raise ArgumentError(
                f"input {number} is {checks.short_repr(conversation)}, and others are lists of messages: "
                f"give each as {_EXAMPLE}"
            )
        _check(conversation, f"input {number}")
    return conversations


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" in value


def _is_conversation(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and any(_is_message(each) for each in value)


def _check(conversation: Conversation, where: str) -> None:
    for number, message in enumerate(conversation):
        if not _is_message(message) or not isinstance(message["role"], str):
            raise ArgumentError(
                f"{where}, message {number} is {checks.short_repr(message)}: give "
                f'{{"role": "user", "content": "..."}}'
            )
        content = message.get("content")
        if not isinstance(content, str | Sequence) and not message.get("tool_calls"):
            raise ArgumentError(
                f"{where}, message {number} has the content {checks.short_repr(content)}: give a text"
            )


def has_template(processor: Any) -> bool:
    """Tell whether a tokenizer or processor has a chat template, as those of chat models have."""
    return bool(getattr(processor, "chat_template", None))


def render(processor: Any, conversation: Conversation) -> str:
    """Return a conversation as the model reads it, up to where its answer begins.

    If the last message is the assistant's own, the answer goes on with it.
    """
    check_template(processor)
    goes_on = conversation[-1]["role"] == "assistant"
    with refused_messages():
        text: str = processor.apply_chat_template(
            [dict(message) for message in conversation],
            tokenize=False,
            add_generation_prompt=not goes_on,
            continue_final_message=goes_on,
        )
    return text


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


def end_of_turn(processor: Any) -> int | None:
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
            text: str = processor.apply_chat_template(messages, tokenize=False)
    except (ArgumentError, ImportError):
        return None
    after = text.rpartition(answer)[2].lstrip()
    specials: Mapping[str, int] = getattr(tokenizer, "added_tokens_encoder", {})
    return next((token for word, token in specials.items() if word and after.startswith(word)), None)
