"""Places on the network."""

from __future__ import annotations

import pytest

from beamsplit import ArgumentError
from beamsplit.serving import address, listen


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
