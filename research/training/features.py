"""Features of a folder of pictures, for training on them."""

from __future__ import annotations

from pathlib import Path

import torch

from beamsplit.data import write_features
from beamsplit.data.described import picture_of_file
from beamsplit.errors import ArgumentError
from beamsplit.models import vision
from beamsplit.progress import Progress

__all__ = ["write"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_AT_ONCE = 32


def write(folder: Path, out: Path, device: torch.device) -> None:
    """The features of all pictures in the folder, under the ids that readers give files of these names."""
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
