"""Many people at once at the real servers: how many requests they answer, how fast, and with how much memory.

The demo and a study are started as programs of their own, as people start them. Clients ask one thing after
another until the time is over. Beside them stand some with bad manners, who leave in the middle of an answer
or send a byte now and then.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from research.reliability.memory import resident_megabytes

__all__ = ["hold_demo", "hold_study"]

_START = 120.0  # seconds for a server to begin
_SLOW = 5.0  # seconds after which people begin to wonder
_BUSY = 0.1  # seconds before a client asks again that was told to come again
_RUDE = 2  # clients with bad manners, of each kind


@dataclass
class Tally:
    """What clients were answered."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of answers of status 200 and 303."""

    def count(self, status: int | str, seconds: float) -> None:
        self.statuses[str(status)] += 1
        if status in (200, 303):
            self.seconds.append(seconds)


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    port: int
    process: int


@contextmanager
def _serving(*arguments: str) -> Iterator[Server]:
    """Run a command of beamsplit that serves; its port is appended."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "beamsplit", *arguments, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait(port, process)
            yield Server(port, process.pid)
        finally:
            process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")


def _ask(port: int, method: str, path: str, body: bytes = b"", kind: str = "") -> tuple[int | str, str]:
    """Return the status and the text of an answer; instead of a status, the error if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body or None, {"Content-Type": kind} if kind else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, ""
    finally:
        connection.close()


def _timed(tally: Tally, *asked: Any) -> tuple[int | str, str]:
    began = time.monotonic()
    status, text = _ask(*asked)
    tally.count(status, time.monotonic() - began)
    return status, text


def _hold(server: Server, clients: list[Callable[[float], Tally]], seconds: float) -> dict[str, Any]:
    """Let all clients ask until the time is over, and return what they saw."""
    before, until = resident_megabytes(server.process), time.monotonic() + seconds
    with ThreadPoolExecutor(len(clients) + 2 * _RUDE) as pool:
        tallies = [pool.submit(client, until) for client in clients]
        for _ in range(_RUDE):
            pool.submit(_leave, server.port, until)
            pool.submit(_dawdle, server.port, until)
        found = [each.result() for each in tallies]
    status, _ = _ask(server.port, "GET", "/")  # which is answered, whatever with
    statuses = sum((each.statuses for each in found), Counter[str]())
    taken = sorted(second for each in found for second in each.seconds)
    median, most = (
        (quantiles(taken, n=100, method="inclusive")[rank - 1] for rank in (50, 99))
        if len(taken) > 1
        else (0.0, 0.0)
    )
    return {
        "clients": len(clients),
        "rude_clients": 2 * _RUDE,
        "seconds": seconds,
        "requests": sum(statuses.values()),
        "statuses": dict(sorted(statuses.items())),
        "median_seconds": round(median, 3),
        "seconds_of_99_percent": round(most, 3),
        "slowest_seconds": round(max(taken, default=0.0), 3),
        "slow": sum(second > _SLOW for second in taken),
        "answers_afterwards": isinstance(status, int),
        "megabytes_before": before,
        "megabytes_after": resident_megabytes(server.process),
    }


# Clients with bad manners


def _leave(port: int, until: float) -> None:
    """Ask for a search, read a little of its steps and go away."""
    body = json.dumps({"model": "en-fr", "text": "We should leave.", "tree": True}).encode()
    head = f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    while time.monotonic() < until:
        with socket.socket() as connection:
            connection.settimeout(5)
            try:
                connection.connect(("127.0.0.1", port))
                connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                connection.recv(100)
            except OSError:
                pass
        time.sleep(0.5)


def _dawdle(port: int, until: float) -> None:
    """Send a request a byte at a time, and never end it."""
    while time.monotonic() < until:
        with socket.socket() as connection:
            try:
                connection.connect(("127.0.0.1", port))
                for letter in b"GET / HTTP/1.1\r\nX-Slow: " + b"a" * 100_000:
                    connection.sendall(bytes([letter]))
                    time.sleep(0.2)
                    if time.monotonic() > until:
                        return
            except OSError:
                pass


# The demo


def hold_demo(clients: int, seconds: float) -> dict[str, Any]:
    """Return what so many clients saw of the demo, who ask for the same search again and again."""
    with _serving("demo") as server:
        for _ in range(20):  # the model is loaded, and Python has its memory
            _ask(server.port, "POST", "/api/decode", _search(0), "application/json")
        return _hold(server, [_searcher(server.port, number) for number in range(clients)], seconds)


def _search(number: int) -> bytes:
    return json.dumps({"model": "en-fr", "text": f"I have {number} ideas.", "max_length": 20}).encode()


def _searcher(port: int, number: int) -> Callable[[float], Tally]:
    def search(until: float) -> Tally:
        tally = Tally()
        while time.monotonic() < until:
            status, _ = _timed(tally, port, "POST", "/api/decode", _search(number), "application/json")
            if status != 200:
                time.sleep(_BUSY)
        return tally

    return search


# A study


def hold_study(clients: int, seconds: float) -> dict[str, Any]:
    """Return what so many annotators saw of a study, who vote as they can, and how many votes it kept."""
    from beamsplit.study import open_study

    with TemporaryDirectory() as folder:
        location = str(Path(folder) / "study.db")
        tokens = _create(location, clients)
        lock, votes = threading.Lock(), Counter[str]()
        with _serving("study", "serve", location) as server:
            people = [_voter(server.port, token, lock, votes) for token in tokens]
            found = _hold(server, people, seconds)
        store = open_study(location)
        kept = Counter(vote.annotator for vote in store.votes())
        store.close()
    return {**found, "votes_acknowledged": votes.total(), "votes_kept": kept.total()}


def _create(location: str, people: int) -> list[str]:
    """Create a study that nobody comes to the end of, and return the links of its people."""
    from beamsplit.study import NewItem, StudyPlan, create_study

    items = tuple(
        NewItem(name=str(number), first=("one", "another"), second=("this", "that"))
        for number in range(5_000)
    )
    store = create_study(
        location, StudyPlan(first="BS", second="DBS", items=items, votes=people, annotators=people)
    )
    tokens = [each.token for each in store.annotators()]
    store.close()
    return tokens


def _voter(port: int, token: str, lock: threading.Lock, votes: Counter[str]) -> Callable[[float], Tally]:
    path = f"/a/{token}"

    def post(tally: Tally, page: str, **fields: str) -> int | str:
        body = urlencode(fields).encode()
        return _timed(tally, port, "POST", f"{path}/{page}", body, "application/x-www-form-urlencoded")[0]

    def visit(until: float) -> Tally:
        tally = Tally()
        while time.monotonic() < until:
            _, text = _timed(tally, port, "GET", path)
            form = re.search(r'name="form" value="(\w+)"', text)
            item = re.search(r'name="item" value="(\d+)"', text)
            if form is None:
                time.sleep(_BUSY)
            elif item is None:
                post(tally, "consent", form=form[1], answer="agree")
            elif post(tally, "vote", form=form[1], item=item[1], choice="left") == 303:
                with lock:
                    votes[token] += 1
        return tally

    return visit
