"""`beamsplit demo`: it says where it is, and what keeps it from being there."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import httpx2
from click.testing import CliRunner

from beamsplit import ArgumentError
from beamsplit.cli.demo import _settings, demo
from beamsplit.web import DemoLimits, Hosts
from web.doubles import app_with, client_of

PAGE = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")


def test_it_starts_says_where_it_is_and_ends() -> None:
    code = "import sys; from beamsplit.cli.demo import demo; demo(sys.argv[1:])"
    command = [sys.executable, "-c", code, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.removeprefix("beamsplit demo is at ").removesuffix(" (Ctrl+C ends it)\n")
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=8)) as client:
            answer = client.get(f"{address}api/health", timeout=20)
            upgrade = {"connection": "upgrade", "upgrade": "websocket"}
            assert client.get(f"{address}api/health", headers=upgrade, timeout=20).status_code == 200
        with socket.create_connection(("127.0.0.1", httpx2.URL(address).port or 0)) as connection:
            connection.sendall(b"nonsense\r\n\r\n")
            while connection.recv(1 << 16):
                pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert answer.json()["status"] == "ok"
    assert "server" not in answer.headers
    assert address.startswith("http://127.0.0.1:")
    assert errors == ""  # nor can anyone fill a log with nonsense
    assert process.returncode == 0


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(demo, ["--port", str(port)])
    assert isinstance(result.exception, ArgumentError)
    assert str(result.exception) == (
        f"127.0.0.1:{port} cannot be served: Address already in use: give another --port or --host"
    )


def test_an_address_that_is_not_ours() -> None:
    result = CliRunner().invoke(demo, ["--host", "203.0.113.1"])
    assert isinstance(result.exception, ArgumentError)
    assert str(result.exception).startswith("203.0.113.1:8000 cannot be served: ")


def test_options_become_settings() -> None:
    made = _settings(
        "0.0.0.0",
        models=("a", "b"),
        pictures=Path("p"),
        names=("demo.example",),
        max_searches=3,
        max_beams=None,
        max_length=7,
        max_seconds=1.5,
    )
    assert (made.models, made.pictures, made.hosts) == (
        ("a", "b"),
        Path("p"),
        Hosts("0.0.0.0", ("demo.example",)),
    )
    limits = made.limits
    assert (limits.searches, limits.beams, limits.max_length, limits.seconds) == (3, 96, 7, 1.5)


def test_the_page_about_it_names_all_options_and_limits() -> None:
    for option in demo.params:
        assert option.opts[0] in PAGE
    for limit in fields(DemoLimits):
        assert f"`{limit.name}`" in PAGE


def test_the_examples_of_the_page_are_answered() -> None:
    client = client_of(app_with())
    asked = re.findall(r"localhost:8000(/api/\w+) [^'\n]*'[^']*' -d '([^']*)'", PAGE)
    assert len(asked) == 3
    for path, body in asked:
        assert client.post(path, json=json.loads(body)).status_code == 200
    answer = client.post(asked[0][0], json=json.loads(asked[0][1])).json()
    for column in answer["columns"]:
        assert column["title"] in PAGE
    assert answer["columns"][0]["hypotheses"][0]["text"] in PAGE
