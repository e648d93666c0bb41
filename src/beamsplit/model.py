"""The contract of models: three verbs, what they may answer with, and what a model may offer besides.

The search calls `start`, `step` and `select`. Everything else here is optional: a model that offers more is
found by its methods and attributes, and the search makes use of it. docs/contract.md has all of it in one
table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from beamsplit import checks
from beamsplit.errors import ArgumentError, ModelError

__all__ = [
    "AdvancingModel",
    "Answer",
    "Drawing",
    "DrawingModel",
    "Drawn",
    "FixableModel",
    "FixedStep",
    "Guided",
    "JoinableModel",
    "LogProbs",
    "Room",
    "RoomModel",
    "Shortlist",
    "State",
    "StepModel",
    "WideningModel",
]

State: TypeAlias = Any
"""Whatever a model wants to be given back. The search never looks inside."""


# Answers: what `start` and `step` return


@dataclass(frozen=True, slots=True)
class Guided:
    """Logits [rows vocab], and `guidance` [rows vocab] that is added to a token's score alone.

    The search maximises log-probability plus guidance; `log_prob` in the results stays the model's.
    Since guidance may raise a total, groups go on to `max_length`, unless every answer is `bounded`: no token
    from here on adds more than 0 in all.
    """

    logits: Tensor
    guidance: Tensor
    bounded: bool = False
    normalised: bool = False
    """Whether the logits are log-probabilities already, not to be normalised again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "logits", as_tensor(self.logits))
        object.__setattr__(self, "guidance", as_tensor(self.guidance))


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Log-probabilities [rows vocab] that are normalised already. They are never normalised again."""

    values: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_tensor(self.values))


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Some tokens of each row with their log-probabilities, and a bound on all tokens that are not listed.

    Log-probabilities are normalised over the whole vocabulary, and are never normalised again. A place
    in a list that holds nothing has a log-probability of -inf. The search sorts lists by token.
    """

    tokens: Tensor
    """[rows k]"""
    log_prob: Tensor
    """[rows k] the model's."""
    rest: Tensor = None  # type: ignore[assignment]
    """[rows] no unlisted token has a higher gain; by default, the lowest gain listed. -inf: all are there."""
    gain: Tensor = None  # type: ignore[assignment]
    """[rows k] what a token adds to a beam's score; by default, its log-probability."""
    key: Tensor = None  # type: ignore[assignment]
    """[rows k] what the search has listed tokens by, noise included. A model leaves it out."""
    bounded: bool = False
    """As in `Guided`, where there is a gain: whether no token from here on adds more than 0 in all."""

    def __post_init__(self) -> None:
        given = (self.tokens, self.log_prob, self.rest, self.gain, self.key)
        if all(isinstance(value, Tensor) for value in given) and self.tokens.dtype == torch.long:
            return  # as the search makes them, once a step
        self._set("tokens", as_tensor(self.tokens))
        if not self.tokens.is_floating_point():
            self._set("tokens", self.tokens.long())
        self._set("log_prob", as_tensor(self.log_prob))
        self._set("gain", self.log_prob if self.gain is None else as_tensor(self.gain))
        self._set("key", self.gain if self.key is None else as_tensor(self.key))
        self._set("rest", self._lowest() if self.rest is None else as_tensor(self.rest))

    def _set(self, name: str, value: Tensor) -> None:
        object.__setattr__(self, name, value)

    def _lowest(self) -> Tensor:
        """Return the lowest gain of each row; a place that holds nothing does not count."""
        if not self.log_prob.dim() or not self.log_prob.shape[-1]:
            raise ModelError(
                f"a Shortlist has log-probabilities of shape {list(self.log_prob.shape)}: list at least one "
                "candidate of each row, [rows k]"
            )
        is_sound = self.gain.shape == self.log_prob.shape and self.gain.is_floating_point()
        if not is_sound:  # which is refused when the list is read
            return self.log_prob.amin(-1)
        return self.gain.masked_fill(self.log_prob == -torch.inf, torch.inf).amin(-1)

    @property
    def is_guided(self) -> bool:
        return self.gain is not self.log_prob

    def map(self, function: Callable[[Tensor], Tensor]) -> Shortlist:
        """Apply a function to every tensor; one that is there twice stays so."""
        log_prob = function(self.log_prob)
        gain = log_prob if self.gain is self.log_prob else function(self.gain)
        key = gain if self.key is self.gain else function(self.key)
        return Shortlist(function(self.tokens), log_prob, function(self.rest), gain, key, self.bounded)

    def at(self, rows: Tensor) -> Shortlist:
        """Return the lists of these rows: `rows` may have any shape, and its axes replace the first one."""
        return self.map(lambda values: values[rows])

    def shaped(self, like: Tensor) -> Shortlist:
        """Return the same lists, with the axes of `like` for the first one."""
        return self.map(lambda values: values.view(*like.shape, *values.shape[1:]))


