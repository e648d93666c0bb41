"""An engine behind a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from beamsplit.engines.candidates import Candidates, Order, Prefix
from beamsplit.engines.dialects import Dialect, DrawingDialect, ScoringDialect
from beamsplit.engines.drawing import Told, drawn_of
from beamsplit.engines.http import Client, RefusedError, gather
from beamsplit.errors import EngineError
from beamsplit.model import Drawing, Drawn

__all__ = ["RemoteEngine"]

T = TypeVar("T")

_LIKELY = 100  # candidates among which a token that was drawn nearly always is
_ALL = 2**20  # more than any vocabulary has


class RemoteEngine:
    """Asks an engine over HTTP: many prefixes in a request, and several requests at once if they are many."""

    blocks = False

    def __init__(
        self,
        client: Client,
        dialect: Dialect,
        *,
        model: str,
        most: int | None = None,
        longest: int | None = None,
        rows_per_request: int | None = None,
    ) -> None:
        self.model = model
        self.name = f"{model} at {client.url}"
        self.most = most
        self.longest = longest
        self._client = client
        self._dialect = dialect
        self.tells_rest = dialect.tells_rest
        self.draws = isinstance(dialect, DrawingDialect) and dialect.draws
        self._rows = min(rows_per_request or dialect.rows_per_request, dialect.rows_per_request)

    async def candidates(self, prefixes: Sequence[Prefix], count: int) -> list[Candidates]:
        """Return the likeliest next tokens of each prefix, as many as asked for or as the engine lists."""
        parts = [prefixes[start : start + self._rows] for start in range(0, len(prefixes), self._rows)]
        found = await gather(self._some(part, count) for part in parts)
        return [each for part in found for each in part]

    async def draw(self, orders: Sequence[Order], drawing: Drawing) -> list[list[Drawn]]:
        """Return for each order as many chunks, by requests of its own: so is its seed."""
        return await gather(self._chunks(order, drawing) for order in orders)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _chunks(self, order: Order, drawing: Drawing) -> list[Drawn]:
        dialect = self._dialect
        assert isinstance(dialect, DrawingDialect), "`draws` says so"
        bodies = dialect.draw_bodies(order, drawing)
        answers = await gather(self._client.post(dialect.path, body) for body in bodies)
        told = self._understood(lambda: dialect.read_drawn(answers, order, drawing))
        # An engine may write more than it was asked for, to bring a letter to its end.
        told = [Told(each.tokens[: order.most], each.log_probs[: order.most]) for each in told]
        if any(value is None for each in told for value in each.log_probs):
            told = await self._completed(order.prefix, told)
        return self._understood(lambda: [drawn_of(*each) for each in told])

    async def _completed(self, prefix: Prefix, told: Sequence[Told]) -> list[Told]:
        """Ask for the log-probabilities that the engine has kept to itself."""
        dialect, chunks = self._dialect, [each.tokens for each in told]
        if isinstance(dialect, ScoringDialect):
            answer = await self._client.post(dialect.path, dialect.score_body(prefix, chunks))
            values = self._understood(lambda: dialect.read_scores(answer, chunks))
            return [Told(chunk, tuple(each)) for chunk, each in zip(chunks, values, strict=True)]
        missing = [
            (number, place)
            for number, each in enumerate(told)
            for place, value in enumerate(each.log_probs)
            if value is None
        ]
        asked = [(*prefix, *chunks[number][:place]) for number, place in missing]
        drawn = [chunks[number][place] for number, place in missing]
        found = dict(zip(missing, await self._looked_up(asked, drawn), strict=True))
        return [
            Told(
                each.tokens,
                tuple(found.get((number, place), value) for place, value in enumerate(each.log_probs)),
            )
            for number, each in enumerate(told)
        ]

    async def _looked_up(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> list[float | None]:
        """Return the log-probability of a token after each prefix: in lists of the likeliest, or of all."""
        lists = await self.candidates(prefixes, _LIKELY)
        found = [dict(zip(each.tokens, each.log_prob, strict=True)) for each in lists]
        for place, (prefix, token) in enumerate(zip(prefixes, tokens, strict=True)):
            if token not in found[place]:
                found[place] = await self._all_of(prefix)
        return [each.get(token) for each, token in zip(found, tokens, strict=True)]

    async def _all_of(self, prefix: Prefix) -> dict[int, float]:
        """Return the log-probability of each token, of an engine that lists as many as it is asked for."""
        answer = await self._client.post(self._dialect.path, self._dialect.body([prefix], _ALL))
        (listed,) = self._understood(lambda: self._dialect.read(answer, 1, _ALL))
        return dict(zip(listed.tokens, listed.log_prob, strict=True))

    async def _some(self, prefixes: Sequence[Prefix], count: int) -> list[Candidates]:
        asked = count if self.most is None else min(count, self.most)
        try:
            answer = await self._client.post(self._dialect.path, self._dialect.body(prefixes, asked))
        except RefusedError as refusal:
            limit = self._dialect.limit(refusal.said, asked)
            if limit is None:
                raise
            self.most = min(limit, asked - 1)  # so that this comes to an end
            return await self._some(prefixes, count)
        return self._understood(lambda: self._dialect.read(answer, len(prefixes), asked))

    def _understood(self, read: Callable[[], T]) -> T:
        """Return what was read of an answer. Raise an EngineError if it is not as expected."""
        try:
            return read()
        except EngineError as error:
            raise EngineError(f"{self.name}: {error}") from error
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise EngineError(
                f"{self.name} answered {self._dialect.path} in a form that is not known here "
                f"({type(error).__name__}: {error}): is it another kind of engine?"
            ) from error
