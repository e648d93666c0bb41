"""Requests of an engine over HTTP: with connections kept, time-outs, and further tries where one fails.

Asking an engine changes nothing there, so any request can be made again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import weakref
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2 as httpx

from beamsplit import checks
from beamsplit.errors import ArgumentError, EngineError

__all__ = ["Client", "Patience", "RefusedError", "gather"]

T = TypeVar("T")

KEY_VARIABLE = "BEAMSPLIT_ENGINE_KEY"
_LOG = logging.getLogger("beamsplit.engines")
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})  # answers that may be others the next time


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for an engine, and how often to try."""

    timeout: float = 300.0
    """Seconds for one request, from its start to the last byte of the answer."""
    connect_timeout: float = 10.0
    """Seconds for a connection."""
    tries: int = 6
    first_wait: float = 0.5
    """Seconds before the second try; before each further one it is twice as long."""
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        checks.at_least("tries", self.tries, 1)
        for name in ("timeout", "connect_timeout", "first_wait", "longest_wait"):
            checks.positive(name, getattr(self, name))

    def wait(self, failed: int, asked: float | None) -> float:
        """Return how many seconds to wait after so many failures. The engine may have asked for a time."""
        if asked is not None:
            return min(asked, self.longest_wait)
        # Somewhat by chance, lest all that have failed together try again together.
        return min(self.first_wait * 2.0 ** (failed - 1), self.longest_wait) * random.uniform(0.75, 1.25)


class RefusedError(EngineError):
    """The engine will not do what it was asked for, however often it is asked."""

    def __init__(self, message: str, status: int, said: str) -> None:
        super().__init__(message)
        self.status = status
        self.said = said


class _FailedError(Exception):
    """A try has failed, and the next may not."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Client:
    """Sends requests to one engine."""

    def __init__(
        self, url: str, *, key: str | None = None, patience: Patience | None = None, connections: int = 16
    ) -> None:
        """`key` is sent as a bearer token; by default it is that of the environment variable.

        It is shown nowhere: not in messages, not in logs.
        """
        address = _address(url)
        self._base = address.copy_with(userinfo=b"")
        self._key = _sound_key(os.environ.get(KEY_VARIABLE) if key is None else key)
        by_name = bool(address.userinfo) and not self._key
        self._auth = httpx.BasicAuth(address.username, address.password) if by_name else None
        self.patience = patience or Patience()
        self._connections = checks.at_least("connections", connections, 1)
        # Connections belong to the event loop that has made them.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]
        self._clients = weakref.WeakKeyDictionary()

    @property
    def url(self) -> str:
        """The engine's address, as it may be shown."""
        return str(self._base).rstrip("/")

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the engine answers, as JSON. Raise an EngineError if it does not."""
        return await self._again_and_again("POST", path, json.dumps(body).encode(), self.patience.tries)

    async def get(self, path: str) -> Any:
        """Return what is there, as JSON. Raise a RefusedError if there is no such thing.

        It is tried twice at most: nothing is lost yet where an engine is asked what it is.
        """
        return await self._again_and_again("GET", path, None, min(self.patience.tries, 2))

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _again_and_again(self, method: str, path: str, content: bytes | None, tries: int) -> Any:
        for failed in range(1, tries + 1):
            try:
                return await self._try(method, path, content)
            except _FailedError as failure:
                if failed == tries:
                    times = "once" if failed == 1 else f"{failed} times"
                    raise EngineError(
                        f"the engine at {self.url} was asked {times} ({path}), the last time: {failure} "
                        "(is it running, or overloaded?)"
                    ) from failure.__cause__
                seconds = self.patience.wait(failed, failure.wait)
                level = logging.INFO if content is None else logging.WARNING
                _LOG.log(level, "%s%s: %s; trying again in %.1f s", self.url, path, failure, seconds)
                await asyncio.sleep(seconds)
        raise AssertionError("there is a try at least")

    async def _try(self, method: str, path: str, content: bytes | None) -> Any:
        try:
            async with asyncio.timeout(self.patience.timeout):
                answer = await self._client().request(method, path.lstrip("/"), content=content)
        except TimeoutError as error:
            raise _FailedError(f"no answer within {self.patience.timeout:g} s") from error
        except httpx.HTTPError as error:  # no connection, one that broke off, a body that cannot be unpacked
            raise _FailedError(f"{type(error).__name__} {checks.reason(error)}") from error
        if answer.status_code in _AGAIN:
            raise _FailedError(
                f"status {answer.status_code} {_said(answer)}", _seconds(answer.headers.get("retry-after"))
            )
        if not answer.is_success:
            said = _said(answer)
            raise RefusedError(
                f"the engine at {self.url} refused {path} with status {answer.status_code}: {said}"
                f"{_way_out(answer.status_code)}",
                answer.status_code,
                said,
            )
        try:
            return json.loads(answer.content, object_pairs_hook=_without_twins)
        except EngineError:
            raise
        except ValueError as error:
            raise _FailedError(f"an answer that is no JSON: {checks.reason(error)}") from error

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._clients[loop] = httpx.AsyncClient(
                base_url=self._base,
                auth=self._auth,
                headers=headers,
                timeout=httpx.Timeout(self.patience.timeout, connect=self.patience.connect_timeout),
                limits=httpx.Limits(
                    max_connections=self._connections, max_keepalive_connections=self._connections
                ),
            )
        return self._clients[loop]


def _address(url: str) -> httpx.URL:
    """Return the address of an engine: that of its root, though people give /v1 too."""
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ArgumentError(f"the engine's address cannot be read: {checks.reason(error)}") from error
    if address.scheme not in ("http", "https") or not address.host:
        shown = checks.short_repr(str(address.copy_with(userinfo=b"")))
        raise ArgumentError(f"{shown} is no address of an engine: give one such as http://localhost:8000")
    path = address.path.rstrip("/").removesuffix("/v1")
    return address.copy_with(path=f"{path}/", query=None, fragment=None)


def _sound_key(key: str | None) -> str | None:
    """Return the key without white space around it. Raise if it cannot be sent, and do not show it."""
    if key is None or not (key := key.strip()):
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ArgumentError(
            f"the key, of connect(key=) or {KEY_VARIABLE}, has a line break, a space or a letter that is not "
            "ASCII: give the key alone"
        )
    return key


def _said(answer: httpx.Response) -> str:
    """Return what an answer says, on one line: the message in it, if it is the usual JSON."""
    text = answer.text
    try:
        found = json.loads(text)
    except ValueError:
        return _brief(text)
    if isinstance(found, dict):
        inner = found.get("error", found)
        message = inner.get("message", inner.get("detail")) if isinstance(inner, dict) else inner
        text = message if isinstance(message, str) else json.dumps(message or found)
    return _brief(text)


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:297]}..."


def _way_out(status: int) -> str:
    if status in (401, 403):
        return f" (give connect a key, or set {KEY_VARIABLE})"
    return " (is it another kind of engine?)" if status in (404, 405, 422) else ""


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a Retry-After; a date there is passed over."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raise if a key is there twice, since one of the two would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise EngineError(f"the engine listed {twice!r} twice: its answers cannot be relied on")
    return found


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once. If one fails, give up the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