Answer: TypeAlias = Tensor | Guided | LogProbs | Shortlist
"""What a model answers with. Arrays of other libraries do wherever there is a tensor here."""


# Verbs: what every model has


@runtime_checkable
class StepModel(Protocol):
    """A neural sequence model, as the search sees it.

    Rows are independent of each other: row i of an answer belongs to row i of the state. There is one row for
    each input after `start`, and one for each live beam later on. The search reads an answer before the next
    call, so its memory may be used again; the search never writes to it. Tokens and rows are a copy that
    the model may keep or overwrite.
    """

    def start(self, inputs: Any) -> tuple[Answer, State]:
        """Return the answer [batch vocab] for the first token, and the state behind it; one row an input."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Answer, State]:
        """Return the answer [rows vocab] for the token after `tokens` [rows], and the new state."""
        ...

    def select(self, state: State, rows: Tensor) -> State:
        """Return the state with these rows: repeated, permuted or dropped as `rows` says."""
        ...


def check_model(model: object) -> None:
    """Raise unless this has the verbs of a model."""
    if isinstance(model, StepModel) and not isinstance(model, type):
        return
    wrap = ": wrap a function in FunctionModel(step, start=...)" if callable(model) else ""
    raise ArgumentError(
        f"model must have the methods start, step and select, and {checks.short_repr(model)} has not{wrap}"
    )


# Verbs that a model may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a search will need at most, for a model that reserves memory."""

    beams: int
    """Beams of one input, in all groups together."""
    length: int
    """Tokens of a hypothesis."""
    candidates: int
    """Candidates of a row that make every step certain with a local term such as Hamming."""


@runtime_checkable
class RoomModel(StepModel, Protocol):
    """A model that wants to know how much room a search needs before it starts."""

    def start_with_room(self, inputs: Any, room: Room) -> tuple[Answer, State]:
        """Do what `start` does. The search calls this instead."""
        ...


@runtime_checkable
class AdvancingModel(StepModel, Protocol):
    """A model that moves rows and steps in one call.

    With an attribute `fixed_rows = True` it is asked for the same number of rows every time: one for each
    beam, in the order of inputs, groups and beams. Rows of beams that are no longer live have token 0, and
    their answers are ignored.
    """

    def advance(self, state: State, parents: Tensor | None, tokens: Tensor) -> tuple[Answer, State]:
        """Return what `step(tokens, select(state, parents))` would; None: all rows, in order.

        May overwrite the state that it is given.
        """
        ...


@runtime_checkable
class JoinableModel(StepModel, Protocol):
    """A model that can put states together. Needed by the staggered schedule.

    With an attribute `keeps_earlier_steps = True`, a search may keep the states of all steps and return to
    any of them: `select` copies, `join` takes states of several answers, and a state is small.
    """

    def join(self, states: Sequence[State]) -> State:
        """Return one state with the rows of all of these, in order."""
        ...


@runtime_checkable
class WideningModel(StepModel, Protocol):
    """A model that answers with a `Shortlist`, and can be asked for a longer one."""

    def widen(self, state: State, rows: Tensor, width: int) -> Shortlist:
        """Return lists of at least this width for these rows of the state, or lists as long as it can.

        The state is the one that came with its last answer (in the staggered schedule, perhaps with the
        rows of its first answer joined below).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How a model is to draw chunks of text by itself: samples, up to the end of a chunk."""

    count: int
    """Chunks for each prefix."""
    seeds: tuple[int, ...]
    """A number for each prefix, so that the same call draws the same chunks where that is possible."""
    most: tuple[int, ...]
    """The most tokens of a chunk, for each prefix."""
    ends: tuple[int, ...]
    """The end tokens."""
    marks: tuple[str, ...]
    """A chunk ends with a token whose text has one of these; without any, it ends by its length alone."""
    least: int
    """Chunks of fewer tokens end by an end token alone."""
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None


class Drawn(NamedTuple):
    """A chunk that a model has drawn."""

    tokens: tuple[int, ...]
    """The end token included, if it ends so."""
    log_probs: tuple[float, ...]
    """The model's, of each token, whatever it was drawn by."""


@runtime_checkable
class DrawingModel(StepModel, Protocol):
    """A model that draws chunks in one call, as an engine does. If its `draw` is None, it does not."""

    def draw(
        self, state: State, rows: Sequence[int], prefixes: Sequence[tuple[int, ...]], drawing: Drawing
    ) -> list[list[Drawn]]:
        """Return chunks for each prefix: what may follow these tokens of an output.

        A chunk may go on beyond its end: the search cuts it there.

        `rows` are the prefixes' rows of the state, which is the one after `start`.
        """
        ...


