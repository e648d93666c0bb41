"""Chunks of text that an engine draws by itself: one request for each prefix, however long its chunks are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from beamsplit.engines.candidates import Engine, Order, Prefix
from beamsplit.errors import EngineError
from beamsplit.model import Drawing, Drawn

__all__ = ["draw_chunks", "drawn_of", "orders_of", "sampling_of"]

_NEXT_SEED = 7919  # between the seeds of a chunk and of what goes on with it
_SEEDS = 2**31
_SURE = 1e-3  # rounding may put a log-probability as far above 0


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
