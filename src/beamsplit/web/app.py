"""The web application: a page, and the JSON interface that the page uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from beamsplit import __version__
from beamsplit.errors import BeamsplitError
from beamsplit.web import answers
from beamsplit.web.catalogue import TERMS, Catalogue, strategies
from beamsplit.web.jobs import Jobs
from beamsplit.web.limits import Limits
from beamsplit.web.problems import Problem, answer_to, known
from beamsplit.web.requests import Asked
from beamsplit.web.running import Slots
from beamsplit.web.samples import KINDS, Samples
from beamsplit.web.security import Body, Gate, Headers, Hosts
from beamsplit.web.streaming import Runner

__all__ = ["Settings", "make_app"]

_STATIC = Path(__file__).parent / "static"

_ABOUT = """Diverse decoding: outputs that are each likely and all different.

`POST /api/decode` answers at once, `POST /api/search` step by step. Whatever goes wrong is
`{"error": "one line"}` with a status of 400 or more."""

_MEANINGS = {
    400: "The request cannot be read",
    403: "The request comes from another site's page",
    404: "There is no such model or picture",
    408: "The request did not arrive in time",
    413: "The request or its picture is too large",
    415: "The body is not JSON",
    421: "The server does not go by this name",
    422: "A value cannot be used",
    429: "All searches that may run at once are running",
    500: "A mistake of ours, or of a model's",
    503: "A package is missing, a model cannot be loaded, or the search took too long",
}


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {each: {"model": answers.Failure, "description": _MEANINGS[each]} for each in statuses}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the demo shows, and to whom."""

    models: Sequence[str] = ()
    """Beside those that come with the package; the page begins with the first."""
    pictures: Path | None = None
    """A folder of sample pictures, beside those that come with the package."""
    hosts: Hosts = field(default_factory=Hosts)
    limits: Limits = field(default_factory=Limits)


def make_app(settings: Settings | None = None, catalogue: Catalogue | None = None) -> FastAPI:
    """The application, for any ASGI server."""
    settings = settings or Settings()
    catalogue = catalogue or Catalogue(settings.models)
    slots = Slots(settings.limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        slots.open()
        yield
        slots.close()

    app = FastAPI(
        title="beamsplit",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # these would be fetched from elsewhere: ours are at /api
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        middleware=[
            Middleware(Headers),
            Middleware(Gate, hosts=settings.hosts),
            Middleware(Body, limits=settings.limits),
        ],
    )
    samples = Samples(settings.pictures)
    app.include_router(_about(catalogue, samples, slots, settings.limits))
    app.include_router(_searching(Jobs(catalogue, samples, settings.limits), slots))
    _add_pages(app)
    _add_handlers(app)
    return app


# The interface


def _about(catalogue: Catalogue, samples: Samples, slots: Slots, limits: Limits) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["what there is"], responses=_failures(421, 500))

    @router.get("/health", response_model=answers.Health, response_description="It does")
    async def health() -> Any:
        """Whether the server answers."""
        return {"status": "ok", "searching": slots.busy}

    @router.get("/models", response_model=answers.Catalogued, response_description="What there is")
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
        response_class=Response,
        responses={
            200: {"description": "The file", "content": {kind: {} for kind in KINDS}},
            **_failures(404, 422, 503),
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


def _searching(jobs: Jobs, slots: Slots) -> APIRouter:
    responses = _failures(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503)
    router = APIRouter(prefix="/api", tags=["searching"], responses=responses)
    runner = Runner(slots, jobs.limits, jobs.catalogue.model)

    @router.post("/decode", response_model=answers.Answer, response_description="What was found")
    async def decode(asked: Asked, request: Request) -> Response:
        """Search, and answer when all is found."""
        found = await runner.decode(jobs.of(asked), request.receive)
        return Response(found, media_type="application/json")

    @router.post(
        "/search",
        response_class=Response,
        responses={200: {"description": _STREAM, "content": {"text/event-stream": {}}}},
    )
    async def search(asked: Asked) -> Response:
        """Search, and tell of every step: the same request, answered as server-sent events."""
        return await runner.stream(jobs.of(asked))

    return router


_STREAM = """Events, each with JSON:

- `step`: `{"number": 0, ...}` and what `/api/decode` would answer if the search ended here
- `done`: what `/api/decode` answers
- `error`: `{"error": "one line"}`

Where telling takes longer than searching, some steps are left out."""


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
    @app.exception_handler(RequestValidationError)
    async def wrong_value(_: Request, error: RequestValidationError) -> JSONResponse:
        return answer_to(Problem(422, _said(error)))

    @app.exception_handler(HTTPException)
    async def wrong_place(request: Request, error: HTTPException) -> JSONResponse:
        line = f"{request.method} {request.url.path}: {error.detail}"
        return answer_to(Problem(error.status_code, line, dict(error.headers or {})))

    for kind in (Problem, BeamsplitError, ImportError):
        app.add_exception_handler(kind, _answer)


async def _answer(_: Request, error: Exception) -> JSONResponse:
    return answer_to(known(error))


def _said(error: RequestValidationError) -> str:
    """The first mistake, as a place and a reason; never what was sent."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the request"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"
