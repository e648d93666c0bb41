"""What engines are asked in, and how their answers are read: one class for each way of speaking.

    Completions   POST /v1/completions with token ids: vLLM, and whatever speaks like it
    Texts         POST /v1/completions with texts, for servers that know nothing else
    Generate      POST /generate: SGLang
    LlamaCpp      POST /completion: the server of llama.cpp

Each asks for one token of each prefix, with the log-probabilities of the likeliest. All but Texts can also
ask for chunks that the engine draws. A dialect does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from beamsplit.engines.candidates import Candidates, Order, Prefix
from beamsplit.engines.drawing import (
    Told,
    align,
    sampling_of,
    sampling_of_llama_cpp,
    sampling_of_sglang,
    seeds_of,
)
from beamsplit.engines.vocabularies import TextVocabulary
from beamsplit.errors import EngineError
from beamsplit.model import Drawing

__all__ = [
    "Completions",
    "Dialect",
    "DrawingDialect",
    "Generate",
    "LlamaCpp",
    "ScoringDialect",
    "Texts",
]

_BY_ID = "token_id:"


class Dialect(Protocol):
    """How one kind of engine is asked, and answers."""

    path: str
    rows_per_request: int
    """How many prefixes go into one request at most."""
    tells_rest: bool
    """Whether a list bounds what is not in it."""

    def body(self, prefixes: Sequence[Prefix], count: int) -> dict[str, Any]:
        """Return the request for the next tokens of prefixes."""
        ...

    def read(self, answer: Any, rows: int, count: int) -> list[Candidates]:
        """Return the lists of an answer to a request for so many prefixes. Raise if some are missing."""
        ...

    def limit(self, said: str, count: int) -> int | None:
        """Return how many candidates the engine lists at most, by what it said when it refused `count`.

        None: it did not refuse for that.
        """
        ...


@runtime_checkable
class DrawingDialect(Dialect, Protocol):
    """One in which an engine can be asked for chunks of text that it draws by itself."""

    draws: bool
    """Whether this engine is to be asked."""

    def draw_bodies(self, order: Order, drawing: Drawing) -> list[dict[str, Any]]:
        """Return the requests for the chunks of an order."""
        ...

    def read_drawn(self, answers: Sequence[Any], order: Order, drawing: Drawing) -> list[Told]:
        """Return the chunks of the answers. Raise if some are missing."""
        ...


@runtime_checkable
class ScoringDialect(DrawingDialect, Protocol):
    """One in which an engine tells the log-probabilities of given tokens."""

    def score_body(self, prefix: Prefix, chunks: Sequence[Prefix]) -> dict[str, Any]:
        """Return the request for the log-probabilities of the tokens of chunks that follow a prefix."""
        ...

    def read_scores(self, answer: Any, chunks: Sequence[Prefix]) -> list[list[Any]]:
        """Return a log-probability for each token of each chunk. Raise if some are missing."""
        ...


class Completions:
    """The completions of OpenAI's interface, as vLLM extends them: token ids in, token ids out."""

    path = "/v1/completions"
    rows_per_request = 256
    tells_rest = True
    draws = True

    def __init__(self, model: str) -> None:
        self._model = model

    def body(self, prefixes: Sequence[Prefix], count: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": [list(prefix) for prefix in prefixes],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": count,
            "return_tokens_as_token_ids": True,  # "token_id:5", since texts of tokens may be alike
        }

    def read(self, answer: Any, rows: int, count: int) -> list[Candidates]:
        return [Candidates.of(_by_id(listed), count) for listed in _top_of_choices(answer, rows)]

    def limit(self, said: str, count: int) -> int | None:
        return _limit_of_logprobs(said, count)

    def draw_bodies(self, order: Order, drawing: Drawing) -> list[dict[str, Any]]:
        return [
            {
                "model": self._model,
                "prompt": list(order.prefix),
                **sampling_of(order, drawing, most_stops=4),  # OpenAI's limit, which vLLM's server keeps
                "logprobs": 1,
                "return_tokens_as_token_ids": True,
            }
        ]

    def read_drawn(self, answers: Sequence[Any], order: Order, drawing: Drawing) -> list[Told]:
        choices = _field(answers[0], "choices")
        _check_chunks(choices, order.count)
        ordered = sorted(choices, key=lambda choice: choice.get("index", 0))
        return [_drawn(_field(choice, "logprobs")) for choice in ordered]


