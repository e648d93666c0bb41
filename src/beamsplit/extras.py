"""Packages that not every installation has."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["need"]

_PACKAGES = {"sklearn": "scikit-learn"}  # where the name to install is another


def need(module: str, user: str, extra: str) -> Any:
    """Import a module of an extra; raise with the line that installs it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise ImportError(
            f"{user} needs {_PACKAGES.get(missing, missing)}: pip install 'beamsplit[{extra}]'"
        ) from error
