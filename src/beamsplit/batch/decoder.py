"""Decode batches of columns, for any engine that maps batches: Ray Data, Spark, or a loop of your own."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses
from beamsplit.jobs.batches import by_length, chunks, map_or_errors, try_in_batches
from beamsplit.jobs.fitting import halve_until_it_fits
from beamsplit.jobs.footprint import Footprint, footprint_of, parse_memory
from beamsplit.jobs.searching import batch_size_of, kind_of_inputs, rows_of, without_name
from beamsplit.loading import load_model
from beamsplit.messages import as_conversation
from beamsplit.model import StepModel
from beamsplit.options import DecodeOptions, OptionArguments
from beamsplit.search.plan import Strategy
from beamsplit.strategies.defaults import BATCH_SIZE, DEFAULTS, Defaults, defaults_of
from beamsplit.strategies.spec import StrategySpec

__all__ = ["COLUMNS", "SPARK_COLUMNS", "Decoder"]

COLUMNS = ("texts", "log_probs", "groups", "tokens", "error")
"""The columns that are added: lists with an entry for each output, and why there is none."""

SPARK_COLUMNS = (
    "texts array<string>, log_probs array<double>, groups array<int>, tokens array<array<int>>, error string"
)
"""The same as Spark has them in a schema."""

_INPUTS = ("input", "text", "image", "messages")


class Decoder:
    """Maps a batch of columns to the same columns and lists of outputs.

    A batch is a dictionary of arrays, a DataFrame of pandas or a table of Arrow, and what comes out is of the
    same kind. It has these columns more, with a list for each row:

    texts        the outputs, in the order of the list
    log_probs    their log-probabilities
    groups       the group that found each of them
    tokens       their token ids
    error        why there are none, if the model refuses the row's input; otherwise None

    A decoder has names and numbers in it, and no weights. So it is small when it is sent to workers. The
    model is loaded when the first batch comes, once in each process.

    >>> decoder = Decoder("en-fr", max_length=10)
    >>> decoder({"text": ["I'm cold."]})["texts"][0][0]
    "J'ai froid."

    Args:
        model: a name as for the commands: one of ours, a folder or a name of transformers, `FILE.py:NAME` or
            `package.module:NAME`; or a function without arguments that returns a model. By default en-fr.
        strategy: a strategy, its short name, or a table such as `{"strategy": "dbs", "groups": 3, ...}`. By
            default, what the commands do with such a model.
        column: the column of the inputs: texts, lists of tokens, paths of pictures, or messages. By default,
            the first of input, text, image and messages that there is.
        number_column: a column of whole numbers, which count together with the seed for strategies that
            sample. By default the number is made of the input, so that equal inputs have equal samples.
        chat: whether inputs are questions to a chat model, or messages for it.
        system: a system message before each of them.
        chat_template_kwargs: arguments of the model's chat template.
        device: such as "cuda".
        engine: the address of a serving engine that has the model, such as "http://localhost:8000".
        engine_options: what else `beamsplit.engines.connect` is to know.
        batch_size: how many inputs are decoded at once; texts of like length go together. A batch that does
            not fit into memory is halved.
        memory: what a batch may take beyond the weights, such as "40GB": long inputs then have smaller ones.
        options: those of `decode`, such as max_length and seed.
    """

    def __init__(
        self,
        model: str | Callable[[], StepModel] | None = None,
        strategy: Strategy | str | Mapping[str, Any] | None = None,
        *,
        column: str | None = None,
        number_column: str | None = None,
        chat: bool = False,
        system: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        device: str | None = None,
        engine: str | None = None,
        engine_options: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        memory: str | int | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        """Check what can be checked without the model."""
        if "numbers" in options:
            raise ArgumentError("numbers are those of a column here: give its name as number_column")
        if batch_size is not None:
            checks.at_least("batch_size", batch_size, 1)
        if isinstance(strategy, Mapping):
            StrategySpec.of_table(strategy)
        DecodeOptions.of({"max_length": 1 << 20, **options})
        self._column = column
        self._number_column = number_column
        self._settings = _Settings(
            model=model if model is not None or engine is not None else "en-fr",
            strategy=strategy,
            chat=checks.true_or_false("chat", chat),
            system=system,
            template=None if chat_template_kwargs is None else dict(chat_template_kwargs),
            device=device,
            engine=engine,
            engine_options=dict(engine_options or {}),
            batch_size=batch_size,
            memory=parse_memory(memory) if isinstance(memory, str) else memory,
            options={**options},
        )

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the columns of lists."""
        names = _column_names(batch)
        if taken := [name for name in COLUMNS if name in names]:
            raise ArgumentError(
                f"the batch has a column {taken[0]!r}, which is one that the decoder adds: rename it"
            )
        values = _values(batch, self._input_column(names))
        found = _loaded(self._settings).decode(values, self._numbers(batch, values))
        return _with_columns(batch, {name: [getattr(row, name) for row in found] for name in COLUMNS})

    def frames(self, frames: Iterable[Any]) -> Iterator[Any]:
        """Map the batches of an iterator, as `mapInPandas` of Spark gives them."""
        return map(self, frames)

    def _numbers(self, batch: Any, values: Sequence[Any]) -> list[int]:
        if self._number_column is None:
            return [_number_of(value) for value in values]
        return [int(number) for number in _values(batch, self._number_column)]

    def _input_column(self, names: Sequence[str]) -> str:
        if self._column is not None and self._column not in names:
            hint = checks.nearest(self._column, names, f"there are {', '.join(names)}")
            raise ArgumentError(f"the batch has no column {self._column!r}: {hint}")
        found = self._column or next((name for name in _INPUTS if name in names), None)
        if found is None:
            raise ArgumentError(
                f"the batch has none of the columns {', '.join(_INPUTS)}, but {', '.join(names)}: name "
                "one as column"
            )
        return found


