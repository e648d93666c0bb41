"""A study on the network."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from beamsplit import extras
from beamsplit.errors import ArgumentError
from beamsplit.study.site import make_app
from beamsplit.study.store import Store

__all__ = ["check_url", "links", "serve"]

_EVERYWHERE = ("0.0.0.0", "::")
# Addresses carry tokens, and logs are read by many: none is written of who asked for what.
_QUIET: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}


def serve(
    store: Store, host: str, port: int, *, public_url: str | None = None, ready: Callable[[str], None]
) -> None:
    """Serve a study until stopped; `ready` is told the address once nobody else can have it."""
    uvicorn = extras.need("uvicorn", "beamsplit study serve", "study")
    with _listening(host, port) as listening:
        base = public_url or _local(host, listening.getsockname()[1])
        ready(base)
        config = uvicorn.Config(make_app(store, base), timeout_graceful_shutdown=5, **_QUIET)
        uvicorn.Server(config).run(sockets=[listening])


def links(store: Store, base: str = "") -> dict[str, Any]:
    """Everybody's, for JSON; without an address, their paths."""
    return {
        "admin": f"{base}/admin/{store.study.admin_token}",
        "annotators": {each.name: f"{base}/a/{each.token}" for each in store.annotators()},
    }


def check_url(url: str) -> str:
    """The address where people find a study, without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ArgumentError(f"--public-url is {url!r}: give an address such as https://example.org")
    return url.rstrip("/")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)  # Python's own text says more than need be
        told = f"{host}:{port} cannot be served: {reason}: give another --port or --host"
        raise ArgumentError(told) from error


def _local(host: str, port: int) -> str:
    host = "127.0.0.1" if host in _EVERYWHERE else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
