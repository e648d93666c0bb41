"""Cosine similarity with bits that do not depend on how much is compared at once.

Sums of float64 depend on their order, and torch chooses the order by the shapes of its tensors. So vectors
are scaled to one length and rounded to whole numbers, small enough that sums of their products are exact.
Before that, each vector is treated by itself, in steps that round in one way only.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.diversity.term import on_grid

__all__ = [
    "Directions",
    "clipped_cosine",
    "directions_of",
    "exact_sum",
    "join",
    "rough_cosines",
    "rough_error",
    "shrinking",
]

_LENGTH = 2.0**26  # so that the product of two directions is below 2**53
_LONG = 1e12  # float32 holds the square of this, and of its inverse


class Directions(NamedTuple):
    """The directions of vectors."""

    vectors: Tensor  # [... dimensions] in whole numbers, of a length near 2**26; zero for the zero vector
    scale: Tensor  # [...] times its vector, this is a unit vector; 0 for one that is like no other


def directions_of(vectors: Tensor) -> Directions:
    """Return the directions of float64 vectors [... dimensions]."""
    largest = vectors.abs().amax(-1, keepdim=True)
    vectors = vectors / largest.masked_fill(largest == 0, 1.0)  # so that squares neither overflow nor vanish
    length = _sum_by_halves(vectors * vectors).sqrt()  # at least 1, but for the zero vector
    whole = (vectors * (_LENGTH / length.clamp(min=1.0))).round_()
    scale = 1.0 / (whole * whole).sum(-1).sqrt()
    return Directions(whole, scale.masked_fill(largest.squeeze(-1) == 0, 0.0))


def join(parts: Sequence[Directions]) -> Directions:
    """Put directions one behind the other: [... a dimensions], [... b dimensions] -> [... a+b dimensions]."""
    if len(parts) == 1:
        return parts[0]
    vectors = torch.cat([part.vectors for part in parts], -2)
    return Directions(vectors, torch.cat([part.scale for part in parts], -1))


def clipped_cosine(ours: Directions, theirs: Directions) -> Tensor:
    """Compare each of ours with each of theirs: [... a dimensions], [... b dimensions] -> [... a b].

    Returns the cosine, or 0 if that is negative, on the grid.
    """
    dot = _multiply(ours.vectors, theirs.vectors.transpose(-1, -2))
    cosine = dot.mul_(ours.scale.unsqueeze(-1)).mul_(theirs.scale.unsqueeze(-2))
    return on_grid(cosine.clamp_(0.0, 1.0))


def shrinking(vectors: Tensor) -> Tensor | None:
    """Return what makes vectors [n dimensions] unit vectors, in float32 [n]; 0 for zero vectors.

    None if some are so long or so short that float32 is not to be relied on.
    """
    length = vectors.double().square().sum(-1).sqrt()
    if bool(((length > _LONG) | ((length > 0) & (length < 1 / _LONG))).any()):
        return None
    return torch.where(length > 0, 1.0 / length, 0.0).float()


def rough_cosines(parts: Iterable[Tensor], shrunk: Tensor, units: Tensor) -> Tensor:
    """Return clipped cosines in float32: of unit vectors [m d] with all of [n d], in parts -> [m n].

    `shrunk` [n] makes unit vectors of these.
    """
    ours = units.float()
    return torch.cat([ours @ part.float().T for part in parts], 1).mul_(shrunk).clamp_(min=0.0)


def rough_error(dimensions: int, addends: int, most: int) -> float:
    """Return how far a sum of rough cosines may be off, of so many addends with weights of `most` in all."""
    # What rounding may add to a product of so many numbers, and to a sum; and twice that to be sure.
    return (dimensions + addends + 16) * 2.0**-23 * most


def exact_sum(addends: Sequence[Tensor]) -> Tensor:
    """Add up float64 tensors with unlimited precision, then round to float64.

    What an addition rounds off is kept as a further part of the sum (Shewchuk 1997, "grow expansion").
    """
    *others, last = addends
    parts: list[Tensor] = []  # from small to large, of the exact sum
    for addend in others:
        parts = _grow(parts, addend)
    # The sum of two numbers is rounded once in any case.
    parts = [*parts, last] if len(parts) == 1 else _grow(parts, last)
    return functools.reduce(operator.add, parts)


def _grow(parts: Sequence[Tensor], addend: Tensor) -> list[Tensor]:
    """Return the parts of an exact sum with one more addend (each addition is Knuth's TwoSum)."""
    grown = []
    for part in parts:
        total = addend + part
        added = total - addend
        grown.append((addend - (total - added)) + (part - added))
        addend = total
    return [*grown, addend]


def _sum_by_halves(x: Tensor) -> Tensor:
    """Sum the last axis, keeping it, in an order that depends on its length alone."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        odd = x[..., 2 * half :]
        x = x[..., :half] + x[..., half : 2 * half]
        x = torch.cat([x, odd], -1) if odd.shape[-1] else x
    return x


def _multiply(x: Tensor, y: Tensor) -> Tensor:
    """Multiply matrices: [... a d], [... d b] -> [... a b].

    Where y has one matrix for several of x, these are made one: `matmul` would make copies of y instead.
    """
    if y.dim() < 3 or y.shape[-3] != 1 or x.dim() != y.dim():
        return x @ y
    product = x.flatten(-3, -2) @ y.squeeze(-3)
    return product.view(*product.shape[:-2], *x.shape[-3:-1], product.shape[-1])
