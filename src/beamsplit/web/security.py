"""Guards in front of the routes, as plain ASGI middleware: who is answered, and how many at a time."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beamsplit.serving import HEADERS, SecurityHeaders
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import LOG, Problem, error_response, problem_from, server_stopping

__all__ = ["POLICY", "Hosts", "guards"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    **HEADERS,
    "content-security-policy": POLICY,
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


def guards(hosts: Hosts, limits: DemoLimits) -> list[Middleware]:
    """Return the middleware of the demo, from the outside in."""
    return [
        Middleware(SecurityHeaders, headers=_HEADERS),
        Middleware(JsonErrors),
        Middleware(ConcurrencyLimit, limits=limits),
        Middleware(SendLimit, limits=limits),
        Middleware(HeadRequests),
        Middleware(OriginGuard, hosts=hosts),
    ]


class JsonErrors:
    """Answers every exception with one line of JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except asyncio.CancelledError:  # the server is stopping and waits no longer
            with suppress(asyncio.CancelledError):
                await (send(_END) if started else error_response(server_stopping())(scope, receive, send))
        except _NotReadError:
            LOG.info("a client did not read its answer in time")
        except Exception as error:
            problem = problem_from(error)
            if not started:
                await error_response(problem)(scope, receive, send)
        return None


_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class ConcurrencyLimit:
    """Answers a limited number of requests at the same time."""

    def __init__(self, app: ASGIApp, limits: DemoLimits) -> None:
        self.app = app
        self.limits = limits
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if self.running >= self.limits.requests:
            line = "the server answers as many requests as it can: try again in a moment"
            raise Problem(503, line, {"retry-after": "1"})
        self.running += 1
        try:
            return await self.app(scope, receive, send)
        finally:
            self.running -= 1


class SendLimit:
    """Sends answers in pieces, and gives up when the client does not read them.

    uvicorn waits for the client between two pieces, but takes a single piece of any size into memory.
    """

    def __init__(self, app: ASGIApp, limits: DemoLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            for piece in _pieces(message):
                try:
                    async with asyncio.timeout(self.limits.send_seconds):
                        await send(piece)
                except TimeoutError as error:
                    raise _NotReadError from error

        await self.app(scope, receive, send_in_time if scope["type"] == "http" else send)


class _NotReadError(Exception):
    """A client that does not read its answer."""


_PIECE = 65_536  # bytes


def _pieces(message: Message) -> Iterator[Message]:
    if message["type"] != "http.response.body":
        yield message
        return
    body = message.get("body", b"")
    *starts, last = range(0, max(len(body), 1), _PIECE)
    for start in starts:
        yield {**message, "body": body[start : start + _PIECE], "more_body": True}
    yield {**message, "body": body[last:]}


class HeadRequests:
    """Answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self.app(scope, receive, send)


def _without_body(send: Send) -> Send:
    async def send_without_body(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_without_body


# Hosts and origins


@dataclass(frozen=True)
class Hosts:
    """The names by which this server may be addressed.

    A stranger's page can point its own name at this machine (DNS rebinding) and would then count as ours. It
    cannot do so with a numeric address, or with the name of this machine.
    """

    bound: str = "127.0.0.1"
    more: tuple[str, ...] = ()

    def accepts(self, host: str) -> bool:
        """Return whether a `Host` header, with or without a port, names this server."""
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


class OriginGuard:
    """Refuses requests to other hosts, and searches that other sites' pages ask for or that are not JSON."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            self._check_host(headers.get("host", ""))
            if scope["method"] == "POST":
                _check_origin(headers)
                _check_content_type(headers)
        await self.app(scope, receive, send)

    def _check_host(self, host: str) -> None:
        if not self.hosts.accepts(host):
            raise Problem(421, f"this server does not go by the name {host!r}: start it with --allow-host")


def _check_origin(headers: Headers) -> None:
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    is_own = origin is None or origin.partition("://")[2] == headers.get("host")
    if site not in ("same-origin", "none") or not is_own:
        raise Problem(403, "the request comes from another site's page: use this server's own")


def _check_content_type(headers: Headers) -> None:
    kind = headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, f"the body's content type is {kind!r}: send application/json")
