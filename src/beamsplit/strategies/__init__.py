"""The strategies: how one step picks survivors."""

from beamsplit.strategies.beam import BeamSearch
from beamsplit.strategies.diverse import DiverseBeamSearch
from beamsplit.strategies.divmbest import DivMBest
from beamsplit.strategies.plan import Plan, Ranked, Rule, Strategy
from beamsplit.strategies.sampling import DiverseSampling, Sampling
from beamsplit.strategies.siblings import DiverseSiblings
from beamsplit.strategies.stochastic import StochasticBeamSearch

__all__ = [
    "BeamSearch",
    "DivMBest",
    "DiverseBeamSearch",
    "DiverseSampling",
    "DiverseSiblings",
    "Plan",
    "Ranked",
    "Rule",
    "Sampling",
    "StochasticBeamSearch",
    "Strategy",
]
