"""Settings that a test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from beamsplit.huggingface import install, uninstall


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Whose half precision is an illegal instruction on some virtual machines."""
    enabled, *_ = torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    yield
    torch.backends.mkldnn.set_flags(enabled)  # type: ignore[no-untyped-call]


@pytest.fixture
def installed() -> Iterator[None]:
    """With transformers patched."""
    install()
    yield
    uninstall()
