"""Weights in files: safetensors, with large matrices as 8-bit whole numbers and a scale for each row.

A network's file holds its tensors and, as text beside them, whatever else it takes to build it: sizes,
vocabulary. Nothing in it can run code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from beamsplit.errors import ArgumentError

__all__ = ["check_kind", "read", "rounded", "write", "write_bytes"]

_SCALE = "/scale"  # the name of a matrix's scales, after its own
_STEPS = 127
_SMALL = 4096  # tensors of fewer numbers stay as they are


def write(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """A file of these, with every large matrix rounded to 8 bits."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        packed.update(_pack(name, tensor.detach().cpu()))
    write_bytes(path, save(packed, {key: json.dumps(value) for key, value in description.items()}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write` was given, as float32 (rounded)."""
    try:
        with safe_open(path, framework="pt") as file:
            packed = {name: file.get_tensor(name) for name in file.keys()}
            description = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
    except FileNotFoundError as error:
        raise ArgumentError(f"there is no file {path}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ArgumentError(f"{path} is no file of weights: {' '.join(str(error).split())}") from error
    return {name: _unpack(name, packed) for name in packed if not name.endswith(_SCALE)}, description


def rounded(tensor: Tensor) -> Tensor:
    """The tensor as it is after being written and read."""
    packed = _pack("", tensor)
    return _unpack("", packed)


def write_bytes(path: Path, content: bytes) -> None:
    """The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _pack(name: str, tensor: Tensor) -> dict[str, Tensor]:
    if not tensor.is_floating_point():
        return {name: tensor.contiguous()}
    if tensor.dim() != 2 or tensor.numel() < _SMALL:
        return {name: tensor.half().contiguous()}
    scale = (tensor.abs().amax(1, keepdim=True) / _STEPS).clamp(min=torch.finfo(torch.float32).tiny)
    return {name: (tensor / scale).round().to(torch.int8).contiguous(), name + _SCALE: scale.squeeze(1)}


def _unpack(name: str, packed: Mapping[str, Tensor]) -> Tensor:
    tensor = packed[name]
    if name + _SCALE in packed:
        return tensor.float() * packed[name + _SCALE].unsqueeze(1)
    return tensor.float() if tensor.is_floating_point() else tensor


def check_kind(path: Path, description: Mapping[str, Any], kind: str) -> None:
    """Whether a file is one of that kind of model."""
    found = description.get("kind")
    if found != kind:
        raise ArgumentError(
            f"{path} holds {f'a {found}' if found else 'no model of beamsplit'}, not a {kind}"
        )
