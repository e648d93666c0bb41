"""An engine as a model: its state is the prefixes themselves, and its answers are candidate lists."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, Unpack

import torch
from torch import Tensor

from beamsplit.decoding import answer_chat
from beamsplit.engines.candidates import Engine, Prefix, stack_candidates
from beamsplit.engines.drawing import draw_chunks, orders_of
from beamsplit.engines.running import AtOnce, InBackground, Runner
from beamsplit.engines.vocabularies import Vocabulary
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.messages import Conversation
from beamsplit.model import Drawing, Drawn, Room, Shortlist
from beamsplit.options import OptionArguments
from beamsplit.search.plan import Strategy

__all__ = ["AsyncEngineModel", "EngineModel", "Usage"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _State:
    prefixes: tuple[Prefix, ...]
    width: int  # candidates that a step asks for
    lists: Shortlist | None = None  # the answer about these prefixes


_Answer: TypeAlias = tuple[Shortlist, _State]

# Prefixes of eight tokens without sense, of ids that every model has.
_PROBES: tuple[Prefix, ...] = tuple(
    tuple(3 + (seed * 37 + place * (seed + 11)) % 200 for place in range(8)) for seed in range(24)
)
_PROBE_TEXTS = ["1 2 3", "7 5", "The first", "One day", "Yes, and", "It is", "a b c", "42 17"]
_PLAIN = 0.3  # a lead in log-probability that no rounding turns round, not even of four-bit weights

_USUAL = 20  # candidates to ask for where the search does not say how many it needs


@dataclass(slots=True)
class Usage:
    """What an engine has been asked for."""

    steps: int = 0
    """Answers, each for all live beams of all inputs at once."""
    prefixes: int = 0
    """Rows of these answers: what was asked about. The same prefix counts once a step."""
    tokens: int = 0
    """Tokens of these prefixes. An engine with a prefix cache reads few of them again."""
    widened: int = 0
    """Prefixes that were asked about again, for longer lists."""


class AsyncEngineModel:
    """A serving engine as a model whose verbs are coroutines: for `decode_async` and `steps_async`."""

    keeps_earlier_steps = True
    kind = "text"

    def __init__(self, engine: Engine, vocabulary: Vocabulary) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.usage = Usage()

    @property
    def end(self) -> list[int] | None:
        """The tokens that end an output, if they are known."""
        return self.vocabulary.end

    @property
    def chats(self) -> bool:
        """Whether inputs may be messages."""
        return self.vocabulary.chats

    @property
    def to_text(self) -> Callable[[tuple[int, ...]], str] | None:
        """How tokens read; None if nobody can tell."""
        return self.vocabulary.to_text

    async def start(self, inputs: Any) -> _Answer:
        return await self.start_with_room(inputs, Room(beams=1, length=1, candidates=_USUAL))

    async def start_with_room(self, inputs: Any, room: Room) -> _Answer:
        prefixes = tuple(await self.vocabulary.encode(inputs))
        self._check_prompts(prefixes, room)
        return await self._lists(_State(prefixes, room.candidates))

    async def step(self, tokens: Tensor, state: _State) -> _Answer:
        grown = zip(state.prefixes, tokens.tolist(), strict=True)
        return await self._lists(_State(tuple((*prefix, token) for prefix, token in grown), state.width))

    async def fingerprint(self) -> str:
        """Return what tells the model from others: its name, its first tokens after some prefixes, its words.

        A name alone is not enough, since an engine may be started again with other weights.
        """
        knows_ids = self.vocabulary.counts_tokens
        probes = _PROBES if knows_ids else await self.vocabulary.encode(_PROBE_TEXTS)
        firsts = []
        for each in await self.engine.candidates(probes, 2):
            first = (
                str(each.tokens[0]) if knows_ids or self.to_text is None else self.to_text(each.tokens[:1])
            )
            firsts.append(first if each.log_prob[0] - each.log_prob[-1] > _PLAIN else "?")
        return f"{self.engine.model} {' '.join(firsts)} end {self.end} {self.vocabulary.fingerprint}"

    def select(self, state: _State, rows: Tensor) -> _State:
        return _State(tuple(state.prefixes[row] for row in rows.tolist()), state.width)

    def join(self, states: Sequence[_State]) -> _State:
        return _State(tuple(prefix for state in states for prefix in state.prefixes), states[0].width)

    async def widen(self, state: _State, rows: Tensor, width: int) -> Shortlist:
        lists, most = state.lists, self.engine.most
        is_longest = lists is not None and most is not None and lists.tokens.shape[1] >= most
        if lists is not None and (is_longest or not self.engine.tells_rest):
            return lists.at(rows)  # there is no more to be had
        prefixes = self.select(state, rows).prefixes
        self.usage.widened += len(prefixes)
        return await self._ask(prefixes, width)

    @property
    def draw(self) -> Callable[..., Coroutine[Any, Any, list[list[Drawn]]]] | None:
        """Returns chunks of text that the engine draws by itself (`DrawingModel`); None if it cannot."""
        return self._draw if self.engine.draws else None

    async def _draw(
        self, state: _State, rows: Sequence[int], prefixes: Sequence[Prefix], drawing: Drawing
    ) -> list[list[Drawn]]:
        asked = [state.prefixes[row] + tuple(said) for row, said in zip(rows, prefixes, strict=True)]
        self.usage.steps += 1
        self.usage.prefixes += len(asked)
        self.usage.tokens += sum(map(len, asked))
        return await draw_chunks(self.engine, orders_of(asked, drawing, self.engine.longest), drawing)

    async def aclose(self) -> None:
        """Close connections."""
        await self.engine.aclose()

    async def __aenter__(self) -> AsyncEngineModel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.engine.name}>"

    async def _lists(self, state: _State) -> _Answer:
        self.usage.steps += 1
        lists = await self._ask(state.prefixes, state.width)
        return lists, replace(state, lists=lists)

    async def _ask(self, prefixes: Sequence[Prefix], width: int) -> Shortlist:
        """Ask about each prefix once, however many beams share it."""
        different = list(dict.fromkeys(prefixes))
        self.usage.prefixes += len(different)
        self.usage.tokens += sum(map(len, different))
        answers = await self.engine.candidates(different, width)
        place = {prefix: index for index, prefix in enumerate(different)}
        lists = stack_candidates(answers)
        if len(different) == len(prefixes):
            return lists
        return lists.at(torch.tensor([place[prefix] for prefix in prefixes]))

    def _check_prompts(self, prompts: Sequence[Prefix], room: Room) -> None:
        """Raise if a prompt is empty, or longer than the engine takes."""
        for index, prompt in enumerate(prompts):
            if not prompt:
                raise ArgumentError(
                    f"input {index} has no tokens, and an engine goes on from one at least: give a text"
                )
            length, longest = len(prompt) + room.length, self.engine.longest
            if longest is not None and length > longest and self.vocabulary.counts_tokens:
                raise ArgumentError(
                    f"input {index} has {len(prompt)} tokens, and with max_length={room.length} that is more "
                    f"than the {longest} that the engine takes: give a shorter input or a smaller max_length"
                )


class EngineModel:
    """A serving engine as a model, for `decode`, `steps` and everything else; `asynchronous` is the same for
    `decode_async`. Use it as a context manager, or `close()` it, to give back its connections.
    """

    keeps_earlier_steps = True

    def __init__(self, engine: Engine, vocabulary: Vocabulary, runner: Runner | None = None) -> None:
        self.asynchronous = AsyncEngineModel(engine, vocabulary)
        self._runner: Runner = runner or (AtOnce() if engine.blocks else InBackground())

    @property
    def engine(self) -> Engine:
        return self.asynchronous.engine

    @property
    def served_name(self) -> str:
        """The name of the model, without where it is."""
        return self.engine.model

    @property
    def usage(self) -> Usage:
        """What the engine has been asked for so far."""
        return self.asynchronous.usage

    @property
    def kind(self) -> str:
        return self.asynchronous.kind

    @property
    def end(self) -> list[int] | None:
        """The tokens that end an output, if they are known."""
        return self.asynchronous.end

    @property
    def chats(self) -> bool:
        """Whether inputs may be messages."""
        return self.asynchronous.chats

    @property
    def to_text(self) -> Callable[[tuple[int, ...]], str] | None:
        """How tokens read; None if nobody can tell."""
        return self.asynchronous.to_text

    @functools.cached_property
    def fingerprint(self) -> str:
        """What tells the model from others, for caches; the engine is asked for it once."""
        return self._run(self.asynchronous.fingerprint())

    def start(self, inputs: Any) -> _Answer:
        return self._run(self.asynchronous.start(inputs))

    def start_with_room(self, inputs: Any, room: Room) -> _Answer:
        return self._run(self.asynchronous.start_with_room(inputs, room))

    def step(self, tokens: Tensor, state: _State) -> _Answer:
        return self._run(self.asynchronous.step(tokens, state))

    def select(self, state: _State, rows: Tensor) -> _State:
        return self.asynchronous.select(state, rows)

    def join(self, states: Sequence[_State]) -> _State:
        return self.asynchronous.join(states)

    def widen(self, state: _State, rows: Tensor, width: int) -> Shortlist:
        return self._run(self.asynchronous.widen(state, rows, width))

    @property
    def draw(self) -> Callable[..., list[list[Drawn]]] | None:
        """Returns chunks of text that the engine draws by itself (`DrawingModel`); None if it cannot."""
        draw = self.asynchronous.draw
        return None if draw is None else lambda *arguments: self._run(draw(*arguments))

    def chat(
        self,
        messages: str | Conversation,
        *,
        answers: int | None = None,
        system: str | None = None,
        strategy: Strategy | None = None,
        **options: Unpack[OptionArguments],
    ) -> Hypotheses:
        """Return several different answers of a chat model to a question or a conversation, best first.

        Each group gives its best answer. The term, its strength and the limits are the defaults for chats;
        `options` are those of `decode`. Of another `strategy`, all that it finds is returned.
        """
        return answer_chat(self, messages, answers=answers, system=system, strategy=strategy, **options)

    def close(self) -> None:
        """Close connections."""
        self._runner.close()

    def __enter__(self) -> EngineModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.engine.name}>"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)
