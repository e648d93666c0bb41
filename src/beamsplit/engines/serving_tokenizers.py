"""Tokenizers of engines: the requests by which these tokenise for others."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from beamsplit.engines.candidates import Prefix
from beamsplit.engines.http import Client, RefusedError, gather
from beamsplit.errors import EngineError
from beamsplit.messages import Conversation, goes_on

__all__ = ["LlamaTokenizer", "VllmTokenizer"]

# How models write their ends. Which of these a model has, and stops at, is asked of the engine.
_USUAL_ENDS = (
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<turn|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)


class VllmTokenizer:
    """The requests by which vLLM tokenises, and SGLang."""

    can_chat = False

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        self._model = model

    async def tokenize(self, text: str) -> Prefix:
        return _tokens_of(await self._client.post("/tokenize", {"model": self._model, "prompt": text}))

    async def tokenize_chat(self, conversation: Conversation, template: Mapping[str, Any]) -> Prefix:
        begun = goes_on(conversation)
        asked = {
            "model": self._model,
            "messages": [dict(message) for message in conversation],
            "add_generation_prompt": not begun,
            "continue_final_message": begun,
            "chat_template_kwargs": dict(template),
        }
        return _tokens_of(await self._client.post("/tokenize", asked))

    async def find_ends(self) -> list[int]:
        """Return the tokens at which the engine stops, of those by which models usually end."""
        found = await gather(self._token_of(text) for text in _USUAL_ENDS)
        tokens = sorted({token for token in found if token is not None})
        stops = await gather(self._stops_at(token) for token in tokens)
        return [token for token, stop in zip(tokens, stops, strict=True) if stop]

    async def _token_of(self, text: str) -> int | None:
        """Return the token that is written so; None if there is none."""
        asked = {"model": self._model, "prompt": text, "add_special_tokens": False}
        answer = await self._or_nothing(self._client.post("/tokenize", asked))
        tokens = () if answer is None else _tokens_of(answer)
        return tokens[0] if len(tokens) == 1 else None

    async def _stops_at(self, token: int) -> bool:
        """Tell whether the engine ends an output when nothing but this token is allowed."""
        asked = {
            "model": self._model,
            "prompt": [[token]],
            "max_tokens": 1,
            "temperature": 0,
            "allowed_token_ids": [token],
        }
        answer = await self._or_nothing(self._client.post("/v1/completions", asked))
        choices = answer.get("choices") if isinstance(answer, Mapping) else None
        return isinstance(choices, list) and bool(choices) and choices[0].get("finish_reason") == "stop"

    @staticmethod
    async def _or_nothing(request: Coroutine[Any, Any, Any]) -> Any:
        """Return what a request returns; None if the engine refuses it."""
        try:
            return await request
        except RefusedError:
            return None

    async def detokenize(self, tokens: Sequence[int]) -> str:
        answer = await self._client.post("/detokenize", {"model": self._model, "tokens": list(tokens)})
        return _text_of(answer, "prompt", "text")


class LlamaTokenizer:
    """The requests by which llama.cpp's server tokenises."""

    can_chat = False

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tokenize(self, text: str) -> Prefix:
        asked = {"content": text, "add_special": True, "parse_special": False}
        return _tokens_of(await self._client.post("/tokenize", asked))

    async def tokenize_chat(self, conversation: Conversation, template: Mapping[str, Any]) -> Prefix:
        messages = [dict(message) for message in conversation]
        asked = {"messages": messages, "chat_template_kwargs": dict(template)}
        written = _text_of(await self._client.post("/apply-template", asked), "prompt")
        return await self.spell(written)  # the template has written all special tokens that there are

    async def spell(self, text: str) -> Prefix:
        """Return the tokens of this text and no others; special ones may be written in it."""
        content = {"content": text, "add_special": False, "parse_special": True}
        return _tokens_of(await self._client.post("/tokenize", content))

    async def detokenize(self, tokens: Sequence[int]) -> str:
        return _text_of(await self._client.post("/detokenize", {"tokens": list(tokens)}), "content")


def _tokens_of(answer: Any) -> Prefix:
    tokens = answer.get("tokens") if isinstance(answer, Mapping) else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise EngineError("the engine tokenised a text, and answered with no list of ids")
    return tuple(tokens)


def _text_of(answer: Any, *names: str) -> str:
    for name in names:
        if isinstance(answer, Mapping) and isinstance(answer.get(name), str):
            return str(answer[name])
    raise EngineError("the engine turned tokens into text, and answered with no text")
