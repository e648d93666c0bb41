"""The front door: decode a batch at once, or a step at a time."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.limits import Limits, Stop
from beamsplit.loop import Search
from beamsplit.model import StepModel
from beamsplit.results import rank_by
from beamsplit.scoring import LogProb, Scorer
from beamsplit.step import Step
from beamsplit.strategies.divmbest import DivMBest
from beamsplit.strategies.plan import Strategy

__all__ = ["decode", "steps"]


def decode(
    model: StepModel,
    inputs: Any,
    strategy: Strategy,
    *,
    max_length: int,
    end: int | Sequence[int] | Literal["model"] | None = "model",
    min_length: int = 0,
    stop: Stop | None = None,
    scorer: Scorer | None = None,
    unique: bool = False,
    return_per_group: int | None = None,
    seed: int | Sequence[int] = 0,
    list_width: int | None = None,
) -> list[Hypotheses]:
    """Decode a batch of inputs: for each, a list of outputs, best first.

    Args:
        model: any `StepModel`.
        inputs: whatever the model's `start` takes; a batch.
        strategy: `BeamSearch`, `DiverseBeamSearch`, ...
        max_length: the most tokens of a hypothesis, its end token included.
        end: id of the end token, or several, or None: every hypothesis then has max_length tokens.
            By default, what the model names as its `end`; None if it names nothing.
        min_length: the fewest tokens of a hypothesis, its end token included.
        stop: another way to end: a function of (inputs [n], tokens [n time]) that says which of these
            outputs are complete, where `inputs` are places in the batch.
        scorer: ranks hypotheses of different length; by default, log-probability does.
        unique: leave out sequences that an earlier group has found; groups of beams look on for the next.
        return_per_group: how many hypotheses of each group to return; by default as many as beams.
        seed: for strategies that sample: one an input, or one number, which then counts together with an
            input's place in the batch. What an input gets does not depend on its neighbours.
        list_width: how many candidates of a beam to look at first. Speed depends on it, results do not.
    """
    turns = steps(
        model,
        inputs,
        strategy,
        max_length=max_length,
        end=end,
        min_length=min_length,
        stop=stop,
        scorer=scorer,
        unique=unique,
        return_per_group=return_per_group,
        seed=seed,
        list_width=list_width,
    )
    last = collections.deque(turns, maxlen=1)
    return last[0].hypotheses if last else []


def steps(
    model: StepModel,
    inputs: Any,
    strategy: Strategy,
    *,
    max_length: int,
    end: int | Sequence[int] | Literal["model"] | None = "model",
    min_length: int = 0,
    stop: Stop | None = None,
    scorer: Scorer | None = None,
    unique: bool = False,
    return_per_group: int | None = None,
    seed: int | Sequence[int] = 0,
    list_width: int | None = None,
) -> Iterator[Step]:
    """The search that `decode` runs, a step at a time; the last step's `hypotheses` are its result."""
    _check_model(model)
    _check_strategy(strategy)
    limits = Limits(
        max_length=checks.at_least("max_length", max_length, 1),
        min_length=checks.at_least("min_length", min_length, 0),
        end=checks.once(getattr(model, "end", None) if _is_default(end) else end),
        stop=stop,
        scorer=_checked_scorer(scorer),
        unique=unique,
        return_per_group=return_per_group,
        seed=checks.once(seed),
        list_width=list_width,
    )
    kept = 1 if isinstance(strategy, DivMBest) else strategy.plan().beams
    limits.check_strategy(type(strategy).__name__, strategy.plan(), kept)
    if _is_empty(inputs):
        return iter(())
    if isinstance(strategy, DivMBest):
        return _spoken(model, _one_after_another(model, inputs, strategy, limits))
    return _spoken(model, Search(model, strategy.plan(), limits).steps(inputs))


def _spoken(model: StepModel, turns: Iterator[Step]) -> Iterator[Step]:
    """The same steps, with text in their hypotheses if the model can tell it."""
    to_text = getattr(model, "to_text", None)
    return turns if to_text is None else (step.with_text(to_text) for step in turns)


def _check_model(model: object) -> None:
    if isinstance(model, StepModel) and not isinstance(model, type):
        return
    wrap = ": wrap a function in FunctionModel(step, start=...)" if callable(model) else ""
    raise ArgumentError(
        f"model must have the methods start, step and select, and {checks.shown(model)} has not{wrap}"
    )


def _check_strategy(strategy: object) -> None:
    if isinstance(strategy, type) or not callable(getattr(strategy, "plan", None)):
        hint = f": write {strategy.__name__}(...)" if isinstance(strategy, type) else ""
        raise ArgumentError(
            f"strategy must be one such as BeamSearch(beams=5), not {checks.shown(strategy)}{hint}"
        )


def _checked_scorer(scorer: Scorer | None) -> Scorer:
    if scorer is None:
        return LogProb()
    if isinstance(scorer, type) or not callable(getattr(scorer, "final", None)):
        raise ArgumentError(
            f"scorer must be one such as LengthNormalised(alpha=1.0), not {checks.shown(scorer)}"
        )
    return scorer


def _is_default(end: object) -> bool:
    return isinstance(end, str) and end == "model"


def _is_empty(inputs: Any) -> bool:
    if isinstance(inputs, Tensor) and not inputs.dim():
        return False
    return isinstance(inputs, Sized) and not isinstance(inputs, str) and len(inputs) == 0


def _one_after_another(model: StepModel, inputs: Any, strategy: DivMBest, limits: Limits) -> Iterator[Step]:
    """The runs of DivMBest. Group g of the result is what run g has kept."""
    kept: list[list[Hypothesis]] = []  # of each input
    every = replace(limits, return_per_group=None, unique=False)
    before = 0  # steps of the runs so far
    for run in range(strategy.runs):
        search = Search(model, strategy.plan(run), every, against=_as_tensor(kept) if run else None)
        for step in search.steps(inputs):
            chosen = functools.partial(_with_best, kept, step, run, limits)
            moves = tuple(replace(move, groups=range(run, run + 1)) for move in step.moves)
            lists = functools.partial(_lists, chosen, limits.scorer)
            yield replace(step, number=before + step.number, moves=moves, _assemble=lists)
        if not search.batch:
            return
        kept = chosen()
        before += step.number + 1


def _with_best(kept: list[list[Hypothesis]], step: Step, run: int, limits: Limits) -> list[list[Hypothesis]]:
    """What was kept before, and of each input's list in this run the best (that is new, if `unique`)."""
    extended = []
    for place, found in enumerate(step.hypotheses):
        before = kept[place] if run else []
        taken = {h.tokens for h in before} if limits.unique else set()
        fresh = [replace(h, group=run) for group in found.groups for h in group if h.tokens not in taken]
        extended.append(before + fresh[:1])
    return extended


def _lists(chosen: Callable[[], list[list[Hypothesis]]], scorer: Scorer) -> list[Hypotheses]:
    rank = rank_by(scorer)
    return [Hypotheses.ordered(sorted(each, key=lambda h: -rank(h))) for each in chosen()]


def _as_tensor(kept: list[list[Hypothesis]]) -> Tensor:
    """[batch e length], -1 after the ends and where an input has kept fewer."""
    count = max(len(each) for each in kept)
    length = max((len(h.tokens) for each in kept for h in each), default=0)
    tokens = torch.full((len(kept), count, length), -1)
    for place, each in enumerate(kept):
        for e, hypothesis in enumerate(each):
            tokens[place, e, : len(hypothesis.tokens)] = torch.tensor(hypothesis.tokens)
    return tokens
