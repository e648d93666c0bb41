"""How inputs become the tokens of an engine, and tokens become text.

TokenizerVocabulary   a tokenizer of transformers, in this process
ServerVocabulary      the engine's own tokenizer, by its requests
TextVocabulary        of an engine that knows texts alone: every text that it lists gets a number here
PlainVocabulary       nobody knows: inputs are token ids
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from beamsplit import checks
from beamsplit.engines.candidates import Prefix
from beamsplit.errors import ArgumentError
from beamsplit.messages import Conversation, read_conversations

__all__ = [
    "PlainVocabulary",
    "ServerTokenizer",
    "ServerVocabulary",
    "TextVocabulary",
    "TokenizerVocabulary",
    "Vocabulary",
]


class Vocabulary(Protocol):
    """What turns inputs into tokens, and tokens into text."""

    @property
    def end(self) -> list[int] | None:
        """The tokens that end an output; None if nobody knows."""
        ...

    @property
    def chats(self) -> bool:
        """Whether inputs may be messages."""
        ...

    @property
    def counts_tokens(self) -> bool:
        """Whether its tokens are the engine's, so that their number is what the engine counts."""
        ...

    @property
    def to_text(self) -> Callable[[tuple[int, ...]], str] | None:
        """How tokens read; None if nobody knows."""
        ...

    @property
    def fingerprint(self) -> str:
        """What differs where inputs become other tokens, or tokens other texts."""
        ...

    async def encode(self, inputs: Any) -> list[Prefix]:
        """Return the tokens of each input."""
        ...


class PlainVocabulary:
    """Inputs are token ids, and outputs too."""

    fingerprint = "ids"
    chats = False
    counts_tokens = True
    to_text = None

    def __init__(self, end: list[int] | None) -> None:
        self.end = end

    async def encode(self, inputs: Any) -> list[Prefix]:
        prefixes = _as_ids(inputs)
        if prefixes is None:
            raise ArgumentError(
                f"{checks.short_repr(inputs)} must be token ids, since nobody here knows the engine's words: "
                "give connect a tokenizer, or lists of ids (or kind='texts', if the engine knows texts alone)"
            )
        return prefixes


