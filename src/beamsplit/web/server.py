"""The server that the demo runs in: uvicorn, with less patience for those who say nothing.

make_server(make_app(Settings(...))).run([listening])
"""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from beamsplit.web.limits import Limits
from beamsplit.web.security import ALWAYS

__all__ = ["make_server"]

_GRACE = 2  # seconds to end in


def make_server(app: FastAPI) -> uvicorn.Server:
    """A server for an application of `make_app`, with its limits."""
    config = uvicorn.Config(
        app,
        http=partial(_Connection, app.state.limits),  # type: ignore[arg-type]  # it is called, no more
        ws="none",
        log_level="error",  # of less than that anyone could fill a log
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    return _Server(config, app)


class _Server(uvicorn.Server):
    """Ends searches first, and then waits for whoever reads what they found."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._slots = app.state.slots

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._slots.stop()
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """A client's. The head of a request has so long to arrive, and who says nothing makes room for others."""

    def __init__(self, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._since = self.loop.time()

    @property
    def waits(self) -> bool:
        """For a request, or for the rest of a head."""
        return self.cycle is None or self.cycle.response_complete

    # What uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """In JSON, as all that is refused, and with the same headers; unless an answer is under way."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # whoever answers it need not go on
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in _refusal("the request is not HTTP/1.1: send one that is"):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    # Patience

    def _watch(self) -> None:
        if not self.waits:
            self._unwatch()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._limits.read_seconds, self._give_up)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.waits:
            self.transport.abort()

    def _make_room(self) -> None:
        """Where too many are connected, those leave first who have been silent longest."""
        there = [each for each in self.connections if not each.transport.is_closing()]
        silent = [each for each in there if isinstance(each, _Connection) and each.waits and each is not self]
        if len(there) > self._limits.connections and silent:
            min(silent, key=lambda each: each._patience_owed).transport.abort()

    @property
    def _patience_owed(self) -> tuple[bool, float]:
        """More to those who have yet to read an answer, and to those who came late."""
        return self.transport.get_write_buffer_size() > 0, self._since


def _refusal(line: str) -> list[h11.Event]:
    body = json.dumps({"error": line}).encode()
    headers = {
        **ALWAYS,
        "cache-control": "no-store",
        "content-type": "application/json",
        "connection": "close",
    }
    headers["content-length"] = str(len(body))
    start = h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request")
    return [start, h11.Data(data=body), h11.EndOfMessage()]
