"""Random numbers as a pure function of where they are used.

A stream of random numbers would make a sampled result depend on what else is in the batch, on the
schedule and on when neighbours finish. Here every number is a hash of (seed of the input, time, group,
beam, token) instead: the same search draws the same noise in whatever company it runs. The hash is the
finaliser of SplitMix64 (Steele, Lea & Flood, 2014).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["gumbel", "gumbel_of", "input_keys", "mix", "slot_keys", "uniform"]

_GOLDEN = -7046029254386353131  # 2**64 divided by the golden ratio, odd, as a signed 64-bit number
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def input_keys(seeds: Sequence[tuple[int, int]], device: torch.device) -> Tensor:
    """Return a key for each input, from its seed and its number: [batch].

    Seeds are scattered, so that neighbouring ones have nothing in common.
    """
    seed, number = (torch.tensor(column, dtype=torch.long, device=device) for column in _columns(seeds))
    return mix(seed) + number


def _columns(seeds: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [seed % 2**63 for seed, _ in seeds], [number % 2**63 for _, number in seeds]


def slot_keys(seeds: Tensor, groups: range, time: int, beams: int) -> Tensor:
    """Return a key for each beam of these groups of each input: [batch] -> [batch group beam]."""
    group = torch.tensor(list(groups), device=seeds.device) * _GOLDEN
    beam = torch.arange(beams, device=seeds.device) * _GOLDEN
    key = mix(mix(seeds) + time)
    return mix(mix(key[:, None] + group)[:, :, None] + beam)


def gumbel(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Return standard Gumbel noise: [rows] -> [rows size]."""
    return gumbel_of(keys, torch.arange(size, device=keys.device), dtype)


def gumbel_of(keys: Tensor, tokens: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the noise of some tokens, which is that of the same tokens in `gumbel`: [...] -> [... k]."""
    bits = mix(keys.unsqueeze(-1) + (tokens + 1) * _GOLDEN)
    # The upper 32 bits, centred in their cell. Small numbers are the precise ones in floating point,
    # so they are made to be the large noise, which decides who wins.
    uniform = (_shifted(bits, 32).to(dtype) + 0.5).mul_(2.0**-32).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def uniform(keys: Tensor) -> Tensor:
    """Return a float64 number in [0, 1) for each key: a multiple of 2**-53."""
    return _shifted(mix(keys), 11).double() * 2.0**-53


def mix(x: Tensor) -> Tensor:
    """Scatter 64-bit numbers so that each bit of the result depends on all bits of the argument."""
    x = (x ^ _shifted(x, 30)) * _MIX_1
    x = (x ^ _shifted(x, 27)) * _MIX_2
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift to the right and bring in zeros, which torch's shift of signed numbers does not."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
