"""Files of weights: safetensors, with large matrices quantised to small integers and a scale for each row.

A file holds the tensors of a network and, as text, what else is needed to build it: sizes and vocabulary.
Nothing in it can run code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from beamsplit.errors import ArgumentError
from beamsplit.files import write_bytes

__all__ = [
    "WEIGHTS",
    "build_with_weights",
    "check_kind",
    "english_vectors",
    "fingerprint",
    "fitting",
    "kind",
    "read",
    "rounded",
    "write",
]

M = TypeVar("M", bound=nn.Module)

WEIGHTS = Path(__file__).parent / "weights"
"""The folder of the weights that come with the package."""

_DESCRIPTION = "beamsplit"
_SCALE = "/scale"  # what is added to a matrix's name for its scales
_SMALL = 4096  # tensors of fewer numbers stay as they are


def write(
    path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any], *, bits: Literal[6, 8] = 8
) -> None:
    """Write a file of these tensors, with every large matrix rounded to so many bits."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        packed.update(_pack(name, tensor.detach().cpu(), bits))
    # One entry of text only: with more, their order in the file would vary.
    write_bytes(path, save(packed, {_DESCRIPTION: json.dumps(description)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write` wrote: the tensors as float32, rounded, and the description."""
    with _opened(path) as file:
        packed = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = _description(file)
    with fitting(path):
        return {name: _unpack(name, packed) for name in packed if not name.endswith(_SCALE)}, description


def english_vectors() -> tuple[list[str], Tensor]:
    """Return English words and their vectors [words dimensions], which come with the package."""
    tensors, description = read(WEIGHTS / "words.safetensors")
    return description["words"], tensors["vectors"]


def build_with_weights(build: Callable[[], M], tensors: Mapping[str, Tensor]) -> M:
    """Build a network with these weights, ready for use."""
    # Building draws random numbers, which must not change those that the caller draws.
    with torch.random.fork_rng(devices=[]):
        network = build()
    network.load_state_dict(tensors)
    network.eval().requires_grad_(False)
    return network


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Raise an `ArgumentError` that blames the file for any error in building a model from it."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ArgumentError(f"{path} does not fit together: {reason}"[:300]) from error


def kind(path: Path) -> str | None:
    """Return the kind of model in a file. Only the beginning of the file is read."""
    with _opened(path) as file:
        found = _description(file).get("kind")
        return found if isinstance(found, str) else None


def check_kind(path: Path, description: Mapping[str, Any], kind: str) -> None:
    """Raise unless a file holds this kind of model."""
    found = description.get("kind")
    if found != kind:
        raise ArgumentError(
            f"{path} holds {f'a {found}' if found else 'no model of beamsplit'}, not a {kind}"
        )


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Return a short hash of these tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{list(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def rounded(tensor: Tensor, bits: Literal[6, 8] = 8) -> Tensor:
    """Return the tensor as it is after being written and read."""
    return _unpack("", _pack("", tensor, bits))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError as error:
        raise ArgumentError(f"there is no file {path}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ArgumentError(f"{path} is no file of weights: {' '.join(str(error).split())}") from error


def _description(file: Any) -> dict[str, Any]:
    try:
        found = json.loads((file.metadata() or {}).get(_DESCRIPTION, "{}"))
    except RecursionError as error:
        raise ValueError("its description is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("its description is no table")
    return found


def _pack(name: str, tensor: Tensor, bits: int) -> dict[str, Tensor]:
    if tensor.dtype != torch.float32:
        return {name: tensor.contiguous()}
    if tensor.dim() != 2 or tensor.numel() < _SMALL or tensor.shape[1] % 4:
        return {name: tensor.half().contiguous()}
    most = 2 ** (bits - 1) - 1
    scale = (tensor.abs().amax(1, keepdim=True) / most).clamp(min=torch.finfo(torch.float32).tiny)
    whole = (tensor / scale).round().to(torch.int8).contiguous()
    return {name: whole if bits == 8 else _pack_6bit(whole), name + _SCALE: scale.squeeze(1)}


def _unpack(name: str, packed: Mapping[str, Tensor]) -> Tensor:
    tensor = packed[name]
    if name + _SCALE in packed:
        whole = tensor if tensor.dtype == torch.int8 else _unpack_6bit(tensor)
        return whole.float() * packed[name + _SCALE].unsqueeze(1)
    return tensor.float() if tensor.is_floating_point() else tensor


def _pack_6bit(whole: Tensor) -> Tensor:
    """Pack four integers from -32 to 31 into three bytes: [rows columns] -> [rows columns*3/4]."""
    a, b, c, d = (whole.int() + 32).view(len(whole), -1, 4).unbind(2)
    first, second, third = a << 2 | b >> 4, (b & 15) << 4 | c >> 2, (c & 3) << 6 | d
    return torch.stack([first, second, third], 2).flatten(1).to(torch.uint8)


def _unpack_6bit(packed: Tensor) -> Tensor:
    """Undo `_pack_6bit`: [rows columns*3/4] -> [rows columns]."""
    first, second, third = packed.view(len(packed), -1, 3).unbind(2)
    numbers = first >> 2, (first & 3) << 4 | second >> 4, (second & 15) << 2 | third >> 6, third & 63
    return torch.stack(numbers, 2).flatten(1).to(torch.int8) - 32
