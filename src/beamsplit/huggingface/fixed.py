"""A step of a transformers model whose rows and tensors stay where they are, so that it can be captured.

Prompts are stored once an input, and the keys and values of generated tokens in a pool with a slot for each
(step, row). The model's own code runs on a cache that keeps nothing: it hands the keys and values of new
tokens to the attention function, which writes them where they belong and reads what the rows see.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, EncoderDecoderCache

from beamsplit.huggingface import compiling
from beamsplit.huggingface.fixed_attention import CROSS, read_by
from beamsplit.huggingface.reading import BeamStore, BeamTable, Bias, OwnTokens, Scoring, read_beams
from beamsplit.search.capturing import Repeated
from beamsplit.search.kernels import power_of_two

__all__ = ["ENCODED", "FixedBeams", "Layer", "Prompts", "Shape", "ShownLayer", "bucket"]

ENCODED = "encoder_outputs"
"""The argument of a step with what an encoder has made of the inputs."""


@dataclass(frozen=True)
class Layer:
    """The keys and values that inputs begin with, in one layer."""

    keys: Tensor  # [inputs heads tokens size]
    values: Tensor
    window: int | None = None  # tokens that a query sees, if not all


@dataclass(frozen=True)
class Prompts:
    """All that a model has read of its inputs before the first step."""

    own: tuple[Layer, ...]
    cross: tuple[Layer, ...]  # of encoded inputs; none of a model that has no encoder
    spans: dict[int | None, Tensor]  # by window: [inputs 2] the first token that is real, and the end
    cross_span: Tensor | None
    length: int  # tokens of a prompt, with padding
    positions: Tensor | None  # [... inputs 1] of the next token, if the model takes positions
    arguments: dict[str, Any]  # of a step, but for what changes from step to step
    token_name: str  # the argument that is a step's tokens
    position_name: str
    takes_places: bool  # whether the model is told `cache_position`, as before transformers 5
    has_bias: bool = False  # whether it adds something to scores that depends on where a key is

    @property
    def plain_arguments(self) -> dict[str, Any]:
        """Arguments that are the same for all inputs."""
        return {name: value for name, value in self.arguments.items() if name != ENCODED}


@dataclass(frozen=True)
class Shape:
    """The sizes by which steps are kept: what is about as large goes by the same graph."""

    inputs: int
    beams: int
    steps: int
    own: tuple[tuple[int, int, int, int | None], ...]  # of each layer: heads, tokens, size, window
    cross: tuple[tuple[int, int, int, int | None], ...]

    @classmethod
    def of(cls, inputs: int, beams: int, steps: int, prompts: Prompts) -> Shape:
        return cls(inputs, beams, bucket(steps), _sizes(prompts.own), _sizes(prompts.cross))

    @property
    def rows(self) -> int:
        return self.inputs * self.beams


def _sizes(layers: tuple[Layer, ...]) -> tuple[tuple[int, int, int, int | None], ...]:
    return tuple(
        (each.keys.shape[1], bucket(each.keys.shape[2]), each.keys.shape[3], each.window) for each in layers
    )


def bucket(count: int) -> int:
    """Return the least of some sizes that is no smaller: at most an eighth larger, or 16.

    >>> bucket(3), bucket(130), bucket(2000)
    (16, 144, 2048)
    """
    unit = max(16, power_of_two(count) // 16)
    return -(-count // unit) * unit


class FixedBeams:
    """The step of a model for so many inputs and beams; see `beamsplit.model.FixedStep`."""

    def __init__(
        self,
        model: Any,
        shape: Shape,
        prompts: Prompts,
        forward: Callable[..., Any],
        *,
        is_compiled: bool = False,
    ) -> None:
        self.shape = shape
        self._is_compiled = is_compiled
        device, rows = prompts.own[0].keys.device, shape.rows
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.parents = torch.zeros(rows, dtype=torch.long, device=device)
        self.table = torch.zeros(rows, shape.steps, dtype=torch.int32, device=device)
        self.time = torch.zeros(1, dtype=torch.long, device=device)
        self.kept: dict[Any, Any] = {}
        self.on_close: Callable[[FixedBeams], None] = lambda _: None
        self._model = weakref.ref(model)
        self._rows = torch.arange(rows, dtype=torch.int32, device=device)
        self._no_length = torch.zeros_like(self._rows)
        self._owner = self._rows // shape.beams
        self._grid = self._rows.view(shape.inputs, shape.beams)
        self._own = [_empty_store(layer, shape, is_own=True) for layer in prompts.own]
        self._cross = [_empty_store(layer, shape, is_own=False) for layer in prompts.cross]
        self._windows = [layer.window for layer in prompts.own]
        self._spans = {window: torch.zeros_like(span) for window, span in prompts.spans.items()}
        self._cross_span = None if prompts.cross_span is None else torch.zeros_like(prompts.cross_span)
        self._positions = None
        if prompts.positions is not None:
            self._positions = self._for_rows(prompts.positions)
        self._length = torch.zeros((), dtype=torch.long, device=device)
        self._arguments = _expanded(prompts.arguments, rows, device)
        self._names = prompts.token_name, prompts.position_name
        self._takes_places = prompts.takes_places
        places = max(layer.keys.shape[2] for layer in prompts.own)
        most_keys = bucket(places) + shape.steps if prompts.has_bias else 1
        self._cache = _Cache(len(self._own), self._cross, most_keys)
        self._tables: dict[int | None, BeamTable] = {}
        self._read_layers: set[tuple[bool, int]] = set()
        self._forward = forward
        self._step: Repeated[Tensor] | None = None
        self.load(prompts)

    @property
    def bytes(self) -> int:
        """How much memory the keys and values take."""
        parts = [part for store in (*self._own, *self._cross) for part in (store.prompt, store.pool)]
        tensors = [each for part in parts if part is not None for each in part]
        return sum(each.numel() * each.element_size() for each in tensors)

    def load(self, prompts: Prompts) -> None:
        """Take other inputs, which are about as large."""
        for store, layer in zip([*self._own, *self._cross], [*prompts.own, *prompts.cross], strict=True):
            tokens = layer.keys.shape[2]
            assert store.prompt is not None
            keys, values = store.prompt
            keys[:, :, :tokens].copy_(layer.keys)
            values[:, :, :tokens].copy_(layer.values)
        for window, span in prompts.spans.items():
            self._spans[window].copy_(span)
        if self._cross_span is not None and prompts.cross_span is not None:
            self._cross_span.copy_(prompts.cross_span)
        if self._positions is not None and prompts.positions is not None:
            self._positions.copy_(self._for_rows(prompts.positions))
        self._length.fill_(prompts.length)
        self.time.zero_()

    def run(self) -> Tensor:
        if self._step is not None and self._step.is_captured:
            return self._step()
        with torch.no_grad(), read_by(self._model(), self):
            if self._step is None:
                self._step = self._repeated()
            return self._step()

    def _repeated(self) -> Repeated[Tensor]:
        device, rows = self.tokens.device, self.shape.rows
        if not self._is_compiled:
            return Repeated(self._run, device)
        with compiling.first_run(self._model(), ("step", rows), f"steps of {rows} rows"):
            return Repeated(self._run, device)

    def close(self) -> None:
        self.on_close(self)

    def _for_rows(self, positions: Tensor) -> Tensor:
        """[... inputs 1] -> [... rows 1]"""
        return positions.repeat_interleave(self.shape.beams, dim=-2)

    def _run(self) -> Tensor:
        time = self.time.to(torch.int32)
        length, target = self._no_length + time, torch.add(self._rows, time, alpha=self.shape.rows)
        own = OwnTokens(self.table, length, target)
        self._tables = {
            window: BeamTable(span, self._grid, self._owner, own) for window, span in self._spans.items()
        }
        self._cache.own.seen = self._length + self.time.squeeze(0)
        self._read_layers.clear()
        token_name, position_name = self._names
        arguments = dict(self._arguments)
        arguments[token_name] = self.tokens.unsqueeze(1)
        if self._positions is not None:
            arguments[position_name] = self._positions + self.time
        if self._takes_places:
            arguments["cache_position"] = self._length + self.time
        logits: Tensor = self._forward(self._model(), arguments, self._cache.whole)
        return logits

    def read(
        self,
        layer: int,
        query: Tensor,
        new: tuple[Tensor, Tensor] | None,
        scale: float,
        softcap: float | None,
        bias: Tensor | None,
        sinks: Tensor | None,
    ) -> Tensor:
        """Return what the rows of a layer find; see `fixed_attention.Reader`."""
        self._read_layers.add((new is None, layer))
        added = None if bias is None else Bias(bias, self._length)
        if new is None:
            assert self._cross_span is not None
            table = BeamTable(self._cross_span, self._grid, self._owner)
            return read_beams(query, self._cross[layer], table, Scoring(scale, softcap, None, added, sinks))
        window = self._windows[layer]
        scoring = Scoring(scale, softcap, window, added, sinks)
        return read_beams(query, self._own[layer], self._tables[window], scoring, new)

    @property
    def has_read_all_layers(self) -> bool:
        """Whether all layers went through our attention function."""
        return len(self._read_layers) == len(self._own) + len(self._cross)


def _empty_store(layer: Layer, shape: Shape, is_own: bool) -> BeamStore:
    _, heads, tokens, size = layer.keys.shape
    prompt = shape.inputs, heads, bucket(tokens), size
    pool = shape.rows * shape.steps, heads, size
    return BeamStore(
        (layer.keys.new_zeros(prompt), layer.values.new_zeros(prompt)),
        (layer.keys.new_zeros(pool), layer.values.new_zeros(pool)) if is_own else None,
    )


def _expanded(arguments: dict[str, Any], rows: int, device: torch.device) -> dict[str, Any]:
    """Return arguments for so many rows: of an encoder's output only the shape matters from here on."""
    mask = torch.ones(rows, 1, dtype=torch.long, device=device)  # which nobody reads; some ask for one
    if (outputs := arguments.get(ENCODED)) is None:
        return {**arguments, "attention_mask": mask}
    hidden = outputs[0].new_zeros(rows, 1, outputs[0].shape[2])
    return {**arguments, ENCODED: type(outputs)(hidden), "decoder_attention_mask": mask}