class Texts:
    """The same interface of a server that knows texts alone.

    A token that reads as another takes its place in a list, and a text may be split into other tokens than it
    was made of: so its lists bound nothing, and no output is certified.
    """

    path = "/v1/completions"
    tells_rest = False

    rows_per_request = 1

    def __init__(self, model: str, vocabulary: TextVocabulary, ends: Sequence[int] = ()) -> None:
        """`ends` are ids of end tokens: a server may tell nothing where it draws one, and is kept from it."""
        self._model = model
        self._vocabulary = vocabulary
        self._ends = ends

    def body(self, prefixes: Sequence[Prefix], count: int) -> dict[str, Any]:
        bias = {str(end): -100 for end in self._ends}
        return {
            "model": self._model,
            "prompt": self._vocabulary.spell(prefixes[0]),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": count,
            **({"logit_bias": bias} if bias else {}),
        }

    def read(self, answer: Any, rows: int, count: int) -> list[Candidates]:
        if any(_tells_nothing(choice) for choice in _field(answer, "choices")):
            raise EngineError(
                "the engine tells no candidates where it would end: give end= the id of its end token, too, "
                "so that it is kept from ending"
            )
        tops = _top_of_choices(answer, rows)
        if any(not any(listed) and count > 1 for listed in tops):
            raise EngineError(
                "all candidates read as nothing: they are parts of letters, which texts cannot tell"
            )
        number = self._vocabulary.number
        return [
            Candidates.of([(number(text), value) for text, value in listed.items()], count, complete=False)
            for listed in tops
        ]

    def limit(self, said: str, count: int) -> int | None:
        return _limit_of_logprobs(said, count)


class Generate:
    """The native interface of SGLang."""

    path = "/generate"
    rows_per_request = 256
    tells_rest = True

    def __init__(self, *, draws: bool = False) -> None:
        """`draws` says that the server heeds the seeds of requests."""
        self.draws = draws

    def body(self, prefixes: Sequence[Prefix], count: int) -> dict[str, Any]:
        return {
            "input_ids": [list(prefix) for prefix in prefixes],
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "top_logprobs_num": count,
        }

    def read(self, answer: Any, rows: int, count: int) -> list[Candidates]:
        answers = [answer] if isinstance(answer, Mapping) else answer
        _check_rows(answers, rows)
        found = []
        for each in answers:
            info = _field(each, "meta_info")
            listed = _first(info, "output_top_logprobs")
            found.append(Candidates.of([(int(entry[1]), entry[0]) for entry in listed], count))
        return found

    def draw_bodies(self, order: Order, drawing: Drawing) -> list[dict[str, Any]]:
        """Ask for each chunk as for a prompt of its own: several of one prompt would have one seed."""
        seeds = seeds_of(order)
        return [
            {
                "input_ids": [list(order.prefix)] * len(seeds),
                "sampling_params": [sampling_of_sglang(order, drawing, seed) for seed in seeds],
                "return_logprob": True,
            }
        ]

    def read_drawn(self, answers: Sequence[Any], order: Order, drawing: Drawing) -> list[Told]:
        (answer,) = answers
        chunks = [answer] if isinstance(answer, Mapping) else answer
        _check_chunks(chunks, order.count)
        told = [_field(_field(chunk, "meta_info"), "output_token_logprobs") for chunk in chunks]
        # What it tells of a token that it draws is after temperature.
        is_models_own = drawing.temperature == 1
        return [
            Told(
                tuple(int(entry[1]) for entry in entries),
                tuple(entry[0] if is_models_own else None for entry in entries),
            )
            for entries in told
        ]

    def score_body(self, prefix: Prefix, chunks: Sequence[Prefix]) -> dict[str, Any]:
        return {
            "input_ids": [[*prefix, *chunk] for chunk in chunks],
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": [len(prefix) - 1] * len(chunks),
        }

    def read_scores(self, answer: Any, chunks: Sequence[Prefix]) -> list[list[Any]]:
        answers = [answer] if isinstance(answer, Mapping) else answer
        _check_rows(answers, len(chunks))
        found = []
        for each, chunk in zip(answers, chunks, strict=True):
            entries = _field(_field(each, "meta_info"), "input_token_logprobs")[-len(chunk) :]
            if tuple(int(entry[1]) for entry in entries) != tuple(chunk):
                raise EngineError("the engine told log-probabilities of other tokens than it was given")
            found.append([entry[0] for entry in entries])
        return found

    def limit(self, said: str, count: int) -> int | None:
        return _limit_of_logprobs(said, count)


