"""GPU kernels. Each has a twin in plain torch, which takes over where there is no GPU, no Triton, or a case
that the kernel does not know. Modules of kernels are imported when first used, since not everyone has Triton.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os

import torch
from torch import Tensor

__all__ = ["available", "on_device_of", "power_of_two"]


def available(tensor: Tensor) -> bool:
    """Whether Triton can work on this tensor: on a GPU, or anywhere while its interpreter is switched on.

    The environment variable BEAMSPLIT_KERNELS=0 says not to.
    """
    on_gpu = tensor.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    return on_gpu and os.environ.get("BEAMSPLIT_KERNELS") != "0" and _has_triton()


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Where a kernel for this tensor must be launched: Triton would use the current GPU."""
    if tensor.device.type != "cuda" or tensor.device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(tensor.device)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def power_of_two(size: int) -> int:
    """The least power of two that is no smaller: Triton's tensors have such sizes alone."""
    return 1 << max(size - 1, 0).bit_length()
