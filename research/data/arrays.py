"""Files of arrays, `.npz`: read without pickle, written whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from beamsplit.data import files
from beamsplit.data.files import AnyPath, content, extension, need
from beamsplit.errors import ArgumentError

__all__ = ["read_arrays", "tensor", "write_arrays"]


def read_arrays(path: AnyPath, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """The arrays of these names; those that are optional only where they are there."""
    extension(path, [".npz"])
    data, numpy = content(path), need("numpy")
    try:
        with numpy.load(io.BytesIO(data), allow_pickle=False) as found:
            present = list(found.files)
            arrays = {name: found[name] for name in (*names, *optional) if name in present}
    except Exception as error:  # zip, zlib and numpy each have their own ways to fail
        raise ArgumentError(
            f"{path}: broken or no .npz ({_one_line(error)}): fetch the file again"
        ) from error
    for name in names:
        if name not in arrays:
            raise ArgumentError(f"{path}: no array {name!r} (it has: {files.names(present)})")
    return arrays


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def tensor(array: Any, name: str) -> Tensor:
    """Numbers as a float32 tensor."""
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} must be numbers, not {array.dtype}")
    return torch.from_numpy(array.astype("float32"))


def write_arrays(path: AnyPath, arrays: Mapping[str, Any]) -> None:
    """Writes beside the file first, so that whoever reads `path` meets the old file or the new one."""
    extension(path, [".npz"])
    numpy, path = need("numpy"), Path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            numpy.savez(file, **arrays)
        os.replace(beside, path)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        beside.unlink(missing_ok=True)