class LlamaCpp:
    """The native interface of llama.cpp's server."""

    path = "/completion"
    rows_per_request = 64
    tells_rest = True
    draws = True

    def __init__(self, letter: int | None = None) -> None:
        """`letter` is a token that is a whole letter.

        The server keeps log-probabilities to itself where the token that it draws is part of a letter, as
        many are of scripts beyond Latin. So it is made to draw this one, which changes nothing else.
        """
        self._letter = letter

    def body(self, prefixes: Sequence[Prefix], count: int) -> dict[str, Any]:
        return {
            "prompt": [list(prefix) for prefix in prefixes],
            "n_predict": 1,
            "temperature": 0,
            "n_probs": count,
            "post_sampling_probs": False,  # the model's own distribution
            "cache_prompt": True,
            "response_fields": ["index", "completion_probabilities"],
            **({} if self._letter is None else {"logit_bias": [[self._letter, 1e6]]}),
        }

    def read(self, answer: Any, rows: int, count: int) -> list[Candidates]:
        answers = [answer] if isinstance(answer, Mapping) else answer
        _check_rows(answers, rows)
        if all("index" in each for each in answers):
            answers = sorted(answers, key=lambda each: each["index"])
        listed = [_field(_first(each, "completion_probabilities"), "top_logprobs") for each in answers]
        return [
            Candidates.of([(entry["id"], entry["logprob"]) for entry in entries], count) for entries in listed
        ]

    def draw_bodies(self, order: Order, drawing: Drawing) -> list[dict[str, Any]]:
        """Ask for each chunk by itself: several in one request need as many free slots of the server."""
        return [
            {
                "prompt": list(order.prefix),
                **sampling_of_llama_cpp(order, drawing, seed),
                "n_probs": 1,
                "post_sampling_probs": False,
                "return_tokens": True,
                "cache_prompt": True,
                "response_fields": ["tokens", "completion_probabilities"],
            }
            for seed in seeds_of(order)
        ]

    def read_drawn(self, answers: Sequence[Any], order: Order, drawing: Drawing) -> list[Told]:
        """Read chunks, in which the server leaves out some log-probabilities.

        Those are of tokens that are part of a letter, of as many as the mark has that it has stopped at, and
        of tokens that another model has guessed, which come without any other candidate.
        """
        chunks = [each[0] if isinstance(each, list) and len(each) == 1 else each for each in answers]
        found = []
        for chunk in chunks:
            tokens = tuple(int(token) for token in _field(chunk, "tokens"))
            entries = chunk.get("completion_probabilities") or ()
            told = [(entry["id"], entry["logprob"] if entry["top_logprobs"] else None) for entry in entries]
            found.append(Told(tokens, align(tokens, told)))
        return found

    def limit(self, said: str, count: int) -> int | None:
        return None


# Reading answers


