"""What is compiled, on request: for which models, how often, and how long it took.

Compiling takes from seconds to a minute for each shape, so it is for long jobs: `BEAMSPLIT_COMPILE=1`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["MOST", "are_wanted", "first_run", "has_room"]

LOG = logging.getLogger("beamsplit.huggingface")
MOST = 8
"""Shapes that are compiled for one model; others run as they are. As many as torch's compiler keeps."""

_LOCK = threading.Lock()
_shapes: weakref.WeakKeyDictionary[Any, set[Hashable]] = weakref.WeakKeyDictionary()


def are_wanted(device: torch.device) -> bool:
    """Tell whether work on this device is to be compiled: if the environment has BEAMSPLIT_COMPILE=1."""
    return device.type == "cuda" and os.environ.get("BEAMSPLIT_COMPILE") == "1"


def has_room(model: Any, shape: Hashable) -> bool:
    """Tell whether this shape of a model has been compiled, or may still be."""
    with _LOCK:
        known = _shapes.setdefault(model, set())
        return shape in known or len(known) < MOST


@contextmanager
def first_run(model: Any, shape: Hashable, what: str) -> Iterator[None]:
    """Note the first run of what is compiled: it takes long, and those who wait may read why."""
    with _LOCK:
        known = _shapes.setdefault(model, set())
        is_new = shape not in known
        known.add(shape)
        count = len(known)
    begin = time.monotonic()
    yield
    if is_new:
        seconds = time.monotonic() - begin
        LOG.info(
            "compiled %s of %s in %.1f s (%d of at most %d)", what, type(model).__name__, seconds, count, MOST
        )
