"""What there is to choose from: models, loaded when they are first asked for; strategies; terms."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from beamsplit import checks
from beamsplit.choices import SUITABLE, TITLES, Choice
from beamsplit.diversity.names import TERMS
from beamsplit.errors import BeamsplitError
from beamsplit.evaluation.methods import METHODS, RANDOM
from beamsplit.evaluation.models import load_model
from beamsplit.evaluation.presets import PRESETS, Widths, tables_of
from beamsplit.model import StepModel
from beamsplit.models import storage
from beamsplit.web.problems import Problem

__all__ = ["Catalogue", "Entry", "strategies", "terms"]

Loader = Callable[[str], StepModel]


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
"""By the kinds that `SUITABLE` knows, the last being whatever goes on from a text."""


def _of_kind(kind: str, name: str, title: str) -> Entry:
    return Entry(name=name, title=title, choice=SUITABLE[kind], **_KINDS[kind])


OURS = (
    _of_kind("translator", "en-fr", "English to French"),
    _of_kind("captioner", "captioner", "Captions"),
    _of_kind("questioner", "questioner", "Questions"),
)


def _entry(name: str) -> Entry:
    """For a model of the user's own: its file may say what it is; if not, it goes on from a text."""
    path = Path(name)
    kind = storage.kind(path) if path.suffix == ".safetensors" and path.is_file() else None
    title = path.name if os.path.exists(name) else name
    return _of_kind(kind if kind in _KINDS else "transformers", name, title)


class Catalogue:
    """Models by name. Each is loaded once, by whoever asks first; others wait for it."""

    def __init__(self, names: Sequence[str] = (), loader: Loader = load_model) -> None:
        own = [_entry(name) for name in names if name not in {each.name for each in OURS}]
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
        except (BeamsplitError, OSError) as error:  # nothing that whoever asks can help
            raise Problem(503, f"the model {name!r} cannot be loaded: {error}") from error


# Strategies and terms


def strategies() -> list[dict[str, Any]]:
    """All there are, and which of the page's controls they heed."""
    tables = tables_of(list(PRESETS), Widths())
    return [_strategy(name, table) for name, table in tables.items()]


_SHARED = ("groups", "strength", "diversity")
_OWN = ("temperature", "top_k", "top_p", "min_p", "rate")


def _strategy(name: str, table: dict[str, Any]) -> dict[str, Any]:
    known = {each.name for each in fields(METHODS[table["kind"]])}
    return {
        "name": name,
        "title": TITLES[name],
        "source": PRESETS[name][0],
        "uses": [each for each in _SHARED if each in table],
        "settings": [each for each in _OWN if each in known],
        "groups": "groups" in table or "runs" in table,
        "samples": table["kind"] in RANDOM,
    }


def terms() -> list[dict[str, Any]]:
    """Return the diversity terms that the page offers, with settings of theirs."""
    return [
        {
            "name": f"{name}:{entry.example}" if entry.example else name,
            "title": entry.title,
            "pays": entry.pays_for,
        }
        for name, entry in TERMS.items()
    ]
