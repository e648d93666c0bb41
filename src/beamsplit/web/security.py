"""What stands before the routes: whom we answer, how much we read, and what browsers may do with answers.

Plain ASGI, from the outside in: `Headers`, `Crowd`, `Head`, `Gate`, `Body`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers as Given
from starlette.datastructures import MutableHeaders

from beamsplit.serving import HEADERS
from beamsplit.web.limits import Limits
from beamsplit.web.problems import Problem, answer_to, stopping, unknown

__all__ = ["ALWAYS", "Body", "Crowd", "Gate", "Head", "Headers", "Hosts"]

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ALWAYS = {
    **HEADERS,
    "content-security-policy": POLICY,
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Headers:
    """Every answer says what a browser may do with it; whatever goes wrong inside is one line."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(message)
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # the server ends, and has waited long enough
            with suppress(asyncio.CancelledError):
                await (send(_END) if begun else answer_to(stopping())(scope, receive, send_with_headers))
        except Exception as error:
            problem = error if isinstance(error, Problem) else unknown(error)
            if not begun:
                await answer_to(problem)(scope, receive, send_with_headers)
        return None


_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


def _add_headers(message: Message) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in ALWAYS.items():
        headers[name] = value
    headers.setdefault("cache-control", "no-store")


class Crowd:
    """Answers so many requests at once; the next one is asked to come again."""

    def __init__(self, app: App, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if self.inside >= self.limits.requests:
            line = "the server answers as many requests as it can: try again in a moment"
            raise Problem(503, line, {"retry-after": "1"})
        self.inside += 1
        try:
            return await self.app(scope, receive, send)
        finally:
            self.inside -= 1


class Head:
    """Answers HEAD as it would GET, without the body."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self.app(scope, receive, send)


def _without_body(send: Send) -> Send:
    async def send_without_body(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_without_body


# Whom we answer


@dataclass(frozen=True)
class Hosts:
    """The names that this server goes by.

    A stranger's page can have its own name lead here, and would then count as ours. It cannot do so with an
    address in numbers, or with the name of this machine.
    """

    bound: str = "127.0.0.1"
    more: tuple[str, ...] = ()

    def accepts(self, host: str) -> bool:
        """Whether a `Host` header, with or without a port, means this server."""
        name = _name(host)
        if name in _LOOPBACK or name in {each.lower() for each in self.more}:
            return True
        return not self.is_loopback and (_is_address(name) or name == socket.gethostname().lower())

    @property
    def is_loopback(self) -> bool:
        return self.bound == "localhost" or (
            _is_address(self.bound) and ipaddress.ip_address(self.bound).is_loopback
        )


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """Answers those who mean this server; of pages, only its own may ask for searches, and in JSON."""

    def __init__(self, app: App, hosts: Hosts) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Given(scope=scope)
            self._check_host(given.get("host", ""))
            if scope["method"] == "POST":
                _check_origin(given)
                _check_content_type(given)
        await self.app(scope, receive, send)

    def _check_host(self, host: str) -> None:
        if not self.hosts.accepts(host):
            raise Problem(421, f"this server does not go by the name {host!r}: start it with --allow-host")


def _check_origin(given: Given) -> None:
    site, origin = given.get("sec-fetch-site", "none"), given.get("origin")
    own = origin is None or origin.partition("://")[2] == given.get("host")
    if site not in ("same-origin", "none") or not own:
        raise Problem(403, "the request comes from another site's page: use this server's own")


def _check_content_type(given: Given) -> None:
    kind = given.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, f"the body's content type is {kind!r}: send application/json")


# How much we read


class Body:
    """Reads a request before anyone is asked to answer it: so much, in so much time, into memory alone."""

    def __init__(self, app: App, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            self._check_announced(Given(scope=scope).get("content-length", "0"))
            receive = _again(await self._read(receive), receive)
        await self.app(scope, receive, send)

    def _check_announced(self, length: str) -> None:
        if not length.isdecimal() or int(length[:20]) > self.limits.body_bytes:
            raise self._too_large()

    async def _read(self, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                return await self._whole(receive)
        except TimeoutError:
            seconds = f"{self.limits.read_seconds:g}"
            raise Problem(408, f"the request did not arrive within {seconds} s: send it again") from None

    async def _whole(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "the request was cut off: send it again")
            body += message.get("body", b"")
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body"):
                return bytes(body)

    def _too_large(self) -> Problem:
        most = f"{self.limits.body_bytes:,}"
        return Problem(413, f"the request is larger than {most} bytes: send a smaller picture or text")


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read, for those who read next; then whatever comes, which is the client's farewell."""
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again
