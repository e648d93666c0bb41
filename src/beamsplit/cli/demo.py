"""`beamsplit demo`: beam search and late branching side by side, in a browser."""

from __future__ import annotations

import socket
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beamsplit.extras import need
from beamsplit.serving import address, listen

if TYPE_CHECKING:
    from beamsplit.web import DemoSettings

__all__ = ["demo"]

_COUNT = click.IntRange(min=1)


@click.command(short_help="Compare searches side by side on a web page.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 is any free one.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Add a model from text to text: a Hugging Face model by its name or folder, a FILE.gguf, or "
    "FILE.py:NAME for a StepModel of your own, whose code is run; repeatable.",
)
@click.option(
    "--pictures",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Add the pictures of a folder as samples.",
)
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="Also answer to this host name; repeatable."
)
@click.option(
    "--max-searches",
    type=_COUNT,
    metavar="N",
    help="Most requests that search at the same time (default: 2).",
)
@click.option("--max-beams", type=_COUNT, metavar="N", help="Most beams of a request (default: 96).")
@click.option("--max-length", type=_COUNT, metavar="N", help="Most tokens of an output (default: 100).")
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Most seconds for a request (default: 60).",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def demo(host: str, port: int, opens: bool, **options: Any) -> None:
    """Show beam search and late branching, or any other strategies, side by side on a web page.

    The page translates, describes pictures, asks questions about them, and runs the models that you add.
    It comes from this machine alone, and your texts and pictures stay here.

    \b
    beamsplit demo --open
    beamsplit demo --model HuggingFaceTB/SmolLM2-135M --model my_model.py:make
    beamsplit demo --pictures ~/photos --port 9000
    """  # noqa: D301 (click needs the \b)
    for package in ("fastapi", "uvicorn"):
        need(package, "beamsplit demo", "web")
    settings = _settings(host, **options)
    with listen(host, port) as listening:
        url = f"{address(host, listening)}/"
        click.echo(f"beamsplit demo is at {url} (Ctrl+C ends it)")
        if opens:
            threading.Timer(0.5, webbrowser.open, [url]).start()
        _serve(settings, listening)


def _settings(host: str, models: Any, pictures: Path | None, names: Any, **limits: Any) -> DemoSettings:
    from beamsplit.web import DemoLimits, DemoSettings, Hosts

    given = {name: value for name, value in limits.items() if value is not None}
    fields = {"max_searches": "searches", "max_beams": "beams", "max_seconds": "seconds"}
    return DemoSettings(
        models=tuple(models),
        pictures=pictures,
        hosts=Hosts(host, tuple(names)),
        limits=DemoLimits(**{fields.get(name, name): value for name, value in given.items()}),
    )


def _serve(settings: DemoSettings, listening: socket.socket) -> None:
    from beamsplit.web import make_app, make_server

    with suppress(KeyboardInterrupt):  # how the user ends it
        make_server(make_app(settings)).run([listening])