class _Cache:
    """The caches that a model is shown."""

    def __init__(self, layers: int, cross: list[BeamStore], most_keys: int) -> None:
        self.own = _OwnCache(layers, most_keys)
        self.whole: Any = self.own
        if cross:
            self.whole = EncoderDecoderCache(self.own, _CrossCache(cross))


class ShownLayer:
    """A layer of a cache, as far as transformers looks at it."""

    is_compileable = False
    is_initialized = True
    is_sliding = False
    supports_early_init = False
    keys: Tensor
    values: Tensor


class _OwnCache(Cache):  # type: ignore[misc]
    """A cache that hands on what it is given.

    A model that adds a bias of positions is shown as many keys as a row can have, for which it makes one.
    They are all the new one, and take no memory.
    """

    def __init__(self, layers: int, most_keys: int) -> None:
        super().__init__(layers=[ShownLayer() for _ in range(layers)])
        self.seen: Any = 0
        self._most_keys = most_keys

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if self._most_keys == 1:
            return key_states, value_states
        keys, values = (each.expand(-1, -1, self._most_keys, -1) for each in (key_states, value_states))
        return keys, values

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> Any:
        return self.seen

    def get_query_offset(self, layer_idx: int = 0) -> Any:
        return self.seen

    def get_mask_sizes(self, query_length: Any, layer_idx: int) -> tuple[int, int]:
        return 1, 0  # nobody makes a mask


class _CrossCache(Cache):  # type: ignore[misc]
    """A cache of encoded inputs, whose keys are marked as such."""

    def __init__(self, stores: list[BeamStore]) -> None:
        super().__init__(layers=[])
        for store in stores:
            assert store.prompt is not None
            layer = ShownLayer()
            layer.keys, layer.values = (each.detach() for each in store.prompt)
            setattr(layer.keys, CROSS, True)
            self.layers.append(layer)

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
        return 1
