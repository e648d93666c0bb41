"""The web application: a page, and the JSON interface that the page uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from beamsplit import __version__
from beamsplit.serving import SecurityHeaders
from beamsplit.web import responses
from beamsplit.web.catalogue import TERMS, Catalogue, strategies
from beamsplit.web.jobs import Job, JobFactory
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem, error_response
from beamsplit.web.reading import read, read_body
from beamsplit.web.requests import DecodeRequest
from beamsplit.web.running import SearchSlots
from beamsplit.web.samples import KINDS, SamplePictures
from beamsplit.web.security import (
    RESPONSE_HEADERS,
    ConcurrencyLimit,
    HeadRequests,
    Hosts,
    JsonErrors,
    OriginGuard,
    SendLimit,
)
from beamsplit.web.streaming import Runner

__all__ = ["DemoSettings", "make_app"]

_STATIC = Path(__file__).parent / "static"

_ABOUT = """Diverse decoding: outputs that are each likely and all different.

`POST /api/decode` answers at once, `POST /api/search` step by step. Whatever goes wrong is
`{"error": "one line"}` with a status of 400 or more."""

_MEANINGS = {
    400: "The request cannot be read",
    403: "The request comes from another site's page",
    404: "There is no such model or picture",
    405: "The address does not take this method",
    408: "The request did not arrive in time",
    413: "The request or its picture is too large",
    415: "The body is not JSON",
    421: "The server does not go by this name",
    422: "A value cannot be used",
    429: "All searches that may run at once are running",
    500: "A mistake of ours, or of a model's",
    503: "A package is missing, a model cannot be loaded, the search took too long, or too many ask at once",
}
_AGAIN = {"Retry-After": {"description": "Seconds after which to ask again.", "schema": {"type": "integer"}}}


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {each: _failure(each) for each in statuses}


def _failure(status: int) -> dict[str, Any]:
    told: dict[str, Any] = {"model": responses.ErrorResponse, "description": _MEANINGS[status]}
    return told | ({"headers": _AGAIN} if status in (429, 503) else {})


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """What the demo shows, and to whom."""

    models: Sequence[str] = ()
    """Beside those that come with the package; the page begins with the first."""
    pictures: Path | None = None
    """A folder of sample pictures, beside those that come with the package."""
    hosts: Hosts = field(default_factory=Hosts)
    limits: DemoLimits = field(default_factory=DemoLimits)


def make_app(settings: DemoSettings | None = None, catalogue: Catalogue | None = None) -> FastAPI:
    """The application, for any ASGI server."""
    settings = settings or DemoSettings()
    catalogue = catalogue or Catalogue(settings.models)
    slots = SearchSlots(settings.limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        slots.open()
        yield
        slots.close()

    app = _Described(
        title="beamsplit",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # these would be fetched from elsewhere: ours are at /api
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        middleware=[
            Middleware(SecurityHeaders, headers=RESPONSE_HEADERS),
            Middleware(JsonErrors),
            Middleware(ConcurrencyLimit, limits=settings.limits),
            Middleware(SendLimit, limits=settings.limits),
            Middleware(HeadRequests),
            Middleware(OriginGuard, hosts=settings.hosts),
        ],
    )
    app.state.slots = slots  # for `make_server`
    samples = SamplePictures(settings.pictures)
    app.include_router(_about(catalogue, samples, slots, settings.limits))
    app.include_router(_searching(JobFactory(catalogue, samples, settings.limits), slots))
    _add_pages(app)
    _add_handlers(app)
    return app


class _Described(FastAPI):
    """Also describes what it reads and streams by itself."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _, found = models_json_schema(
                [(DecodeRequest, "validation"), (responses.StepEvent, "serialization")],
                ref_template=_PLACE.format("{model}"),
            )
            super().openapi()["components"]["schemas"] |= found["$defs"]
        assert self.openapi_schema is not None
        return self.openapi_schema


_PLACE = "#/components/schemas/{}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _PLACE.format(name)}


# The interface


