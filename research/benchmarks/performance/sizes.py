"""The sizes that are measured, and small ones that show that everything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ANCHOR", "CPU", "GROWTH", "LLAMA", "SMALL", "TERMS", "CpuCase", "Size", "Sizes"]


@dataclass(frozen=True)
class Size:
    """How much is generated of how much."""

    inputs: int
    beams: int
    groups: int
    prompt: int
    tokens: int

    @property
    def key(self) -> str:
        """Return a name for people and for tables.

        >>> Size(8, 20, 20, prompt=128, tokens=64).key
        '(8, 20, 20), prompt 128'
        """
        return f"({self.inputs}, {self.beams}, {self.groups}), prompt {self.prompt}"

    def task(self, model: str) -> dict[str, Any]:
        """Return this as `generation_worker` reads it."""
        return {
            "model": model,
            "batch": self.inputs,
            "beams": self.beams,
            "groups": self.groups,
            "prompt": self.prompt,
        }


@dataclass(frozen=True)
class Sizes:
    """The sizes of a part: those to measure, and tiny ones."""

    full: list[Size]
    tiny: list[Size]


@dataclass(frozen=True)
class CpuCase:
    """A model on two cores of a processor, and how it is measured."""

    model: str
    title: str
    beams: int
    tokens: int
    turns: int


_STEPS = 64
_TINY = [Size(inputs, 4, 4, prompt, 4) for prompt in (4, 9) for inputs in (1, 2)]

LLAMA = Sizes([Size(inputs, 20, 20, prompt, _STEPS) for prompt in (128, 2048) for inputs in (1, 8)], _TINY)
TERMS = Sizes([Size(8, 20, 20, 128, _STEPS)], _TINY[:1])
ANCHOR = Sizes(
    [Size(1, 256, groups, prompt, 3) for prompt in (1000, 5000) for groups in (1, 256)],
    [Size(1, 6, 1, 5, 3)],
)
SMALL = Sizes([Size(8, 20, 20, 32, _STEPS)], [Size(2, 4, 4, 4, 4)])
GROWTH = Sizes(
    [Size(8, 20, groups, 128, _STEPS) for groups in (1, 2, 4, 10, 20)]
    + [Size(8, 20, 20, prompt, _STEPS) for prompt in (512, 2048, 8192)]
    + [Size(1, beams, beams, 128, _STEPS) for beams in (20, 64, 128, 256)],
    [Size(2, 4, groups, 4, 4) for groups in (1, 2, 4)] + [Size(2, 4, 4, 9, 4), Size(1, 8, 8, 4, 4)],
)
CPU = [
    CpuCase("gru-512", "GRU of 512 units, V=10k", 20, 20, 25),
    CpuCase("gru-1000", "GRU of 1000 units, V=10k", 20, 20, 25),
    CpuCase("llama-tiny", "Llama, 2 layers of 32, V=300", 20, 20, 25),
    CpuCase("gpt2", "GPT-2, 124 million weights", 20, 12, 7),
]
TINY_CPU = [
    CpuCase("gru-tiny", "GRU of 512 units, V=300", 4, 4, 2),
    CpuCase("llama-tiny", "Llama, 2 layers of 32, V=300", 4, 4, 2),
    CpuCase("gpt2", "GPT-2, 2 layers of 32", 4, 3, 2),
]
