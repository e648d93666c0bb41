"""Names that are imported when they are first used: torch takes a second or two, and help needs none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["import_object", "package_dir", "package_getattr"]


def import_object(path: str) -> Any:
    """Return the object that a dotted path names.

    >>> import_object("collections.abc.Mapping").__name__
    'Mapping'
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def package_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package whose names are at home in other modules: `homes` says in which.

    >>> package_getattr("collections", {"collections.abc": "Mapping Sequence"})("Mapping").__name__
    'Mapping'
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_object(f"{home[name]}.{name}")

    return find


def package_dir(names: Iterable[str]) -> Callable[[], list[str]]:
    """Return a `__dir__` that lists these names, and not what the package imports for its own use.

    >>> package_dir(["b", "a"])()
    ['a', 'b']
    """
    listed = sorted(names)
    return listed.copy
