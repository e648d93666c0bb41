"""What the package offers, and what it says where something is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest

import beamsplit.study


def test_what_there_is() -> None:
    assert beamsplit.study.__all__ == sorted(beamsplit.study.__all__)
    assert all(hasattr(beamsplit.study, name) for name in beamsplit.study.__all__)


@pytest.mark.parametrize("missing", ["sqlalchemy", "starlette", "jinja2"])
def test_what_is_not_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beamsplit.study")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        ImportError, match=rf"beamsplit\.study needs {missing}: pip install 'beamsplit\[study\]'"
    ):
        importlib.import_module("beamsplit.study")
