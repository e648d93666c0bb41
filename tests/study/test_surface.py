"""What the package says where something is not installed."""

from __future__ import annotations

import importlib
import sys

import pytest

from beamsplit.extras import install_line


@pytest.mark.parametrize("missing", ["sqlalchemy", "starlette", "jinja2"])
def test_what_is_not_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beamsplit.study", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError) as caught:
        importlib.import_module("beamsplit.study")
    assert str(caught.value) == f"beamsplit.study needs {missing}: {install_line('study')}"
