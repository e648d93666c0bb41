"""Measure what a step cannot be faster than: reading the weights once, and the bare arithmetic of a forward.

The bare forward is a decoder's like Llama's, with random numbers: no library around it, the prompt's keys and
values stored once an input and read by all its beams together, those of the beams stored once and looked up
by a table of ancestors. On a GPU it is replayed as one graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from research.benchmarks.generation_worker import MODELS
from research.benchmarks.performance.contestants import wait
from research.benchmarks.performance.sizes import Size

__all__ = ["BareDecoder", "Shape", "copy_bandwidth", "replayed", "time_ms"]


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int

    @classmethod
    def of(cls, model: str) -> Shape:
        """Return the sizes of one of our models by its name."""
        settings = MODELS[model][2]
        return cls(
            settings["hidden_size"],
            settings["intermediate_size"],
            settings["num_hidden_layers"],
            settings["num_attention_heads"],
            settings["num_key_value_heads"],
            settings.get("head_dim", settings["hidden_size"] // settings["num_attention_heads"]),
            settings["vocab_size"],
        )


class _Weights(NamedTuple):
    before: Tensor  # [hidden] scale of the first norm
    attend: Tensor  # [(heads + 2 kv_heads) * head, hidden]
    gather: Tensor  # [hidden, heads * head]
    between: Tensor  # [hidden] scale of the second norm
    up: Tensor  # [2 inner, hidden]
    down: Tensor  # [hidden, inner]


class _Stored(NamedTuple):
    prompt_keys: Tensor  # [inputs kv_heads prompt head]
    prompt_values: Tensor
    keys: Tensor  # [tokens rows kv_heads head] of the beams' own tokens
    values: Tensor


class _Now(NamedTuple):
    """What all layers of a step share."""

    place: Tensor  # [1] the step
    steps: Tensor  # [tokens] all steps
    ancestors: Tensor  # [rows tokens] the row that a beam's token of each step is stored in
    unseen: Tensor  # [tokens] 0 for steps so far, -inf for those to come
    turn: tuple[Tensor, Tensor]  # [head / 2] cosines and sines of this position


class BareDecoder:
    """One step of a decoder, at two thirds of its tokens."""

    def __init__(self, shape: Shape, size: Size, device: str) -> None:
        self.shape, self.size = shape, size
        self._new: dict[str, Any] = {
            "device": device,
            "dtype": torch.bfloat16 if device == "cuda" else torch.float32,
        }
        rows, wide = size.inputs * size.beams, shape.heads + 2 * shape.kv_heads
        self.embedding = self._numbers(shape.vocabulary, shape.hidden)
        self.scale = self._ones(shape.hidden)
        self.weights = [
            _Weights(
                self._ones(shape.hidden),
                self._numbers(wide * shape.head, shape.hidden),
                self._numbers(shape.hidden, shape.heads * shape.head),
                self._ones(shape.hidden),
                self._numbers(2 * shape.inner, shape.hidden),
                self._numbers(shape.hidden, shape.inner),
            )
            for _ in range(shape.layers)
        ]
        prompt = (size.inputs, shape.kv_heads, size.prompt, shape.head)
        own = (size.tokens, rows, shape.kv_heads, shape.head)
        self.stored = [
            _Stored(*(self._numbers(*each) for each in (prompt, prompt, own, own)))
            for _ in range(shape.layers)
        ]
        self.tokens = torch.randint(shape.vocabulary, (rows,), device=device)
        self.now = self._at(2 * size.tokens // 3, rows)
        self._layer: Callable[[Tensor, _Weights, _Stored, _Now], Tensor] = self._one_layer

    def compile(self) -> None:
        """Compile a layer; all layers share what is compiled."""
        torch._dynamo.reset()
        self._layer = torch.compile(self._one_layer, dynamic=False)

    @torch.no_grad()
    def step(self) -> Tensor:
        """Return logits [rows vocabulary]."""
        x = self.embedding[self.tokens]
        for weights, stored in zip(self.weights, self.stored, strict=True):
            x = self._layer(x, weights, stored, self.now)
        return functional.linear(self._norm(x, self.scale), self.embedding)

    @property
    def weight_bytes(self) -> int:
        tensors = [self.embedding, self.scale, *(each for layer in self.weights for each in layer)]
        return sum(each.numel() * each.element_size() for each in tensors)

    @property
    def cache_mib(self) -> float:
        return sum(each.numel() * each.element_size() for layer in self.stored for each in layer) / 2**20

    def _one_layer(self, x: Tensor, weights: _Weights, stored: _Stored, now: _Now) -> Tensor:
        shape = self.shape
        mixed = functional.linear(self._norm(x, weights.before), weights.attend)
        mixed = mixed.view(len(x), -1, shape.head)
        query, key, value = mixed.tensor_split([shape.heads, shape.heads + shape.kv_heads], dim=1)
        query, key = _turned(query, now.turn), _turned(key, now.turn)
        stored.keys.index_copy_(0, now.place, key.unsqueeze(0))
        stored.values.index_copy_(0, now.place, value.unsqueeze(0))
        query = query.reshape(len(x), shape.kv_heads, -1, shape.head)  # [rows kv_heads shared head]
        told = _merged(self._of_prompt(query, stored), self._of_beam(query, stored, now))
        x = x + functional.linear(told.to(x.dtype).flatten(1), weights.gather)
        gate, up = functional.linear(self._norm(x, weights.between), weights.up).chunk(2, dim=1)
        return x + functional.linear(functional.silu(gate) * up, weights.down)

    def _of_prompt(self, query: Tensor, stored: _Stored) -> tuple[Tensor, Tensor]:
        """Attend to the prompt: all beams of an input are one block of queries."""
        kv_heads, shared, head = query.shape[1:]
        inputs, beams = self.size.inputs, self.size.beams
        block = query.view(inputs, beams, kv_heads, shared, head).transpose(1, 2).flatten(2, 3)
        told, total = _attention(block, stored.prompt_keys, stored.prompt_values)
        told = told.reshape(inputs, kv_heads, beams, shared, head).transpose(1, 2)
        total = total.reshape(inputs, kv_heads, beams, shared).transpose(1, 2)
        return told.reshape(query.shape), total.reshape(query.shape[:3])

    def _of_beam(self, query: Tensor, stored: _Stored, now: _Now) -> tuple[Tensor, Tensor]:
        """Attend to a beam's own tokens, wherever its ancestors have put them."""
        keys = stored.keys[now.steps, now.ancestors].transpose(1, 2)  # [rows kv_heads tokens head]
        values = stored.values[now.steps, now.ancestors].transpose(1, 2)
        return _plain_attention(query, keys, values, now.unseen)

    def _at(self, step: int, rows: int) -> _Now:
        device, tokens, half = self.tokens.device, self.size.tokens, self.shape.head // 2
        steps = torch.arange(tokens, device=device)
        angle = torch.rand(half, device=device)
        return _Now(
            place=steps[step : step + 1],
            steps=steps,
            ancestors=torch.randint(rows, (rows, tokens), device=device),
            unseen=torch.zeros(tokens, device=device).masked_fill(steps > step, -torch.inf),
            turn=(angle.cos().to(self._new["dtype"]), angle.sin().to(self._new["dtype"])),
        )

    def _norm(self, x: Tensor, scale: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), scale)

    def _numbers(self, *shape: int) -> Tensor:
        return torch.randn(*shape, **self._new) * 0.02

    def _ones(self, size: int) -> Tensor:
        return torch.ones(size, **self._new)


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate pairs of numbers, as positions do."""
    (cos, sin), (left, right) = turn, x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def _attention(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return what is told [... queries head], and the logarithm of the total weight [... queries]."""
    if query.is_cuda:
        told, total, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values)
        return told, total
    return _plain_attention(query, keys, values)


