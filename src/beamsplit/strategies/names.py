"""The strategies by short name: the one list that all read, from the command line to experiments.

A new strategy is a file beside this one and an entry in `STRATEGIES`. Two entries may share a class, as
`sampling` and `nucleus` do. Nothing here needs torch until a strategy's class is looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.lazy import import_object

__all__ = [
    "STRATEGIES",
    "StrategyEntry",
    "check_strategy_name",
    "diverse_strategies",
    "has_strength",
    "own_settings",
    "strategy_class",
    "strategy_fields",
]


@dataclass(frozen=True, kw_only=True)
class StrategyEntry:
    """What there is to know of a strategy before it is used."""

    home: str | type
    """The class, or the dotted path of its class, which is imported when it is first needed."""
    title: str
    """Its name for people."""
    source: str
    """The paper that it comes from, or what it is."""
    width: str
    """The setting that says how many outputs there are; of strategies with groups, how many groups."""
    per_group: str = ""
    """The setting that says how many outputs each group has, for strategies with groups."""
    diverse: bool = False
    """Whether it has the settings `strength` and `diversity`."""
    chooses: bool = False
    """Whether its lists are in the order in which it chose their outputs, each a group of its own."""
    samples: bool = False
    """Whether another seed gives other outputs."""
    exact_sampling: bool = False
    """Whether it samples from the model's own distribution, so that no scorer or limit may change that."""
    preset: Mapping[str, Any] = field(default_factory=dict)
    """Settings that it has unless others are given."""
    mmi: Mapping[str, Any] | None = None
    """Settings of `AntiLanguageModel`, if it decodes a model that is guided by that."""

    @property
    def one_a_group(self) -> bool:
        """Whether each output is a group of its own, or a run."""
        return not self.per_group and self.width in ("runs", "outputs", "groups")

    @property
    def grouped(self) -> bool:
        """Whether its outputs come in groups, or in runs."""
        return bool(self.per_group) or self.one_a_group


STRATEGIES: dict[str, StrategyEntry] = {
    "bs": StrategyEntry(
        home="beamsplit.strategies.beam.BeamSearch",
        title="beam search",
        source="beam search",
        width="beams",
    ),
    "dbs": StrategyEntry(
        home="beamsplit.strategies.diverse.DiverseBeamSearch",
        title="diverse beam search",
        source="diverse beam search",
        width="groups",
        per_group="beams_per_group",
        diverse=True,
    ),
    "branching": StrategyEntry(
        home="beamsplit.strategies.branching.LateBranching",
        title="late branching",
        source="late branching",
        width="outputs",
        chooses=True,
    ),
    "chunks": StrategyEntry(
        home="beamsplit.strategies.chunks.DiverseChunks",
        title="chunk-wise search",
        source="groups that differ in meaning, sentence by sentence",
        width="groups",
        chooses=True,
        samples=True,
    ),
    "siblings": StrategyEntry(
        home="beamsplit.strategies.siblings.DiverseSiblings",
        title="diverse siblings",
        source="Li & Jurafsky 2016",
        width="beams",
        preset={"rate": 0.5},
    ),
    "mmi": StrategyEntry(
        home="beamsplit.strategies.beam.BeamSearch",
        title="anti-language model",
        source="Li et al. 2015",
        width="beams",
        mmi={"strength": 0.3},
    ),
    "divmbest": StrategyEntry(
        home="beamsplit.strategies.divmbest.DivMBest",
        title="DivMBest",
        source="Gimpel et al. 2013, searches of width 2",
        width="runs",
        diverse=True,
        preset={"beams": 2},
    ),
    "sampling": StrategyEntry(
        home="beamsplit.strategies.sampling.Sampling",
        title="sampling",
        source="ancestral sampling",
        width="samples",
        samples=True,
    ),
    "nucleus": StrategyEntry(
        home="beamsplit.strategies.sampling.Sampling",
        title="nucleus sampling",
        source="sampling with top_p 0.9",
        width="samples",
        samples=True,
        preset={"top_p": 0.9},
    ),
    "diverse-sampling": StrategyEntry(
        home="beamsplit.strategies.sampling.DiverseSampling",
        title="diverse sampling",
        source="groups that sample",
        width="groups",
        per_group="samples_per_group",
        diverse=True,
        samples=True,
    ),
    "arithmetic": StrategyEntry(
        home="beamsplit.strategies.arithmetic.ArithmeticSampling",
        title="arithmetic sampling",
        source="Vilnis et al. 2023",
        width="samples",
        samples=True,
    ),
    "diverse-arithmetic": StrategyEntry(
        home="beamsplit.strategies.arithmetic.DiverseArithmeticSampling",
        title="diverse arithmetic sampling",
        source="groups of arithmetic samples",
        width="groups",
        per_group="samples_per_group",
        diverse=True,
        samples=True,
    ),
    "stochastic": StrategyEntry(
        home="beamsplit.strategies.stochastic.StochasticBeamSearch",
        title="stochastic beam search",
        source="Kool et al. 2019",
        width="beams",
        samples=True,
        exact_sampling=True,
    ),
}


def check_strategy_name(name: object) -> str:
    """Return the name. Raise if there is no strategy of that name."""
    if not isinstance(name, str) or name not in STRATEGIES:
        hint = checks.nearest(str(name), STRATEGIES, f"there are {', '.join(STRATEGIES)}")
        raise ArgumentError(f"there is no strategy {checks.short_repr(name)}: {hint}")
    return name


def diverse_strategies() -> Collection[str]:
    """Return the names of the strategies that have a diversity term and a strength."""
    return [name for name, entry in STRATEGIES.items() if entry.diverse]


def strategy_class(name: str) -> Any:
    """Return the class of a strategy."""
    home = STRATEGIES[name].home
    return import_object(home) if isinstance(home, str) else home


def strategy_fields(name: str) -> set[str]:
    """Return the names of all settings that the class of a strategy has."""
    return {each.name for each in fields(strategy_class(name))}


# What strategies with a diversity term are given alike.
_COMMON = {"schedule", "strength", "diversity", "beams"}


def own_settings(name: str) -> set[str]:
    """Return the names of the settings that are a strategy's own, such as temperature or rate."""
    entry = STRATEGIES[name]
    common = _COMMON if entry.diverse else set()
    return strategy_fields(name) - common - {entry.width, entry.per_group}


def has_strength(name: str) -> bool:
    """Tell whether a strategy has a strength, by a diversity term or without one."""
    return STRATEGIES[name].diverse or "strength" in own_settings(name)
