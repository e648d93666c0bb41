"""Servers and a browser for the tests of the web demo."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

_NEEDED = ("fastapi", "httpx2", "uvicorn")

if not all(importlib.util.find_spec(package) for package in _NEEDED):
    collect_ignore_glob = ["test_*.py"]

Serve = Callable[[Any], "Server"]


@dataclass(frozen=True)
class Server:
    """A server that runs in a thread, its port, and how to tell it to end."""

    port: int
    end: Callable[[], None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """A bare connection, with which to misbehave."""
        made = socket.socket()
        if receive_buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        made.settimeout(10)
        made.connect(("127.0.0.1", self.port))
        return made


@contextmanager
def serving(app: Any) -> Iterator[Server]:
    from beamsplit.web import make_server

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)  # the system's own is megabytes
    server = make_server(app)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield Server(listening.getsockname()[1], lambda: setattr(server, "should_exit", True))
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers, which end with the test."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


# A browser


_ARGUMENTS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")  # while it runs, no other test of the process can have an event loop
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def page_server() -> Iterator[Server]:
    """The application as it comes, for the browser."""
    from web.doubles import Shelf, Slow, app_with

    with serving(app_with(Shelf(slow=Slow()))) as server:
        yield server