class FixedStep(Protocol):
    """A step of a fixed number of rows, whose tensors stay where they are, so that a GPU can repeat it.

    There is a row for each beam of each input, in their order, and rows * steps slots: what row r computes
    in its step t is kept in slot t * rows + r, and stays there. So a search can go back to any step.
    """

    tokens: Tensor
    """[rows] int64, to be set: the token that each row goes on with."""
    parents: Tensor
    """[rows] int64, to be set: the slot that each row goes on from; at first rows * steps + its input."""
    table: Tensor
    """[rows steps] int32, to be set: the slots of all tokens before, as many as `time` says."""
    time: Tensor
    """[1] int64, to be set: how many tokens there are before."""
    kept: dict[Any, Any]
    """Whatever a search wants to find again the next time that it is given the same step."""

    def run(self) -> Tensor:
        """Return the logits [rows vocab] of the step that is set, without waiting for the GPU.

        They may be in the same memory every time.
        """
        ...

    def close(self) -> None:
        """Take note that the search is over. The tensors may be another search's from now on."""
        ...


@runtime_checkable
class FixableModel(StepModel, Protocol):
    """A model whose steps can be of a fixed number of rows.

    A model with an attribute `capturable = True` needs no method `fix`. That says that its state is made of
    tensors; and that its `step` works on their device alone, in the same way every time, and returns what has
    changed as new tensors, and what has not as it was given.
    """

    def fix(self, state: State, batch: int, room: Room) -> FixedStep | None:
        """Return a step that goes on from the state after `start` of so many inputs; None if it cannot."""
        ...


def joinable(model: object, purpose: str = "schedule='staggered'") -> JoinableModel:
    """Return the model if its states can be put together; raise otherwise."""
    if not isinstance(model, JoinableModel):
        raise ArgumentError(
            f"{purpose} needs a model with a join method, and {type(model).__name__} has none: "
            "add one or use schedule='lockstep'"
        )
    return model


# Attributes that a model may have


def end_of(model: object) -> int | Sequence[int] | None:
    """Return the model's `end`: the id of its end token, or several."""
    return getattr(model, "end", None)


def to_text_of(model: object) -> Callable[[tuple[int, ...]], str] | None:
    """Return the model's `to_text`, which turns tokens into text."""
    return getattr(model, "to_text", None)


def word_vectors_of(model: object) -> Tensor | None:
    """Return the model's `word_vectors` [vocab dim], for the `Embedding` term."""
    return getattr(model, "word_vectors", None)


def language_model_of(model: object) -> StepModel | None:
    """Return the model's `language_model`: the same without its input, for `AntiLanguageModel`."""
    return getattr(model, "language_model", None)


def fingerprint_of(model: object) -> str | None:
    """Return the model's `fingerprint`: a text that differs where its outputs may differ."""
    found = getattr(model, "fingerprint", None)
    return found if isinstance(found, str) else None


def features_of(model: object) -> Callable[[Any], Tensor] | None:
    """Return the model's `features`, which turns pictures into what it decodes from."""
    return getattr(model, "features", None)


def accepts_of(model: object) -> Callable[[Any], bool] | None:
    """Return the model's `accepts`, which tells whether it can take an input."""
    return getattr(model, "accepts", None)


def has_fixed_rows(model: object) -> bool:
    """Tell whether the model wants the same number of rows at every step."""
    fixed = bool(getattr(model, "fixed_rows", False))
    if fixed and not isinstance(model, AdvancingModel):
        raise ArgumentError(
            f"{type(model).__name__}.fixed_rows is True, which needs a method "
            "advance(state, parents, tokens): add it, or leave fixed_rows out"
        )
    return fixed


def is_capturable(model: object) -> bool:
    """Tell whether the model says that its `step` works on tensors of the device alone."""
    return bool(getattr(model, "capturable", False))


def keeps_earlier_steps(model: object) -> bool:
    """Tell whether a search may return to states that the model has left."""
    return bool(getattr(model, "keeps_earlier_steps", False)) and isinstance(model, JoinableModel)


# Reading answers


def read_answer(value: Any, verb: str) -> tuple[Answer, State]:
    """Return the pair that `start`, `step` or `advance` returned; raise if it is none."""
    if isinstance(value, tuple) and len(value) == 2:
        answer, state = value
        if isinstance(answer, Tensor | Guided | LogProbs | Shortlist):
            return answer, state
        if hasattr(answer, "__array__") or hasattr(answer, "__dlpack__"):
            return as_tensor(answer), state
    raise ModelError(
        f"{verb} must return (logits, state), the logits a tensor or an array, not {_kind(value)}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return f"({type(value[0]).__name__}, ...)"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def as_tensor(values: Any) -> Tensor:
    """Return a tensor of an array of any library, or of a list of lists; without a copy if possible."""
    if isinstance(values, Tensor):
        return values
    import numpy as np  # which the search itself can do without

    if not isinstance(values, np.ndarray) and (shared := _shared(values)) is not None:
        return shared
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"the model returned a {type(values).__name__} that makes no array ({checks.reason(error)}): "
            "give every row as many numbers"
        ) from error
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):  # which torch does not take
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise ModelError(f"the model returned an array of {array.dtype}: {checks.reason(error)}") from error


