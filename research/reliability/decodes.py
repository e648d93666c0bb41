"""Many small decodes in one process: does it hold more and more memory?

Strategies take turns, each decode has another input and another seed, and one in a hundred is a translation
by the model that comes with the package.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic
from typing import Any

import torch

from beamsplit import StepModel, decode
from beamsplit.models import load
from beamsplit.progress import Progress
from beamsplit.strategies import Strategy
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec, Widths
from beamsplit.testing import MarkovModel
from research.reliability.memory import resident_megabytes

__all__ = ["decode_many", "growth"]

_WIDTHS = Widths.divide(4, 4, strength=0.5, diversity="hamming")
_LEFT_OUT = ("mmi", "chunks")  # which need a language model, and texts
_WORDS = 20
_WARM = 0.1  # the share of all after which nothing is new: caches are full, and Python has its memory
_EVERY = 100  # one in so many is a translation


def decode_many(total: int, points: int = 50) -> dict[str, Any]:
    """Return what was measured during so many decodes: memory and objects at points on the way."""
    torch.set_num_threads(1)  # the tensors are tiny: more threads only wait for each other
    work, began, found = _work(), monotonic(), []
    every = max(total // points, 1)
    with Progress("decodes").bar(total) as bar:
        for number in range(total):
            if number % every == 0:
                found.append(_point(number))
            next(work)()
            bar.advance()
    found.append(_point(total))
    return {"decodes": total, "seconds": round(monotonic() - began, 1), "points": found}


def growth(measured: dict[str, Any]) -> dict[str, float]:
    """Return what grew from the end of the warm-up to the end of all: megabytes and objects."""
    points = measured["points"]
    warm = next(each for each in points if each["decodes"] >= _WARM * measured["decodes"])
    return {name: round(points[-1][name] - warm[name], 1) for name in ("megabytes", "objects")}


def _point(number: int) -> dict[str, Any]:
    gc.collect()
    return {"decodes": number, "megabytes": resident_megabytes(), "objects": len(gc.get_objects())}


def _work() -> Iterator[Callable[[], object]]:
    """Yield one decode after another, each to be called."""
    table = torch.randn(_WORDS, _WORDS, generator=torch.Generator().manual_seed(0))
    small: StepModel = MarkovModel(table)
    translator = load("en-fr")
    strategies = [
        StrategySpec.of_widths(name, _WIDTHS).make(small) for name in STRATEGIES if name not in _LEFT_OUT
    ]
    for number in count():
        if number % _EVERY == 0:
            yield _decode(translator, f"I have {number} ideas.", translator.end, strategies[0], number)
        else:
            yield _decode(small, number % _WORDS, 0, strategies[number % len(strategies)], number)


def _decode(model: Any, given: Any, end: int, strategy: Strategy, seed: int) -> Callable[[], object]:
    return lambda: decode(model, [given], strategy, max_length=4, end=end, seed=seed)
