"""Chunks of text that an engine draws by itself: one request for each prefix, however long its chunks are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from beamsplit.engines.candidates import Engine, Order, Prefix
from beamsplit.errors import EngineError
from beamsplit.model import Drawing, Drawn

__all__ = [
    "Told",
    "align",
    "draw_chunks",
    "drawn_of",
    "orders_of",
    "sampling_of",
    "sampling_of_llama_cpp",
    "sampling_of_sglang",
    "seeds_of",
]

_NEXT_SEED = 7919  # between the seeds of a chunk and of what goes on with it
_TWIN_SEED = 104_729  # between the seeds of chunks that are drawn one by one
_SEEDS = 2**31
_SURE = 1e-3  # rounding may put a log-probability as far above 0


class Told(NamedTuple):
    """A chunk as an engine tells it."""

    tokens: tuple[int, ...]
    log_probs: tuple[Any, ...]
    """As the engine has written them; None where it keeps the model's own to itself."""


def orders_of(prefixes: Sequence[Prefix], drawing: Drawing, longest: int | None) -> list[Order]:
    """Return an order for each prefix, in an engine that takes so many tokens at most."""
    room = [
        most if longest is None else min(most, longest - len(prefix))
        for prefix, most in zip(prefixes, drawing.most, strict=True)
    ]
    return [
        Order(prefix, drawing.count, drawing.least, most, seed)
        for prefix, most, seed in zip(prefixes, room, drawing.seeds, strict=True)
    ]


async def draw_chunks(engine: Engine, orders: Sequence[Order], drawing: Drawing) -> list[list[Drawn]]:
    """Have chunks drawn. What has come to a mark too early, as "Mr." has, is gone on with.

    An engine stops at every mark, and does not know how long a chunk is to be at least.
    """
    found = await engine.draw(orders, drawing)
    early = {
        (place, number): _rest_of(orders[place], chunk, number)
        for place, chunks in enumerate(found)
        for number, chunk in enumerate(chunks)
        if _is_early(orders[place], chunk, drawing.ends)
    }
    if early:
        rest = await draw_chunks(engine, list(early.values()), drawing)
        for (place, number), (more,) in zip(early, rest, strict=True):
            begun = found[place][number]
            found[place][number] = Drawn(begun.tokens + more.tokens, begun.log_probs + more.log_probs)
    return found


def _is_early(order: Order, chunk: Drawn, ends: Sequence[int]) -> bool:
    """Tell whether a chunk has come to a mark before it may end."""
    length = len(chunk.tokens)
    return 0 < length < min(order.least, order.most) and chunk.tokens[-1] not in ends


def _rest_of(order: Order, chunk: Drawn, number: int) -> Order:
    length = len(chunk.tokens)
    seed = (order.seed + (number + 1) * _NEXT_SEED) % _SEEDS
    return Order(order.prefix + chunk.tokens, 1, order.least - length, order.most - length, seed)


def drawn_of(tokens: Sequence[int], log_probs: Sequence[Any]) -> Drawn:
    """Return a chunk of these tokens. Raise unless each has a log-probability."""
    for token, value in zip(tokens, log_probs, strict=True):
        if not isinstance(value, int | float) or math.isnan(value) or value > _SURE:
            raise EngineError(
                f"the engine drew token {token} with the log-probability {value!r}, which is none"
            )
    return Drawn(tuple(tokens), tuple(map(float, log_probs)))


def sampling_of(order: Order, drawing: Drawing, most_stops: int | None = None) -> dict[str, object]:
    """Return the settings by which vLLM draws the chunks of an order, by their names there.

    Its own end tokens are put aside for those of the search, which are mostly the same. Of marks beyond
    `most_stops` it is told nothing, and the search cuts the chunk.
    """
    limits = {"top_k": drawing.top_k, "top_p": drawing.top_p, "min_p": drawing.min_p}
    return {
        "n": order.count,
        "max_tokens": order.most,
        "seed": order.seed,
        "temperature": drawing.temperature,
        **{name: value for name, value in limits.items() if value is not None},
        **({"stop": list(drawing.marks[:most_stops])} if drawing.marks else {}),
        "stop_token_ids": list(drawing.ends),
        "ignore_eos": True,
        "skip_special_tokens": False,
    }


def seeds_of(order: Order) -> list[int]:
    """Return a seed for each chunk of an order, where an engine draws them one by one."""
    return [(order.seed + number * _TWIN_SEED) % _SEEDS for number in range(order.count)]


def sampling_of_sglang(order: Order, drawing: Drawing, seed: int) -> dict[str, object]:
    """Return the settings by which SGLang draws a chunk, by their names there.

    It would pass over `stop_token_ids` if it was to pass over its own end tokens.
    """
    limits = {"top_k": drawing.top_k, "top_p": drawing.top_p, "min_p": drawing.min_p}
    return {
        "max_new_tokens": order.most,
        "sampling_seed": seed,
        "temperature": drawing.temperature,
        **{name: value for name, value in limits.items() if value is not None},
        **({"stop": list(drawing.marks)} if drawing.marks else {}),
        "stop_token_ids": list(drawing.ends),
        "no_stop_trim": True,
        "skip_special_tokens": False,
    }


def sampling_of_llama_cpp(order: Order, drawing: Drawing, seed: int) -> dict[str, object]:
    """Return the settings by which llama.cpp draws a chunk, by their names there.

    What is not in its list of samplers it does not use, whatever its user has set.
    """
    limits = {"top_k": drawing.top_k, "min_p": drawing.min_p, "top_p": drawing.top_p}
    given = {name: value for name, value in limits.items() if value is not None}
    return {
        "n_predict": order.most,
        "seed": seed,
        "samplers": ["temperature", *given],
        "temperature": drawing.temperature,
        "dynatemp_range": 0,
        "mirostat": 0,
        **given,
        "stop": list(drawing.marks),
    }


def align(tokens: Sequence[int], told: Sequence[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a value for each token, of values that are told of some of the tokens, in their order.

    None for a token of which nothing is told, and where it is not clear which of several is meant.
    """
    first, last = _places(tokens, told), _places(tokens[::-1], told[::-1])
    if first is None or last is None:
        raise EngineError("the engine told log-probabilities of tokens that it has not drawn")
    found: list[Any] = [None] * len(tokens)
    for (_, value), early, late in zip(told, first, reversed(last), strict=True):
        if early == len(tokens) - 1 - late:
            found[early] = value
    return tuple(found)


def _places(tokens: Sequence[int], told: Sequence[tuple[int, Any]]) -> list[int] | None:
    """Return the first places where these come one after another; None if they do not."""
    places, start = [], 0
    for token, _ in told:
        place = next((at for at in range(start, len(tokens)) if tokens[at] == token), None)
        if place is None:
            return None
        places.append(place)
        start = place + 1
    return places
