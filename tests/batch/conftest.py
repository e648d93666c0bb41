"""Settings for the tests of big jobs."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: what a loss of power would do, no test can see."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