def _plain_attention(
    query: Tensor, keys: Tensor, values: Tensor, unseen: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    scores = (query @ keys.transpose(-1, -2)).float() * query.shape[-1] ** -0.5
    scores = scores if unseen is None else scores + unseen
    return scores.softmax(-1).to(values.dtype) @ values, scores.logsumexp(-1)


def _merged(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Return what attention to both would tell."""
    share = torch.sigmoid(first[1] - second[1]).unsqueeze(-1)
    return first[0] * share + second[0] * (1 - share)


def replayed(step: Callable[[], Any], device: str) -> Callable[[], Any]:
    """Return the step as a captured graph's replay on a GPU, and as it is elsewhere."""
    if device != "cuda":
        return step
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def time_ms(run: Callable[[], object], device: str, turns: int = 30, warm: int = 3) -> list[float]:
    """Return the milliseconds of each of so many runs, by the device's own clock where it has one."""
    for _ in range(warm):
        run()
    return [_event_ms(run) if device == "cuda" else _host_ms(run) for _ in range(turns)]


def _event_ms(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def _host_ms(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


def copy_bandwidth(device: str, mib: int) -> list[float]:
    """Return bytes a second, read and written, of copies of so many MiB."""
    source = torch.empty(mib * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    wait(device)
    return [2 * source.numel() / (ms * 1e-3) for ms in time_ms(lambda: target.copy_(source), device)]
