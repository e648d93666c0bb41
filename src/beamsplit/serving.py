"""Places on the network where pages are served."""

from __future__ import annotations

import os
import socket

from beamsplit.errors import ArgumentError

__all__ = ["HEADERS", "address", "listen"]

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Of every answer, beside a policy of what its pages may load."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def listen(host: str, port: int) -> socket.socket:
    """Open, before anyone is told of it: whoever comes second is told so in one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)  # Python's own text says more than need be
        told = f"{host}:{port} cannot be served: {reason}: give another --port or --host"
        raise ArgumentError(told) from error


def address(host: str, listening: socket.socket) -> str:
    """Where a browser on this machine finds it.

    >>> with listen("127.0.0.1", 0) as listening:
    ...     address("0.0.0.0", listening).rpartition(":")[0]
    'http://127.0.0.1'
    """
    port = listening.getsockname()[1]
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
