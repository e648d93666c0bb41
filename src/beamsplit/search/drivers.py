"""Drivers: they ask the model what a search wants to know.

A search yields what it asks. `States` turns that into calls of the model's verbs and keeps the model's
states. The two drivers differ in one thing alone: `drive` takes what a verb returns, `drive_async` awaits
it where it is awaitable.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from beamsplit.errors import ArgumentError, BeamsplitError, ModelError
from beamsplit.model import (
    AdvancingModel,
    Answer,
    DrawingModel,
    FixableModel,
    FixedStep,
    JoinableModel,
    RoomModel,
    Shortlist,
    State,
    StepModel,
    WideningModel,
    is_capturable,
    joinable,
    keeps_earlier_steps,
    read_answer,
)
from beamsplit.search.ahead.states import StateStep
from beamsplit.search.asks import LAST, Advance, Ask, Draw, Fix, Forget, Keep, Recall, Search, Start, Widen
from beamsplit.search.step import Step
from beamsplit.search.watch import LogitsWatch

__all__ = ["drive", "drive_async"]


@dataclass(frozen=True, slots=True)
class _Call:
    """What a verb of the model returned, or a promise of it."""

    value: Any


_Calls = Generator[_Call, Any, Any]


class _States:
    """A model at work on some inputs: its states, and the calls that a search's asks stand for."""

    def __init__(self, model: StepModel, inputs: Any) -> None:
        self._model = model
        self._inputs = inputs
        self._advances = model.advance if isinstance(model, AdvancingModel) else None
        self._kept: list[State] = []  # of the answers so far, as far as the search may return to them
        self._aside: dict[int, State] = {}  # what was kept on request, by number
        self._next_aside = 0
        self._keeps = "last"
        self._last: State = None
        self._watch = LogitsWatch(type(model).__name__)

    def reply(self, ask: Ask) -> _Calls:
        match ask:
            case Start():
                return (yield from self._start(ask))
            case Advance():
                return (yield from self._advance(ask))
            case Widen():
                return (yield from self._widen(ask))
            case Fix():
                return self._fix(ask)
            case Keep():
                return (yield from self._keep(ask))
            case Recall():
                return (yield from self._recall(ask))
            case Draw():
                model = self._model
                assert isinstance(model, DrawingModel), "the search has asked"
                return (yield _Call(model.draw(self._kept[0], ask.rows, ask.prefixes, ask.drawing)))
            case Forget():
                self._aside = {number: state for number, state in self._aside.items() if number >= ask.before}
                return None

    def _start(self, ask: Start) -> _Calls:
        model = self._model
        if ask.keeps == "all" and not keeps_earlier_steps(model):
            raise ArgumentError(
                "the search returns to earlier steps, which needs a model with keeps_earlier_steps = True "
                f"and a join method, and {type(model).__name__} lacks one of them: use another strategy"
            )
        self._keeps, self._kept = ask.keeps, []
        if isinstance(model, RoomModel):
            value = yield _Call(model.start_with_room(self._inputs, ask.room))
            return self._note(*read_answer(value, "start_with_room"))
        value = yield _Call(model.start(self._inputs))
        return self._note(*read_answer(value, "start"))

    def _advance(self, ask: Advance) -> _Calls:
        model = self._model
        state, parents = (yield from self._source(ask.sources)), ask.parents
        if parents is None and self._keeps == "all":
            parents = torch.arange(len(ask.tokens), device=ask.tokens.device)
        # A step may use up its state: one that the search may return to is copied first.
        if parents is not None and (self._advances is None or self._keeps != "last"):
            state, parents = (yield _Call(model.select(state, parents))), None
        if self._advances is not None:
            value = yield _Call(self._advances(state, parents, ask.tokens))
            return self._note(*read_answer(value, "advance"))
        value = yield _Call(model.step(ask.tokens, state))
        return self._note(*read_answer(value, "step"))

    def _source(self, sources: tuple[int, ...]) -> _Calls:
        assert all(source == LAST or source < len(self._kept) for source in sources), (
            "Start(keeps=...) says which"
        )
        states = [self._last if source == LAST else self._kept[source] for source in sources]
        if len(states) == 1:
            return states[0]
        return (yield _Call(joinable(self._model).join(states)))

    def _widen(self, ask: Widen) -> _Calls:
        model = self._model
        assert isinstance(model, WideningModel)
        state = yield from self._source(ask.sources)
        lists = yield _Call(model.widen(state, ask.rows, ask.width))
        if not isinstance(lists, Shortlist):
            raise ModelError(f"widen must return a Shortlist, not a {type(lists).__name__}")
        return lists

    def _fix(self, ask: Fix) -> FixedStep | None:
        if isinstance(self._model, FixableModel):
            return self._model.fix(self._last, ask.batch, ask.room)
        if not is_capturable(self._model):
            return None
        return StateStep.of(self._model, self._last, ask.batch, ask.room, ask.device)

    def _keep(self, ask: Keep) -> _Calls:
        self._aside[self._next_aside] = yield _Call(self._model.select(self._last, ask.rows))
        self._next_aside += 1

    def _recall(self, ask: Recall) -> _Calls:
        states = [self._aside[source] for source in ask.sources]
        joined = states[0]
        if len(states) > 1:
            if not isinstance(self._model, JoinableModel):
                return False
            try:
                joined = yield _Call(self._model.join(states))
            except BeamsplitError:  # rows that were left at different steps may not fit into one state
                return False
        self._last = yield _Call(self._model.select(joined, ask.rows))
        return True

    def _note(self, answer: Answer, state: State) -> Answer:
        self._watch.look(answer)
        self._last = state
        if self._keeps == "all" or (self._keeps == "first" and not self._kept):
            self._kept.append(state)
        return answer


@torch.no_grad()
def _converse(search: Search, model: StepModel, inputs: Any) -> Generator[Step | _Call, Any, None]:
    """Go through a search: yields its steps, and the calls whose values it is to be sent."""
    states, reply = _States(model, inputs), None
    while True:
        try:
            event = search.send(reply)
        except StopIteration:
            return
        if isinstance(event, Step):
            reply = None
            yield event
        else:
            reply = yield from states.reply(event)


def drive(search: Search, model: StepModel, inputs: Any) -> Iterator[Step]:
    """Run a search on a model."""
    events, value = _converse(search, model, inputs), None
    while True:
        try:
            event = events.send(value)
        except StopIteration:
            return
        value = None
        if isinstance(event, Step):
            yield event
            continue
        value = event.value
        if inspect.isawaitable(value):
            getattr(value, "close", lambda: None)()  # or Python warns that nobody awaited it
            raise ArgumentError(
                f"{type(model).__name__} answers asynchronously: use decode_async or steps_async, and "
                "groups_async or more_async for one group after another"
            )


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Something to be awaited without gradients, which are switched off only while it runs."""

    value: Awaitable[Any]

    @torch.no_grad()
    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.value.__await__())


async def drive_async(search: Search, model: StepModel, inputs: Any) -> AsyncIterator[Step]:
    """Run a search on a model whose verbs may be coroutines."""
    events, value = _converse(search, model, inputs), None
    while True:
        try:
            event = events.send(value)
        except StopIteration:
            return
        value = None
        if isinstance(event, Step):
            yield event
        else:
            value = await _Awaited(event.value) if inspect.isawaitable(event.value) else event.value