def _top_of_choices(answer: Any, rows: int) -> list[Mapping[str, float]]:
    """Return what each choice lists for its one token, in the order of the prefixes."""
    choices = _field(answer, "choices")
    _check_rows(choices, rows)
    ordered = sorted(choices, key=lambda choice: choice.get("index", 0))
    if rows > 1 and [choice.get("index") for choice in ordered] != list(range(rows)):
        raise EngineError("the engine's choices do not say which prompt they belong to, each of them once")
    found = []
    for choice in ordered:
        listed = _first(_field(choice, "logprobs"), "top_logprobs")
        if not isinstance(listed, Mapping):
            raise EngineError(
                f"the engine listed {type(listed).__name__} where candidates belong: it may not know logprobs"
            )
        found.append(listed)
    return found


def _tells_nothing(choice: Any) -> bool:
    """Tell whether a server has stopped before it told anything."""
    if not isinstance(choice, Mapping) or choice.get("finish_reason") != "stop":
        return False
    listed = choice.get("logprobs")
    return isinstance(listed, Mapping) and not listed.get("top_logprobs")


def _by_id(listed: Mapping[str, float]) -> dict[int, float]:
    return {_id_of(name): value for name, value in listed.items()}


def _id_of(name: str) -> int:
    number = name.removeprefix(_BY_ID)
    if number == name or not number.isdecimal():
        raise EngineError(
            f"the engine named a token {name!r} and not by its id: it does not know "
            "return_tokens_as_token_ids, as vLLM does (with kind='texts' it can still be asked, and "
            "no output is certified)"
        )
    return int(number)


def _drawn(told: Any) -> Told:
    """Return a chunk by what is told of its tokens."""
    tokens, values = _field(told, "tokens"), _field(told, "token_logprobs")
    if len(tokens) != len(values):
        raise EngineError(f"the engine drew {len(tokens)} tokens and told {len(values)} log-probabilities")
    return Told(tuple(_id_of(name) for name in tokens), tuple(map(_not_left_out, values)))


def _not_left_out(value: Any) -> Any:
    """Return a log-probability. Raise where one is missing that this engine tells of every token."""
    if value is None:
        raise EngineError("the engine drew a token with the log-probability None, which is none")
    return value


def _check_chunks(chunks: Any, count: int) -> None:
    if not isinstance(chunks, Sequence) or len(chunks) != count:
        got = len(chunks) if isinstance(chunks, Sequence) else type(chunks).__name__
        raise EngineError(f"the engine drew {got} chunks when it was asked for {count}")


def _check_rows(answers: Any, rows: int) -> None:
    if not isinstance(answers, Sequence) or len(answers) != rows:
        got = len(answers) if isinstance(answers, Sequence) else type(answers).__name__
        raise EngineError(f"the engine answered for {got} prompts when it was asked about {rows}")


def _field(table: Any, name: str) -> Any:
    if not isinstance(table, Mapping) or table.get(name) is None:
        raise EngineError(
            f"the engine's answer has no {name!r}: it may not know log-probabilities, or not give them away"
        )
    return table[name]


def _first(table: Any, name: str) -> Any:
    """Return the only entry of a list, for the only token that was asked for."""
    values = _field(table, name)
    if not isinstance(values, Sequence) or not values or values[0] is None:
        raise EngineError(f"the engine's {name!r} is empty, though it was asked for one token")
    return values[0]


def _limit_of_logprobs(said: str, count: int) -> int | None:
    """Return the limit that is named in a refusal such as "... logprobs of 41, ... max allowed: 20".

    >>> _limit_of_logprobs("Requested sample logprobs of 41, which is greater than max allowed: 20", 41)
    20
    >>> _limit_of_logprobs("This model's maximum context length is 256 tokens", 41)
    """
    if "logprobs" not in said:
        return None
    numbers = [int(number) for number in re.findall(r"\d+", said)]
    smaller = [number for number in numbers if 0 < number < count]
    return max(smaller) if smaller else None
