"""Serve a study."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from beamsplit import extras
from beamsplit.errors import ArgumentError
from beamsplit.serving import UVICORN_OPTIONS, address, listen
from beamsplit.study.site import make_app
from beamsplit.study.store import Store

__all__ = ["check_url", "links", "serve"]


def serve(
    store: Store, host: str, port: int, *, public_url: str | None = None, ready: Callable[[str], None]
) -> None:
    """Serve a study until stopped. `ready` is called with the address once the server listens there."""
    uvicorn = extras.need("uvicorn", "beamsplit study serve", "study")
    with listen(host, port) as listening:
        base = public_url or address(host, listening)
        ready(base)
        config = uvicorn.Config(make_app(store, base), timeout_graceful_shutdown=5, **UVICORN_OPTIONS)
        uvicorn.Server(config).run(sockets=[listening])


def links(store: Store, base: str = "") -> dict[str, Any]:
    """Return everyone's links, for JSON; without `base`, the paths."""
    return {
        "admin": f"{base}/admin/{store.study.admin_token}",
        "annotators": {each.name: f"{base}/a/{each.token}" for each in store.annotators()},
    }


def check_url(url: str) -> str:
    """Return a public address without a slash at its end. Raise if it is not one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ArgumentError(f"--public-url is {url!r}: give an address such as https://example.org")
    return url.rstrip("/")