def _about(
    catalogue: Catalogue, samples: SamplePictures, slots: SearchSlots, limits: DemoLimits
) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["what there is"], responses=_failures(405, 421, 500, 503))

    @router.get(
        "/health",
        operation_id="health",
        response_model=responses.HealthResponse,
        response_description="It does",
    )
    async def health() -> Any:
        """Whether the server answers."""
        return {"status": "ok", "searching": slots.busy}

    @router.get(
        "/models",
        operation_id="models",
        response_model=responses.CatalogueResponse,
        response_description="What there is",
    )
    def models() -> Any:
        """Models, strategies, terms, sample pictures and limits."""
        return {
            "version": __version__,
            "default": catalogue.default,
            "models": [entry.as_dict() for entry in catalogue],
            "strategies": strategies(),
            "terms": [{"name": name, "title": title, "pays": pays} for name, (title, pays) in TERMS.items()],
            "pictures": [_sample(name) for name in samples.names()],
            "limits": asdict(limits),
        }

    @router.get(
        "/pictures/{name}",
        operation_id="picture",
        response_class=Response,
        responses={
            200: {"description": "The file", "content": {kind: {} for kind in KINDS}},
            **_failures(404, 422),
        },
    )
    def picture(name: str) -> Response:
        """A sample picture."""
        data, kind = samples.read(name)
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    return router


def _sample(name: str) -> dict[str, str]:
    from urllib.parse import quote

    return {"name": name, "title": Path(name).stem, "address": f"/api/pictures/{quote(name, safe='')}"}


def _searching(jobs: JobFactory, slots: SearchSlots) -> APIRouter:
    failures = _failures(400, 403, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503)
    router = APIRouter(prefix="/api", tags=["searching"], responses=failures)
    runner = Runner(slots, jobs.limits, jobs.catalogue.model)

    async def job_of(request: Request) -> Job:
        """In a thread: what is large takes a while, and others should not wait for it."""
        body = await read_body(request, jobs.limits)
        return await asyncio.to_thread(lambda: jobs.of(read(body, jobs.limits)))

    @router.post(
        "/decode",
        operation_id="decode",
        openapi_extra=_BODY,
        response_model=responses.DecodeResponse,
        response_description="What was found",
    )
    async def decode(request: Request) -> Response:
        """Search, and answer when all is found."""
        found = await runner.decode(await job_of(request), request.receive)
        return Response(found, media_type="application/json")

    @router.post(
        "/search",
        operation_id="search",
        openapi_extra=_BODY,
        response_class=Response,
        responses={200: {"description": _STREAM, "content": {"text/event-stream": _EVENTS}}},
    )
    async def search(request: Request) -> Response:
        """Search, and tell of every step."""
        return await runner.stream(await job_of(request))

    return router


_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("DecodeRequest")}}}
}


def _event(name: str, data: str) -> dict[str, Any]:
    """As a client has it once the lines are read: a name, and a text that is JSON."""
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": _ref(data)}
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {"event": {"const": name}, "data": text},
    }


_EVENTS = {
    "schema": {
        "oneOf": [
            _event("step", "StepEvent"),
            _event("done", "DecodeResponse"),
            _event("error", "ErrorResponse"),
        ]
    }
}

_STREAM = (
    "Server-sent events: any number of `step`, then `done` with what `/api/decode` answers, or `error`. "
    "Where telling takes longer than searching, some steps are left out"
)


# The page


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return _page("index.html")

    @app.get("/api", include_in_schema=False)
    def description() -> Response:
        return _page("api.html")

    app.mount("/static", _Fresh(directory=_STATIC), name="static")


def _page(name: str) -> Response:
    return FileResponse(_STATIC / name, headers={"cache-control": "no-cache"})


class _Fresh(StaticFiles):
    """Files that a browser may keep, but asks about: after an update, no old script meets a new page."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "no-cache"
        return response


# What goes wrong


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def wrong_place(request: Request, error: HTTPException) -> JSONResponse:
        line = f"{request.method} {request.url.path}: {error.detail}"
        return error_response(Problem(error.status_code, line, dict(error.headers or {})))
