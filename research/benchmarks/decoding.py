"""Time whole decodes: diverse beam search, beam search, and the bare model calls they make."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch
from research.benchmarks.models import DotModel, GruModel
from research.benchmarks.timing import take_turns

__all__ = ["Case", "measure_decoding"]

LENGTH = 20
BEAMS = 20


@dataclass(frozen=True)
class Case:
    name: str
    vocabulary: int
    kind: Literal["gru", "small gru", "dot"]
    batch: int

    def make(self) -> GruModel | DotModel:
        if self.kind == "dot":
            return DotModel(self.vocabulary)
        return GruModel(self.vocabulary, small=self.kind == "small gru")


def measure_decoding(case: Case, turns: int) -> dict[str, Any]:
    model = case.make()
    inputs = model.inputs(case.batch)
    # No end token: every search takes the same steps on the same rows.
    decode = functools.partial(beamsplit.decode, model, inputs, max_length=LENGTH)
    search = functools.partial(decode, BeamSearch(beams=BEAMS))
    diverse = functools.partial(decode, DiverseBeamSearch(groups=BEAMS, beams_per_group=1, strength=0.5))
    contestants: dict[str, Callable[[], object]] = {
        "bs": search,
        "bs bare": bare_calls(model, search),
        "dbs": diverse,
        "dbs bare": bare_calls(model, diverse),
    }
    times = take_turns(contestants, turns)
    return {
        "model": case.name,
        "batch": case.batch,
        "beams": BEAMS,
        "steps": LENGTH,
        "turns": turns,
        "bs_ms_per_step": times["bs"].median / LENGTH * 1e3,
        "dbs_over_bs": times["dbs"].ratio_to(times["bs"]),
        "bs_over_bare": times["bs"].ratio_to(times["bs bare"]),
        "dbs_over_bare": times["dbs"].ratio_to(times["dbs bare"]),
    }


def bare_calls(model: GruModel | DotModel, decode: Callable[[], object]) -> Callable[[], object]:
    """Return a function that repeats the model calls of a decode, with nothing in between."""
    model.calls.clear()
    decode()
    calls = list(model.calls)

    def replay() -> None:
        for tokens, state in calls:
            model.step(tokens, state)  # type: ignore[arg-type]
        model.calls.clear()

    return replay
