"""Comparisons of the n-grams of one step by their vectors, in a way that suits the device and the size."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.diversity.cosine import Directions, clipped_cosine
from beamsplit.diversity.term import Comparison, take_rows

__all__ = ["AT_ONCE", "Space", "compare", "same_ngrams"]

AT_ONCE = 2**25  # numbers that are held at once: a quarter of a gigabyte


class Space(Protocol):
    """Word vectors. What they are, `Embedding` knows."""

    @property
    def vocabulary(self) -> int: ...

    def directions(self, ngrams: Sequence[Tensor]) -> Directions:
        """Return the directions of n-grams: n times [... a] -> [... a dimensions]."""
        ...

    def similarity(self, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
        """Compare n-grams with each other, some at a time; see `beamsplit.diversity.Similarity`."""
        ...

    def floors(self, said: Tensor, seen: Tensor) -> Tensor | None:
        """Return how like those that a group sees each token is at least, in all: [batch group vocabulary].

        `said` are tokens [batch e], and `seen` [batch e group] tells who sees them. None if it is not known.
        """
        ...


def compare(space: Space, ngrams: Sequence[Tensor], dimensions: int) -> Comparison:
    """Return the comparison of n-grams, n times [batch a].

    To find out which of them are the same takes a processor less time than it saves. A GPU would have to be
    waited for, and compares them all, as long as there is room.
    """
    if ngrams[0].device.type == "cpu" or ngrams[0].numel() * dimensions > AT_ONCE:
        return ByKind(space, ngrams, dimensions)
    return OneByOne(space, ngrams)


class OneByOne:
    """A comparison of all n-grams, with few operations and no answer to wait for."""

    def __init__(self, space: Space, ngrams: Sequence[Tensor]) -> None:
        self._space, self._ngrams = space, ngrams
        self._directions = space.directions(ngrams)  # [batch a dimensions]

    def sums(self, theirs: Sequence[Tensor]) -> Tensor:
        _, beams, windows = theirs[0].shape
        some = max(1, AT_ONCE // max(1, self._ngrams[0].numel() * windows))
        parts = [[each[:, e : e + some] for each in theirs] for e in range(0, beams, some)]
        return torch.cat([self._sums(part) for part in parts], 1)

    def _sums(self, theirs: Sequence[Tensor]) -> Tensor:
        flat = [each.flatten(1) for each in theirs]
        alike = self._compare(flat, self._space.directions(flat))  # [batch a e*w]
        return alike.view(*alike.shape[:2], *theirs[0].shape[1:]).sum(-1).transpose(1, 2)

    def among(self, slots: Tensor) -> Tensor:
        they = Directions(*(take_rows(each, slots) for each in self._directions))
        return self._compare([each.gather(1, slots) for each in self._ngrams], they).transpose(1, 2)

    def totals(self, slots: Tensor, seen: Tensor) -> Tensor:
        alike = self.among(slots)  # [batch e a]
        by_group = alike.reshape(*alike.shape[:2], seen.shape[2], -1)
        return (by_group * seen.unsqueeze(3)).sum(1)

    def floors(self, slots: Tensor, seen: Tensor) -> None:
        return None

    def _compare(self, theirs: Sequence[Tensor], they: Directions) -> Tensor:
        alike = clipped_cosine(self._directions, they)
        return alike.masked_fill_(same_ngrams(self._ngrams, theirs), 1.0)


class ByKind:
    """A comparison of the kinds of n-grams that there are, each with what comes up, once."""

    def __init__(self, space: Space, ngrams: Sequence[Tensor], dimensions: int) -> None:
        self._space = space
        self._kinds, self._kind = _distinct(ngrams, space.vocabulary)  # n times [u], [batch a]
        count, device = len(self._kinds[0]), self._kind.device
        self._directions = space.directions(self._kinds) if count * dimensions <= AT_ONCE else None
        self._known = torch.empty(0, count, dtype=torch.double, device=device)  # [kinds that came up, u]
        self._place = torch.full((count,), -1, device=device)  # [u] of a kind among these; -1: not there

    def sums(self, theirs: Sequence[Tensor]) -> Tensor:
        kinds, kind = _distinct(theirs, self._space.vocabulary)  # n times [v], [batch e w]
        # Each bag is the n-grams of one beam: [v u] -> [batch*e u]
        sums = torch.nn.functional.embedding_bag(kind.flatten(0, 1), self._rows(kinds), mode="sum")
        return self._spread(sums.view(*kind.shape[:2], -1))

    def among(self, slots: Tensor) -> Tensor:
        kind = self._kind.gather(1, slots)
        self._learn(torch.unique(kind[self._place[kind] < 0]))
        return self._spread(self._known[self._place[kind]])

    def totals(self, slots: Tensor, seen: Tensor) -> Tensor:
        kind = self._kind.gather(1, slots)
        self._learn(torch.unique(kind[self._place[kind] < 0]))
        place, (batch, _, groups) = self._place[kind], seen.shape
        # How often each group sees each kind: [batch group kinds that came up]
        often = self._known.new_zeros(batch, groups, len(self._known))
        often.scatter_add_(2, place.unsqueeze(1).expand(-1, groups, -1), seen.transpose(1, 2).to(often))
        # On the grid, so that no order of adding up rounds anything.
        sums = (often.flatten(0, 1) @ self._known).view(batch, groups, -1)
        return sums.gather(2, self._kind.view(batch, groups, -1))

    def floors(self, slots: Tensor, seen: Tensor) -> Tensor | None:
        if len(self._kinds) > 1:
            return None
        kind = self._kind.gather(1, slots)
        return self._space.floors(self._kinds[0][kind], seen)

    def _learn(self, new: Tensor) -> None:
        """Compare kinds [v] with all kinds, and keep the result."""
        if len(new):
            self._place[new] = torch.arange(len(self._known), len(self._known) + len(new), device=new.device)
            self._known = torch.cat([self._known, self._rows([each[new] for each in self._kinds])])

    def _rows(self, theirs: Sequence[Tensor]) -> Tensor:
        """Compare each of theirs with each kind: n times [v] -> [v u]."""
        if self._directions is None:
            return self._space.similarity(self._kinds, theirs).t().contiguous()
        alike = clipped_cosine(self._directions, self._space.directions(theirs))
        return alike.masked_fill_(same_ngrams(self._kinds, theirs), 1.0).t().contiguous()

    def _spread(self, values: Tensor) -> Tensor:
        """Give what is known of each kind to each n-gram: [batch e u] -> [batch e a]."""
        return values.gather(2, self._kind.unsqueeze(1).expand(-1, values.shape[1], -1))


def _distinct(ngrams: Sequence[Tensor], vocabulary: int) -> tuple[list[Tensor], Tensor]:
    """Return the n-grams without those that come again, n times [u], and the place of each among them.

    The second has the shape of one token of all n-grams.
    """
    kind, count = torch.zeros_like(ngrams[0]), 1
    for tokens in ngrams:
        kind, count = _numbered(kind * (vocabulary + 1) + tokens + 1, count * (vocabulary + 1))
    places = torch.arange(kind.numel(), device=kind.device)
    first = places.new_empty(count).scatter_(0, kind.flatten(), places)
    return [tokens.flatten()[first] for tokens in ngrams], kind


def _numbered(codes: Tensor, limit: int) -> tuple[Tensor, int]:
    """Return the place of each code, a number below a limit, among those there are; and their count."""
    if limit > 16 * codes.numel():
        found, place = torch.unique(codes, return_inverse=True)
        return place, len(found)
    present = torch.zeros(limit, dtype=torch.bool, device=codes.device)
    present[codes.flatten()] = True
    place = present.cumsum(0) - 1
    return place[codes], int(place[-1]) + 1


def same_ngrams(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
    """Return which n-grams are the same and have no -1: n times [... a], n times [... b] -> [... a b]."""
    # -1 must not equal -1.
    theirs = [tokens.masked_fill(tokens < 0, -2) for tokens in theirs]
    pairs = zip(ours, theirs, strict=True)
    return functools.reduce(operator.and_, (our.unsqueeze(-1) == their.unsqueeze(-2) for our, their in pairs))
