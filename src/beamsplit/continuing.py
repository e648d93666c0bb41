"""More groups for lists that were found before: what `decode(resumable=True)` keeps, and how it is used.

A `Notebook` watches a search and writes down what later groups need. The `Results` of the search carry that
along as a `Continuation`, which is plain data (it can be pickled) beside the caller's inputs and options.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.model import (
    Answer,
    Shortlist,
    StepModel,
    check_model,
    fingerprint_of,
    log_softmax,
    plain,
    rows_of,
    to_text_of,
)
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import (
    Abilities,
    ExtensibleStrategy,
    ResumingStrategy,
    Search,
    SearchingStrategy,
    Start,
)
from beamsplit.search.continuing import continued
from beamsplit.search.drivers import drive, drive_async
from beamsplit.search.past import Past
from beamsplit.search.plan import Strategy
from beamsplit.search.select import Selection
from beamsplit.search.step import Step

__all__ = ["Continuation", "Notebook", "run", "run_async"]

_CLOSE = 1e-2  # log-probabilities that rounding makes differ, in another batch, are closer than this
_CLOSE_HALF = 0.2  # the same for models that compute in half precision


def run(search: Search, model: StepModel, inputs: Any) -> Iterator[Step]:
    """Run a search on a model; hypotheses have text if the model can tell it."""
    to_text, found = to_text_of(model), drive(search, model, inputs)
    return found if to_text is None else (step.with_text(to_text) for step in found)


async def run_async(search: Search, model: StepModel, inputs: Any) -> AsyncIterator[Step]:
    """Do what `run` does with a model whose verbs may be coroutines."""
    to_text = to_text_of(model)
    async for step in drive_async(search, model, inputs):
        yield step if to_text is None else step.with_text(to_text)


@dataclass(frozen=True)
class Continuation:
    """What it takes to go on with a search that is over."""

    strategy: ExtensibleStrategy
    options: DecodeOptions
    inputs: Any
    fingerprint: str | None = None
    """The model's, if it has one."""
    first: _FirstPicks | None = None
    past: Past | None = None
    """What the groups did; of a strategy that searches in its own way, None."""
    found: Sequence[Hypotheses] = ()
    memory: Any = None
    """What a strategy that searches in its own way has kept."""

    @classmethod
    def begin(cls, model: object, strategy: Strategy, options: DecodeOptions, inputs: Any) -> Continuation:
        """Return what is known before the search. Raise if its groups depend on how many there are."""
        name = type(strategy).__name__
        own = isinstance(strategy, SearchingStrategy)
        if not isinstance(strategy, ExtensibleStrategy) or (
            own and not isinstance(strategy, ResumingStrategy)
        ):
            raise ArgumentError(
                f"{name} finds its outputs together and has no next group: use DiverseBeamSearch, or "
                "DiverseSampling (with strength=0.0, its groups are independent samples)"
            )
        if options.unique and not own:
            raise ArgumentError(
                f"with unique=True, what a group of {name} finds depends on how many groups there are, so "
                "that none can be added later: leave unique out, and call distinct() on the lists"
            )
        return cls(strategy, options, inputs, fingerprint_of(model))

    def more(self, model: StepModel, groups: int, strength: float | Sequence[float] | None) -> Results:
        """Search with so many groups more; return the lists of all groups."""
        notebook, search = self._resume(model, groups, strength)
        for step in () if search is None else run(search, model, self.inputs):
            notebook.add(step)
        return notebook.results()

    async def more_async(
        self, model: StepModel, groups: int, strength: float | Sequence[float] | None
    ) -> Results:
        """Do what `more` does with a model whose verbs may be coroutines."""
        notebook, search = self._resume(model, groups, strength)
        if search is not None:
            async for step in run_async(search, model, self.inputs):
                notebook.add(step)
        return notebook.results()

    def _resume(
        self, model: StepModel, groups: int, strength: float | Sequence[float] | None
    ) -> tuple[Notebook, Search | None]:
        """Return a notebook and the search to be watched; None if there is no input to search for."""
        check_model(model)
        strategy = self.strategy.extended(checks.at_least("groups", groups, 1), strength)
        notebook = Notebook(replace(self, strategy=strategy))
        if self.first is None:
            return notebook, None
        self._check_fingerprint(model)
        abilities = Abilities.of(model)
        if isinstance(strategy, ResumingStrategy):
            search = strategy.resume(self.options, abilities, self.memory)
        else:
            assert self.past is not None, "a search with steps has a past"
            search = continued(strategy.plan(), self.options, abilities, self.past, self.found)
        return notebook, self.first.check(search, type(model).__name__)

    def _check_fingerprint(self, model: object) -> None:
        now = fingerprint_of(model)
        if self.fingerprint is not None and now not in (None, self.fingerprint):
            raise ArgumentError(
                f"this {type(model).__name__} is not the model that found these lists (its fingerprint is "
                f"{checks.short_repr(now)}, not {checks.short_repr(self.fingerprint)}): give that model, or "
                "decode anew"
            )


