"""Choose word vectors for the words that the captioner and the questioner know."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch

from beamsplit.evaluation.features import read_arrays
from beamsplit.models import storage

__all__ = ["write"]


def write(source: Path, wanted: Collection[str], out: Path) -> None:
    """Write the vectors of the wanted words, from an .npz file of `words` and `vectors`, in 16 bits."""
    arrays = read_arrays(source, ["words", "vectors"])
    rows = [row for row, word in enumerate(arrays["words"].tolist()) if word in wanted]
    words = [str(arrays["words"][row]) for row in rows]
    vectors = torch.tensor(arrays["vectors"][rows]).half()
    storage.write(out, {"vectors": vectors}, {"kind": "word vectors", "words": words})
