"""What stands in for a CUDA graph on a CPU: operators are written down once, and done again as they were.

As with a graph, no Python runs when they are done again: what a function took from a variable stays as it
was, tensors are read and written where they were, and results lie where the first ones did. What a graph
cannot hold is refused: to ask for a tensor's value, and tensors that the processor fills.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from beamsplit.huggingface import fixed_attention
from beamsplit.search import capturing

_ASKS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "item", "unique")
_FROM_THE_PROCESSOR = ("lift_fresh", "scalar_tensor", "_pin_memory")

_OF_SHAPES = ("squeeze_", "unsqueeze_", "t_", "transpose_")  # which move nothing in memory


class CannotCaptureError(RuntimeError):
    """What CUDA would say of an operator that a graph cannot hold."""


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operators of a function, in their order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.done: list[tuple[Callable[[], Any], list[Tensor]]] = []
        self.replays = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0].removeprefix("aten::")
        if name in _ASKS:
            raise CannotCaptureError(f"a graph cannot ask for a value: {func}")
        if name in _FROM_THE_PROCESSOR:
            raise CannotCaptureError(f"a graph cannot wait for the processor: {func}")
        if name == "index" or name.startswith("index_put"):
            masks = [each for each in tree_leaves(args[1]) if each is not None and each.dtype == torch.bool]
            if masks:
                raise CannotCaptureError(f"a graph cannot count what is true: {func}")
        if name in _OF_SHAPES:
            return func(*args, **(kwargs or {}))
        return self.note(func, args, kwargs or {})

    def note(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function, and write it down with tensors that keep their present shapes."""
        args, kwargs = tree_map_only(Tensor, _same_memory, (args, kwargs))
        if getattr(function, "namespace", None) == "beamsplit":
            function = _with_present_reader(function)
        result = function(*args, **kwargs)
        self.done.append(
            (lambda: function(*args, **kwargs), [_same_memory(each) for each in _tensors(result)])
        )
        return result

    def replay(self) -> None:
        self.replays += 1
        with torch.no_grad():
            for work, results in self.done:
                for old, new in zip(results, _tensors(work()), strict=True):
                    assert old.shape == new.shape
                    if old.data_ptr() != new.data_ptr():  # neither a view nor written in place
                        old.copy_(new)


def _with_present_reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the operator read again as it reads now: a graph has the reader's kernels in it."""
    with fixed_attention.reading_with(None) as present:
        reader = weakref.ref(present)

    def read(*args: Any, **kwargs: Any) -> Any:
        with fixed_attention._LOCK, fixed_attention.reading_with(reader()):
            return function(*args, **kwargs)

    return read


def _tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


def _same_memory(tensor: Tensor) -> Tensor:
    return tensor.detach()


def record(function: Callable[[], Any]) -> tuple[Recording, Any]:
    """Run a function as often as a capture does, and write it down as it runs for the last time."""
    with torch.no_grad():
        for _ in range(capturing.WARM_UPS - 1):
            function()
        recording = Recording()
        with recording:
            result = function()
    return recording, result


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """Let all that would be captured on a GPU be written down and done again; returns what was."""
    made: list[Recording] = []

    def capture(function: Callable[[], Any], device: torch.device) -> tuple[Recording, Any]:
        assert device.type == "cpu"
        recording, result = record(function)
        made.append(recording)
        return recording, result

    monkeypatch.setattr(capturing, "_can_capture", lambda device: True)
    monkeypatch.setattr(capturing, "_capture", capture)
    return made
