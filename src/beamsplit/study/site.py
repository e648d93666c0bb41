"""The pages of a study: one for each annotator, and one for administrators.

GET  /a/TOKEN                    consent, then one item at a time, then thanks
POST /a/TOKEN/consent            agree or decline
POST /a/TOKEN/vote               choose a list
GET  /a/TOKEN/picture/ITEM       the picture of an item that was shown
GET  /admin/TOKEN                progress, links, report
POST /admin/TOKEN/annotators     more links
GET  /admin/TOKEN/FILE           report.svg, report.json, votes.csv, votes.jsonl

A vote is answered with a redirect, once it is on the disk. To send it twice, or to go back and choose again,
changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from beamsplit.serving import SecurityHeaders
from beamsplit.study.admin import AdminPages
from beamsplit.study.forms import RESPONSE_HEADERS, read_form
from beamsplit.study.pages import Pages
from beamsplit.study.store import Annotator, Store

__all__ = ["make_app"]

_STATIC = Path(__file__).parent / "static"
_NOT_FOUND = "There is nothing here. Please check that you have your whole link."


def make_app(store: Store, public_url: str = "") -> ASGIApp:
    """Return the site of a study, for any ASGI server. `public_url` is where people find it."""
    parts = urlsplit(public_url)
    pages = Pages(base=parts.path.rstrip("/"), public_url=public_url.rstrip("/"))
    origin = f"{parts.scheme}://{parts.netloc}" if public_url else ""
    site, admin = _AnnotatorPages(store, pages, origin), AdminPages(store, pages, origin)
    app = Starlette(
        routes=[
            Route("/a/{token}", site.page),
            Route("/a/{token}/consent", site.consent, methods=["POST"]),
            Route("/a/{token}/vote", site.vote, methods=["POST"]),
            Route("/a/{token}/picture/{item:int}", site.picture),
            *admin.routes(),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        exception_handlers={HTTPException: _error_page(pages), Exception: _internal_error},
    )
    return SecurityHeaders(app, RESPONSE_HEADERS)


def _error_page(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = _NOT_FOUND if error.status_code == 404 else error.detail
        return pages.message(text, status=error.status_code)

    return answer


async def _internal_error(_: Request, __: Exception) -> Response:
    """Return a page without the cause, which is for the log."""
    return PlainTextResponse("Something went wrong here. Please try again in a minute.\n", 500)


class _AnnotatorPages:
    """The pages of an annotator."""

    def __init__(self, store: Store, pages: Pages, origin: str) -> None:
        self._store, self._pages, self._origin = store, pages, origin

    def page(self, request: Request) -> Response:
        annotator = self._annotator(request)
        form = self._store.form_token(annotator.token)
        if annotator.agreed is None:
            return self._pages.consent(self._store.study, annotator, form)
        given, note = self._store.give(annotator), request.query_params.get("note", "")
        standing = self._store.standing(annotator)
        if given is None:
            return self._pages.done(annotator, standing, note)
        return self._pages.item(self._store.study, annotator, form, given, standing, note)

    def picture(self, request: Request) -> Response:
        annotator, item = self._annotator(request), request.path_params["item"]
        found = self._store.picture(annotator, item) if item < 2**31 else None
        if found is None:
            raise HTTPException(404)
        return Response(found, media_type="image/jpeg")

    async def consent(self, request: Request) -> Response:
        annotator, fields = await self._read_form(request)
        if fields.get("answer") not in ("agree", "decline"):
            raise HTTPException(400, "Please agree or decline.")
        answer = self._store.agree if fields["answer"] == "agree" else self._store.decline
        # An old page that is sent again does not undo consent.
        if annotator.agreed is None:
            await run_in_threadpool(answer, annotator)
        return self._back(annotator)

    async def vote(self, request: Request) -> Response:
        annotator, fields = await self._read_form(request)
        item, side = fields.get("item", ""), fields.get("choice", "")
        if not (item.isascii() and item.isdigit() and len(item) < 10) or side not in ("left", "right"):
            raise HTTPException(400, "Please choose one of the two lists.")
        if annotator.agreed is None:
            return self._back(annotator)
        result = await run_in_threadpool(self._store.vote, annotator, int(item), side)
        if result == "foreign":
            raise HTTPException(403, "You were not asked about these lists: open your link again.")
        return self._back(annotator, "" if result == "counted" else result)

    async def _read_form(self, request: Request) -> tuple[Annotator, dict[str, str]]:
        annotator = await run_in_threadpool(self._annotator, request)
        return annotator, await read_form(request, self._store.form_token(annotator.token), self._origin)

    def _annotator(self, request: Request) -> Annotator:
        found = self._store.annotator(request.path_params["token"])
        if found is None:
            raise HTTPException(404)
        return found

    def _back(self, annotator: Annotator, note: str = "") -> Response:
        address = self._pages.path("a", annotator.token)
        return RedirectResponse(f"{address}?note={note}" if note else address, status_code=303)
