"""The uvicorn server that the demo runs in.

make_server(make_app(DemoSettings(...))).run([listening])
"""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

from beamsplit.serving import UVICORN_OPTIONS

__all__ = ["make_server"]

_SHUTDOWN_SECONDS = 2


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return a server for an application of `make_app`.

    uvicorn's `limit_concurrency` is left alone: it counts open connections, so that a few silent ones would
    shut out everybody else. `ConcurrencyLimit` counts requests.
    """
    config = uvicorn.Config(app, timeout_graceful_shutdown=_SHUTDOWN_SECONDS, **UVICORN_OPTIONS)
    return _Server(config, app)


class _Server(uvicorn.Server):
    """Stops the searches before it waits for the answers that are under way."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._slots = app.state.slots

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._slots.stop()
        await super().shutdown(sockets)
