"""Compute the features of a folder of pictures, to train on them."""

from __future__ import annotations

from pathlib import Path

import torch

from beamsplit.errors import ArgumentError
from beamsplit.models import vision
from beamsplit.progress import Progress
from research.data import picture_of_file, write_features

__all__ = ["write"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_AT_ONCE = 32


def write(folder: Path, out: Path, device: torch.device) -> None:
    """Write the features of all pictures in the folder, under the ids that readers give such file names."""
    if not folder.is_dir():
        raise ArgumentError(f"{folder} is no folder: give one with pictures in it")
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise ArgumentError(f"{folder} has no pictures: files that end in {', '.join(SUFFIXES)}")
    found = []
    with Progress("features").bar(len(files)) as bar:
        for begin in range(0, len(files), _AT_ONCE):
            part = files[begin : begin + _AT_ONCE]
            found.append(vision.features(part, device=device).cpu())
            for _ in part:
                bar.advance()
    write_features(out, [picture_of_file(file.name) for file in files], torch.cat(found))
