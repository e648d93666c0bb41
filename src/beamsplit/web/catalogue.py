"""The models, strategies and diversity terms to choose from. Models are loaded when first used."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from beamsplit import checks
from beamsplit.diversity.names import TERMS
from beamsplit.errors import BeamsplitError
from beamsplit.loading import load_model
from beamsplit.model import StepModel
from beamsplit.models import storage
from beamsplit.strategies.defaults import DEFAULTS, STRATEGY
from beamsplit.strategies.names import (
    STRATEGIES,
    StrategyEntry,
    has_strength,
    own_settings,
    strategy_class,
)
from beamsplit.strategies.spec import Widths
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
    widths: Widths
    """The defaults of its searches."""
    max_length: int
    examples: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        content = {key: value for key, value in vars(self).items() if key != "widths"}
        choice = {"strategy": STRATEGY, **asdict(self.widths)}
        return {**content, "choice": choice, "examples": list(self.examples)}


_SENTENCES = (
    "I need to talk to you in person.",
    "I have to find a new job before the summer.",
    "I'm looking forward to seeing you again.",
)
_BEGINNINGS = (
    "The best way to start the day is",
    "When I opened the door, I saw",
    "In the future, we will all",
)


_KINDS: dict[str, dict[str, Any]] = {
    "translator": {"task": "translate", "takes": "text", "examples": _SENTENCES},
    "captioner": {"task": "caption", "takes": "picture"},
    "questioner": {"task": "ask", "takes": "picture"},
    "other": {"task": "continue", "takes": "text", "examples": _BEGINNINGS},
}
"""By the kinds of models that have defaults."""


def _make_entry(kind: str, name: str, title: str) -> Entry:
    defaults = DEFAULTS[kind]
    length = defaults.page_length or defaults.max_length
    return Entry(name=name, title=title, widths=defaults.widths, max_length=length, **_KINDS[kind])


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
    return _make_entry(kind if kind in _KINDS else "other", name, title)


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
            raise Problem(404, f"there is no model {checks.short_repr(name)}: {hint}")
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


# Strategies and terms


_OWN_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "rate", "proposals")


def strategies() -> list[dict[str, Any]]:
    """Return all strategies, and which of the page's controls each uses."""
    return [_strategy_info(name, entry) for name, entry in STRATEGIES.items()]


def _strategy_info(name: str, entry: StrategyEntry) -> dict[str, Any]:
    own = own_settings(name)
    strength = vars(strategy_class(name)).get("strength") if "strength" in own else None
    return {
        "name": name,
        "title": entry.title,
        "source": entry.source,
        "uses": ["groups"] * bool(entry.per_group)
        + ["strength"] * has_strength(name)
        + ["diversity"] * entry.diverse,
        "strength": strength,
        "settings": [each for each in _OWN_SETTINGS if each in own],
        "groups": entry.grouped,
        "order": "choice" if entry.chooses else "log-prob",
        "samples": entry.samples,
    }


def terms() -> list[dict[str, Any]]:
    """Return the diversity terms that the page offers, with their settings."""
    return [
        {
            "name": f"{name}:{entry.example}" if entry.example else name,
            "title": entry.title,
            "pays": entry.pays_for,
        }
        for name, entry in TERMS.items()
    ]
