"""What an engine is: it tells the likeliest next tokens of prefixes, and may draw chunks of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from beamsplit.errors import EngineError
from beamsplit.model import Drawing, Drawn, Shortlist

__all__ = ["Candidates", "Engine", "Order", "Prefix", "stack_candidates"]

Prefix: TypeAlias = tuple[int, ...]
"""The tokens of a prompt, and of what has been written after it."""

_SURE = 1.01  # rounding may put a sum of probabilities as far above 1, in half precision
_NOTHING = -9999.0  # what engines write for minus infinity, since JSON has no word for it


@dataclass(frozen=True, slots=True)
class Candidates:
    """The likeliest next tokens of a prefix, best first, and a bound on all others."""

    tokens: tuple[int, ...]
    log_prob: tuple[float, ...]
    rest: float
    """No token that is not listed has a higher log-probability."""

    @classmethod
    def of(
        cls, listed: Mapping[int, float] | Iterable[tuple[int, float]], count: int, *, complete: bool = True
    ) -> Candidates:
        """Return the best `count` of what an engine has listed.

        An engine may list more than it was asked for: the token that it has drawn itself, however unlikely it
        is. That one bounds nothing, and is left out. `complete=False` says that some likely token may be
        missing: then the list bounds nothing either.
        """
        pairs = list(listed.items() if isinstance(listed, Mapping) else listed)
        _check(pairs)
        best = sorted(pairs, key=lambda pair: -pair[1])[:count]
        tokens, log_prob = zip(*best, strict=True)
        return cls(tokens, log_prob, log_prob[-1] if complete else 0.0)


def _check(pairs: Sequence[tuple[int, float]]) -> None:
    """Raise unless some tokens are listed, each once, with log-probabilities."""
    if not pairs:
        raise EngineError(
            "the engine listed no candidates: ask it for log-probabilities of one token at least"
        )
    tokens = [token for token, _ in pairs]
    if len(set(tokens)) < len(tokens):
        twice = next(token for token in tokens if tokens.count(token) > 1)
        raise EngineError(f"the engine listed token {twice} twice: its answers cannot be relied on")
    for token, value in pairs:
        if not isinstance(value, int | float) or math.isnan(value) or value > 1e-3:
            raise EngineError(f"the engine gave token {token} the log-probability {value!r}, which is none")
    total = sum(math.exp(value) for _, value in pairs)
    if total > _SURE:
        raise EngineError(
            f"the engine's log-probabilities are of probabilities that add up to {total:.3g}: it gives other "
            "numbers, such as logits (of vLLM, --logprobs-mode raw_logprobs gives the model's own)"
        )


def stack_candidates(rows: Sequence[Candidates]) -> Shortlist:
    """Return the lists of several prefixes as one answer of a model."""
    width = max(len(row.tokens) for row in rows)
    missing = [width - len(row.tokens) for row in rows]
    tokens = torch.tensor([row.tokens + (-1,) * few for row, few in zip(rows, missing, strict=True)])
    log_prob = torch.tensor(
        [row.log_prob + (-math.inf,) * few for row, few in zip(rows, missing, strict=True)]
    )
    log_prob[log_prob <= _NOTHING] = -torch.inf
    rest = torch.tensor([row.rest for row in rows])
    rest[rest <= _NOTHING] = -torch.inf
    return Shortlist(tokens, log_prob, rest)


@dataclass(frozen=True, slots=True)
class Order:
    """Chunks that are to follow a prefix."""

    prefix: Prefix
    count: int
    least: int
    """A chunk of fewer tokens ends by an end token alone."""
    most: int
    seed: int


class Engine(Protocol):
    """Something that tells the likeliest next tokens of prefixes. It may answer many at once."""

    model: str
    """The name of its model."""
    name: str
    """What it is called in messages."""
    most: int | None
    """How many candidates it lists at most, as far as that is known."""
    longest: int | None
    """How many tokens a prompt and what is written after it may have together, if that is known."""
    tells_rest: bool
    """Whether its lists bound what is not in them. If not, nothing is certified, however long they are."""
    draws: bool
    """Whether it draws chunks of text by itself."""
    blocks: bool
    """Whether it answers in this thread, without waiting for anything: it needs no event loop."""

    async def candidates(self, prefixes: Sequence[Prefix], count: int) -> list[Candidates]:
        """Return the `count` likeliest next tokens of each prefix, or as many as it lists."""
        ...

    async def draw(self, orders: Sequence[Order], drawing: Drawing) -> list[list[Drawn]]:
        """Return for each order as many chunks, up to the first mark or end token. Only if it `draws`."""
        ...

    async def aclose(self) -> None:
        """Give back what it holds."""
        ...
