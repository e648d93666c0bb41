"""Places on the network."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from beamsplit import ArgumentError
from beamsplit.serving import SecurityHeaders, address, listen


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1"),
        ("0.0.0.0", "http://127.0.0.1"),  # which is everywhere, but no address to go to
        ("::", "http://[::1]"),
        ("::1", "http://[::1]"),
        ("localhost", "http://localhost"),
    ],
)
def test_addresses(host: str, shown: str) -> None:
    with listen("127.0.0.1", 0) as listening:
        assert address(host, listening) == f"{shown}:{listening.getsockname()[1]}"


def test_headers_are_added_where_a_response_does_not_set_them() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-cache")]}
        )
        await send({"type": "http.response.body", "body": b"x"})

    async def receive() -> Any:
        raise NotImplementedError

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    guarded = SecurityHeaders(app, {"Cache-Control": "no-store", "X-Frame-Options": "DENY"})
    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may run its loop in this thread
        pool.submit(lambda: asyncio.run(guarded({"type": "http"}, receive, send))).result()
    assert sent[0]["headers"] == [(b"cache-control", b"no-cache"), (b"x-frame-options", b"DENY")]
    assert sent[1] == {"type": "http.response.body", "body": b"x"}


def test_a_port_serves_one() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ArgumentError) as caught:
            listen("127.0.0.1", port)
    assert str(caught.value) == (
        f"127.0.0.1:{port} cannot be served: Address already in use: give another --port or --host"
    )


def test_a_host_that_is_none() -> None:
    with pytest.raises(
        ArgumentError, match=r"^nowhere\.invalid:80 cannot be served: .*: give another --port"
    ):
        listen("nowhere.invalid", 80)
