"""The constants of a search: everything that does not change while it runs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError
from beamsplit.model import Answer, Guided, Room, Shortlist, plain, rows_of, score_type
from beamsplit.options import DecodeOptions
from beamsplit.search import kernels
from beamsplit.search.asks import Abilities
from beamsplit.search.plan import CodedRule, DrawingRule, Plan
from beamsplit.search.shortlist import check_lists, check_logits
from beamsplit.search.stopping import Stopping, stopping_rule_of

__all__ = ["Setting", "room_of", "safe_width"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A plan and options for one batch of one model."""

    plan: Plan
    options: DecodeOptions
    abilities: Abilities
    batch: int
    vocabulary: int | None  # None where the model answers with candidate lists
    like: Tensor  # empty: has the type and the device of scores
    guided: bool
    has_kernels: bool
    end_ids: Tensor  # [e]
    is_end: Tensor | None  # [vocab]
    stopping: Stopping
    notes: list[str] = field(default_factory=list)  # what the user has been told, so that it is said once

    @classmethod
    def of(cls, plan: Plan, options: DecodeOptions, abilities: Abilities, answer: Answer) -> Setting:
        """Check a model's first answer against plan and options."""
        vocabulary = None
        if isinstance(answer, Shortlist):
            check_lists(answer, None)
            like = answer.log_prob.new_empty(0, dtype=score_type(answer))
        else:
            check_logits(plain(answer), None, None)
            vocabulary = plain(answer).shape[1]
            like = plain(answer).new_empty(0, dtype=score_type(answer))
        _check_plan(plan, options, answer, vocabulary, like)
        end_ids = torch.tensor(options.ends, dtype=torch.long, device=like.device)
        is_end = None
        if vocabulary is not None:
            is_end = torch.zeros(vocabulary, dtype=torch.bool, device=like.device)
            is_end[options.ends] = True
        return cls(
            plan=plan,
            options=options,
            abilities=abilities,
            batch=rows_of(answer),
            vocabulary=vocabulary,
            like=like,
            guided=isinstance(answer, Guided),
            has_kernels=kernels.available(like),
            end_ids=end_ids,
            is_end=is_end,
            stopping=_stopping(plan, options),
        )

    def with_fixed_rows(self) -> Setting:
        """Return the same for a search all of whose rows stay to the end."""
        return replace(self, abilities=replace(self.abilities, fixed_rows=True))

    def at_home(self) -> Setting:
        """Return the same for a search that keeps its beams on the processor, whatever the model runs on."""
        return replace(
            self.with_fixed_rows(),
            like=self.like.cpu(),
            has_kernels=False,
            end_ids=self.end_ids.cpu(),
            is_end=None if self.is_end is None else self.is_end.cpu(),
        )

    @property
    def slots(self) -> int:
        """How many hypotheses a group keeps."""
        return pool_size(self.plan, self.options)

    def sure_width(self, time: int) -> int | None:
        """Return how many candidates make this step certain, whatever has been said; None: all there are."""
        plan, options = self.plan, self.options
        reach = getattr(plan.diversity, "reach", None) if plan.penalises else lambda *_: 0
        if reach is None:
            return None
        spoiled: int = reach(plan.beams_per_group * (plan.groups - 1), time + 1)
        repeats = 0 if options.no_repeat_ngram is None else time
        return survivors_of(plan, options) + len(options.ends) + spoiled + repeats + 1

    def warn_once(self, message: str) -> None:
        """Warn the user that something is not certain, the first time that it is so."""
        if not self.notes:
            self.notes.append(message)
            warnings.warn(message, stacklevel=2)

    def ends(self, tokens: Tensor) -> Tensor:
        """Tell which of these tokens are ends."""
        return torch.isin(tokens, self.end_ids) if self.is_end is None else self.is_end[tokens]


def pool_size(plan: Plan, options: DecodeOptions) -> int:
    """Return how many hypotheses a group keeps: with `unique`, it may need others than its first few."""
    return plan.beams_per_group * (plan.groups if options.unique else 1)


def safe_width(plan: Plan, options: DecodeOptions) -> int:
    """Return so many candidates that, with a local term, none beyond them can survive, ties aside."""
    penalised = plan.beams_per_group * (plan.groups - 1) if any(plan.strengths) else 0
    return survivors_of(plan, options) + len(options.ends) + penalised


def survivors_of(plan: Plan, options: DecodeOptions) -> int:
    """Return how many extensions of one beam can matter."""
    survivors = plan.rule.survivors(plan.beams_per_group)
    return max(survivors, pool_size(plan, options) if options.unique else 0)


def room_of(plan: Plan, options: DecodeOptions, avoided: int = 0) -> Room:
    """Return what a search needs at most that has so many sequences to avoid."""
    candidates = safe_width(plan, options) + avoided + 1  # one more tells a tie at the list's end
    if isinstance(plan.rule, DrawingRule):
        candidates = max(candidates, plan.rule.wanted)
    return Room(beams=plan.groups * plan.beams_per_group, length=options.max_length, candidates=candidates)


def _stopping(plan: Plan, options: DecodeOptions) -> Stopping:
    return Stopping(
        stopping_rule_of(options.ranking),
        options.ranking,
        plan.beams_per_group,
        options.max_length,
        options.unique,
    )


def _check_plan(
    plan: Plan, options: DecodeOptions, answer: Answer, vocabulary: int | None, like: Tensor
) -> None:
    if vocabulary is None:
        if (plan.rule.noisy and not isinstance(plan.rule, DrawingRule)) or isinstance(plan.rule, CodedRule):
            raise ArgumentError(
                "such sampling needs the whole vocabulary, and the model answers with candidate lists: use "
                "Sampling or DiverseSampling, or a strategy that does not sample"
            )
    else:
        options.check_vocabulary(vocabulary)
        known = getattr(plan.diversity, "vocabulary", vocabulary)
        if known != vocabulary:
            raise ArgumentError(
                f"{type(plan.diversity).__name__} knows {known} tokens and the model's vocabulary has "
                f"{vocabulary}: give it one row for each token of the model"
            )
    if isinstance(answer, Guided) and plan.rule.needs_model_distribution:
        raise ArgumentError(
            "StochasticBeamSearch samples from the model's own distribution, which guidance changes: "
            "use Sampling, or the model without AntiLanguageModel"
        )
    largest = torch.finfo(like.dtype).max
    for strength in plan.strengths:
        if strength > largest:
            name = str(like.dtype).removeprefix("torch.")
            raise ArgumentError(
                f"strength={strength:g} is more than {name} holds, which is what scores are kept in: "
                "give a smaller one"
            )
