"""Diverse decoding of any neural sequence model: outputs that are each likely and all different."""

from beamsplit.diversity import Cumulative, Diversity, Earlier, Embedding, Hamming, NGram
from beamsplit.errors import ArgumentError, BeamsplitError, ModelError, TermError
from beamsplit.guidance import AntiLanguageModel
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.model import FunctionModel, Guided, JoinableModel, PrefixModel, StepModel
from beamsplit.scoring import LengthNormalised, LogProb, Scorer
from beamsplit.search import decode, steps
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
    "Rule",
    "Sampling",
    "Scorer",
    "Step",
    "StepModel",
    "StochasticBeamSearch",
    "Strategy",
    "TermError",
    "decode",
    "steps",
]
