"""What the package says where something is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize("missing", ["sqlalchemy", "starlette", "jinja2"])
def test_what_is_not_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beamsplit.study", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        ImportError, match=rf"beamsplit\.study needs {missing}: pip install 'beamsplit\[study\]'"
    ):
        importlib.import_module("beamsplit.study")
