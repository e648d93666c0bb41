"""A real server and clients with bad manners: they vanish, do not read, send slowly, or come all at once."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from beamsplit.web import DemoLimits, DemoSettings
from web.conftest import Serve, Server
from web.doubles import Shelf, Slow, app_with, events

ASKED = {"model": "slow", "text": "x", "max_length": 80, "searches": [{"strategy": "bs"}]}


def request(asked: Any, path: str, host: str = "127.0.0.1") -> bytes:
    body = json.dumps(asked).encode()
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{kind}\r\n\r\n".encode() + body


def searching(server: Server) -> int:
    found: int = httpx2.get(f"{server.url}/api/health").json()["searching"]
    return found


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes it."""
    content = bytearray()
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return bytes(content)


def eventually(happens: Callable[[], bool], within: float = 5.0) -> bool:
    end = time.monotonic() + within
    while not happens() and time.monotonic() < end:
        time.sleep(0.02)
    return happens()


@pytest.mark.parametrize("path", ["/api/decode", "/api/search"])
def test_a_client_that_vanishes_stops_its_search(serve: Serve, path: str) -> None:
    model = Slow(0.05)  # four seconds in all
    server = serve(app_with(Shelf(slow=model)))
    with server.connect() as connection:
        connection.sendall(request(ASKED, path))
        assert eventually(lambda: model.steps > 3)
        assert searching(server) == 1
    assert eventually(lambda: searching(server) == 0, within=1.5)
    assert model.steps < 60


def test_a_client_that_does_not_read_holds_no_slot(serve: Serve) -> None:
    """Its search is over, and others may search, though nobody has taken what it found."""
    model = Slow(0.0)
    server = serve(app_with(Shelf(slow=model), searches=1, send_seconds=30.0))
    asked = {**ASKED, "tree": True, "searches": [{"strategy": "bs", "groups": 12, "beams_per_group": 1}]}
    with server.connect(receive_buffer=4_096) as connection:
        connection.sendall(request(asked, "/api/search"))
        assert eventually(lambda: model.steps > 0)
        assert eventually(lambda: searching(server) == 0, within=20.0)
        assert httpx2.post(f"{server.url}/api/decode", json={**ASKED, "max_length": 2}).status_code == 200
        # What waits for it is bounded, and the end is there when it comes to read.
        content = read_all(connection)
    assert b"event: done" in content


def test_a_client_that_does_not_read_is_given_up(serve: Serve) -> None:
    """It never reads: after a while nothing more is sent, and its search, were it still on, is stopped."""
    model = Slow(0.02)
    server = serve(app_with(Shelf(slow=model), send_seconds=0.3))
    asked = {**ASKED, "tree": True, "max_length": 100, "searches": [{"groups": 12, "beams_per_group": 2}]}
    with server.connect(receive_buffer=4_096) as connection:
        connection.sendall(request(asked, "/api/search"))
        assert eventually(lambda: searching(server) == 1)
        assert eventually(lambda: searching(server) == 0, within=10.0)
        assert model.steps < 100
        assert b"event: done" not in read_all(connection)


def test_a_large_answer_that_nobody_reads_is_given_up(serve: Serve, tmp_path: Path) -> None:
    """It does not lie in memory as a whole, and its request makes room for others."""
    content = os.urandom(3_000_000)
    (tmp_path / "large.png").write_bytes(content)
    limits = DemoLimits(requests=1, send_seconds=1.0)
    server = serve(app_with(settings=DemoSettings(pictures=tmp_path, limits=limits)))
    health = f"{server.url}/api/health"
    with server.connect(receive_buffer=4_096) as connection:
        connection.sendall(b"GET /api/pictures/large.png HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert eventually(lambda: httpx2.get(health).status_code == 503)
        assert eventually(lambda: httpx2.get(health).status_code == 200)
        assert len(rest_of(connection)) < len(content)
    answer = httpx2.get(f"{server.url}/api/pictures/large.png")  # which reads it
    assert answer.content == content


def read_all(connection: socket.socket) -> bytes:
    content = bytearray()
    while part := connection.recv(1 << 16):
        content += part
        if b"event: done" in content:
            break
    return bytes(content)


def test_those_who_come_all_at_once_are_asked_to_come_again(serve: Serve) -> None:
    model = Slow(0.05)
    server = serve(app_with(Shelf(slow=model), searches=1))
    asked = {**ASKED, "max_length": 25}
    answers: list[httpx2.Response] = []
    first = threading.Thread(
        target=lambda: answers.append(httpx2.post(f"{server.url}/api/decode", json=asked))
    )
    first.start()
    assert eventually(lambda: model.steps > 0)
    for path in ("/api/decode", "/api/search"):
        answer = httpx2.post(f"{server.url}{path}", json=ASKED)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.json() == {
            "error": "all searches that may run at once are running: try again in a moment"
        }
    assert httpx2.get(f"{server.url}/api/models").status_code == 200  # the rest of the server goes on
    first.join()
    assert answers[0].status_code == 200
    assert httpx2.post(f"{server.url}/api/decode", json={**ASKED, "max_length": 2}).status_code == 200


def test_steps_are_sent_as_they_happen(serve: Serve) -> None:
    server = serve(app_with(Shelf(slow=Slow(0.1))))
    asked = {**ASKED, "max_length": 6}
    arrived = []
    with httpx2.stream("POST", f"{server.url}/api/search", json=asked) as answer:
        for part in answer.iter_text():
            arrived += [(time.monotonic(), name) for name, _ in events(part)]
    assert [name for _, name in arrived] == ["step"] * 6 + ["done"]
    assert arrived[-1][0] - arrived[0][0] > 0.4


def test_two_searches_take_turns(serve: Serve) -> None:
    server = serve(app_with(Shelf(slow=Slow(0.0))))
    asked = {**ASKED, "max_length": 5, "searches": [{"strategy": "bs"}, {"strategy": "dbs"}]}
    answer = httpx2.post(f"{server.url}/api/search", json=asked)
    for name, said in events(answer.text):
        if name == "step":
            lengths = {len(each["tokens"]) for column in said["columns"] for each in column["hypotheses"]}
            assert lengths == {said["number"] + 1}


def test_a_slow_sender_holds_nothing(serve: Serve) -> None:
    server = serve(app_with(Shelf(slow=Slow(0.0)), searches=1, read_seconds=0.4))
    whole = request(ASKED, "/api/decode")
    with server.connect() as connection:
        connection.sendall(whole[:-20])
        assert searching(server) == 0
        assert httpx2.post(f"{server.url}/api/decode", json={**ASKED, "max_length": 2}).status_code == 200
        answer = b""
        while b"\r\n\r\n{" not in answer and (part := connection.recv(1 << 16)):  # it may come in pieces
            answer += part
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'{"error":"the request did not arrive within 0.4 s: send it again"}' in answer


def test_a_body_without_end_is_cut_off(serve: Serve) -> None:
    server = serve(app_with(body_bytes=100_000))
    head = b"POST /api/decode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(2):
            connection.sendall(b"c350\r\n" + b" " * 50_000 + b"\r\n")
        connection.sendall(b"1\r\n \r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")
    with server.connect() as connection:
        connection.sendall(head + b"Content-Length: 100001\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")


def test_a_model_is_loaded_once_for_all_who_ask(serve: Serve) -> None:
    shelf = Shelf(slow=Slow(0.0))
    server = serve(app_with(shelf, searches=4))
    asked = {**ASKED, "max_length": 2}
    threads = [
        threading.Thread(target=lambda: httpx2.post(f"{server.url}/api/decode", json=asked)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shelf.loaded == ["slow"]
