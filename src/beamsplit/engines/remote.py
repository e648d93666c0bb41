"""An engine behind a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from beamsplit.engines.candidates import Candidates, Order, Prefix
from beamsplit.engines.dialects import Dialect, DrawingDialect
from beamsplit.engines.http import Client, RefusedError, gather
from beamsplit.errors import EngineError
from beamsplit.model import Drawing, Drawn

__all__ = ["RemoteEngine"]

T = TypeVar("T")


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
        self.draws = isinstance(dialect, DrawingDialect)
        self._rows = min(rows_per_request or dialect.rows_per_request, dialect.rows_per_request)

    async def candidates(self, prefixes: Sequence[Prefix], count: int) -> list[Candidates]:
        """Return the likeliest next tokens of each prefix, as many as asked for or as the engine lists."""
        parts = [prefixes[start : start + self._rows] for start in range(0, len(prefixes), self._rows)]
        found = await gather(self._some(part, count) for part in parts)
        return [each for part in found for each in part]

    async def draw(self, orders: Sequence[Order], drawing: Drawing) -> list[list[Drawn]]:
        """Return for each order as many chunks, by a request for each: its seed is its own."""
        return await gather(self._chunks(order, drawing) for order in orders)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _chunks(self, order: Order, drawing: Drawing) -> list[Drawn]:
        dialect = self._dialect
        assert isinstance(dialect, DrawingDialect), "`draws` says so"
        answer = await self._client.post(dialect.path, dialect.draw_body(order, drawing))
        return self._understood(lambda: dialect.read_drawn(answer, order))

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
