"""How much memory a process holds, as Linux tells it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

__all__ = ["resident_megabytes"]


def resident_megabytes(process: int | None = None) -> float:
    """Return how much memory a process has in use, by its id; by default, this one."""
    pages = Path(f"/proc/{process or os.getpid()}/statm").read_text(encoding="ascii").split()[1]
    return round(int(pages) * mmap.PAGESIZE / 1e6, 1)
