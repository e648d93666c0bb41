"""What stands in for a CUDA graph on a CPU: operators are written down once, and done again as they were.

As with a graph, no Python runs when they are done again: what a function took from a variable stays as it
was, tensors are read and written where they were, and results lie where the first ones did. What a graph
cannot hold is refused: to ask for a tensor's value, and tensors that the processor fills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from beamsplit.search import capturing, kernels

_ASKS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "item", "unique")
_FROM_THE_PROCESSOR = ("lift_fresh", "scalar_tensor", "_pin_memory")

_current: list[Recording] = []


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operators of a function, in their order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.done: list[tuple[Callable[[], Any], list[Tensor]]] = []
        self.replays = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0].removeprefix("aten::")
        assert name not in _ASKS, f"a graph cannot ask for a value: {func}"
        assert name not in _FROM_THE_PROCESSOR, f"a graph cannot wait for the processor: {func}"
        if name == "index" or name.startswith("index_put"):
            masks = [each for each in tree_leaves(args[1]) if each is not None and each.dtype == torch.bool]
            assert not masks, f"a graph cannot count what is true: {func}"
        return self.note(lambda: func(*args, **(kwargs or {})))

    def note(self, work: Callable[[], Any]) -> Any:
        result = work()
        self.done.append((work, [each for each in tree_leaves(result) if isinstance(each, Tensor)]))
        return result

    def replay(self) -> None:
        self.replays += 1
        with torch.no_grad():
            for work, results in self.done:
                again = [each for each in tree_leaves(work()) if isinstance(each, Tensor)]
                for old, new in zip(results, again, strict=True):
                    assert old.shape == new.shape
                    if old.data_ptr() != new.data_ptr():  # neither a view nor written in place
                        old.copy_(new)


def record(function: Callable[[], Any]) -> tuple[Recording, Any]:
    """Run a function as often as a capture does, and write it down as it runs for the last time."""
    with torch.no_grad():
        for _ in range(capturing.WARM_UPS - 1):
            function()
        recording = Recording()
        _current.append(recording)
        try:
            with recording:
                result = function()
        finally:
            _current.pop()
    return recording, result


def _as_a_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function be one launch with the tensors it is given, whatever its twin consists of."""

    def launch(*args: Any, **kwargs: Any) -> Any:
        if not _current:
            return function(*args, **kwargs)
        recording = _current[-1]
        with torch.utils._python_dispatch._disable_current_modes():
            return recording.note(lambda: function(*args, **kwargs))

    return launch


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
    monkeypatch.setattr(kernels, "pick_into", _as_a_kernel(kernels.pick_into))
    return made
