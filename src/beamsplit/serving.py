"""What the demo and the study share as servers: listening, addresses, and headers of every response."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from beamsplit.errors import ArgumentError

__all__ = ["HEADERS", "UVICORN_OPTIONS", "SecurityHeaders", "address", "listen"]

# The types of ASGI. They are written out because this module is imported where no server is installed.
Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every response, beside a content security policy."""

UVICORN_OPTIONS: dict[str, Any] = {
    "http": "h11",  # refuses a head that does not end; uvicorn's other parser has no limit
    "ws": "none",
    "log_level": "error",  # malformed requests are logged as warnings, and anyone can send many
    "access_log": False,  # the addresses of a study contain secret tokens
    "server_header": False,
}

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise one clear line if the port or host cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)  # Python's own text repeats the address
        line = f"{host}:{port} cannot be served: {reason}: give another --port or --host"
        raise ArgumentError(line) from error


def address(host: str, listening: socket.socket) -> str:
    """Return the URL at which a browser on this machine finds a server.

    >>> with listen("127.0.0.1", 0) as listening:
    ...     address("0.0.0.0", listening).rpartition(":")[0]
    'http://127.0.0.1'
    """
    port = listening.getsockname()[1]
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class SecurityHeaders:
    """ASGI middleware that adds headers to every response that does not set them itself."""

    def __init__(self, app: App, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message["headers"] = [*given, *(each for each in self._headers if each[0] not in names)]
            await send(message)

        await self._app(scope, receive, send_with_headers)
