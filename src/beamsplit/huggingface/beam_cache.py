"""A transformers cache for beams: prompts stored once, generated tokens once, ancestry by index.

An ordinary cache has a row of keys and values for each beam, the prompt's included, and copies all of them
whenever beams change places. Here the prompt's keys and values are stored once for each input, and those of
generated tokens once for each (step, row) in a pool that only grows. What a beam has said is a row of numbers
into that pool, so that `select` moves integers and never keys.

`beamsplit.huggingface.beam_attention` reads it: models call that through transformers' AttentionInterface.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from beamsplit.huggingface.attending import Part, attend, merge

__all__ = ["BeamCache", "BeamLayer", "BeamMask", "CrossCache", "Layout", "NotCarriedError", "Tag"]

_CHUNK = 16  # steps by which the pool grows
_SHORT = 32  # a prompt of so few tokens is kept in the pool: reading it apart costs more than it saves


class NotCarriedError(Exception):
    """Tells why a model cannot be stepped with a cache for beams."""


class Tag(NamedTuple):
    """What a tensor of keys stands for, when it is handed to the attention function."""

    cache: BeamCache | CrossCache
    layer: int


@dataclass(frozen=True, slots=True)
class BeamMask:
    """The mask of a step, in place of a tensor: every key is seen, or the last few of them."""

    window: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Which rows belong to which input, so that all rows of an input read its keys together.

    If every input has as many rows, next to each other, rows are reshaped. Otherwise they are put into a grid
    [inputs width], whose empty places hold row 0.
    """

    owner: Tensor  # [rows] the input that a row belongs to
    inputs: int
    grid: Tensor | None  # [inputs width] row numbers; None: rows are in order
    place: Tensor | None  # [rows] where a row is in the grid

    @classmethod
    def of(cls, owner: Tensor, inputs: int) -> Layout:
        count = torch.bincount(owner, minlength=inputs)
        rows, width = len(owner), int(count.max())
        place = torch.arange(rows, device=owner.device)
        if width * inputs == rows and torch.equal(owner, place // width):
            return cls(owner, inputs, None, None)
        order = owner.argsort(stable=True)
        before = count.cumsum(0) - count
        spot = owner[order] * width + place - before[owner[order]]
        grid = torch.zeros(inputs * width, dtype=torch.long, device=owner.device)
        grid[spot] = order
        return cls(owner, inputs, grid.view(inputs, width), torch.empty_like(spot).scatter_(0, order, spot))

    def to_inputs(self, values: Tensor) -> Tensor:
        """[heads rows n ...] -> [heads inputs width*n ...]"""
        heads, _, *rest = values.shape
        if self.grid is None:
            return values.reshape(heads, self.inputs, -1, *rest[1:])
        return values[:, self.grid.flatten()].reshape(heads, self.inputs, -1, *rest[1:])

    def to_rows(self, values: Tensor, each: int) -> Tensor:
        """[heads inputs width*n ...] -> [heads rows n ...], with n = `each`"""
        spread = values.reshape(values.shape[0], -1, each, *values.shape[3:])
        return spread if self.place is None else spread.index_select(1, self.place)

    def first(self) -> Tensor:
        """Return a row of each input: [inputs]. Inputs without rows have row 0."""
        if self.grid is not None:
            return self.grid[:, 0]
        return torch.arange(0, len(self.owner), len(self.owner) // self.inputs, device=self.owner.device)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Keys and values of prompts, once for each input."""

    keys: tuple[Tensor, ...]  # of each layer [inputs heads length size]
    values: tuple[Tensor, ...]
    padding: Tensor | None  # [inputs tokens] True where a token is real; None: all are

    def __len__(self) -> int:
        return len(self.keys[0])

    def take(self, inputs: Tensor) -> Prompts:
        """Return the prompts of these inputs alone."""
        return Prompts(
            tuple(keys.index_select(0, inputs) for keys in self.keys),
            tuple(values.index_select(0, inputs) for values in self.values),
            None if self.padding is None else self.padding.index_select(0, inputs),
        )

    def of(self, owner: Tensor) -> tuple[Prompts, Layout]:
        """Return prompts for rows of these inputs, and which row reads which.

        Keys are copied only if no more than half of the inputs are left: for the others, reading a few
        that nobody asks for costs less.
        """
        left = torch.unique(owner)
        if 2 * len(left) > len(self):
            return self, Layout.of(owner, len(self))
        return self.take(left), Layout.of(torch.searchsorted(left, owner), len(left))

    def bias(self, layer: int, skip: int) -> Tensor | None:
        """Return what is added to the scores of a layer's keys but the first few: [1 inputs 1 length]."""
        if self.padding is None:
            return None
        keys = self.keys[layer]
        seen = self.padding[:, self.padding.shape[1] - keys.shape[2] + skip :]
        return _as_bias(seen, keys.dtype)[None, :, None, :]


def _as_bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a key is seen, and the lowest number elsewhere: -inf would make NaN where none is."""
    return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)


class BeamLayer:
    """Keys and values of generated tokens in one layer, a slot for each (step, row)."""

    is_compileable = False
    is_initialized = True
    supports_early_init = False

    def __init__(self, keys: Tensor, values: Tensor, window: int | None) -> None:
        """Make an empty layer for keys and values such as these: [inputs heads length size]."""
        self.keys = keys.new_empty(keys.shape[1], 0, keys.shape[3])  # [heads slots size]
        self.values = values.new_empty(values.shape[1], 0, values.shape[3])
        self.window = window
        self.is_sliding = window is not None

    @property
    def heads(self) -> int:
        return self.keys.shape[0]

    def grow(self, slots: int, used: int) -> None:
        """Make room for so many slots, of which the first few are in use."""
        self.keys = _grown(self.keys, slots, used)
        self.values = _grown(self.values, slots, used)

    def write(self, slots: Tensor, first: int, keys: Tensor, values: Tensor) -> None:
        """Put keys and values [heads slots size] into these slots, which are next to each other."""
        for buffer, new in ((self.keys, keys), (self.values, values)):
            if new.device.type == "cpu":  # where a slice is faster
                buffer[:, first : first + len(slots)] = new
            else:  # in a way that a captured graph can repeat for other slots
                buffer.index_copy_(1, slots, new)

    def read(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of slots [rows steps]: [heads rows steps size]."""
        found = (buffer.index_select(1, table.flatten()) for buffer in (self.keys, self.values))
        keys, values = (each.view(each.shape[0], *table.shape, each.shape[2]) for each in found)
        return keys, values

    def read_in_order(self, first: int, rows: int, steps: int) -> tuple[Tensor, Tensor]:
        """Return what `read` would, for rows that lie one below the other in every step; without a copy."""
        found = (buffer[:, first : first + rows * steps] for buffer in (self.keys, self.values))
        keys, values = (each.view(each.shape[0], steps, rows, each.shape[2]) for each in found)
        return keys.transpose(1, 2), values.transpose(1, 2)


def _grown(old: Tensor, slots: int, used: int) -> Tensor:
    new = old.new_zeros(old.shape[0], slots, old.shape[2])
    new[:, :used] = old[:, :used]
    return new


class Pool:
    """All generated keys and values of a search. What is in it stays: states of all steps may refer to it."""

    def __init__(self, layers: list[BeamLayer], origin: Cache) -> None:
        self.layers = layers
        self.origin = origin  # the ordinary cache that read the prompts
        self.used = 0
        self.room = 0
        self.kept = 0  # slots of prompts, which come first

    def emptied(self) -> Pool:
        """Return a pool with what prompts have in this one, for a search that begins anew."""
        layers = [copy.copy(layer) for layer in self.layers]
        for layer in layers:
            layer.grow(self.kept, self.kept)
        pool = Pool(layers, self.origin)
        pool.used = pool.room = pool.kept = self.kept
        return pool

    def reserve(self, count: int, device: torch.device) -> Tensor:
        """Return the numbers of so many free slots."""
        first, self.used = self.used, self.used + count
        if self.used > self.room:
            self.room = self.used + max((_CHUNK - 1) * count, self.room // 2)
            for layer in self.layers:
                layer.grow(self.room, first)
        return torch.arange(first, self.used, device=device)


class BeamCache(Cache):  # type: ignore[misc]
    """A cache for beams: prompts once an input, generated tokens once a (step, row), and ancestors by number.

    It is immutable but for the layers that a step fills in: `select` and `stepping` return another cache over
    the same pool, and the old one stays as it is.
    """

    def __init__(
        self, pool: Pool, prompts: Prompts | None, layout: Layout | None, ancestors: Tensor, length: int
    ) -> None:
        super().__init__(layers=pool.layers)
        self.pool = pool
        self.prompts = prompts
        self.layout = layout
        self.ancestors = ancestors  # [rows steps] slots of the pool
        self.prompt_length = length
        self.is_root = True  # whether nothing has been generated
        self.slots: Tensor | None = None  # [rows] where this step writes
        self.first = 0  # of these
        self.start: int | None = None  # the first of all its slots, if rows never changed places
        self.written: set[int] = set()
        self.attended: set[int] = set()

    @classmethod
    def of(cls, cache: Cache, padding: Tensor | None) -> BeamCache:
        """Make one of an ordinary cache that has read the prompts, one row an input.

        Args:
            cache: stays as it is, and shares its memory.
            padding: [inputs tokens] True where a token of a prompt is real; None if all are.
        """
        layers = [
            BeamLayer(layer.keys, layer.values, getattr(layer, "sliding_window", None))
            for layer in cache.layers
        ]
        length = int(cache.get_seq_length())
        first = cache.layers[0].keys
        inputs = torch.arange(len(first), device=first.device)
        stored = Prompts(
            tuple(layer.keys for layer in cache.layers),
            tuple(layer.values for layer in cache.layers),
            padding,
        )
        is_whole = all(keys.shape[2] == length for keys in stored.keys)
        if length <= _SHORT and is_whole and padding is None:
            pool = Pool(layers, cache)
            slots = pool.reserve(len(first) * length, first.device)
            pool.kept = pool.used
            for layer, keys, values in zip(layers, stored.keys, stored.values, strict=True):
                layer.write(slots, 0, *(each.transpose(0, 1).flatten(1, 2) for each in (keys, values)))
            return cls(pool, None, None, slots.view(len(first), length), 0)
        nothing = inputs.new_empty(len(first), 0)
        return cls(Pool(layers, cache), stored, Layout.of(inputs, len(first)), nothing, length)

    # What a search does with it

    def select(self, rows: Tensor, same_inputs: bool) -> BeamCache:
        """Return the cache for these rows. No keys are copied, unless half of the inputs have gone."""
        selected = copy.copy(self)
        rows = rows.to(self.ancestors.device)
        selected.ancestors = self.ancestors.index_select(0, rows)
        selected.start = None
        if self.prompts is not None and self.layout is not None and not same_inputs:
            selected.prompts, selected.layout = self.prompts.of(self.layout.owner[rows])
        return selected

    def stepping(self) -> BeamCache:
        """Return the cache for the next step: one token longer, whose keys the model is about to fill in."""
        stepping = copy.copy(self)
        if self.is_root and self.pool.used > self.pool.kept:  # or what is left behind would stay for ever
            stepping.pool = self.pool.emptied()
            stepping.layers = stepping.pool.layers
        stepping.is_root = False
        stepping.first = stepping.pool.used
        stepping.slots = slots = stepping.pool.reserve(len(self.ancestors), self.ancestors.device)
        stepping.ancestors = torch.cat([self.ancestors, slots.unsqueeze(1)], dim=1)
        rows, steps = self.ancestors.shape
        if not steps:
            stepping.start = stepping.first
        elif self.start is None or stepping.first != self.start + rows * steps:
            stepping.start = None
        stepping.written, stepping.attended = set(), set()
        return stepping

    def expanded(self) -> Cache:
        """Return an ordinary cache with the same contents."""
        made = copy.copy(self.pool.origin)
        made.layers = [self._expanded_layer(index, layer) for index, layer in enumerate(made.layers)]
        return made

    def _expanded_layer(self, index: int, like: Any) -> Any:
        layer, steps = copy.copy(like), self.ancestors.shape[1]
        parts = [[own.transpose(0, 1)] for own in self.layers[index].read(self.ancestors)]
        if self.prompts is not None and self.layout is not None:
            for part, prompts in zip(parts, (self.prompts.keys, self.prompts.values), strict=True):
                part.insert(0, prompts[index].index_select(0, self.layout.owner))
        layer.keys, layer.values = (torch.cat(part, dim=2) for part in parts)
        if (window := self.layers[index].window) is not None:
            layer.keys, layer.values = layer.keys[:, :, 1 - window :], layer.values[:, :, 1 - window :]
            layer.cumulative_length = self.prompt_length + steps
        return layer

    # What a model does with it

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store the keys and values [rows heads 1 size] of one token a row.

        Returns tensors of the shape of all keys and values, which only the attention function can read.
        """
        if self.slots is None or key_states.shape[0] != len(self.slots) or key_states.shape[2] != 1:
            raise NotCarriedError("it does not read one token a step")
        layer: BeamLayer = self.layers[layer_idx]
        layer.write(
            self.slots,
            self.first,
            key_states.squeeze(2).transpose(0, 1),
            value_states.squeeze(2).transpose(0, 1),
        )
        self.written.add(layer_idx)
        length, _ = self.get_mask_sizes(0, layer_idx)
        keys, values = key_states.expand(-1, -1, length, -1), value_states.expand(-1, -1, length, -1)
        keys.beams = values.beams = Tag(self, layer_idx)  # type: ignore[attr-defined]
        return keys, values

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
        """Return how many tokens a row has; within a step, without the one that a layer has yet to read."""
        is_pending = self.slots is not None and layer_idx not in self.written
        return self.prompt_length + self.ancestors.shape[1] - is_pending

    def get_mask_sizes(self, query_length: Any, layer_idx: int) -> tuple[int, int]:
        """Return how many keys a layer has in a step, and the position of the first."""
        stored = 0 if self.prompts is None else self.prompts.keys[layer_idx].shape[2]
        return stored + self.ancestors.shape[1], self.prompt_length - stored

    # What the attention function does with it

    def attend(
        self,
        layer_idx: int,
        query: Tensor,
        scale: float,
        softcap: float | None,
        mask: Any,
        bias: Tensor | None,
    ) -> Tensor:
        """Return what queries [rows heads 1 size] find: [rows 1 heads size].

        Args:
            layer_idx: the layer whose keys are read.
            query: one token of each row.
            scale: multiplies scores.
            softcap: bounds scores, if any.
            mask: a `BeamMask`, None, or a tensor [rows heads 1 keys], with 1 for rows or heads if they are
                all the same: True where a key is seen, or added to scores.
            bias: added to scores, of the same shape.
        """
        layer: BeamLayer = self.layers[layer_idx]
        if layer.is_sliding and not (isinstance(mask, Tensor) or (mask is not None and mask.window)):
            raise NotCarriedError("its cache has a window, and its mask has none")
        heads = _by_key_head(query, layer.heads)
        total, _ = self.get_mask_sizes(0, layer_idx)
        steps = self.ancestors.shape[1]
        window = mask.window if isinstance(mask, BeamMask) else None
        added = _row_bias(mask, bias, query, layer.heads, total)
        if window is not None and added is not None:
            raise NotCarriedError("it has a window and a bias of positions")
        own = attend(
            heads,
            *self._own(layer, steps if window is None else min(window, steps)),
            scale,
            softcap,
            None if added is None else added[..., total - steps :],
        )
        out = own.out
        if self.prompts is not None and (window is None or window > steps):
            prompt = self._attend_to_prompts(layer_idx, heads, scale, softcap, mask, added)
            out = out if prompt is None else merge(prompt, own)
        self.attended.add(layer_idx)
        return _by_row(out)

    def _own(self, layer: BeamLayer, last: int) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the last tokens of each row."""
        rows, steps = self.ancestors.shape
        if self.start is None:
            return layer.read(self.ancestors if last == steps else self.ancestors[:, steps - last :])
        return layer.read_in_order(self.start + rows * (steps - last), rows, last)

    def _attend_to_prompts(
        self,
        layer_idx: int,
        heads: Tensor,
        scale: float,
        softcap: float | None,
        mask: Any,
        added: Tensor | None,
    ) -> Part | None:
        """Return what all rows find in the prompts: each input's rows read them as one block of queries."""
        assert self.prompts is not None
        assert self.layout is not None
        keys, values = self.prompts.keys[layer_idx], self.prompts.values[layer_idx]
        stored, skip, bias = keys.shape[2], 0, None
        if isinstance(mask, BeamMask):
            if mask.window is not None:
                skip = max(0, stored - (mask.window - self.ancestors.shape[1]))
            bias = self.prompts.bias(layer_idx, skip)
        if added is not None:
            rows = _block_bias(added[..., :stored], self.layout, heads.shape)
            bias = rows if bias is None else rows + bias
        return _attend_in_blocks(
            self.layout, heads, keys[:, :, skip:], values[:, :, skip:], scale, softcap, bias
        )


class _CrossLayer:
    """Keys and values of encoded inputs in one layer: [inputs heads length size]."""

    is_compileable = False
    is_sliding = False
    is_initialized = True
    supports_early_init = False

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys = keys
        self.values = values


class CrossCache(Cache):  # type: ignore[misc]
    """The keys and values that a decoder reads of encoded inputs, once an input."""

    def __init__(self, prompts: Prompts, layout: Layout, origin: Cache, is_padded: bool) -> None:
        super().__init__(layers=[])
        self.prompts = prompts
        self.layout = layout
        self.origin = origin  # the ordinary cache that read the inputs
        self.is_padded = is_padded  # whether positions of some inputs may be no real ones
        self.bias: Tensor | None = None  # [1 inputs 1 length]
        self.attended: set[int] = set()
        self._tag_layers()

    @classmethod
    def of(cls, cache: Cache, is_padded: bool) -> CrossCache:
        """Make one of an ordinary cache with one row an input, whose memory it shares."""
        first = cache.layers[0].keys
        inputs = torch.arange(len(first), device=first.device)
        keys = tuple(layer.keys for layer in cache.layers)
        values = tuple(layer.values for layer in cache.layers)
        layout = Layout.of(inputs, len(first))
        return cls(Prompts(keys, values, None), layout, cache, is_padded)

    def _tag_layers(self) -> None:
        """Make layers whose tensors tell the attention function whose they are."""
        self.layers = []
        for index, (keys, values) in enumerate(zip(self.prompts.keys, self.prompts.values, strict=True)):
            layer = _CrossLayer(keys.detach(), values.detach())
            layer.keys.beams = layer.values.beams = Tag(self, index)  # type: ignore[attr-defined]
            self.layers.append(layer)

    def select(self, rows: Tensor) -> CrossCache:
        """Return the cache for these rows. No keys are copied, unless half of the inputs have gone."""
        owner = self.layout.owner[rows.to(self.layout.owner.device)]
        return CrossCache(*self.prompts.of(owner), self.origin, self.is_padded)

    def stepping(self) -> CrossCache:
        """Return the cache for the next step."""
        self.attended = set()
        self.bias = None
        return self

    def expanded(self) -> Cache:
        """Return an ordinary cache, whose keys and values are repeated for each row."""
        made = copy.copy(self.origin)
        made.layers = [copy.copy(layer) for layer in self.origin.layers]
        for index, layer in enumerate(made.layers):
            layer.keys = self.prompts.keys[index].index_select(0, self.layout.owner)
            layer.values = self.prompts.values[index].index_select(0, self.layout.owner)
        return made

    def note_padding(self, mask: Tensor) -> None:
        """Take note of which positions are real: [rows length], the same for all rows of an input."""
        seen = mask.index_select(0, self.layout.first()).bool()
        self.bias = _as_bias(seen, self.prompts.keys[0].dtype)[None, :, None, :]

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
        return self.prompts.keys[layer_idx].shape[2]

    def attend(
        self,
        layer_idx: int,
        query: Tensor,
        scale: float,
        softcap: float | None,
        mask: Any,
        bias: Tensor | None,
    ) -> Tensor:
        """Return what queries [rows heads 1 size] find: [rows 1 heads size]. As `BeamCache.attend`."""
        keys, values = self.prompts.keys[layer_idx], self.prompts.values[layer_idx]
        heads = _by_key_head(query, keys.shape[1])
        added = _row_bias(mask, bias, query, keys.shape[1], keys.shape[2])
        block = self.bias if isinstance(mask, BeamMask) else None
        if added is not None:
            rows = _block_bias(added, self.layout, heads.shape)
            block = rows if block is None else rows + block
        found = _attend_in_blocks(self.layout, heads, keys, values, scale, softcap, block)
        assert found is not None, "an encoded input has at least one key"
        self.attended.add(layer_idx)
        return _by_row(found.out)


def _attend_in_blocks(
    layout: Layout,
    heads: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    softcap: float | None,
    bias: Tensor | None,
) -> Part | None:
    """Let each input's rows read its keys as one block of queries. Returns [heads rows group size]."""
    if not keys.shape[2]:
        return None
    block = layout.to_inputs(heads)
    found = attend(block, keys.transpose(0, 1), values.transpose(0, 1), scale, softcap, bias)
    each = heads.shape[2]
    return Part(layout.to_rows(found.out, each), layout.to_rows(found.weight, each))


def _by_key_head(query: Tensor, key_heads: int) -> Tensor:
    """[rows heads 1 size] -> [key_heads rows group size]"""
    rows, heads, length, size = query.shape
    if length != 1:
        raise NotCarriedError("it does not read one token a step")
    return query.reshape(rows, key_heads, heads // key_heads, size).transpose(0, 1)


def _by_row(out: Tensor) -> Tensor:
    """[key_heads rows group size] -> [rows 1 heads size]"""
    key_heads, rows, group, size = out.shape
    return out.transpose(0, 1).reshape(rows, 1, key_heads * group, size)


def _row_bias(mask: Any, bias: Tensor | None, query: Tensor, key_heads: int, length: int) -> Tensor | None:
    """Return what a model adds to scores: [1 or key_heads, 1 or rows, 1 or group, length]; None: nothing."""
    parts = []
    if isinstance(mask, Tensor):
        parts.append(_as_bias(mask, query.dtype) if mask.dtype == torch.bool else mask)
    if bias is not None:
        parts.append(bias)
    if not parts:
        return None
    added = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    rows, heads = query.shape[:2]
    if (
        added.dim() != 4
        or added.shape[0] not in (1, rows)
        or added.shape[1] not in (1, heads)
        or added.shape[2:] != (1, length)
    ):
        raise NotCarriedError(f"it has a mask of shape {list(added.shape)}")
    if added.shape[1] == 1:
        return added.transpose(0, 1)
    return added.reshape(added.shape[0], key_heads, heads // key_heads, length).transpose(0, 1)


def _block_bias(added: Tensor, layout: Layout, shape: torch.Size) -> Tensor:
    """[1 or heads, 1 or rows, 1 or group, length] -> [1 or heads, 1 or inputs, 1 or width*group, length]"""
    if added.shape[1] == 1 and added.shape[2] == 1:
        return added
    return layout.to_inputs(added.expand(-1, shape[1], shape[2], -1))
