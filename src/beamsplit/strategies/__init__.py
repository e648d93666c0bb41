"""The strategies: how one step picks survivors. One strategy a file."""

from typing import TYPE_CHECKING

from beamsplit.lazy import package_getattr

if TYPE_CHECKING:
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

# So that the names of the strategies (`names`) can be read without torch.
__getattr__ = package_getattr(
    __name__,
    {
        "beam": "BeamSearch",
        "diverse": "DiverseBeamSearch",
        "divmbest": "DivMBest",
        "plan": "Plan Ranked Rule Strategy",
        "sampling": "DiverseSampling Sampling",
        "siblings": "DiverseSiblings",
        "stochastic": "StochasticBeamSearch",
    },
)
