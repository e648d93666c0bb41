"""Settings that a test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beamsplit.huggingface import carrying, install, uninstall


@pytest.fixture(autouse=True)
def _caches_for_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use them for the short prompts of tests, too."""
    monkeypatch.setattr(carrying, "LEAST_ON_CPU", 0)


@pytest.fixture
def installed() -> Iterator[None]:
    """With transformers patched."""
    install()
    yield
    uninstall()