@dataclass(frozen=True)
class _Settings:
    """All that a decoder is told, but its columns."""

    model: str | Callable[[], StepModel] | None
    strategy: Strategy | str | Mapping[str, Any] | None
    chat: bool
    system: str | None
    template: dict[str, Any] | None
    device: str | None
    engine: str | None
    engine_options: dict[str, Any]
    batch_size: int | None
    memory: int | None
    options: dict[str, Any]

    def load(self) -> StepModel:
        """Load the model, or connect to the engine that has it."""
        if self.engine is not None:
            from beamsplit.engines import connect

            if self.model is not None and not isinstance(self.model, str):
                raise ArgumentError("model is a function, and the engine has the model: give its name there")
            return connect(self.engine, self.model, chat_template_kwargs=self.template, **self.engine_options)
        if isinstance(self.model, str):
            return load_model(self.model, self.device, self.template)
        assert self.model is not None
        return self.model()

    def search(self, model: StepModel, defaults: Defaults) -> tuple[StepModel, Strategy, dict[str, Any]]:
        """Return the model that is decoded, the strategy, and the options of `decode`."""
        given = self.strategy
        options: dict[str, Any] = {"max_length": defaults.max_length, **self.options}
        if given is None:
            own = defaults.decode_options()
            spec = StrategySpec.of_widths(
                defaults.strategy, defaults.widths, return_per_group=own.pop("return_per_group")
            )
            options = {**own, **spec.decode_options, **options}
            options["min_length"] = min(options["min_length"], options["max_length"])
        elif isinstance(given, str):
            spec = StrategySpec.of_widths(given, defaults.widths)
        elif isinstance(given, Mapping):
            spec = StrategySpec.of_table(given)
            options = {**spec.decode_options, **options}
        else:
            return model, given, options
        return spec.guide(model), spec.make(model), options


@dataclass(frozen=True)
class _Row:
    """What is found for an input."""

    texts: list[str | None]
    log_probs: list[float]
    groups: list[int]
    tokens: list[list[int]]
    error: str | None = None

    @classmethod
    def of(cls, found: Hypotheses | ArgumentError) -> _Row:
        if isinstance(found, ArgumentError):
            return cls([], [], [], [], str(found))
        return cls(
            [each.text for each in found],
            [float(each.log_prob) for each in found],
            [int(each.group) for each in found],
            [list(map(int, each.tokens)) for each in found],
        )


