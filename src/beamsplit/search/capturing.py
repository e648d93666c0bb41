"""Work that a GPU repeats by itself: captured once as a CUDA graph, then launched as one.

A step of a model is hundreds of small kernels. Launching them one by one takes the processor many times as
long as the GPU takes to run them.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import torch

__all__ = ["WARM_UPS", "Repeated", "are_wanted"]

WARM_UPS = 2
"""Runs before a capture: kernels are compiled and workspaces allocated in the first."""

T = TypeVar("T")


def are_wanted(device: torch.device) -> bool:
    """Tell whether steps are to be captured on this device: on a GPU, unless BEAMSPLIT_GRAPHS=0 says not.

    With BEAMSPLIT_GRAPHS=1 processors take the same steps, without graphs, which is good for tests alone.
    """
    asked = os.environ.get("BEAMSPLIT_GRAPHS")
    return device.type == "cuda" if asked is None else device.type in ("cuda", "cpu") and asked == "1"


class Repeated(Generic[T]):
    """A function whose tensors stay where they are. On a GPU it is captured, and its kernels are replayed.

    The function runs a few times when this is made: what it changes is to be set anew after that.
    """

    def __init__(self, function: Callable[[], T], device: torch.device) -> None:
        self._function = function
        self._captured = _capture(function, device) if _can_capture(device) else None

    @property
    def is_captured(self) -> bool:
        """Whether calls run no Python any more."""
        return self._captured is not None

    def __call__(self) -> T:
        """Do the work again. On a GPU the result is in the same tensors every time."""
        if self._captured is None:
            return self._function()
        graph, result = self._captured
        graph.replay()
        return result


class _Graph(Protocol):
    """Work that can be done again as it was captured."""

    def replay(self) -> None: ...


def _can_capture(device: torch.device) -> bool:
    return device.type == "cuda"


def _capture(function: Callable[[], T], device: torch.device) -> tuple[_Graph, T]:
    with torch.cuda.device(device):
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), _without_collector():
            for _ in range(WARM_UPS):
                function()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                result = function()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
    return graph, result


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from freeing memory of the GPU in the middle of a capture, which would spoil it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