class Notebook:
    """Watches a search, and writes down what it takes to go on with it.

    Without `about`, it writes down only what was found.
    """

    def __init__(self, about: Continuation | None) -> None:
        self._about = about
        self._moves: list[tuple[Tensor, Selection]] = []
        self._last: Step | None = None

    def add(self, step: Step) -> None:
        """Note a step."""
        self._last = step
        if self._about is None:
            return
        if self._about.first is None:
            self._about = replace(self._about, first=_FirstPicks.of(step))
        if not isinstance(self._about.strategy, SearchingStrategy):
            # Without the beams in full: what they are made of is here already.
            self._moves += [(step.inputs, replace(each, beams_after=None)) for each in step.selections]

    def results(self) -> Results:
        """Return the lists of the last step, which know how to go on if that was noted."""
        lists = Results() if self._last is None else self._last.hypotheses
        if self._about is None:
            return lists
        return Results.with_continuation(lists, self._completed(self._about, lists))

    def _completed(self, about: Continuation, lists: Results) -> Continuation:
        memory = None if self._last is None or self._last.memory is None else self._last.memory()
        past = self._past(about, len(lists)) if self._moves else None
        return replace(about, past=past, found=tuple(lists), memory=memory)

    def _past(self, about: Continuation, batch: int) -> Past:
        """Return what all groups did, also those that were there before this search."""
        plan, before = about.strategy.plan(), about.past
        new = range(0 if before is None else before.groups, plan.groups)
        past = Past.of(self._moves, new, batch, plan.beams_per_group, about.options.ranking)
        return past if before is None else before.beside(past)


@dataclass(frozen=True)
class _FirstPicks:
    """The picks of the first step [batch n], by which another model or other inputs are recognised."""

    tokens: Tensor
    log_prob: Tensor  # NaN where it is that of a chunk, which the first answer does not tell

    @classmethod
    def of(cls, step: Step) -> _FirstPicks:
        selection = step.selections[0]
        picks = selection.picks
        log_prob = picks.log_prob if selection.chunks is None else torch.full_like(picks.log_prob, torch.nan)
        return cls(picks.token.flatten(1).cpu(), log_prob.flatten(1).cpu())

    def check(self, search: Search, model: str) -> Search:
        """Pass a search on, and look at the model's first answer on the way."""
        reply, is_known = None, False
        while True:
            try:
                event = search.send(reply)
            except StopIteration:
                return
            reply = yield event
            if isinstance(event, Start) and not is_known:
                self._compare(reply, model)
                is_known = True

    def _compare(self, answer: Answer, model: str) -> None:
        if rows_of(answer) != len(self.tokens):
            raise ArgumentError(
                f"these lists were found for {len(self.tokens)} inputs, and there are {rows_of(answer)} now: "
                "leave the inputs as they were, or decode anew"
            )
        now = _log_prob_of(answer, self.tokens)
        # What is not known, NaN, is not far.
        far = (now - self.log_prob).abs() > _closeness(answer) * (1 + self.log_prob.abs())
        for index, pick in far.nonzero()[:1].tolist():
            token, value, before = (each[index, pick].item() for each in (self.tokens, now, self.log_prob))
            raise ArgumentError(
                f"{model} gives token {token} a log-probability of {value:.2f} as the first for input "
                f"{index}, and it was {before:.2f} when these lists were found: give the model and the "
                "inputs that found them, or decode anew"
            )


def _log_prob_of(answer: Answer, tokens: Tensor) -> Tensor:
    """Return the log-probabilities of tokens [rows n]; NaN where they are not known."""
    if isinstance(answer, Shortlist):
        same = answer.tokens.cpu().unsqueeze(1) == tokens.unsqueeze(2)  # [rows n k]
        listed = answer.log_prob.cpu().unsqueeze(1).masked_fill(~same, -torch.inf).amax(2)
        return listed.masked_fill(listed == -torch.inf, torch.nan)
    vocabulary = plain(answer).shape[1]
    inside = tokens.clamp(max=vocabulary - 1).to(plain(answer).device)
    return log_softmax(answer).gather(1, inside).cpu().masked_fill(tokens >= vocabulary, -torch.inf)


def _closeness(answer: Answer) -> float:
    values = answer.log_prob if isinstance(answer, Shortlist) else plain(answer)
    return _CLOSE_HALF if values.dtype in (torch.float16, torch.bfloat16) else _CLOSE
