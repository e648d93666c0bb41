"""Settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from beamsplit import progress
from graph_twin import recordings

__all__ = ["recordings"]

# The tensors here are tiny: more threads only wait for each other. So do those of programs that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the seconds between lines of progress anew: a test is a program of its own."""
    monkeypatch.setattr(progress, "_CLOCK", progress._Clock())


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Whose half precision is an illegal instruction on some virtual machines."""
    enabled, *_ = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    yield
    torch.backends.mkldnn.set_flags(enabled)  # type: ignore[no-untyped-call]
