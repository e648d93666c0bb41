"""The page for the people who run a study."""

from __future__ import annotations

import json

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from beamsplit.study import plots, words
from beamsplit.study.export import export_votes
from beamsplit.study.forms import read_form
from beamsplit.study.pages import Pages
from beamsplit.study.report import Figures, collect_data, figures
from beamsplit.study.store import Store

__all__ = ["AdminPages"]

_MAX_ADDED = 100
# An SVG picture has styles inside, and needs nothing else.
_SVG = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


class AdminPages:
    """Progress, links, report and votes, for everyone who has the admin link."""

    def __init__(self, store: Store, pages: Pages, origin: str) -> None:
        self._store, self._pages, self._origin = store, pages, origin

    def routes(self) -> list[Route]:
        return [
            Route("/admin/{token}", self.page),
            Route("/admin/{token}/annotators", self.add, methods=["POST"]),
            Route("/admin/{token}/report.svg", self.plot),
            Route("/admin/{token}/report.json", self.report),
            Route("/admin/{token}/votes.{kind}", self.votes),
        ]

    def page(self, request: Request) -> Response:
        token = self._token(request)
        report = self._figures()
        people = self._store.progress()
        return self._pages.render(
            "admin.html",
            here=self._pages.path("admin", token),
            form=self._store.form_token(token),
            study=self._store.study,
            report=report,
            voted=sum(each.votes for each in people),
            people=[(each, self._pages.address("a", each.annotator.token)) for each in people],
            sections=words.sections(report),
            about=words.summary(report),
            most=_MAX_ADDED,
        )

    def plot(self, request: Request) -> Response:
        self._token(request)
        return Response(plots.draw_plot(self._figures()), media_type="image/svg+xml", headers=_SVG)

    def report(self, request: Request) -> Response:
        self._token(request)
        text = json.dumps(self._figures(), indent=1, ensure_ascii=False) + "\n"
        return Response(text, media_type="application/json")

    def votes(self, request: Request) -> Response:
        self._token(request)
        kind = request.path_params["kind"]
        if kind not in ("csv", "jsonl"):
            raise HTTPException(404)
        media = "text/csv" if kind == "csv" else "application/jsonl"
        kept = {"Content-Disposition": f'attachment; filename="votes.{kind}"'}
        return Response(export_votes(self._store, kind), media_type=media, headers=kept)

    async def add(self, request: Request) -> Response:
        token = self._token(request)
        fields = await read_form(request, self._store.form_token(token), self._origin)
        count = fields.get("count", "")
        if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= _MAX_ADDED):
            raise HTTPException(400, f"Please give a number from 1 to {_MAX_ADDED}.")
        await run_in_threadpool(self._store.add_annotators, int(count))
        return RedirectResponse(self._pages.path("admin", token) + "#people", status_code=303)

    def _figures(self) -> Figures:
        return figures(collect_data(self._store))

    def _token(self, request: Request) -> str:
        token: str = request.path_params["token"]
        if not self._store.is_admin(token):
            raise HTTPException(404)
        return token
