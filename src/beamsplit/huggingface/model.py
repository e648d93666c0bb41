"""A transformers model as a `StepModel`: one row for each input at first, then one for each live beam."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.decoding import answer_chat
from beamsplit.errors import ArgumentError, ModelError
from beamsplit.huggingface.beam_cache import NotCarriedError
from beamsplit.huggingface.cache import check_cache, has_rows, same_rows, select_rows
from beamsplit.huggingface.carrying import (
    call_with_beams,
    carry,
    give_up,
    has_beam_cache,
    is_wanted,
    next_inputs,
    plain_arguments,
)
from beamsplit.huggingface.chat import check_template_arguments, end_of_turn, has_template
from beamsplit.huggingface.fixing import are_close, fix_step
from beamsplit.huggingface.inputs import encode
from beamsplit.huggingface.joining import can_join, join_arguments, join_sequences
from beamsplit.huggingface.prefilling import prefill
from beamsplit.huggingface.processors import Processors
from beamsplit.hypotheses import Hypotheses
from beamsplit.messages import Conversation
from beamsplit.model import FixedStep, Guided, Room, plain
from beamsplit.options import OptionArguments
from beamsplit.search.plan import Strategy

__all__ = ["Prompt", "TransformersModel", "from_transformers", "word_vectors"]

_UNBOUNDED = 1 << 20  # more tokens than anyone asks for: `decode` has a limit of its own


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user's inputs, as `generate` passes them on to a decoding loop."""

    input_ids: Tensor  # [batch time] a prompt, or the first tokens of an encoder-decoder's output
    kwargs: dict[str, Any]  # for the model's first call
    processors: Processors
    config: Any
    repeated: int = 1  # rows for each input, next to each other
    model: Any = None  # the model to call, if it is not the one that was given

    def deduplicated(self) -> Prompt:
        """Return the prompt with one row for each input, if that is possible before the model is called."""
        rows = self.rows
        if self.repeated == 1 or not has_rows(self.kwargs, len(self.input_ids)):
            return self
        kwargs = select_rows(self.kwargs, rows, len(self.input_ids), same_inputs=False)
        return replace(self, input_ids=self.input_ids[rows], kwargs=kwargs, repeated=1)

    @property
    def rows(self) -> Tensor:
        """The first row of each input."""
        return torch.arange(0, len(self.input_ids), self.repeated, device=self.input_ids.device)


@dataclass(frozen=True, slots=True)
class _State:
    model: Any
    kwargs: dict[str, Any]  # for the model's next call
    sequences: Tensor  # [rows time] prompt and output
    owner: Tensor  # [rows] the input that the row belongs to
    sharing: Tensor  # [rows] the same for rows that share a prompt, and so mask and positions
    processors: Processors


Observer = Callable[[Tensor, Tensor | Guided], None]


