"""What commands that search have in common: the searcher that options ask for, and errors of models."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from beamsplit.cli.chat_options import NO_CHAT, ChatOptions
from beamsplit.cli.engine_options import NO_ENGINE, EngineOptions
from beamsplit.cli.search_options import SearchOptions
from beamsplit.errors import ArgumentError, BeamsplitError, ModelError
from beamsplit.jobs.searching import Searcher
from beamsplit.loading import load_model
from beamsplit.model import StepModel
from beamsplit.strategies.defaults import DEFAULTS, defaults_of

__all__ = ["explained_errors", "make_searcher"]


def make_searcher(
    model_name: str | None,
    device: str | None,
    search: SearchOptions,
    *,
    compared: bool,
    chat: ChatOptions = NO_CHAT,
    engine: EngineOptions = NO_ENGINE,
    progress: bool = False,
) -> Searcher:
    """Load the model; what the options do not say is as the defaults for such a model, or for a chat."""
    model = _load(model_name, device, chat, engine)
    if chat.asked and not getattr(model, "chats", False):
        raise ArgumentError(
            f"--chat needs a model with a chat template, and {model_name or model} has none: leave --chat out"
        )
    defaults = DEFAULTS["chat"] if chat.asked else defaults_of(model)
    return Searcher(
        model,
        search.specs(defaults, compared=compared),
        search.decode_options(defaults),
        search.seed,
        order=search.order_of_lists(defaults),
        reordered=search.reorders(defaults),
        selected=search.selected,
        progress=progress,
    )


def _load(name: str | None, device: str | None, chat: ChatOptions, engine: EngineOptions) -> StepModel:
    if engine.url is not None:
        return engine.connect(name, device, chat.template)
    if name is None:
        raise click.UsageError("--model is missing: give a model, or --engine")
    return load_model(name, device, chat.template)


@contextmanager
def explained_errors(name: str) -> Iterator[None]:
    """Turn whatever a model of the user's own raises into one line: which model, what and where."""
    try:
        yield
    except (BeamsplitError, ImportError, OSError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        if ":" not in name:
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        where = f"{Path(frame.filename).name}, line {frame.lineno}"
        raise ModelError(
            f"{name} failed: {reason[:200]} ({where}); its inputs are a list of texts"
        ) from error
