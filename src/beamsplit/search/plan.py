"""The plan that a strategy gives to the search, and the rule by which one step picks survivors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from beamsplit import checks
from beamsplit.diversity import Diversity
from beamsplit.errors import ArgumentError
from beamsplit.model import Shortlist
from beamsplit.search.shortlist import Scores

__all__ = ["CodedRule", "DrawingRule", "Plan", "Ranked", "Rule", "Schedule", "Strategy"]

Schedule: TypeAlias = Literal["lockstep", "staggered"]


class Ranked(NamedTuple):
    """The values that a rule gives to every listed extension of every beam."""

    order: Tensor  # [batch group beam k] what survivors are picked by, before any penalty
    score: Tensor  # [batch group beam k] what the survivor's score will be, before any penalty
    bound: Tensor  # [batch group beam] no unlisted extension of the beam has a higher order


class Rule(Protocol):
    """How one group picks, given its beams and their candidate lists. Penalties are taken off `order`."""

    @property
    def noisy(self) -> bool:
        """Whether keys are perturbed at random, so that beams with one row need lists of their own."""
        ...

    @property
    def needs_model_distribution(self) -> bool:
        """Whether the rule is defined for plain log-probabilities alone: no guidance, no length scorer."""
        ...

    def roots(self, noise: Tensor) -> Tensor:
        """Return the scores that beams begin with, given Gumbel noise, both [batch group beam].

        A rule that ranks the extensions of all beams together must leave one beam open and give the
        others -inf, or it would find every extension once for each of them.
        """
        ...

    def survivors(self, beams: int) -> int:
        """Return how many extensions of one beam can survive, in a group of this many beams."""
        ...

    def perturb(self, scores: Scores, noise: Tensor) -> Scores:
        """Return the scores with keys made random by Gumbel noise [rows vocab]; called if `noisy`."""
        ...

    def rank(self, score: Tensor, log_prob: Tensor, lists: Shortlist, time: int) -> Ranked:
        """Value all extensions of beams with this score and log_prob [batch group beam] and `time` tokens."""
        ...

    def pick(self, order: Tensor, count: int) -> Tensor:
        """Return slots [batch group n] of order.flatten(2): the best `count` of each group, or one a beam."""
        ...

    def secure(self, picked: Tensor, worst: Tensor, bound: Tensor) -> Tensor:
        """Tell for each group [batch group] whether no unlisted extension could have been picked instead.

        `picked` [batch group n] is the order of all picks, `worst` [batch group] that of the last one
        that matters, `bound` [batch group beam] that of `rank`. Equality does not do: the tie might go
        to the unlisted one. NaN anywhere must not pass.
        """
        ...


@runtime_checkable
class DrawingRule(Rule, Protocol):
    """A noisy rule that can draw from candidate lists, too."""

    @property
    def wanted(self) -> int:
        """How many candidates to ask for at once: as many as may be drawn, or many."""
        ...

    @property
    def keeps_to_few(self) -> bool:
        """Whether it draws from the likeliest tokens alone, so that lists may have all of them."""
        ...

    def likeliest(self, gain: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities by which the likeliest tokens [rows k] are drawn [rows k].

        `gain` is [rows vocab]. Second comes whether no other token may be drawn [rows].
        """
        ...

    def perturb_lists(self, lists: Shortlist, noise: Tensor, unlisted: Tensor | None) -> Shortlist:
        """Return the lists with keys made random by Gumbel noise [... k].

        `unlisted` [...] is the probability of all tokens that are not listed; None if that is not known. The
        `rest` of the result is -inf where none of these may be drawn, and infinite where one might be.
        """
        ...


@runtime_checkable
class CodedRule(Rule, Protocol):
    """A rule by which every beam draws for itself, by a few numbers that it carries: its code.

    What a draw leaves of the code is the code of the extension. Lists always hold the whole vocabulary.
    Codes are float64, [batch group beam n], where n is up to the rule.
    """

    def root_codes(self, shift: Tensor, beams: int) -> Tensor:
        """Return the codes that beams begin with, given a number in [0, 1) for each group [batch group 1]."""
        ...

    def holding(self, code: Tensor, fresh: Tensor) -> CodedRule:
        """Return the rule for beams with these codes, and random numbers in [0, 1) [batch group beam]."""
        ...

    def draw(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slots that `pick` returns, one a beam, and the codes of these extensions."""
        ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Groups of beams, how each picks, and how they keep out of each other's way."""

    groups: int
    beams_per_group: int
    rule: Rule
    strengths: tuple[float, ...] = ()
    diversity: Diversity | None = None
    schedule: Schedule = "lockstep"

    @property
    def penalises(self) -> bool:
        """Whether any group pays for repeating another."""
        return self.diversity is not None and any(self.strengths)


class Strategy(Protocol):
    """A way to decode: frozen, reusable, safe to share between threads."""

    def plan(self) -> Plan: ...


def own_strengths(strategy: Any, groups: int) -> None:
    """Check the strengths, and keep them where nobody else can change them."""
    value = checks.materialise(strategy.strength)
    checks.strengths(value, groups)
    object.__setattr__(strategy, "strength", tuple(value) if isinstance(value, list) else value)


def extended_strengths(
    own: float | Sequence[float], groups: int, more: int, given: float | Sequence[float] | None
) -> float | tuple[float, ...]:
    """Return the strengths of so many groups and of `more` groups after them, whose strengths are `given`.

    >>> extended_strengths(0.5, 3, 1, None), extended_strengths(0.5, 2, 2, (0.7, 0.9))
    (0.5, (0.5, 0.5, 0.7, 0.9))
    """
    if given is None:
        if isinstance(own, Sequence):
            raise ArgumentError(
                f"strength has a value for each of {groups} groups and none for the next: give one number "
                f"for all groups, or the next one's, such as more(model, strength={own[-1]:g})"
            )
        return own
    given = checks.materialise(given)
    if isinstance(given, list) and len(given) != more:
        raise ArgumentError(
            f"strength has {len(given)} values for {more} more groups: give one number, or {more}"
        )
    return (*checks.strengths(own, groups), *checks.strengths(given, more))


def check_schedule(schedule: object) -> None:
    """Raise unless this is a schedule."""
    if schedule not in ("lockstep", "staggered"):
        raise ArgumentError(f"schedule must be 'lockstep' or 'staggered', not {checks.short_repr(schedule)}")


def check_term(diversity: object) -> None:
    """Raise unless this is a diversity term."""
    if not callable(getattr(diversity, "penalty", None)) or isinstance(diversity, type):
        hint = f": write {diversity.__name__}()" if isinstance(diversity, type) else ""
        raise ArgumentError(
            "diversity must be a term with a method penalty(tokens, prefix, earlier), not "
            f"{checks.short_repr(diversity)}{hint}"
        )
