"""The strategies: how each step picks the beams that survive. One strategy a file."""

from typing import TYPE_CHECKING

from beamsplit.lazy import package_dir, package_getattr

if TYPE_CHECKING:
    from beamsplit.search.plan import Strategy
    from beamsplit.strategies.arithmetic import ArithmeticSampling, DiverseArithmeticSampling
    from beamsplit.strategies.beam import BeamSearch
    from beamsplit.strategies.branching import LateBranching
    from beamsplit.strategies.chunks import DiverseChunks
    from beamsplit.strategies.diverse import DiverseBeamSearch
    from beamsplit.strategies.divmbest import DivMBest
    from beamsplit.strategies.sampling import DiverseSampling, Sampling
    from beamsplit.strategies.siblings import DiverseSiblings
    from beamsplit.strategies.stochastic import StochasticBeamSearch

__all__ = [
    "ArithmeticSampling",
    "BeamSearch",
    "DivMBest",
    "DiverseArithmeticSampling",
    "DiverseBeamSearch",
    "DiverseChunks",
    "DiverseSampling",
    "DiverseSiblings",
    "LateBranching",
    "Sampling",
    "StochasticBeamSearch",
    "Strategy",
]

# So that the names of the strategies (`names`) can be read without torch.
__getattr__ = package_getattr(
    __name__,
    {
        "beamsplit.search.plan": "Strategy",
        "beamsplit.strategies.arithmetic": "ArithmeticSampling DiverseArithmeticSampling",
        "beamsplit.strategies.beam": "BeamSearch",
        "beamsplit.strategies.branching": "LateBranching",
        "beamsplit.strategies.chunks": "DiverseChunks",
        "beamsplit.strategies.diverse": "DiverseBeamSearch",
        "beamsplit.strategies.divmbest": "DivMBest",
        "beamsplit.strategies.sampling": "DiverseSampling Sampling",
        "beamsplit.strategies.siblings": "DiverseSiblings",
        "beamsplit.strategies.stochastic": "StochasticBeamSearch",
    },
)
__dir__ = package_dir(__all__)