class TransformersModel:
    """A transformers model as a `StepModel`. `prepare` turns inputs into a `Prompt`."""

    def __init__(
        self,
        model: Any,
        prepare: Callable[[Any], Prompt],
        *,
        end: Sequence[int] = (),
        to_text: Callable[[tuple[int, ...]], str] | None = None,
        observer: Observer | None = None,
        chats: bool = False,
        beam_cache: bool = True,
    ) -> None:
        self.end = list(end)
        self.to_text = to_text
        self.module = model
        self.chats = chats
        """Whether inputs may be messages: the tokenizer has a chat template."""
        self.kind = "other" if model.config.is_encoder_decoder else "text"
        """What it does, by which commands choose their defaults: go on with a text, or something else."""
        self.origin: str | None = None  # a hash of what outputs depend on besides the weights, if known
        self._prepare = prepare
        self._observer = observer
        self._beam_cache = beam_cache
        self.join = self._join if can_join(model) else None
        """Puts states together, if the model can take rows of different lengths at once."""

    @property
    def word_vectors(self) -> Tensor:
        """[vocabulary dimensions] the vectors of the tokens that it can output, for the `Embedding` term."""
        return word_vectors(self.module)

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
        `options` are those of `decode`. Of another `strategy`, all that it finds is returned. For many
        questions at once, call `decode` with messages.
        """
        return answer_chat(self, messages, answers=answers, system=system, strategy=strategy, **options)

    @torch.no_grad()
    def start(self, inputs: Any) -> tuple[Tensor | Guided, _State]:
        prompt = self._prepare(inputs).deduplicated()
        model = self.module if prompt.model is None else prompt.model
        kwargs = dict(prompt.kwargs)
        outputs = prefill(model, prompt.input_ids, prompt.config, kwargs)
        kwargs = self._next_kwargs(model, outputs, kwargs)
        check_cache(model, kwargs)
        logits = outputs.logits[:, -1]  # may be on another device than the prompts
        owner = torch.arange(len(prompt.input_ids), device=logits.device)
        state = _State(model, kwargs, prompt.input_ids.to(logits.device), owner, owner, prompt.processors)
        if prompt.repeated > 1:
            rows = prompt.rows.to(logits.device)
            state, logits = self.select(state, rows), logits[rows]
            state = replace(state, owner=owner[: len(rows)], sharing=owner[: len(rows)])
        if is_wanted(self._beam_cache):
            state = replace(state, kwargs=carry(model, state.kwargs))
        return self._processed(logits, state), state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: _State) -> tuple[Tensor | Guided, _State]:
        sequences = torch.cat([state.sequences, tokens.unsqueeze(1)], dim=1)
        with _explained_positions(state.model, sequences.shape[1]):
            outputs, kwargs = _call(state.model, sequences, state.kwargs)
        kwargs = self._next_kwargs(state.model, outputs, dict(kwargs))
        state = replace(state, kwargs=kwargs, sequences=sequences)
        return self._processed(outputs.logits[:, -1], state), state

    def select(self, state: _State, rows: Tensor) -> _State:
        sharing = state.sharing[rows]
        kwargs = select_rows(state.kwargs, rows, len(state.sharing), same_rows(sharing, state.sharing))
        return replace(
            state,
            kwargs=kwargs,
            sequences=state.sequences[rows],
            owner=state.owner[rows],
            sharing=sharing,
        )

    def _join(self, states: Sequence[_State]) -> _State:
        """Return one state with the rows of all of these, which may have come to different lengths.

        Each row is then stored once for all rows that go on from it, as a prompt is.
        """
        # This copies keys, also where states share a pool, so the model has no `keeps_earlier_steps`. To join
        # them by number alone, a cache for beams would need a length and a window for each row (it has one of
        # each), and a pool that outlives a new search from the root, which empties it (`BeamCache.stepping`).
        rows = [len(state.owner) for state in states]
        kwargs = join_arguments([state.kwargs for state in states], rows)
        if is_wanted(self._beam_cache):
            kwargs = carry(states[0].model, kwargs)
        return replace(
            states[0],
            kwargs=kwargs,
            sequences=join_sequences([state.sequences for state in states]),
            owner=torch.cat([state.owner for state in states]),
            sharing=torch.arange(sum(rows), device=states[0].owner.device),
        )

    def fix(self, state: _State, batch: int, room: Room) -> FixedStep | None:
        """Return a step of a fixed number of rows, if nothing has to be seen of what the model answers."""
        if state.processors or self._observer is not None or not is_wanted(self._beam_cache):
            return None
        kwargs = plain_arguments(state.kwargs)
        return fix_step(
            state.model,
            kwargs,
            state.sequences,
            batch,
            room,
            lambda step: self._is_done_by(step, state, batch),
        )

    def _is_done_by(self, step: FixedStep, state: _State, batch: int) -> bool:
        """Tell whether two steps of a fixed number of rows give what two steps of the model give.

        In the second, each row goes on from another row of its input. Two rows are compared.
        """
        rows = len(step.tokens)
        beams = rows // batch
        row = torch.arange(rows, device=step.tokens.device)
        turned = row // beams * beams + beams - 1 - row % beams
        known = state.sequences.to(row.device)
        tokens = [known[row // beams, -1 - (row + shift) % known.shape[1]] for shift in (0, 1)]
        found = []
        for time in range(2):
            step.time.fill_(time)
            step.tokens.copy_(tokens[time])
            step.parents.copy_(turned if time else rows * step.table.shape[1] + row // beams)
            step.table[:, 0].copy_(turned if time else row)
            found.append(step.run().float().log_softmax(-1))
        two = row[[0, -1]]
        state = self.select(state, two // beams)
        for time, these in ((0, turned[two]), (1, two)):
            logits, state = self.step(tokens[time][these], state)
            if not are_close(found[time][these], plain(logits)):
                return False
        return True

    def _next_kwargs(self, model: Any, outputs: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        updated: dict[str, Any] = model._update_model_kwargs_for_generation(
            outputs, kwargs, is_encoder_decoder=model.config.is_encoder_decoder
        )
        return updated

    def _processed(self, plain: Tensor, state: _State) -> Tensor | Guided:
        logits: Tensor | Guided = plain
        if state.processors:
            logits = state.processors.guide(plain.float(), state.sequences, state.owner)
        if self._observer is not None:
            self._observer(plain, logits)
        return logits


@contextmanager
def _explained_positions(model: Any, length: int) -> Iterator[None]:
    """Say so if the model fails because it has no embedding for a position: others know no such limit."""
    try:
        yield
    except IndexError as error:
        limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if limit is None or length <= limit:
            raise
        raise ModelError(
            f"{type(model).__name__} has {limit} positions, and prompt and output have {length} tokens: "
            "give a smaller max_length or shorter prompts"
        ) from error


def word_vectors(model: Any) -> Tensor:
    """Return the input embeddings of the tokens that a model can output: a row for each of its logits.

    A token without an embedding gets zeros.
    """
    # An encoder may have a vocabulary of its own, but outputs are in the decoder's.
    decoder = model.get_decoder() if model.config.is_encoder_decoder else model
    embeddings = getattr(decoder, "get_input_embeddings", model.get_input_embeddings)()
    head = model.get_output_embeddings()
    rows = model.config.get_text_config().vocab_size if head is None else head.weight.shape[0]
    vectors: Tensor = embeddings.weight.detach()[:rows]
    return torch.nn.functional.pad(vectors, (0, 0, 0, rows - len(vectors)))


def _call(model: Any, sequences: Tensor, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Call the model on the last token of each row. Returns its outputs, and the arguments of the call."""

    def call(kwargs: dict[str, Any]) -> Any:
        return model(**next_inputs(model, sequences, kwargs), return_dict=True)

    if has_beam_cache(kwargs):
        try:
            return call_with_beams(model, kwargs, call)
        except NotCarriedError as reason:
            kwargs = give_up(model, kwargs, reason)
    return call(kwargs), kwargs


