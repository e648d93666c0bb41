"""Packages that not every installation has."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["need"]

_PACKAGES = {"sklearn": "scikit-learn"}  # where the name to install is another


def need(module: str, user: str, extra: str = "train") -> Any:
    """The module; without it, an error that says who needs what, and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise ImportError(
            f"{user} needs {_PACKAGES.get(missing, missing)}: pip install 'beamsplit[{extra}]'"
        ) from error