class TokenizerVocabulary:
    """A tokenizer of transformers, with its chat template."""

    counts_tokens = True

    def __init__(
        self,
        tokenizer: Any,
        end: list[int] | None,
        template: Mapping[str, Any] | None = None,
        ends_of_model: Sequence[int] = (),
    ) -> None:
        from beamsplit.huggingface import chat

        self._tokenizer = tokenizer
        self._template = chat.check_template_arguments(template)
        self.chats = chat.has_template(tokenizer)
        self.end = end if end is not None else _ends_of(tokenizer, self._template, ends_of_model) or None

    async def encode(self, inputs: Any) -> list[Prefix]:
        if (prefixes := _as_ids(inputs)) is not None:
            return prefixes
        conversations = read_conversations(inputs)
        if conversations is None:
            return [tuple(self._tokenizer(text)["input_ids"]) for text in _texts(inputs)]
        return [self._encode_chat(each) for each in conversations]

    @property
    def fingerprint(self) -> str:
        words = json.dumps([sorted(self._tokenizer.get_vocab().items()), sorted(self._template.items())])
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def to_text(self, tokens: tuple[int, ...]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def _encode_chat(self, conversation: Conversation) -> Prefix:
        from beamsplit.huggingface import chat

        written = chat.render(self._tokenizer, conversation, self._template)
        # The template has written all special tokens that there are.
        return tuple(self._tokenizer(written, add_special_tokens=False)["input_ids"])


def _ends_of(tokenizer: Any, template: Mapping[str, Any], of_model: Sequence[int]) -> list[int]:
    """Return the ends of the model's settings, or the tokenizer's; and that of a turn, of a chat model."""
    from beamsplit.huggingface import chat

    own = getattr(tokenizer, "eos_token_id", None)
    ends = list(of_model) or ([] if own is None else [int(own)])
    turn = chat.end_of_turn(tokenizer, template)
    return ends if turn is None or turn in ends else [*ends, turn]


class ServerTokenizer(Protocol):
    """The requests of an engine that tokenises for others."""

    can_chat: bool
    """Whether its model is known to have a chat template."""

    async def tokenize(self, text: str) -> Prefix:
        """Return the tokens of a text, with those that begin every text."""
        ...

    async def tokenize_chat(self, conversation: Conversation, template: Mapping[str, Any]) -> Prefix:
        """Return the tokens of a conversation, by the engine's chat template."""
        ...

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        ...


class ServerVocabulary:
    """The engine's own tokenizer. Its end tokens have to be named by the user, or by the engine."""

    fingerprint = "the engine's words"
    counts_tokens = True

    def __init__(
        self,
        server: ServerTokenizer,
        end: list[int] | None,
        detokenize: Callable[[Sequence[int]], str],
        template: Mapping[str, Any] | None = None,
    ) -> None:
        """`detokenize` is `server.detokenize` for callers that are not asynchronous."""
        self._server = server
        self._detokenize = detokenize
        self._template = dict(template or {})
        self._texts: dict[tuple[int, ...], str] = {}
        self.end = end
        self.chats = server.can_chat

    async def encode(self, inputs: Any) -> list[Prefix]:
        if (prefixes := _as_ids(inputs)) is not None:
            return prefixes
        conversations = read_conversations(inputs)
        if conversations is None:
            return [await self._server.tokenize(text) for text in _texts(inputs)]
        if not self.chats:
            raise ArgumentError("the inputs are messages, and this engine has no chat template: give texts")
        return [await self._server.tokenize_chat(each, self._template) for each in conversations]

    def to_text(self, tokens: tuple[int, ...]) -> str:
        said = tuple(token for token in tokens if token not in (self.end or ()))
        if not said:
            return ""
        if said not in self._texts:
            self._texts[said] = self._detokenize(said)
        return self._texts[said]


class TextVocabulary:
    """Texts as tokens: each that an engine has listed has a number, and so has each prompt."""

    fingerprint = "texts"
    chats = False
    counts_tokens = False

    def __init__(self, end: Iterable[str]) -> None:
        """`end` are the texts by which the engine shows that an output ends."""
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self.end: list[int] | None = [self.number(text) for text in end] or None

    def number(self, text: str) -> int:
        """Return the number of a text. A new one gets the next."""
        with self._lock:
            number = self._numbers.setdefault(text, len(self._texts))
            if number == len(self._texts):
                self._texts.append(text)
            return number

    def spell(self, tokens: Sequence[int]) -> str:
        """Return the text of all of these together."""
        return "".join(self._texts[token] for token in tokens)

    async def encode(self, inputs: Any) -> list[Prefix]:
        if read_conversations(inputs) is not None or _as_ids(inputs) is not None:
            raise ArgumentError(
                "this engine is known by texts alone: give texts, not messages or token ids, or give connect "
                "kind= if it does know tokens"
            )
        texts = _texts(inputs)
        if "" in texts:
            raise ArgumentError(f"input {texts.index('')} is empty, and an engine goes on from something")
        return [(self.number(text),) for text in texts]

    def to_text(self, tokens: tuple[int, ...]) -> str:
        return self.spell([token for token in tokens if token not in (self.end or ())])


def _as_ids(inputs: Any) -> list[Prefix] | None:
    """Return inputs that are token ids, one list or several, or a tensor of them; None if they are not."""
    if isinstance(inputs, Tensor):
        inputs = inputs.tolist()
    if isinstance(inputs, str | Mapping) or not isinstance(inputs, Sequence) or not inputs:
        return None
    if all(checks.is_whole(each) for each in inputs):
        return [_sound(tuple(map(int, inputs)))]
    rows = [each.tolist() if isinstance(each, Tensor) else each for each in inputs]
    is_ids = [
        isinstance(row, Sequence) and not isinstance(row, str) and all(map(checks.is_whole, row))
        for row in rows
    ]
    return [_sound(tuple(map(int, row))) for row in rows] if all(is_ids) else None


def _sound(ids: Prefix) -> Prefix:
    """Return the ids. Raise if one cannot be a token: there are engines that break down over it."""
    if ids and min(ids) < 0:
        raise ArgumentError(f"the input {checks.short_repr(list(ids))} has an id below 0: give ids of tokens")
    return ids


def _texts(inputs: Any) -> list[str]:
    texts = [inputs] if isinstance(inputs, str) else list(inputs)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ArgumentError(
                f"input {index} is {checks.short_repr(text)}: give texts, messages or lists of token ids"
            )
    return texts
