"""Small files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def text(path: Path, content: str) -> Path:
    """Gzipped if the name says so."""
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows(path: Path, *objects: Any) -> Path:
    """One JSON object a line."""
    return text(path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects))


def whole(path: Path, value: Any) -> Path:
    """One JSON value."""
    return text(path, json.dumps(value))
