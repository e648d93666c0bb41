"""A quick model of texts, for jobs: `small_model.py:make`. It has no weights, and reads no files.

Texts may ask for faults: "bad" is refused, "huge" never fits into memory. Environment variables slow it down
(SMALL_MODEL_SECONDS a batch), let no more than so many texts fit (SMALL_MODEL_ROWS), or have each process
that loads it leave its number in a folder (SMALL_MODEL_PROCESSES), so that it can be killed.

It keeps nothing of what it has decoded: the memory of workers is measured with it.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.testing import PrefixHashModel

__all__ = ["SmallModel", "make"]


class SmallModel:
    """Gives each text outputs of its own, whatever is beside it in a batch."""

    kind = "translator"  # so that it takes texts alone
    end = 0

    def __init__(self, most_rows: int | None = None, seconds: float = 0.0) -> None:
        self.most_rows = most_rows
        self.seconds = seconds
        self._model = PrefixHashModel(vocabulary=9)

    def start(self, inputs: Sequence[str]) -> tuple[Tensor, Tensor]:
        if "bad" in inputs:
            raise ArgumentError(f"text {list(inputs).index('bad')} is refused")
        if "huge" in inputs or (self.most_rows is not None and len(inputs) > self.most_rows):
            raise MemoryError(f"no room for {len(inputs)} texts")
        time.sleep(self.seconds)
        return self._model.start([zlib.crc32(text.encode()) for text in inputs])

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._model.step(tokens, state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def to_text(self, tokens: Sequence[int]) -> str:
        return "".join("abcdefghi"[token] for token in tokens if token)


def make() -> SmallModel:
    rows = os.environ.get("SMALL_MODEL_ROWS")
    if folder := os.environ.get("SMALL_MODEL_PROCESSES"):
        (Path(folder) / str(os.getpid())).touch()
    return SmallModel(None if rows is None else int(rows), float(os.environ.get("SMALL_MODEL_SECONDS", "0")))
