"""The web application: a page, and the JSON API that the page uses."""

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

from beamsplit import __version__
from beamsplit.web import responses
from beamsplit.web.catalogue import Catalogue, strategies, terms
from beamsplit.web.jobs import Job, JobFactory
from beamsplit.web.limits import DemoLimits
from beamsplit.web.problems import Problem, error_response
from beamsplit.web.reading import parse_request, read_body
from beamsplit.web.requests import DecodeRequest
from beamsplit.web.running import SearchSlots
from beamsplit.web.samples import MEDIA_TYPES, SamplePictures
from beamsplit.web.security import Hosts, guards
from beamsplit.web.streaming import Runner

__all__ = ["DemoSettings", "make_app"]

_STATIC = Path(__file__).parent / "static"

_ABOUT = """Diverse decoding: outputs that are each likely and all different.

`POST /api/decode` returns the final result, `POST /api/search` every step. An error is
`{"error": "one line"}` with a status of 400 or more."""

_DESCRIPTIONS = {
    400: "The request cannot be read",
    403: "The request comes from a page of another site",
    404: "No such model or picture",
    405: "Method not allowed",
    408: "The request did not arrive in time",
    413: "The request or its picture is too large",
    415: "The body is not JSON",
    421: "The `Host` header does not name this server",
    422: "A value cannot be used",
    429: "Too many searches are running",
    500: "An error of the server or of a model",
    503: "A package is missing, a model cannot be loaded, the search took too long, or too many requests",
}
_RETRY_AFTER = {
    "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {each: _error(each) for each in statuses}


def _error(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"model": responses.ErrorResponse, "description": _DESCRIPTIONS[status]}
    return described | ({"headers": _RETRY_AFTER} if status in (429, 503) else {})


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """What the demo shows, and to whom."""

    models: Sequence[str] = ()
    """Models to add to those of the package. The page starts with the first."""
    pictures: Path | None = None
    """A folder of sample pictures to add to those of the package."""
    hosts: Hosts = field(default_factory=Hosts)
    limits: DemoLimits = field(default_factory=DemoLimits)


def make_app(settings: DemoSettings | None = None, catalogue: Catalogue | None = None) -> FastAPI:
    """Return the application, for any ASGI server."""
    settings = settings or DemoSettings()
    catalogue = catalogue or Catalogue(settings.models)
    slots = SearchSlots(settings.limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        slots.open()
        yield
        slots.close()

    app = _Demo(
        title="beamsplit",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere; ours is at /api
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        middleware=guards(settings.hosts, settings.limits),
    )
    app.state.slots = slots  # for `make_server`
    samples = SamplePictures(settings.pictures)
    app.include_router(_catalogue_routes(catalogue, samples, slots, settings.limits))
    app.include_router(_search_routes(JobFactory(catalogue, samples, settings.limits), slots))
    _add_pages(app)
    _add_handlers(app)
    return app


class _Demo(FastAPI):
    """Adds the schemas of what is read and streamed without FastAPI's help to the API's description."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _, schemas = models_json_schema(
                [(DecodeRequest, "validation"), (responses.StepEvent, "serialization")],
                ref_template=_SCHEMA.format("{model}"),
            )
            super().openapi()["components"]["schemas"] |= schemas["$defs"]
        assert self.openapi_schema is not None
        return self.openapi_schema


_SCHEMA = "#/components/schemas/{}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _SCHEMA.format(name)}


# The API


def _catalogue_routes(
    catalogue: Catalogue, samples: SamplePictures, slots: SearchSlots, limits: DemoLimits
) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["catalogue"], responses=_errors(405, 421, 500, 503))

    @router.get(
        "/health",
        operation_id="health",
        response_model=responses.HealthResponse,
        response_description="The server answers",
    )
    async def health() -> Any:
        """Return the status of the server."""
        return {"status": "ok", "searching": slots.busy}

    @router.get(
        "/models",
        operation_id="models",
        response_model=responses.CatalogueResponse,
        response_description="The catalogue",
    )
    def models() -> Any:
        """Return all models, strategies, diversity terms, sample pictures and limits."""
        return {
            "version": __version__,
            "default": catalogue.default,
            "models": [entry.as_dict() for entry in catalogue],
            "strategies": strategies(),
            "terms": terms(),
            "pictures": [_sample_info(name) for name in samples.names()],
            "limits": asdict(limits),
        }

    @router.get(
        "/pictures/{name}",
        operation_id="picture",
        response_class=Response,
        responses={
            200: {"description": "The file", "content": {kind: {} for kind in MEDIA_TYPES}},
            **_errors(404, 422),
        },
    )
    def picture(name: str) -> Response:
        """Return a sample picture."""
        data, kind = samples.read(name)
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    return router


def _sample_info(name: str) -> dict[str, str]:
    from urllib.parse import quote

    return {"name": name, "title": Path(name).stem, "address": f"/api/pictures/{quote(name, safe='')}"}


def _search_routes(jobs: JobFactory, slots: SearchSlots) -> APIRouter:
    errors = _errors(400, 403, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503)
    router = APIRouter(prefix="/api", tags=["searching"], responses=errors)
    runner = Runner(slots, jobs.limits, jobs.catalogue.model)

    async def read_job(request: Request) -> Job:
        body = await read_body(request, jobs.limits)
        # In a thread, because a large body takes a while and other requests should not wait for it.
        return await asyncio.to_thread(lambda: jobs.make(parse_request(body, jobs.limits)))

    @router.post(
        "/decode",
        operation_id="decode",
        openapi_extra=_BODY,
        response_model=responses.DecodeResponse,
        response_description="The result",
    )
    async def decode(request: Request) -> Response:
        """Search, and return the final result."""
        result = await runner.decode(await read_job(request), request.receive)
        return Response(result, media_type="application/json")

    @router.post(
        "/search",
        operation_id="search",
        openapi_extra=_BODY,
        response_class=Response,
        responses={200: {"description": _STREAM, "content": {"text/event-stream": _EVENTS}}},
    )
    async def search(request: Request) -> Response:
        """Search, and return every step as it comes."""
        return await runner.stream(await read_job(request))

    return router


_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("DecodeRequest")}}}
}


def _event(name: str, data: str) -> dict[str, Any]:
    """Describe an event as a client reads it: a name, and JSON as text."""
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
    "Server-sent events: any number of `step`, then `done` with the result of `/api/decode`, or `error`. "
    "Where writing steps takes longer than searching, some are left out"
)


# Pages


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return _page("index.html")

    @app.get("/api", include_in_schema=False)
    def description() -> Response:
        return _page("api.html")

    app.mount("/static", _RevalidatedFiles(directory=_STATIC), name="static")


def _page(name: str) -> Response:
    return FileResponse(_STATIC / name, headers={"cache-control": "no-cache"})


class _RevalidatedFiles(StaticFiles):
    """Files that a browser checks for changes, so that no old script meets a new page after an update."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "no-cache"
        return response


# Errors


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        line = f"{request.method} {request.url.path}: {error.detail}"
        return error_response(Problem(error.status_code, line, dict(error.headers or {})))
