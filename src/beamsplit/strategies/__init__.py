"""The strategies: how each step picks the beams that survive."""

from beamsplit.search.plan import Strategy
from beamsplit.strategies.beam import BeamSearch
from beamsplit.strategies.diverse import DiverseBeamSearch
from beamsplit.strategies.divmbest import DivMBest
from beamsplit.strategies.sampling import DiverseSampling, Sampling
from beamsplit.strategies.siblings import DiverseSiblings
from beamsplit.strategies.stochastic import StochasticBeamSearch

__all__ = [
    "BeamSearch",
    "DivMBest",
    "DiverseBeamSearch",
    "DiverseSampling",
    "DiverseSiblings",
    "Sampling",
    "StochasticBeamSearch",
    "Strategy",
]
