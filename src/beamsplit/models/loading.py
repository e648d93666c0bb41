"""Load the models that come with the package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, overload

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.models import storage
from beamsplit.models.complexity import Complexity
from beamsplit.models.pictures import Captioner, Questioner
from beamsplit.models.translator import Translator

__all__ = ["NAMES", "load"]

Model: TypeAlias = Translator | Captioner | Questioner | Complexity

NAMES = ("en-fr", "captioner", "questioner", "complexity")

_KINDS: dict[str | None, Callable[[Path], Model]] = {
    "translator": Translator.from_file,
    "captioner": Captioner.from_file,
    "questioner": Questioner.from_file,
    "complexity": Complexity.load,
}


@overload
def load(name: Literal["en-fr"]) -> Translator: ...
@overload
def load(name: Literal["captioner"]) -> Captioner: ...
@overload
def load(name: Literal["questioner"]) -> Questioner: ...
@overload
def load(name: Literal["complexity"]) -> Complexity: ...
@overload
def load(name: str | os.PathLike[str]) -> Model: ...
def load(name: str | os.PathLike[str]) -> Model:
    """Load a model that comes with the package, or one that you trained from its file."""
    if not isinstance(name, str | os.PathLike):
        raise ArgumentError(f"a model is loaded by its name or its file, not by {checks.short_repr(name)}")
    path = storage.WEIGHTS / f"{name}.safetensors" if name in NAMES else Path(name)
    if name not in NAMES and not path.is_file():
        hint = checks.nearest(str(name), NAMES, f"there are {', '.join(NAMES)}, or give a file")
        raise ArgumentError(f"there is no model {str(name)!r}: {hint}")
    kind = storage.kind(path)
    if kind not in _KINDS:
        raise ArgumentError(f"{path} holds no model of beamsplit")
    return _KINDS[kind](path)