class _Loaded:
    """A model that is there, and how it is decoded."""

    def __init__(self, settings: _Settings) -> None:
        model = settings.load()
        if settings.chat and not getattr(model, "chats", False):
            raise ArgumentError(
                f"chat needs a model with a chat template, and {settings.model} has none: leave chat out"
            )
        defaults = DEFAULTS["chat"] if settings.chat else defaults_of(model)
        self._settings = settings
        self._model, self._strategy, self._options = settings.search(model, defaults)
        self._own = model
        self._seed = self._options.pop("seed", 0)
        rows, length = rows_of(self._strategy), int(self._options["max_length"])
        self._batch_size = settings.batch_size or batch_size_of(model, rows, length, BATCH_SIZE)
        self._footprint: Footprint | None = None
        if settings.memory is not None:
            self._footprint = footprint_of(model, rows, length, settings.memory)
        self._takes = kind_of_inputs(model)

    def decode(self, values: Sequence[Any], numbers: Sequence[int]) -> list[_Row]:
        """Return a row for each input."""
        found: list[_Row] = [_Row([], [], [], [])] * len(values)
        given = list(map(self._given, values))
        usable = [place for place, each in enumerate(given) if not isinstance(each, ArgumentError | None)]
        for place, each in enumerate(given):
            if isinstance(each, ArgumentError):
                found[place] = _Row.of(each)
        chosen = [given[place] for place in usable]
        for batch in self._cut(chosen):
            items = [(chosen[index], numbers[usable[index]]) for index in batch]
            lists = halve_until_it_fits(self._search, items, _too_large)
            for index, each in zip(batch, lists, strict=True):
                found[usable[index]] = _Row.of(each)
        return found

    def _given(self, value: Any) -> Any:
        """Return what the model takes of a value; None if there is nothing, an error if it cannot be used."""
        value = _plain(value)
        if value is None or (isinstance(value, float) and value != value):  # as pandas has what is missing
            return None
        if self._settings.chat:
            try:
                return as_conversation(value, self._settings.system)
            except ArgumentError as error:
                return error
        if self._takes != "anything" and not isinstance(value, str):
            return ArgumentError(f"is no text: {checks.short_repr(value)}")
        return value

    def _cut(self, values: Sequence[Any]) -> Iterator[list[int]]:
        order = by_length(values)
        if self._footprint is None:
            return chunks(order, self._batch_size)
        return self._footprint.cut(order, values, self._batch_size)

    def _search(self, items: Sequence[tuple[Any, int]]) -> list[Hypotheses | ArgumentError]:
        values = self._prepared([value for value, _ in items])
        usable = [place for place, each in enumerate(values) if not isinstance(each, ArgumentError)]
        inputs: Any = [values[place] for place in usable]
        lists = try_in_batches(
            self._model,
            torch.stack(inputs) if inputs and self._takes == "pictures" else inputs,
            self._strategy,
            batch_size=len(items),
            seed=self._seed,
            numbers=[items[place][1] for place in usable],
            **self._options,
        )
        found = dict(zip(usable, lists, strict=True))
        return [_renamed(found.get(place, each), items[place][0]) for place, each in enumerate(values)]

    def _prepared(self, values: list[Any]) -> list[Any]:
        """Return what the model takes: pictures are looked at, and one that cannot be read is an error."""
        own: Any = self._own
        return map_or_errors(own.features, values) if self._takes == "pictures" else values


def _renamed(found: Any, value: Any) -> Hypotheses | ArgumentError:
    return without_name(found, value) if isinstance(found, ArgumentError) else found


def _too_large(_item: tuple[Any, int], error: BaseException) -> Hypotheses | ArgumentError:
    return ArgumentError(f"does not fit into memory, even alone: {error or type(error).__name__}")


_LOCK = threading.Lock()
_KEPT: dict[bytes, _Loaded] = {}


def _loaded(settings: _Settings) -> _Loaded:
    """Return the model of these settings: the last one is kept in the process, whoever has asked for it.

    Spark sends a decoder anew with each task, and its processes live longer than a task.
    """
    key = _key_of(settings)
    with _LOCK:
        if key not in _KEPT:
            _KEPT.clear()  # first, so that two models are not in memory at once
            _KEPT[key] = _Loaded(settings)
        return _KEPT[key]


def _key_of(settings: _Settings) -> bytes:
    try:
        return pickle.dumps(settings)
    except (pickle.PicklingError, AttributeError, TypeError):  # such as a function within a function
        return repr(id(settings)).encode()


def _number_of(value: Any) -> int:
    """Return a number that another input hardly has, and that is the same on every machine."""
    text = repr(_plain(value)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest())


# Batches of several kinds


def _plain(value: Any) -> Any:
    """Return lists where engines have arrays."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _column_names(batch: Any) -> list[str]:
    if hasattr(batch, "column_names"):  # of Arrow
        return list(batch.column_names)
    if isinstance(batch, Mapping) or hasattr(batch, "columns"):
        return [str(name) for name in batch]
    raise ArgumentError(
        f"a batch is {type(batch).__name__}: give a dictionary of columns, a DataFrame or a table of Arrow"
    )


def _values(batch: Any, column: str) -> list[Any]:
    found = batch[column]
    return list(found.to_pylist() if hasattr(found, "to_pylist") else found)


def _with_columns(batch: Any, columns: Mapping[str, list[Any]]) -> Any:
    if hasattr(batch, "column_names"):
        for name, values in columns.items():
            batch = batch.append_column(name, _arrow_column(name, values))
        return batch
    arrays = {name: _objects(values) for name, values in columns.items()}
    return {**batch, **arrays} if isinstance(batch, Mapping) else batch.assign(**arrays)


def _objects(values: list[Any]) -> Any:
    """Return an array of lists that may have different lengths."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _arrow_column(name: str, values: list[Any]) -> Any:
    import pyarrow

    types = {
        "texts": pyarrow.list_(pyarrow.string()),
        "log_probs": pyarrow.list_(pyarrow.float64()),
        "groups": pyarrow.list_(pyarrow.int32()),
        "tokens": pyarrow.list_(pyarrow.list_(pyarrow.int32())),
        "error": pyarrow.string(),
    }
    return pyarrow.array(values, types[name])