def from_transformers(
    model: Any,
    processor: Any = None,
    *,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    beam_cache: bool = True,
    **generation: Any,
) -> TransformersModel:
    """Make a model for `decode` and `steps` from a transformers model and its tokenizer or processor.

    Inputs may be texts (one or a list), messages for a chat model (`[{"role": "user", "content": "..."}]`,
    or a list of such lists), pictures, sound (arrays at the processor's sampling rate), a dictionary of the
    processor's arguments (`{"text": [...], "images": [...]}`), or what the processor returned.

    Messages are written by the tokenizer's chat template, and the token by which it ends a turn is an end
    beside those of the model. `chat_template_kwargs` are arguments of the template's own, such as
    `{"enable_thinking": False}`.

    `generation` are settings of `generate` that change the probabilities of the next token, such as
    repetition_penalty=1.2. Otherwise those of the model's generation config apply, except
    forced_eos_token_id, which only `generate` can apply. The search and its limits are given to `decode`.

    The keys and values of a prompt are stored once for all its beams. `beam_cache=False` gives each beam a
    cache of its own, as `generate` does: the results are the same.
    """
    _check(model, processor, generation)
    beam_cache = checks.true_or_false("beam_cache", beam_cache)
    template = check_template_arguments(chat_template_kwargs)
    positions = getattr(model.config, "max_target_positions", None)  # Whisper refuses to go beyond these
    generation = {"max_new_tokens": max(positions // 2, 1) if positions else _UNBOUNDED, **generation}
    one_row = {"num_beams": 1, "num_return_sequences": 1, "do_sample": False}

    def prepare(inputs: Any) -> Prompt:
        encoded = encode(model, processor, inputs, template)
        try:
            model.generate(**encoded, **generation, **one_row, custom_generate=_hand_over)
        except _HandOver as handed:
            return handed.prompt
        raise ArgumentError(
            f"{type(model).__name__}.generate calls no decoding loop, so it cannot be decoded"
        )

    detokenise = getattr(processor, "decode", None)
    return TransformersModel(
        model,
        prepare,
        end=_own_ends(model, processor, generation, template),
        to_text=detokenise and (lambda tokens: detokenise(list(tokens), skip_special_tokens=True)),
        chats=has_template(processor),
        beam_cache=beam_cache,
    )


_FOR_DECODE = (
    "num_beams num_beam_groups diversity_penalty num_return_sequences do_sample temperature top_k top_p "
    "min_p length_penalty early_stopping max_length max_new_tokens stopping_criteria stop_strings streamer "
    "cache_implementation use_cache custom_generate"
).split()


def _check(model: Any, processor: Any, generation: dict[str, Any]) -> None:
    is_class = isinstance(model, type)
    if is_class or not callable(getattr(model, "generate", None)):
        got = f"the class {model.__name__}" if is_class else repr(type(model).__name__)
        raise ArgumentError(
            f"model must be one of transformers that can generate, not {got}: "
            "load it with AutoModelForCausalLM.from_pretrained, AutoModelForSeq2SeqLM.from_pretrained, ..."
        )
    if processor is not None and not callable(processor):
        raise ArgumentError(
            f"processor must be a tokenizer or processor, not {checks.short_repr(processor)}: "
            "load it with AutoTokenizer.from_pretrained or AutoProcessor.from_pretrained"
        )
    for name in generation:
        if name in _FOR_DECODE:
            raise ArgumentError(
                f"{name} is not for from_transformers: the search and its limits are given to decode, as a "
                "strategy, max_length, stop and so on"
            )


def _own_ends(model: Any, processor: Any, generation: dict[str, Any], template: dict[str, Any]) -> list[int]:
    """Return the end tokens of the settings or of their generation config.

    Without those, return the model's, and the one by which the chat template ends a turn.
    """
    config = generation.get("generation_config")
    for ids in (generation.get("eos_token_id"), getattr(config, "eos_token_id", None)):
        if ids is not None:
            return real_ends(model, ids)
    ends = real_ends(model, model.generation_config.eos_token_id)
    turn = end_of_turn(processor, template)
    return ends if turn is None or turn in ends else [*ends, *real_ends(model, turn)]


def real_ends(model: Any, ids: Any) -> list[int]:
    """Return those of the ids that are tokens: some configs have -1 for no end token."""
    ids = checks.materialise(ids)
    named = ids if isinstance(ids, list) else [] if ids is None else [ids]
    vocabulary = getattr(model.config.get_text_config(), "vocab_size", None)
    return [end for end in named if end >= 0 and (vocabulary is None or end < vocabulary)]


class _HandOver(Exception):  # noqa: N818  # not an error
    """Carries a prompt out of `generate`, which ends without the rest of its work."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__("not an error")
        self.prompt = prompt


def _hand_over(
    model: Any, input_ids: Tensor, *, logits_processor: Any, generation_config: Any, **kwargs: Any
) -> None:
    """Take the place of a decoding loop. The model may be a part of the one whose `generate` was called."""
    kwargs.pop("stopping_criteria", None)
    raise _HandOver(Prompt(input_ids, kwargs, Processors(logits_processor), generation_config, model=model))
