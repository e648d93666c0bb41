"""A real server in a process of its own, and people who talk to it over the network."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

_SERVE = "from beamsplit.cli.study import study; study()"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """`beamsplit study serve`, which can be killed and started again."""

    def __init__(self, location: str, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "server.log"
        self._command = [sys.executable, "-c", _SERVE, "serve", location, "--port", str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        """Kill the server, like a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Visitor:
    """Someone who votes until nothing is left, and asks again when nobody answers."""

    def __init__(self, port: int, token: str) -> None:
        self.path, self._port = f"/a/{token}", port
        self.acknowledged: dict[int, str] = {}

    def visit(self) -> None:
        while True:
            page = self._patiently("GET", self.path)
            form = re.search(r'name="form" value="(\w+)"', page)
            item = re.search(r'name="item" value="(\d+)"', page)
            if form is None:
                return
            if item is None:
                self._patiently("POST", f"{self.path}/consent", form=form[1], answer="agree")
                continue
            self._vote(int(item[1]), form[1])

    def _vote(self, item: int, form: str) -> None:
        side = ("left", "right")[item % 2]
        self._patiently("POST", f"{self.path}/vote", form=form, item=str(item), choice=side)
        self.acknowledged[item] = side

    def _patiently(self, method: str, path: str, **fields: str) -> str:
        until = time.monotonic() + 60
        while True:
            try:
                return self._asked(method, path, urlencode(fields))
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < until
                time.sleep(0.02)

    def _asked(self, method: str, path: str, body: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path, body or None)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status in (200, 303), (answer.status, text)
        return text