def _shared(values: Any) -> Tensor | None:
    """Return a tensor of the memory behind values, perhaps on a GPU; None if they do not hand it over."""
    if not hasattr(values, "__dlpack__"):
        return None
    try:
        return from_dlpack(values)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None


def rows_of(answer: Answer) -> int:
    """Return how many rows an answer has."""
    return (answer.tokens if isinstance(answer, Shortlist) else plain(answer)).shape[0]


def device_of(answer: Answer) -> torch.device:
    """Return where an answer is."""
    return (answer.tokens if isinstance(answer, Shortlist) else plain(answer)).device


def plain(answer: Tensor | Guided | LogProbs) -> Tensor:
    """Return the logits alone, or the log-probabilities where these are given."""
    match answer:
        case Guided():
            return answer.logits
        case LogProbs():
            return answer.values
        case _:
            return answer


def is_normalised(answer: Answer) -> bool:
    """Tell whether an answer has log-probabilities, not to be normalised again."""
    return isinstance(answer, LogProbs | Shortlist) or (isinstance(answer, Guided) and answer.normalised)


def log_softmax(answer: Tensor | Guided | LogProbs) -> Tensor:
    """Return log-probabilities [rows vocab]. What is normalised already stays as it is."""
    logits = plain(answer)
    if is_normalised(answer):
        return logits.to(wide(logits.dtype), copy=True)  # the search may rule tokens out in it
    return torch.log_softmax(logits, dim=-1, dtype=wide(logits.dtype))


def copied(answer: Answer) -> Answer:
    """Return the same answer in memory of its own."""
    match answer:
        case Guided():
            return replace(answer, logits=answer.logits.clone(), guidance=answer.guidance.clone())
        case LogProbs():
            return LogProbs(answer.values.clone())
        case Shortlist():
            return answer.map(Tensor.clone)
        case _:
            return answer.clone()


def stack_answers(upper: Answer, lower: Answer) -> Answer:
    """Return one answer with the rows of both. They must be of one kind."""
    match upper, lower:
        case Guided(), Guided():
            return Guided(
                torch.cat([upper.logits, lower.logits]),
                torch.cat([upper.guidance, lower.guidance]),
                upper.bounded and lower.bounded,
                upper.normalised,
            )
        case LogProbs(), LogProbs():
            return LogProbs(torch.cat([upper.values, lower.values]))
        case Shortlist(), Shortlist():
            return stack_shortlists(upper, lower)
        case Tensor(), Tensor():
            return torch.cat([upper, lower])
    raise ModelError(
        f"the model answered with {type(upper).__name__} in one step and {type(lower).__name__} in another: "
        "it must always answer with the same"
    )


def stack_shortlists(upper: Shortlist, lower: Shortlist) -> Shortlist:
    """Return the lists of both, the shorter ones filled up with empty places."""
    width = max(upper.tokens.shape[1], lower.tokens.shape[1])
    upper, lower = padded(upper, width), padded(lower, width)
    log_prob = torch.cat([upper.log_prob, lower.log_prob])
    is_guided = upper.is_guided or lower.is_guided
    return Shortlist(
        torch.cat([upper.tokens, lower.tokens]),
        log_prob,
        torch.cat([upper.rest, lower.rest]),
        torch.cat([upper.gain, lower.gain]) if is_guided else log_prob,
        bounded=upper.bounded and lower.bounded,
    )


def padded(lists: Shortlist, width: int) -> Shortlist:
    """Return the same lists with empty places up to this width."""
    missing = width - lists.tokens.shape[1]
    if not missing:
        return lists

    def fill(values: Tensor, value: float) -> Tensor:
        return torch.nn.functional.pad(values, (0, missing), value=value)

    log_prob = fill(lists.log_prob, -torch.inf)
    gain = fill(lists.gain, -torch.inf) if lists.is_guided else log_prob
    return Shortlist(fill(lists.tokens, -1), log_prob, lists.rest, gain, bounded=lists.bounded)


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the type that log-probabilities are kept in: float32, or float64 if the logits are."""
    return torch.promote_types(dtype, torch.float32)


def score_type(answer: Answer) -> torch.dtype:
    """Return the type that scores are kept in."""
    match answer:
        case Guided():
            return torch.promote_types(wide(answer.logits.dtype), answer.guidance.dtype)
        case Shortlist():
            return torch.promote_types(wide(answer.log_prob.dtype), answer.gain.dtype)
        case _:
            return wide(plain(answer).dtype)
