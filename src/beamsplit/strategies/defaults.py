"""What is done where nothing is said: the one table of defaults, by kind of model and by entrance.

Settings that belong to a strategy by its name, such as the rate of `siblings`, are in `names`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamsplit.ordering import scorer_of
from beamsplit.strategies.spec import StrategySpec, Widths

if TYPE_CHECKING:
    from beamsplit.search.plan import Strategy

__all__ = [
    "BATCH_SIZE",
    "DEFAULTS",
    "MODEL_KINDS",
    "SHOWN_BATCH_SIZE",
    "STRATEGY",
    "Defaults",
    "default_strategy",
    "defaults_of",
]

STRATEGY = "branching"
"""The strategy that is used unless another is named, or the table below has another."""

BATCH_SIZE = 32
"""Inputs that are decoded at once."""

SHOWN_BATCH_SIZE = 16
"""The same where people watch: what is found is shown after each batch."""

MODEL_KINDS = ("translator", "captioner", "questioner", "text", "other")
"""The rows of the table that are about kinds of models."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """How a model is decoded where nothing else is said."""

    widths: Widths
    """How many outputs there are; and the groups, the strength and the term of diverse beam search."""
    max_length: int
    """The most tokens of an output."""
    strategy: str = STRATEGY
    page_length: int | None = None
    """The same on the web page, where people wait; by default no other."""
    min_length: int = 0
    """The fewest tokens of an output."""
    no_repeat_ngram: int | None = None
    """No output has so many tokens in a row twice."""
    return_per_group: int | None = None
    """How many outputs of each group are returned; by default all."""
    order: str = "log-prob"
    """What finished outputs are ranked by, and the order of lists: see `beamsplit.ordering`."""

    def decode_options(self) -> dict[str, Any]:
        """Return the options of `decode`."""
        return {
            "max_length": self.max_length,
            "min_length": self.min_length,
            "no_repeat_ngram": self.no_repeat_ngram,
            "return_per_group": self.return_per_group,
            "scorer": scorer_of(self.order),
        }


DEFAULTS: dict[str, Defaults] = {
    # Kinds of models: `translate`, `caption` and `ask` of the models themselves, commands, and the web page.
    #
    # Translations differ in a word or two, and what follows is the same. On Tatoeba's short sentences (300 of
    # the validation part, lists of six) all outputs of late branching differ, and distinct-1 is 0.368 where
    # beam search has 0.321. For diverse beam search, a term that fades suits them: at this strength 96% of a
    # list's outputs differ and distinct-1 is 0.346; at half the strength it is 84% and 0.312.
    "translator": Defaults(
        widths=Widths(groups=3, beams_per_group=2, strength=3.0, diversity="cumulative:temperature=2"),
        max_length=160,
        page_length=60,
    ),
    "captioner": Defaults(
        widths=Widths(groups=6, beams_per_group=1, strength=0.5, diversity="hamming"), max_length=20
    ),
    "questioner": Defaults(
        widths=Widths(groups=6, beams_per_group=1, strength=0.5, diversity="hamming"), max_length=20
    ),
    # Language models that go on with a text. The likeliest outputs of all are empty ones, stubs and loops, so
    # these are ruled out, and outputs are ranked by log-probability per token.
    "text": Defaults(
        widths=Widths(groups=3, beams_per_group=2, strength=1.0, diversity="hamming"),
        max_length=40,
        page_length=16,
        min_length=2,  # a token and the end
        no_repeat_ngram=4,
        order="score",
    ),
    # Answers of a chat model: one of each group. Chosen on 50 prompts; docs/chat.md has the figures.
    "chat": Defaults(
        strategy="dbs",
        widths=Widths(groups=8, beams_per_group=2, strength=1.5, diversity="hamming"),
        max_length=120,
        min_length=2,
        no_repeat_ngram=4,
        return_per_group=1,
        order="score",
    ),
    # Any other model: an encoder-decoder of transformers, or one of the user's own.
    "other": Defaults(
        widths=Widths(groups=3, beams_per_group=2, strength=1.0, diversity="hamming"),
        max_length=40,
        page_length=16,
        order="score",
    ),
    # Lists that are compared, as in the paper: options of `evaluate`, `tune` and `study create`.
    "evaluate": Defaults(
        widths=Widths(groups=20, beams_per_group=1, strength=0.5, diversity="hamming"), max_length=60
    ),
    # The same by a file, which says all but how long outputs may get.
    "experiment": Defaults(
        widths=Widths(groups=20, beams_per_group=1, strength=0.5, diversity="hamming"), max_length=20
    ),
}


def defaults_of(model: object) -> Defaults:
    """Return how a model is decoded where nothing else is said: by its `kind`, if it is one of ours."""
    kind = getattr(model, "kind", None)
    return DEFAULTS[kind] if isinstance(kind, str) and kind in MODEL_KINDS else DEFAULTS["other"]


def default_strategy(model: object) -> Strategy:
    """Make the strategy that a model is decoded by where none is given."""
    defaults = defaults_of(model)
    return StrategySpec.of_widths(defaults.strategy, defaults.widths).make(model)
