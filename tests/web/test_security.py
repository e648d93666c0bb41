"""What stands before the routes."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from beamsplit.web import DemoLimits, DemoSettings, Hosts
from beamsplit.web.security import POLICY
from web.doubles import app_with, client_of

ASKED = {"text": "I'm cold.", "max_length": 2}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(app_with())


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/static/style.css", "/api/models", "/api/pictures/boat", "/nothing", "/api/openapi.json"],
)
def test_every_answer_says_what_a_browser_may_do(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "cache-control" in headers
    assert "set-cookie" not in headers


def test_refusals_have_the_same_headers(client: TestClient) -> None:
    for answer in (
        client.post("/api/decode", content=b"x"),
        client.get("/", headers={"host": "evil.example"}),
        client.post("/api/search", json={}),
    ):
        assert answer.status_code >= 400
        assert answer.headers["content-security-policy"] == POLICY


# Whom we answer


@pytest.mark.parametrize(
    ("hosts", "host", "accepted"),
    [
        (Hosts(), "127.0.0.1:8000", True),
        (Hosts(), "localhost", True),
        (Hosts(), "LOCALHOST:1", True),
        (Hosts(), "[::1]:8000", True),
        (Hosts(), "evil.example:8000", False),
        (Hosts(), "localhost.evil.example", False),
        (Hosts(), "192.168.1.7", False),
        (Hosts(), "", False),
        (Hosts(), "[::1", False),
        (Hosts(more=("demo.example",)), "Demo.example:80", True),
        (Hosts("0.0.0.0"), "192.168.1.7:8000", True),
        (Hosts("0.0.0.0"), "evil.example", False),
        (Hosts("0.0.0.0", ("demo.example",)), "demo.example", True),
        (Hosts("localhost"), "192.168.1.7", False),
        (Hosts("::1"), "[::2]", False),
    ],
)
def test_names_of_the_server(hosts: Hosts, host: str, accepted: bool) -> None:
    assert hosts.accepts(host) == accepted


def test_another_name_is_refused(client: TestClient) -> None:
    answer = client.get("/api/models", headers={"host": "evil.example"})
    assert answer.status_code == 421
    line = "this server does not go by the name 'evil.example': start it with --allow-host"
    assert answer.json() == {"error": line}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1"}, 200),
        ({"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/api/decode", "/api/search"])
def test_only_our_own_page_may_ask(
    client: TestClient, path: str, headers: dict[str, str], status: int
) -> None:
    assert client.post(path, json=ASKED, headers=headers).status_code == status


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data; boundary=x", "application/jsonp"])
def test_only_json_is_read(client: TestClient, kind: str) -> None:
    answer = client.post("/api/decode", content=b"{}", headers={"content-type": kind})
    assert answer.status_code == 415
    assert answer.json() == {"error": f"the body's content type is {kind!r}: send application/json"}


def test_json_may_say_how_it_is_written(client: TestClient) -> None:
    kind = {"content-type": "application/json; charset=utf-8"}
    assert client.post("/api/decode", content=b'{"text": "Hi!"}', headers=kind).status_code == 200


# How much we read


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_is_too_large(chunked: bool) -> None:
    client = client_of(app_with(body_bytes=1_000))
    content: Any = iter([b"x" * 600] * 2) if chunked else b"x" * 1_200
    answer = client.post("/api/decode", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    line = "the request is larger than 1,000 bytes: send a smaller picture or text"
    assert answer.json() == {"error": line}


def test_the_largest_body_is_read() -> None:
    body = b'{"text": "Hi!"}'
    settings = DemoSettings(limits=DemoLimits(body_bytes=len(body)))
    kind = {"content-type": "application/json"}
    assert (
        client_of(app_with(settings=settings)).post("/api/decode", content=body, headers=kind).status_code
        == 200
    )
