"""A folder to work in."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.decoding import TEXTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path
