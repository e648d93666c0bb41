"""Options of commands that a chat model may answer: --chat and --system."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from beamsplit.errors import ArgumentError
from beamsplit.files import json_object
from beamsplit.jobs.lines import Input
from beamsplit.messages import as_conversation

__all__ = ["NO_CHAT", "ChatOptions", "with_chat_options"]


@dataclass(frozen=True)
class ChatOptions:
    """Whether inputs are questions to a chat model, and what stands before them."""

    asked: bool
    system: str | None = None
    template: dict[str, Any] | None = None
    """Arguments of the model's chat template."""

    @property
    def description(self) -> dict[str, Any]:
        """What outputs depend on, for a file."""
        return {"chat": True, "system": self.system, "template": self.template} if self.asked else {}

    def wrap(self, given: Input) -> Input:
        """Return an input as messages, if inputs are questions; what cannot be one has a fault."""
        if not self.asked or not given.decodable:
            return given
        try:
            return given._replace(value=as_conversation(given.value, self.system))
        except ArgumentError as error:
            return given._replace(fault=str(error))


NO_CHAT = ChatOptions(asked=False)

_OPTIONS = (
    click.option(
        "--chat",
        is_flag=True,
        help="Ask a chat model, by its own template, instead of going on with the text.",
    ),
    click.option("--system", metavar="TEXT", help="With --chat: a system message before each question."),
    click.option(
        "--chat-template-kwargs",
        "template",
        metavar="JSON",
        help="With --chat: arguments of the model's chat template, such as '{\"enable_thinking\": false}'.",
    ),
)


def with_chat_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --chat and what goes with it, which the command gets as `chat`."""

    @functools.wraps(command)
    def called(chat: bool, system: str | None, template: str | None, **options: Any) -> None:
        for name, value in {"--system": system, "--chat-template-kwargs": template}.items():
            if value is not None and not chat:
                raise ArgumentError(f"{name} is for --chat, which is not given: give both, or neither")
        arguments = None if template is None else _arguments(template)
        command(chat=ChatOptions(chat, system, arguments), **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def _arguments(text: str) -> dict[str, Any]:
    return json_object(text, "--chat-template-kwargs", '{"enable_thinking": false}')
