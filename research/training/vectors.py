"""Word vectors for the words that the captioner and the questioner know."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch

from beamsplit.data.arrays import read_arrays
from beamsplit.models import storage

__all__ = ["write"]


def write(source: Path, wanted: Collection[str], out: Path) -> None:
    """The rows of an .npz file of `words` and `vectors` whose words are wanted, in 16 bits."""
    arrays = read_arrays(source, ["words", "vectors"])
    rows = [row for row, word in enumerate(arrays["words"].tolist()) if word in wanted]
    words = [str(arrays["words"][row]) for row in rows]
    vectors = torch.tensor(arrays["vectors"][rows]).half()
    storage.write(out, {"vectors": vectors}, {"kind": "word vectors", "words": words})
