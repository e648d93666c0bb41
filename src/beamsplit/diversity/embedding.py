"""The embedding term: another term, softened by word vectors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.diversity import comparing
from beamsplit.diversity.cosine import (
    Directions,
    clipped_cosine,
    directions_of,
    exact_sum,
    join,
    rough_cosines,
    rough_error,
    shrinking,
)
from beamsplit.diversity.hamming import Hamming
from beamsplit.diversity.recent import Recent
from beamsplit.diversity.term import Earlier, Pairs, SoftTerm, companion
from beamsplit.errors import ArgumentError

__all__ = ["Embedding"]

_IN_CACHE = 2**18  # numbers that fit into a processor's cache


class _Table(NamedTuple):
    """All tokens on one device."""

    vectors: Tensor  # [vocabulary dimensions] as they were given
    directions: Directions  # in int32


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """Another term, with the cosine similarity of word vectors in place of "is the same token".

    `vectors` [vocabulary dimensions] has a row for each token of the model. It may be a tensor, a numpy
    array, or anything else that `torch.as_tensor` takes. It is copied. `of` is the term to soften: one
    with a method `soft_penalty`, see `SoftTerm`.

    Negative similarities count as 0. The length of a token's vector does not matter, but an n-gram's vector
    is the sum of its tokens' vectors, in which long vectors weigh more. The sum is exact, so that it has the
    right direction even where long vectors nearly cancel.

    A token without a vector (a row of zeros) resembles only itself. So does an n-gram whose vectors cancel,
    that is, add up to exactly zero: it resembles only the same tokens in the same order.
    """

    vectors: Any  # a tensor, once this is made
    of: SoftTerm = field(default_factory=Hamming)
    _tables: dict[torch.device, _Table] = field(init=False, repr=False, default_factory=dict)
    _recent: Recent = field(init=False, repr=False, default_factory=Recent)

    def __post_init__(self) -> None:
        _check_term(self.of)
        vectors = _own_copy(self.vectors)
        _check_vectors(vectors)
        object.__setattr__(self, "vectors", vectors)
        parts = torch.split(vectors, _rows_at_once(vectors.shape[1], vectors.device))
        directions = [directions_of(part.double()) for part in parts]
        whole = join([Directions(part.vectors.int(), part.scale) for part in directions])
        self._tables[vectors.device] = _Table(vectors, whole)

    @property
    def vocabulary(self) -> int:
        return len(self.vectors)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        some = self._candidates_at_once(tokens, prefix, earlier)
        parts = torch.split(tokens, some, 2)
        return torch.cat([self.of.soft_penalty(part, prefix, earlier, self.similarity) for part in parts], 2)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """Return a lower bound on the penalty of every token: [n beam]."""
        soft_least = getattr(self.of, "soft_least", None)
        if soft_least is None:
            return torch.zeros(prefix.shape[:2], device=prefix.device)
        least: Tensor = soft_least(prefix, earlier, self.similarity)
        return least

    def pairs(self, tokens: Tensor, prefix: Tensor) -> Pairs | None:
        soft_pairs = companion(self.of, "soft_pairs", "soft_penalty")
        if soft_pairs is None:
            return None
        compare = functools.partial(comparing.compare, self, dimensions=self.vectors.shape[1])
        pairs: Pairs | None = soft_pairs(tokens, prefix, self.similarity, compare)
        return pairs

    def similarity(self, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
        """Compare n-grams, each of ours with each of theirs: n times [... a], n times [... b] -> [... a b].

        Returns the cosine of their vectors, clipped at 0; 1 for the same n-gram, and 0 for one with a -1.
        """
        they = self.directions(theirs)
        cosines = [
            clipped_cosine(self._directions(part), they).masked_fill_(
                comparing.same_ngrams(part, theirs), 1.0
            )
            for part in self._parts(ours)
        ]
        return cosines[0] if len(cosines) == 1 else torch.cat(cosines, -2)

    def floors(self, said: Tensor, seen: Tensor) -> Tensor | None:
        """Return how like those that a group sees each token is at least, in all: [batch group vocabulary].

        `said` are tokens [batch e], and `seen` [batch e group] tells who sees them. None if it is not known,
        as on a GPU.
        """
        shrunk = self._shrunk
        if shrunk is None or torch.get_float32_matmul_precision() != "highest":
            return None
        names = torch.unique(said)
        rows = self._recent.get(names[names >= 0], lambda tokens: self._rough(tokens, shrunk))
        batch, count, groups = seen.shape
        sums, addends = torch.zeros(batch * groups, self.vocabulary), 0
        for names, cosines in rows:
            # How often each group sees each of them: [batch group n]
            often = seen.transpose(1, 2).float() @ (said.unsqueeze(2) == names).float()
            used = often.flatten(0, 1).any(0).nonzero().squeeze(1)
            if len(used):
                sums.addmm_(
                    often.flatten(0, 1)[:, used], cosines[used] if len(used) < len(names) else cosines
                )
                addends += len(used)
        sums.sub_(rough_error(self.vectors.shape[1], addends, count)).clamp_(min=0.0)
        return sums.view(batch, groups, -1)

    def _rough(self, tokens: Tensor, shrunk: Tensor) -> Tensor:
        """Return how like these tokens [m] all are, but for some rounding: [m vocabulary]."""
        vectors, scale = self.directions([tokens])
        parts = torch.split(self.vectors, _rows_at_once(self.vectors.shape[1], self.vectors.device))
        return rough_cosines(parts, shrunk, vectors * scale.unsqueeze(-1))

    @functools.cached_property
    def _shrunk(self) -> Tensor | None:
        if self.vectors.device.type != "cpu":
            return None
        parts = torch.split(self.vectors, _rows_at_once(self.vectors.shape[1], self.vectors.device))
        shrunk = [shrinking(part) for part in parts]
        return None if any(each is None for each in shrunk) else torch.cat(shrunk)  # type: ignore[arg-type]

    def _parts(self, ngrams: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
        """Split n-grams, n times [... a], into parts to work on one at a time."""
        shapes = (tokens.shape for tokens in ngrams)
        *axes, count = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        some = _rows_at_once(math.prod(axes) * self.vectors.shape[1], ngrams[0].device)
        for start in range(0, max(count, 1), some):
            part = slice(start, start + some)
            yield [tokens if tokens.shape[-1] == 1 else tokens[..., part] for tokens in ngrams]

    def directions(self, ngrams: Sequence[Tensor]) -> Directions:
        """Return the directions of n-grams: n times [... a] -> [... a dimensions]. One with a -1 has none."""
        return join([self._directions(part) for part in self._parts(ngrams)])

    def _directions(self, ngrams: Sequence[Tensor]) -> Directions:
        table = self._table(ngrams[0].device)
        rows = [tokens.clamp(min=0) for tokens in ngrams]
        if len(rows) == 1:
            vectors, scale = _take(table.directions.vectors, rows[0]), table.directions.scale[rows[0]]
        else:
            vectors, scale = directions_of(exact_sum([_take(table.vectors, each) for each in rows]))
        complete = functools.reduce(operator.and_, (tokens >= 0 for tokens in ngrams))
        return Directions(vectors, scale * complete)

    def _table(self, device: torch.device) -> _Table:
        if device not in self._tables:
            vectors, directions = self._tables[self.vectors.device]
            moved = Directions(*(each.to(device) for each in directions))
            self._tables[device] = _Table(vectors.to(device), moved)
        return self._tables[device]

    def _candidates_at_once(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> int:
        """Return how many candidates of each beam the term can be asked about at once.

        That depends on how much it compares them with. To see that, it is asked about no candidates.
        """
        most = 1

        def count(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
            nonlocal most
            same = comparing.same_ngrams(ours, theirs)
            most = max(most, same.shape[-1])
            return same.double()

        self.of.soft_penalty(tokens[..., :0], prefix, earlier, count)
        return max(1, comparing.AT_ONCE // max(1, most * math.prod(tokens.shape[:2])))


def _check_term(of: object) -> None:
    if isinstance(of, type) or not callable(getattr(of, "soft_penalty", None)):
        raise ArgumentError(
            f"of must be Hamming(), Cumulative(...) or NGram(...), not {checks.short_repr(of)}; "
            "a term of your own needs a method soft_penalty"
        )


def _own_copy(vectors: Any) -> Tensor:
    """Return a tensor that does not change when what was given does."""
    if isinstance(vectors, Tensor):
        return vectors.detach().clone()
    try:
        return torch.tensor(vectors, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            f"vectors must be a float tensor [vocabulary dimensions], not {checks.short_repr(vectors)}: "
            f"{checks.reason(error)}"
        ) from error


def _check_vectors(vectors: Tensor) -> None:
    if vectors.dim() != 2 or not vectors.is_floating_point():
        raise ArgumentError(
            "vectors must be a float tensor [vocabulary dimensions], "
            f"not {vectors.dtype} {list(vectors.shape)}"
        )
    if not vectors.numel():
        raise ArgumentError(f"vectors are {list(vectors.shape)}, which is empty: give a row for each token")
    if not bool(vectors.isfinite().all()):
        row = int((~vectors.isfinite()).any(1).nonzero()[0, 0])
        raise ArgumentError(f"vectors must be finite, but row {row} is NaN or infinite: give it zeros")


def _rows_at_once(numbers: int, device: torch.device) -> int:
    """Return how many rows of so many numbers to work on at once. Small parts are quicker on a CPU."""
    limit = _IN_CACHE if device.type == "cpu" else comparing.AT_ONCE
    return max(1, limit // max(1, numbers))


def _take(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a table in float64: [...] -> [... dimensions]."""
    # Quicker than table[rows].
    return table.index_select(0, rows.flatten()).double().view(*rows.shape, table.shape[1])
