"""Contestants: our searches with each of their switches, and their peers."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import beamsplit
from beamsplit.options import DecodeOptions
from beamsplit.search.plan import Strategy
from research.benchmarks import generation_worker
from research.benchmarks.generation import Worker
from research.benchmarks.performance.sizes import Size
from research.benchmarks.performance.turns import Go

__all__ = [
    "CAPTURED",
    "ON_CPU",
    "PLAIN",
    "STEPWISE",
    "VARIANTS",
    "Decoding",
    "FreeModel",
    "Generating",
    "OldGenerating",
    "Variant",
    "variants",
]


@dataclass(frozen=True)
class Variant:
    """Our search with some of its switches set."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None  # the only kind that it is for

    def is_known(self, options: set[str], device: str) -> bool:
        """Tell whether these options, and variables that the package reads, have all switches."""
        is_there = set(self.options) <= options and set(self.environment) <= environment_variables()
        return is_there and self.device in (None, device)

    @contextmanager
    def switched(self) -> Iterator[None]:
        """Set the variables of the environment for a while."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


PLAIN = Variant("ours")
ON_CPU = Variant("ours", device="cpu")
_STEPWISE = {"BEAMSPLIT_GRAPHS": "0"}
STEPWISE = Variant("ours, step by step", environment=_STEPWISE, device="cuda")
CAPTURED = Variant("ours, captured", environment={"BEAMSPLIT_GRAPHS": "1"}, device="cuda")
VARIANTS = (
    ON_CPU,
    STEPWISE,
    CAPTURED,
    Variant("ours, compiled", environment={"BEAMSPLIT_GRAPHS": "1", "BEAMSPLIT_COMPILE": "1"}, device="cuda"),
    Variant("ours, cache for beams", environment={**_STEPWISE, "BEAMSPLIT_BEAM_CACHE": "1"}, device="cuda"),
    Variant("ours, caches copied", environment={"BEAMSPLIT_BEAM_CACHE": "0"}, device="cpu"),
)
"""A new switch is a line here, whether it is an option or a variable. One that is not there is left out."""


def variants(options: set[str], device: str, chosen: Iterable[Variant] | None = None) -> list[Variant]:
    """Return the variants whose switches are there; `options` are those that an entrance takes."""
    return [each for each in (VARIANTS if chosen is None else chosen) if each.is_known(options, device)]


def generate_options() -> set[str]:
    """Return the options of our decoding loop for `generate`."""
    from beamsplit.huggingface import diverse_beam_search

    return set(inspect.signature(diverse_beam_search).parameters)


def decode_options() -> set[str]:
    """Return the options of `decode`."""
    return {each.name for each in dataclasses.fields(DecodeOptions)}


@functools.cache
def environment_variables() -> set[str]:
    """Return the variables that the package's source names."""
    files = Path(beamsplit.__file__).parent.rglob("*.py")
    return {name for file in files for name in _VARIABLE.findall(file.read_text(encoding="utf-8"))}


_VARIABLE = re.compile(r"\bBEAMSPLIT_[A-Z_]+")


class Generating:
    """A contestant that calls `generate` of a transformers model in this process."""

    def __init__(self, model: Any, kind: str, size: Size, device: str, variant: Variant = PLAIN) -> None:
        self.warm_tokens = None if kind.startswith("ours") else min(4, size.tokens)
        self._model, self._kind, self._device = model, kind, device
        self._variant = variant
        self._task = size.task("") | {"options": dict(variant.options)}
        self._kept = 0  # bytes that it keeps between its goes, such as captured graphs

    def go(self, tokens: int) -> Go:
        task = self._task | {"tokens": tokens}
        before = generation_worker.forget_peak(self._device)
        with self._variant.switched():
            seconds = generation_worker.run(self._model, self._kind, task, self._device)
        mib = generation_worker.mib_beyond(before - self._kept, self._device)
        self._kept += generation_worker.forget_peak(self._device) - before
        return Go(seconds, mib)


class OldGenerating:
    """A contestant in a process of its own, perhaps with its own version of transformers."""

    def __init__(self, worker: Worker, model: str, size: Size, version: str | None = None) -> None:
        self.warm_tokens: int | None = None if worker.contestant == "ours" else min(4, size.tokens)
        self._worker, self._version = worker, version
        self._task = size.task(model)

    def go(self, tokens: int) -> Go:
        answer = self._worker.run(self._task | {"tokens": tokens})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        if self._version not in (None, answer["transformers"]):
            raise RuntimeError(f"--old-python has transformers {answer['transformers']}, not {self._version}")
        return Go(answer["seconds"], answer.get("mib"))


class Decoding:
    """A contestant that calls `decode`."""

    warm_tokens: int | None = None

    def __init__(
        self, model: Any, inputs: Any, strategy: Strategy, device: str, variant: Variant = PLAIN
    ) -> None:
        self._model, self._inputs, self._strategy = model, inputs, strategy
        self._device, self._variant = device, variant

    def go(self, tokens: int) -> Go:
        options: Any = {"max_length": tokens, "end": None, **self._variant.options}
        wait(self._device)
        begin = time.perf_counter()
        with self._variant.switched():
            beamsplit.decode(self._model, self._inputs, self._strategy, **options)
        wait(self._device)
        return Go(time.perf_counter() - begin)


class FreeModel:
    """A model whose step is free: it answers with logits that were made before."""

    def __init__(self, inputs: int, beams: int, vocabulary: int, device: str, kinds: int = 4) -> None:
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        shape = (kinds, inputs * beams, vocabulary)
        self._inputs = inputs
        # As a trained model's: a few tokens are likely, most are not.
        rank = torch.arange(1, vocabulary + 1, device=device)
        self._logits = (torch.randn(shape, device=device) * 3 - rank.log()).to(dtype)

    def start(self, inputs: Any) -> tuple[Tensor, int]:
        return self._logits[0, : len(inputs)], 1

    def step(self, tokens: Tensor, state: int) -> tuple[Tensor, int]:
        return self._logits[state % len(self._logits), : len(tokens)], state + 1

    def select(self, state: int, rows: Tensor) -> int:
        return state


def wait(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()
