"""A model behind a network: an OpenAI-compatible completions endpoint that tells its top 20.

    vllm serve MODEL
    python examples/remote_model.py http://localhost:8000 MODEL "The best way to start the day is" --end 2

Every step is one request for all beams: their tokens so far go out, and the 20 likeliest next tokens of each
come back, with log-probabilities over the whole vocabulary. That is a `Shortlist`. The engine is asked for
one token at a time, and has what comes before it in its cache. Two searches wait for it at once. Beside the
endpoint this needs vLLM's `return_tokens_as_token_ids`, `/tokenize` and `/detokenize`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import urllib.request
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from beamsplit import BeamSearch, DiverseBeamSearch, Hypotheses, Shortlist, decode_async

MOST = 20  # log-probabilities that the engine tells, vLLM's limit unless it is started with another
Prefix = tuple[int, ...]  # a prompt and what has been written so far


@dataclass(frozen=True)
class Engine:
    """The few requests that are made of a serving engine."""

    url: str
    model: str

    async def post(self, path: str, **fields: Any) -> Any:
        body = json.dumps({"model": self.model, **fields}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_key()}"}
        request = urllib.request.Request(self.url + path, body, headers)
        return await asyncio.to_thread(lambda: json.load(urllib.request.urlopen(request)))

    async def top_log_probs(self, prefixes: list[Prefix]) -> list[dict[int, float]]:
        """Return the likeliest tokens after each prefix, best first."""
        answer = await self.post(
            "/v1/completions",
            prompt=prefixes,
            max_tokens=1,
            temperature=0,
            logprobs=MOST,
            return_tokens_as_token_ids=True,  # "token_id:5" for a token, since texts of tokens may be alike
        )
        choices = sorted(answer["choices"], key=lambda choice: choice["index"])
        return [_by_id(choice["logprobs"]["top_logprobs"][0]) for choice in choices]


def _key() -> str:
    return os.environ.get("OPENAI_API_KEY", "none")


def _by_id(listed: dict[str, float]) -> dict[int, float]:
    best_first = sorted(listed.items(), key=lambda item: -item[1])[:MOST]
    return {int(name.removeprefix("token_id:")): log_prob for name, log_prob in best_first}


class RemoteModel:
    """An engine as a model: its state is the prefixes themselves, and its answers are candidate lists."""

    def __init__(self, engine: Engine, end: int) -> None:
        self._engine = engine
        self.end = end

    async def start(self, inputs: list[Prefix]) -> tuple[Shortlist, list[Prefix]]:
        return await self._lists(inputs), inputs

    async def step(self, tokens: Tensor, state: list[Prefix]) -> tuple[Shortlist, list[Prefix]]:
        state = [(*prefix, token) for prefix, token in zip(state, tokens.tolist(), strict=True)]
        return await self._lists(state), state

    def select(self, state: list[Prefix], rows: Tensor) -> list[Prefix]:
        return [state[row] for row in rows.tolist()]

    async def _lists(self, prefixes: list[Prefix]) -> Shortlist:
        listed = await self._engine.top_log_probs(prefixes)
        tokens: Any = [list(each) for each in listed]
        log_prob: Any = [list(each.values()) for each in listed]
        return Shortlist(tokens, log_prob)  # the least of each list bounds what is not in it


async def search(engine: Engine, prompt: str, end: int) -> tuple[Hypotheses, Hypotheses]:
    """Return what beam search and diverse beam search find; both run at once."""
    tokens = tuple((await engine.post("/tokenize", prompt=prompt))["tokens"])
    model = RemoteModel(engine, end)
    strategies = BeamSearch(beams=4), DiverseBeamSearch(groups=4, strength=1.0)
    (beam,), (diverse,) = await asyncio.gather(
        *(decode_async(model, [tokens], strategy, max_length=12) for strategy in strategies)
    )
    return beam, diverse


async def main() -> None:
    parser = argparse.ArgumentParser(description="Decode a model behind a completions endpoint.")
    parser.add_argument("url", help="such as http://localhost:8000")
    parser.add_argument("model", help="the name that the engine serves it by")
    parser.add_argument("prompt")
    parser.add_argument("--end", type=int, required=True, help="the id of the model's end token")
    given = parser.parse_args()
    engine = Engine(given.url, given.model)
    for name, found in zip(
        ("beam search", "diverse"), await search(engine, given.prompt, given.end), strict=True
    ):
        print(f"{name}: {sum(hypothesis.certified for hypothesis in found)} of {len(found)} certified")
        for hypothesis in found:
            answer = await engine.post("/detokenize", tokens=hypothesis.tokens)
            print(f"{hypothesis.log_prob:7.2f} {answer['prompt']}")


if __name__ == "__main__":
    asyncio.run(main())
