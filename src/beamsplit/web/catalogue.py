"""The models, strategies and diversity terms to choose from. Models are loaded when first used."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from beamsplit import checks
from beamsplit.choices import SUITABLE, TITLES, Choice
from beamsplit.errors import BeamsplitError
from beamsplit.evaluation.methods import METHODS, RANDOM
from beamsplit.evaluation.models import load_model
from beamsplit.evaluation.presets import PRESETS, Widths, tables_of
from beamsplit.model import StepModel
from beamsplit.models import storage
from beamsplit.web.problems import Problem

__all__ = ["TERMS", "Catalogue", "Entry", "strategies"]

Loader = Callable[[str], StepModel]

TERMS = {
    "hamming": ("Hamming", "each earlier beam that says it at the same step"),
    "cumulative:temperature=2": (
        "Cumulative",
        "each earlier beam that says it at the same step, less as they drift apart",
    ),
    "ngram:n=2": ("Pairs of words", "each time an earlier group has it after the same word"),
    "embedding": ("Similar words", "each earlier beam that says something of similar meaning"),
}
"""Diversity terms: the title, and what a word is penalised for."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model, before it is loaded."""

    name: str
    task: str
    title: str
    takes: Literal["text", "picture"]
    choice: Choice
    max_length: int
    examples: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        parts = ("strategy", "groups", "beams_per_group", "strength", "diversity")
        choice = {part: getattr(self.choice, part) for part in parts}
        return {**vars(self), "choice": choice, "examples": list(self.examples)}


_SENTENCES = (
    "We should leave before it gets dark.",
    "I have to find a new job before the summer.",
    "I'm looking forward to seeing you again.",
)
_BEGINNINGS = (
    "The best way to start the day is",
    "When I opened the door, I saw",
    "In the future, we will all",
)


_KINDS: dict[str, dict[str, Any]] = {
    "translator": {"task": "translate", "takes": "text", "max_length": 60, "examples": _SENTENCES},
    "captioner": {"task": "caption", "takes": "picture", "max_length": 20},
    "questioner": {"task": "ask", "takes": "picture", "max_length": 20},
    "transformers": {"task": "continue", "takes": "text", "max_length": 16, "examples": _BEGINNINGS},
}
"""By the kinds of models in `SUITABLE`. The last is any model that continues a text."""


def _make_entry(kind: str, name: str, title: str) -> Entry:
    return Entry(name=name, title=title, choice=SUITABLE[kind], **_KINDS[kind])


OURS = (
    _make_entry("translator", "en-fr", "English to French"),
    _make_entry("captioner", "captioner", "Captions"),
    _make_entry("questioner", "questioner", "Questions"),
)


def _own_entry(name: str) -> Entry:
    """Return the entry of a user's own model. It continues a text, unless its file says what it does."""
    path = Path(name)
    kind = storage.kind(path) if path.suffix == ".safetensors" and path.is_file() else None
    title = path.name if os.path.exists(name) else name
    return _make_entry(kind if kind in _KINDS else "transformers", name, title)


class Catalogue:
    """Models by name. Each is loaded once, by the first request that needs it; others wait for it."""

    def __init__(self, names: Sequence[str] = (), loader: Loader = load_model) -> None:
        own = [_own_entry(name) for name in names if name not in {each.name for each in OURS}]
        self._entries = {each.name: each for each in (*OURS, *own)}
        self.default = names[0] if names else OURS[0].name
        self._loader = loader
        self._loaded: dict[str, StepModel] = {}
        self._locks = {name: threading.Lock() for name in self._entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def entry(self, name: str) -> Entry:
        if name not in self._entries:
            hint = checks.nearest(name, self._entries, f"there are {', '.join(self._entries)}")
            raise Problem(404, f"there is no model {checks.shown(name)}: {hint}")
        return self._entries[name]

    def model(self, name: str) -> StepModel:
        with self._locks[name]:
            if name not in self._loaded:
                self._loaded[name] = self._load(name)
            return self._loaded[name]

    def _load(self, name: str) -> StepModel:
        try:
            return self._loader(name)
        except (BeamsplitError, OSError) as error:  # not the fault of the request
            raise Problem(503, f"the model {name!r} cannot be loaded: {error}") from error


# Strategies


def strategies() -> list[dict[str, Any]]:
    """Return all strategies, and which of the page's controls each uses."""
    tables = tables_of(list(PRESETS), Widths())
    return [_strategy_info(name, table) for name, table in tables.items()]


_SHARED_CONTROLS = ("groups", "strength", "diversity")
_OWN_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "rate")


def _strategy_info(name: str, table: dict[str, Any]) -> dict[str, Any]:
    known = {each.name for each in fields(METHODS[table["kind"]])}
    return {
        "name": name,
        "title": TITLES[name],
        "source": PRESETS[name][0],
        "uses": [each for each in _SHARED_CONTROLS if each in table],
        "settings": [each for each in _OWN_SETTINGS if each in known],
        "groups": "groups" in table or "runs" in table,
        "samples": table["kind"] in RANDOM,
    }
