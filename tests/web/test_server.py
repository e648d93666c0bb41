"""The server and its connections: those that say nothing, too little, or nonsense; and how it ends."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from beamsplit.web.security import POLICY
from web.conftest import Serve, Server
from web.doubles import Shelf, Slow, app_with
from web.test_live import ASKED, eventually, request, searching

HEALTH = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes it."""
    content = bytearray()
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return bytes(content)


def one_answer(connection: socket.socket) -> bytes:
    """Head and body of an answer on a connection that stays open."""
    content = b""
    while b"}" not in content and (part := connection.recv(1 << 16)):
        content += part
    return content


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"GET /\r\n"])
def test_who_says_too_little_is_hung_up_on(serve: Serve, said: bytes) -> None:
    server = serve(app_with(read_seconds=0.3))
    with server.connect() as connection:
        connection.sendall(said)
        assert b"200" not in rest_of(connection)


def test_who_says_too_little_the_second_time(serve: Serve) -> None:
    server = serve(app_with(read_seconds=1.0))
    with server.connect() as connection:
        connection.sendall(HEALTH)
        assert one_answer(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(HEALTH[:20])
        assert rest_of(connection) == b""


def test_who_waits_for_a_search_is_not_hung_up_on(serve: Serve) -> None:
    server = serve(app_with(Shelf(slow=Slow(0.2)), read_seconds=1.0))
    answer = httpx2.post(f"{server.url}/api/decode", json={**ASKED, "max_length": 8}, timeout=20)
    assert answer.status_code == 200


def test_the_silent_make_room(serve: Serve) -> None:
    server = serve(app_with(connections=4, read_seconds=60))
    with ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(8)]
        assert httpx2.get(f"{server.url}/api/health", timeout=20).status_code == 200
        assert eventually(lambda: sum(is_open(each) for each in silent) <= 4)
        assert not is_open(silent[0])


def test_more_requests_than_can_be_answered(serve: Serve) -> None:
    model = Slow(0.05)
    server = serve(app_with(Shelf(slow=model), connections=1, searches=2))
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


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"GET /api/health HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /" + b"a" * 100_000,
    ],
)
def test_what_is_not_http_is_refused_as_everything_is(serve: Serve, said: bytes) -> None:
    server = serve(app_with())
    with server.connect() as connection:
        connection.sendall(said)
        head, _, body = rest_of(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert POLICY.encode() in head
    assert json.loads(body) == {"error": "the request is not HTTP/1.1: send one that is"}


def test_nonsense_in_the_middle_of_a_request(serve: Serve) -> None:
    server = serve(app_with())
    head = b"POST /api/decode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 400 ")
    assert httpx2.get(f"{server.url}/api/health", timeout=20).status_code == 200


# How it ends


def stopped(server: Server, asked: Any, path: str, ends: Any) -> bytes:
    """What a client is told whose search is under way when the server ends."""
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
    monkeypatch.setattr("beamsplit.web.server._GRACE", 0.1)
    server = serve(app_with(Shelf(slow=Slow(1.0))))

    def end() -> None:
        assert eventually(lambda: searching(server) == 1)
        server.end()

    stopped(server, ASKED, path, end)
    assert "Traceback" not in capfd.readouterr().err
