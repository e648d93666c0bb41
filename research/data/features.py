"""Write the features of pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.evaluation.features import Features
from beamsplit.files import AnyPath, check_extension, write_bytes

__all__ = ["write_features"]


def write_features(path: AnyPath, images: Sequence[str], values: Tensor) -> None:
    """Write features [n d] for `read_features`, in float16; the file appears whole or not at all."""
    check_extension(path, [".npz"])
    features = Features(tuple(images), values.detach().cpu())
    half = features.values.half()
    if not torch.isfinite(half).all():
        raise ArgumentError(f"{path}: features beyond ±65504 do not fit into float16, scale them")
    content = io.BytesIO()
    np.savez(content, image=np.array(features.images, dtype=np.str_), feature=half.numpy())
    write_bytes(Path(path), content.getvalue())
