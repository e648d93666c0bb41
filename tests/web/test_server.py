"""The server: many requests, malformed ones, and how it ends."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from beamsplit.web.security import POLICY
from web.conftest import Serve, Server
from web.doubles import Shelf, Slow, app_with
from web.test_live import ASKED, eventually, request, rest_of, searching


def test_who_waits_for_a_search_is_not_hung_up_on(serve: Serve) -> None:
    server = serve(app_with(Shelf(slow=Slow(0.2)), read_seconds=1.0))
    answer = httpx2.post(f"{server.url}/api/decode", json={**ASKED, "max_length": 8}, timeout=20)
    assert answer.status_code == 200


def test_more_requests_than_can_be_answered(serve: Serve) -> None:
    model = Slow(0.05)
    server = serve(app_with(Shelf(slow=model), requests=1, searches=2))
    with server.connect() as connection:
        connection.sendall(request(ASKED, "/api/search"))
        assert eventually(lambda: model.steps > 0)
        answer = httpx2.get(f"{server.url}/api/health", timeout=20)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.json() == {
            "error": "the server answers as many requests as it can: try again in a moment"
        }
    assert eventually(lambda: httpx2.get(f"{server.url}/api/health", timeout=20).status_code == 200)


def test_silent_connections_shut_nobody_out(serve: Serve) -> None:
    server = serve(app_with(requests=1))
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(server.connect())
        assert httpx2.get(f"{server.url}/api/health", timeout=20).status_code == 200


CHUNKED = (
    b"POST /api/decode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /" + b"a" * 20_000,
        CHUNKED + b"nonsense\r\n\r\n",
    ],
)
def test_malformed_requests_and_long_heads_are_refused(serve: Serve, sent: bytes) -> None:
    server = serve(app_with())
    with server.connect() as connection:
        connection.sendall(sent)
        assert rest_of(connection).startswith(b"HTTP/1.1 400 ")
    assert httpx2.get(f"{server.url}/api/health", timeout=20).status_code == 200


# How it ends


def stopped(server: Server, asked: Any, path: str, ends: Any) -> bytes:
    """Return what a client reads whose search is running when the server ends."""
    with server.connect() as connection:
        connection.sendall(request(asked, path))
        ends()
        return rest_of(connection)


@pytest.mark.parametrize("path", ["/api/decode", "/api/search"])
def test_searches_end_with_the_server(serve: Serve, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = Slow(0.05)
    server = serve(app_with(Shelf(slow=model)))

    def end() -> None:
        assert eventually(lambda: model.steps > 2)
        server.end()

    answer = stopped(server, ASKED, path, end)
    assert b'{"error":"the server is stopping: try again later"}' in answer
    assert model.steps < 60
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("path", ["/api/decode", "/api/search"])
def test_a_step_that_takes_longer_than_the_server_waits(
    serve: Serve, path: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamsplit.web.server._SHUTDOWN_SECONDS", 0.1)
    server = serve(app_with(Shelf(slow=Slow(1.0))))

    def end() -> None:
        assert eventually(lambda: searching(server) == 1)
        server.end()

    stopped(server, ASKED, path, end)
    assert "Traceback" not in capfd.readouterr().err
