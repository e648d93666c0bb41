"""Diverse decoding of any neural sequence model: outputs that are each likely and all different."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamsplit.decoding import decode, steps
    from beamsplit.diversity import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram
    from beamsplit.errors import ArgumentError, BeamsplitError, ModelError, TermError
    from beamsplit.guidance import AntiLanguageModel
    from beamsplit.hypotheses import Hypotheses, Hypothesis
    from beamsplit.model import FunctionModel, Guided, JoinableModel, PrefixModel, StepModel
    from beamsplit.recording import Recorder, Recording, record
    from beamsplit.scoring import LengthNormalised, LogProb, Scorer
    from beamsplit.selection import Picks
    from beamsplit.step import Move, Step
    from beamsplit.strategies import (
        BeamSearch,
        DiverseBeamSearch,
        DiverseSampling,
        DiverseSiblings,
        DivMBest,
        Plan,
        Ranked,
        Rule,
        Sampling,
        StochasticBeamSearch,
        Strategy,
    )

__version__ = "0.1.0"

__all__ = [
    "AntiLanguageModel",
    "ArgumentError",
    "BeamSearch",
    "BeamsplitError",
    "Cumulative",
    "DivMBest",
    "DiverseBeamSearch",
    "DiverseSampling",
    "DiverseSiblings",
    "Diversity",
    "Earlier",
    "Embedding",
    "FunctionModel",
    "Guided",
    "Hamming",
    "Hypotheses",
    "Hypothesis",
    "JoinableModel",
    "LengthNormalised",
    "LogProb",
    "ModelError",
    "Move",
    "NGram",
    "Picks",
    "Plan",
    "PrefixModel",
    "Ranked",
    "Recorder",
    "Recording",
    "Rule",
    "Sampling",
    "Scorer",
    "Step",
    "StepModel",
    "StochasticBeamSearch",
    "Strategy",
    "TermError",
    "decode",
    "record",
    "steps",
]

# Where the names above are at home: looked up when they are first used, since torch takes a second or two to
# load, and who asks the command for help has no need of it.
_HOMES = {
    "diversity": "Cumulative Diversity Earlier Embedding Hamming NGram",
    "errors": "ArgumentError BeamsplitError ModelError TermError",
    "guidance": "AntiLanguageModel",
    "hypotheses": "Hypotheses Hypothesis",
    "model": "FunctionModel Guided JoinableModel PrefixModel StepModel",
    "recording": "Recorder Recording record",
    "scoring": "LengthNormalised LogProb Scorer",
    "decoding": "decode steps",
    "selection": "Picks",
    "step": "Move Step",
    "strategies": "BeamSearch DiverseBeamSearch DiverseSampling DiverseSiblings DivMBest Plan Ranked Rule "
    "Sampling StochasticBeamSearch Strategy",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = found
        return found
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
