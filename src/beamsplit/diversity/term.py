"""What a diversity term is.

A term is a pure function with no strength and no memory. The search asks it about many groups at once
(the n axis: inputs and groups together). It answers for each beam of each group and each candidate token:

    tokens  [n beam k]      candidates for this step
    prefix  [n beam time]   the beam's tokens so far
    earlier                 what the earlier groups hold; see `Earlier`
    result  [n beam k]      the penalty of each candidate: finite, 0 or more

A candidate's penalty must not depend on the other candidates in the list: that is what lets the search ask
about short lists. Sums of fractions are taken on a fixed grid, where addition is exact, so that not even the
last bit depends on how many candidates or beams are asked about at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = [
    "LONG",
    "Comparison",
    "Diversity",
    "Earlier",
    "Pairs",
    "Similarity",
    "SoftTerm",
    "TotalPairs",
    "by_beam",
    "companion",
    "count_equal",
    "on_grid",
    "take_rows",
]

LONG = 256  # candidates in a list for which it may pay to count by a table
_GRID = 2.0**24  # fractions are multiples of 1 / _GRID: float64 adds up 2**29 of them without rounding


@dataclass(frozen=True)
class Earlier:
    """What the groups before this one hold. -1 stands wherever there is no token."""

    tokens: Tensor
    """[n e] the tokens of their beams at this step; -1 for a beam that ended before."""
    make_beams: Callable[[], Tensor]
    make_sequences: Callable[[], Tensor]

    @functools.cached_property
    def beams(self) -> Tensor:
        """[n e time+1] the same beams in full, their token at this step last."""
        return self.make_beams()

    @functools.cached_property
    def sequences(self) -> Tensor:
        """[n f length] everything they hold: these beams, and the hypotheses that ended before."""
        return self.make_sequences()

    @classmethod
    def of(cls, sequences: Tensor, time: int) -> Earlier:
        """Return finished sequences [n e length], -1 after their ends, as seen by a beam at `time`.

        >>> Earlier.of(torch.tensor([[[4, 5, 6], [7, -1, -1]]]), time=1).tokens
        tensor([[ 5, -1]])
        """
        missing = time + 1 - sequences.shape[-1]
        padded = torch.nn.functional.pad(sequences, (0, max(missing, 0)), value=-1)
        return cls(padded[..., time], lambda: padded[..., : time + 1], lambda: sequences)


class Diversity(Protocol):
    """A diversity term. Yours needs this one method; see the module's text for the shapes.

    The rest is optional:

    - An attribute `vocabulary`: the number of tokens the term knows, to be checked against the model's.
    - A method `least(prefix, earlier)` that returns [n beam], a lower bound on the penalty of every token.
      Where that is high, knowing it keeps candidate lists short. Results do not depend on it.
    - A method `pairs(tokens, prefix)`, if penalties add up over earlier beams: a quicker way to the same
      results where groups pick at the same time. See `Pairs`.
    - A method `reach(beams, length)`: how many tokens of a step may cost more than `least`, after so many
      earlier beams of so many tokens. It tells users of short lists how long these would have to be.
    - A method `soft_penalty`, which lets `Embedding` soften the term: see `SoftTerm`.
    """

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor: ...


class Pairs(Protocol):
    """What every candidate of an input pays for any other, if an earlier group picks that.

    It is made once a step by a term's `pairs(tokens, prefix)`, of all candidates [batch beam k] of all
    beams [batch beam time] of an input, and then asked as often as picks change. `pairs` may return None
    where `penalty` is the better way. The two must agree: a penalty is the sum over earlier beams of what
    is said here, and the penalty for what else earlier groups hold.

    A candidate is named by its slot among those of its input: beam * k + place in the beam's list.
    """

    @property
    def counts_finished(self) -> bool:
        """Whether finished hypotheses of earlier groups may cost something too."""
        ...

    def of(self, slots: Tensor) -> Tensor:
        """Return what each candidate pays for each of these: [batch e] -> [batch e beam k]."""
        ...

    def least(self, slots: Tensor) -> Tensor | None:
        """Return what any token pays for each of these at least: [batch e beam]; None if that is unknown."""
        ...


@runtime_checkable
class TotalPairs(Pairs, Protocol):
    """Pairs whose sums are to be had without their parts, where what is paid depends on tokens alone."""

    def totals(self, slots: Tensor, seen: Tensor) -> Tensor:
        """Return what the candidates of each group pay for those that it sees, in all.

        `slots` are [batch e], `seen` [batch e group] tells who sees them. The result is [batch group rest],
        where rest is the candidates of a group: the beams of an input are those of its groups, in order.
        """
        ...

    def floors(self, slots: Tensor, seen: Tensor) -> Tensor | None:
        """Return what each token of the vocabulary pays at least: [batch group vocabulary].

        None if that is not known. It may be a little less than what a token pays, and never more.
        """
        ...


class Similarity(Protocol):
    """A measure of how alike two n-grams are, from 0 to 1. A single token is an n-gram of one."""

    def __call__(self, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
        """Compare each of ours with each of theirs: n times [... a], n times [... b] -> [... a b].

        There is a tensor for each of the n tokens of an n-gram. These broadcast, and so do the leading
        axes of ours and theirs. The same n-gram is 1, and one with a -1 in it is 0 whatever it is compared
        with. The results lie on the grid, so that sums of them are exact.
        """
        ...


class Comparison(Protocol):
    """N-grams that are compared with others, and with each other again and again. They are [batch a]."""

    def sums(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return how like n-grams of others each is, summed up: n times [batch e w] -> [batch e a]."""
        ...

    def among(self, slots: Tensor) -> Tensor:
        """Compare those in these slots with each of them: [batch e] -> [batch e a]."""
        ...

    def totals(self, slots: Tensor, seen: Tensor) -> Tensor:
        """Add up, for each group, how like those that it sees its n-grams are.

        `slots` are [batch e], `seen` [batch e group]. The result is [batch group a/group].
        """
        ...

    def floors(self, slots: Tensor, seen: Tensor) -> Tensor | None:
        """Return a lower bound on the same for each token there is: [batch group vocabulary].

        None if it is not known.
        """
        ...


