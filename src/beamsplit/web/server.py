"""The uvicorn server that the demo runs in.

make_server(make_app(DemoSettings(...))).run([listening])
"""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

__all__ = ["make_server"]

_SHUTDOWN_SECONDS = 2
_HEAD_BYTES = 16_384


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return a server for an application of `make_app`.

    uvicorn's `limit_concurrency` is left alone: it counts open connections, so that a few silent ones would
    shut out everybody else. `ConcurrencyLimit` counts requests.
    """
    config = uvicorn.Config(
        app,
        http="h11",  # uvicorn's other parser has no limit on the size of a request's head
        h11_max_incomplete_event_size=_HEAD_BYTES,
        ws="none",
        log_level="error",  # malformed requests are logged as warnings, and anyone can send many
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return _Server(config, app)


class _Server(uvicorn.Server):
    """Stops the searches before it waits for the answers that are under way."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._slots = app.state.slots

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._slots.stop()
        await super().shutdown(sockets)
