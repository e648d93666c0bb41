"""Diverse decoding of any neural sequence model: outputs that are each likely and all different."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beamsplit.decoding import decode, decode_async, groups, groups_async, steps, steps_async
    from beamsplit.diversity import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram
    from beamsplit.errors import ArgumentError, BeamsplitError, EngineError, ModelError, TermError
    from beamsplit.functions import FunctionModel, PrefixModel
    from beamsplit.guidance import AntiLanguageModel
    from beamsplit.hypotheses import Hypotheses, Hypothesis, Results
    from beamsplit.model import Guided, JoinableModel, LogProbs, Room, Shortlist, StepModel
    from beamsplit.options import DecodeOptions
    from beamsplit.ordering import reorder
    from beamsplit.recording import Recorder, Recording, record
    from beamsplit.scoring import LengthNormalised, LogProb, Scorer
    from beamsplit.search.plan import Plan, Ranked, Rule, Strategy
    from beamsplit.search.select import Picks, Selection
    from beamsplit.search.step import Step
    from beamsplit.selecting import select
    from beamsplit.strategies import (
        ArithmeticSampling,
        BeamSearch,
        DiverseArithmeticSampling,
        DiverseBeamSearch,
        DiverseChunks,
        DiverseSampling,
        DiverseSiblings,
        DivMBest,
        LateBranching,
        Sampling,
        StochasticBeamSearch,
    )

__version__ = "0.1.0"

__all__ = [
    "AntiLanguageModel",
    "ArgumentError",
    "ArithmeticSampling",
    "BeamSearch",
    "BeamsplitError",
    "Cumulative",
    "DecodeOptions",
    "DivMBest",
    "DiverseArithmeticSampling",
    "DiverseBeamSearch",
    "DiverseChunks",
    "DiverseSampling",
    "DiverseSiblings",
    "Diversity",
    "Earlier",
    "Embedding",
    "EngineError",
    "FunctionModel",
    "Guided",
    "Hamming",
    "Hypotheses",
    "Hypothesis",
    "JoinableModel",
    "LateBranching",
    "LengthNormalised",
    "LogProb",
    "LogProbs",
    "ModelError",
    "NGram",
    "Picks",
    "Plan",
    "PrefixModel",
    "Ranked",
    "Recorder",
    "Recording",
    "Results",
    "Room",
    "Rule",
    "Sampling",
    "Scorer",
    "Selection",
    "Shortlist",
    "Step",
    "StepModel",
    "StochasticBeamSearch",
    "Strategy",
    "TermError",
    "decode",
    "decode_async",
    "groups",
    "groups_async",
    "record",
    "reorder",
    "select",
    "steps",
    "steps_async",
]

# Where the names above are at home: looked up when they are first used, since torch takes a second or two to
# load, and who asks the command for help has no need of it.
_HOMES = {
    "decoding": "decode decode_async groups groups_async steps steps_async",
    "diversity": "Cumulative Diversity Earlier Embedding Hamming NGram",
    "errors": "ArgumentError BeamsplitError EngineError ModelError TermError",
    "functions": "FunctionModel PrefixModel",
    "guidance": "AntiLanguageModel",
    "hypotheses": "Hypotheses Hypothesis Results",
    "model": "Guided JoinableModel LogProbs Room Shortlist StepModel",
    "options": "DecodeOptions",
    "ordering": "reorder",
    "recording": "Recorder Recording record",
    "scoring": "LengthNormalised LogProb Scorer",
    "search.plan": "Plan Ranked Rule Strategy",
    "search.select": "Picks Selection",
    "search.step": "Step",
    "selecting": "select",
    "strategies": "ArithmeticSampling BeamSearch DiverseArithmeticSampling DiverseBeamSearch DiverseSampling "
    "DiverseChunks DiverseSiblings DivMBest LateBranching Sampling StochasticBeamSearch",
}
# Packages and modules that are for users; the others are for each other.
_PACKAGES = (
    "diversity",
    "engines",
    "evaluation",
    "huggingface",
    "metrics",
    "models",
    "similarity",
    "strategies",
    "study",
    "testing",
    "tree",
    "web",
)
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
    return sorted([*__all__, *_PACKAGES, "__version__"])