class SoftTerm(Protocol):
    """A term that `Embedding` can soften: it can use a similarity in place of "is the same token".

    It is also asked about no candidates at all (k = 0), to see how much it compares them with.

    Two methods are optional: `soft_least(prefix, earlier, similarity)` is the softened term's `least`, and
    `soft_pairs(tokens, prefix, similarity, compare)` its `pairs`, where `compare` makes a `Comparison` of
    n-grams, n times [batch a].
    """

    def soft_penalty(
        self, tokens: Tensor, prefix: Tensor, earlier: Earlier, similarity: Similarity
    ) -> Tensor:
        """Return the penalty of each candidate, with the shapes of `Diversity.penalty`."""
        ...


def count_equal(tokens: Tensor, others: Tensor) -> Tensor:
    """Return how many of the others each token equals: [n beam k], [n beam p] -> [n beam k].

    The others may have a beam axis of 1, if they are the same for all beams.

    >>> count_equal(torch.tensor([[[3, 5, 7]]]), torch.tensor([[[7, 7, 3]]]))
    tensor([[[1, 0, 2]]])
    """
    k, p = tokens.shape[-1], others.shape[-1]
    if k >= LONG and p:
        size = int(torch.maximum(tokens.max(), others.max())) + 2  # the last place is that of -1
        if k * p > 2 * size:  # all pairs are more than a table: so it is for a whole vocabulary
            table = others.new_zeros(*others.shape[:2], size)
            table.scatter_add_(2, others % size, torch.ones_like(others))
            return table.expand(*tokens.shape[:2], size).gather(2, tokens % size)
    # [n beam k p] -> [n beam k]
    return (tokens.unsqueeze(-1) == others.unsqueeze(2)).sum(-1)


def companion(term: object, name: str, of: str) -> Callable[..., Any] | None:
    """Return a term's method that has to agree with another; None if it has none.

    Nor does it have one if it is a subclass that has another `of` of its own: then what it has inherited
    speaks for another term.
    """
    found: Callable[..., Any] | None = getattr(term, name, None)
    for kind in type(term).__mro__:
        if name in vars(kind):
            return found
        if of in vars(kind):
            return None
    return found


def by_beam(values: Tensor, tokens: Tensor) -> Tensor:
    """Give values [batch e beam*k] of candidates [batch beam k] the axes of these: [batch e beam k]."""
    return values.view(*values.shape[:2], *tokens.shape[1:])


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Return these rows of each input: [batch row ...], [batch e] -> [batch e ...]."""
    index = rows.view(*rows.shape, *[1] * (values.dim() - 2))
    return values.gather(1, index.expand(*rows.shape, *values.shape[2:]))


def on_grid(x: Tensor) -> Tensor:
    """Round to multiples of 2**-24, which float64 adds up without rounding."""
    return (x.double() * _GRID).round() / _GRID
