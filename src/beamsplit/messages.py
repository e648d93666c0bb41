"""Messages for chat models: what a conversation is, and whether inputs are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = [
    "Conversation",
    "Message",
    "as_conversation",
    "check_conversation",
    "goes_on",
    "read_conversations",
    "text_length",
    "text_of_content",
]

Message: TypeAlias = Mapping[str, Any]
"""A dictionary with a role and a content, as in `{"role": "user", "content": "Hello"}`."""

Conversation: TypeAlias = Sequence[Message]

_EXAMPLE = '[{"role": "user", "content": "..."}]'


def as_conversation(messages: str | Conversation, system: str | None = None) -> Conversation:
    """Return a question as messages, and messages as they are; a system message comes before them.

    Raise if these are no messages, or if they have a system message already.

    >>> as_conversation("Hello", system="Be brief.")[0]
    {'role': 'system', 'content': 'Be brief.'}
    """
    asked = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    check_conversation(asked, "the conversation")
    if system is None:
        return asked
    if any(message["role"] == "system" for message in asked):
        raise ArgumentError(
            "the messages have a system message of their own, and another is given: leave out one of the two"
        )
    return [{"role": "system", "content": system}, *asked]


def goes_on(conversation: Conversation) -> bool:
    """Tell whether the last message is the assistant's: what it has begun is to go on."""
    return bool(conversation[-1]["role"] == "assistant")


def text_of_content(content: Any) -> str | None:
    """Return the text of a message's content, which may be a list of parts; None if it is not text alone.

    >>> text_of_content("Hello"), text_of_content([{"type": "text", "text": "Hello"}])
    ('Hello', 'Hello')
    >>> text_of_content([{"type": "image", "url": "cat.jpg"}])
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or not all(_is_text_part(part) for part in content):
        return None
    return "".join(part["text"] for part in content)


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def text_length(value: Any) -> int:
    """Return how many letters a text or a conversation has, and 0 for anything else.

    >>> text_length("Hello"), text_length([{"role": "user", "content": "Hello"}]), text_length(7)
    (5, 5, 0)
    """
    if isinstance(value, str):
        return len(value)
    if not _is_conversation(value):
        return 0
    contents = [message.get("content") for message in value if _is_message(message)]
    return sum(len(content) for content in contents if isinstance(content, str))


def read_conversations(inputs: Any) -> list[Conversation] | None:
    """Return the inputs if they are conversations, one or a list of them; None if they are something else."""
    if _is_message(inputs):
        raise ArgumentError(f"the input is one message, {checks.short_repr(inputs)}: give a list, {_EXAMPLE}")
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
        check_conversation(conversation, f"input {number}")
    return conversations


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" in value


def _is_conversation(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and any(_is_message(each) for each in value)


def check_conversation(conversation: Any, where: str) -> None:
    """Raise unless every message has a role and a content. `where` begins the line."""
    if not _is_conversation(conversation):
        raise ArgumentError(f"{where} is {checks.short_repr(conversation)}: give {_EXAMPLE}")
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
