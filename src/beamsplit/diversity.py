"""The diversity terms: what it costs a group to say what earlier groups have said.

A term is a pure function with no strength and no memory. It is asked about many searches at once (the
n axis: inputs and groups together), and answers for each beam of each search and each candidate token:

    tokens  [n beam k]      candidates for this step
    prefix  [n beam time]   what the beam has said so far
    earlier                 what the earlier groups hold; see `Earlier`
    result  [n beam k]      the penalty of each candidate: finite, 0 or more

Answers depend on a candidate alone, never on its neighbours in the list: that is what lets the search
ask about short lists. Sums of fractions are taken on a fixed grid, where addition is exact, so that
not even the last bit depends on how many candidates or beams are asked about at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["Cumulative", "Diversity", "Earlier", "Embedding", "Hamming", "NGram"]

_GRID = 2.0**24  # fractions are multiples of 1 / _GRID: float64 adds up 2**29 of them without rounding
_VECTOR_GRID = 2.0**20  # components of word vectors: float64 adds up their products without rounding
_AT_ONCE = 2**25  # numbers that a term holds at once: a quarter of a gigabyte


@dataclass(frozen=True)
class Earlier:
    """What the groups before this one hold. -1 stands wherever there is no token."""

    tokens: Tensor
    """[n e] what their beams say at this step; -1 for a beam that ended before."""
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
        """Finished sequences [n e length], -1 after their ends, as seen by a beam at `time`.

        >>> Earlier.of(torch.tensor([[[4, 5, 6], [7, -1, -1]]]), time=1).tokens
        tensor([[ 5, -1]])
        """
        missing = time + 1 - sequences.shape[-1]
        padded = torch.nn.functional.pad(sequences, (0, max(missing, 0)), value=-1)
        return cls(padded[..., time], lambda: padded[..., : time + 1], lambda: sequences)


class Diversity(Protocol):
    """A diversity term. Yours needs this one method; see the module's text for the shapes.

    An attribute `vocabulary` is optional: the number of tokens the term knows, to be checked against the
    model's. So is a method `least(prefix, earlier)` that returns [n beam], what any token whatever pays at
    least: where that is much, knowing it keeps candidate lists short. Results do not depend on it.
    """

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Hamming:
    """How many earlier beams say the same token at this step.

    >>> earlier = Earlier.of(torch.tensor([[[7], [7], [3]]]), time=0)
    >>> Hamming().penalty(torch.tensor([[[3, 5, 7]]]), torch.empty(1, 1, 0), earlier)
    tensor([[[1, 0, 2]]])
    """

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        # [n beam k e] -> [n beam k]
        count, others = earlier.tokens.shape
        return (tokens.unsqueeze(-1) == earlier.tokens.reshape(count, 1, 1, others)).sum(-1)


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """Sum over earlier beams of exp(-d / temperature), d the positions so far at which the two differ.

    This step's position counts. Beams that have drifted apart hardly matter to each other any more.
    (The paper prints the sum over beams inside the exponent, and a sign that would reward sameness;
    this is what we take it to mean.)
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("temperature", self.temperature)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        if_same, if_other = self._decayed(prefix, earlier)
        says = earlier.tokens[:, None, None]  # [n 1 1 e]
        # [n beam k e] -> [n beam k]
        return torch.where(tokens.unsqueeze(-1) == says, if_same.unsqueeze(2), if_other.unsqueeze(2)).sum(-1)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """What a token pays that no earlier beam says: [n beam]."""
        return self._decayed(prefix, earlier)[1].sum(-1)

    def _decayed(self, prefix: Tensor, earlier: Earlier) -> tuple[Tensor, Tensor]:
        """What each earlier beam costs a token that is the same as its, and any other: [n beam e]."""
        time = prefix.shape[-1]
        decay = _decay_table(self.temperature, time + 2).to(prefix.device)
        # [n beam e time] -> [n beam e]
        apart = (prefix.unsqueeze(2) != earlier.beams[:, None, :, :time]).sum(-1)
        speaks = (earlier.tokens >= 0).unsqueeze(1)  # [n 1 e]
        return decay[apart] * speaks, decay[apart + 1] * speaks


@dataclass(frozen=True, kw_only=True)
class NGram:
    """How often the n-gram that this token completes occurs in earlier groups, wherever it stands."""

    n: int = 2

    def __post_init__(self) -> None:
        checks.at_least("n", self.n, 1)

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        windows = _windows(earlier.sequences, self.n)
        if windows is None or prefix.shape[-1] < self.n - 1:
            return torch.zeros_like(tokens)
        context = _context(prefix, self.n)
        # [n beam p]: does window p begin as this n-gram does?
        begins = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1)
        completes = torch.where(begins, windows[:, None, :, -1], -1)
        # [n beam k p] -> [n beam k]
        return (tokens.unsqueeze(-1) == completes.unsqueeze(2)).sum(-1)


SoftTerm: TypeAlias = Hamming | Cumulative | NGram


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """One of the other terms with "is the same word" softened to cosine similarity, clipped at 0.

    `vectors` [vocab dim] has a row for each token of the model; an n-gram's vector is the sum of its
    words'. A token without a vector (a row of zeros) resembles only itself.
    """

    vectors: Tensor
    of: SoftTerm = field(default_factory=Hamming)
    _whole: dict[torch.device, Tensor] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.of, Hamming | Cumulative | NGram):
            raise ArgumentError(
                f"of must be Hamming(), Cumulative(...) or NGram(...), not {checks.shown(self.of)}"
            )
        _check_vectors(self.vectors)
        vectors = self.vectors.detach().double()
        longest = vectors.norm(dim=1).amax().clamp(min=torch.finfo(torch.double).tiny)
        # Whole numbers (as float64) make dot products exact, whatever the shape of the product.
        self._whole[vectors.device] = (vectors / longest * _VECTOR_GRID).round()

    @property
    def vocabulary(self) -> int:
        return self.vectors.shape[0]

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        # Each token is compared with all that was said: with a whole vocabulary of them, some at a time.
        said = earlier.sequences if isinstance(self.of, NGram) else earlier.tokens
        others = max(math.prod(said.shape[1:]), self.vectors.shape[1])
        some = max(1, _AT_ONCE // max(1, math.prod(tokens.shape[:2]) * others))
        parts = [self._penalty(part, prefix, earlier) for part in torch.split(tokens, some, 2)]
        return torch.cat(parts, 2)

    def _penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        match self.of:
            case Hamming():
                return self._alike(tokens, earlier.tokens).sum(-1)
            case Cumulative(temperature=temperature):
                return self._cumulative(tokens, prefix, earlier, temperature)
            case NGram(n=n):
                return self._ngram(tokens, prefix, earlier.sequences, n)

    def least(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """What a token pays that is like nothing: [n beam]."""
        if not isinstance(self.of, Cumulative):
            return torch.zeros(prefix.shape[:2], device=prefix.device)
        apart = self._apart(prefix, earlier) + 1.0
        speaks = (earlier.tokens >= 0).unsqueeze(1)
        return (_on_grid(torch.exp(-apart / self.of.temperature)) * speaks).sum(-1)

    def _cumulative(self, tokens: Tensor, prefix: Tensor, earlier: Earlier, temperature: float) -> Tensor:
        apart = self._apart(prefix, earlier).unsqueeze(2)
        apart = apart + (1.0 - self._alike(tokens, earlier.tokens))  # [n beam k e]
        speaks = (earlier.tokens >= 0)[:, None, None]
        return (_on_grid(torch.exp(-apart / temperature)) * speaks).sum(-1)

    def _apart(self, prefix: Tensor, earlier: Earlier) -> Tensor:
        """How far each earlier beam has drifted from each of these: [n beam e]."""
        before = earlier.beams[..., : prefix.shape[-1]]
        # [n beam e time] -> [n beam e]
        alike = self._cosine(
            self._vector(prefix).unsqueeze(2), self._vector(before).unsqueeze(1)
        ).masked_fill(prefix.unsqueeze(2) == before.unsqueeze(1), 1.0)
        return (1.0 - alike).sum(-1)

    def _ngram(self, tokens: Tensor, prefix: Tensor, sequences: Tensor, n: int) -> Tensor:
        windows = _windows(sequences, n)
        if windows is None or prefix.shape[-1] < n - 1:
            return torch.zeros_like(tokens, dtype=torch.double)
        context = _context(prefix, n)
        complete = (windows >= 0).all(-1)  # [n p]
        theirs = self._vector(windows).sum(-2)  # [n p dim]
        ours = self._vector(context).sum(-2).unsqueeze(2) + self._vector(tokens)  # [n beam k dim]
        alike = self._cosine_to_all(ours, theirs)  # [n beam k p]
        same = (context.unsqueeze(2) == windows[:, None, :, :-1]).all(-1).unsqueeze(2) & (
            tokens.unsqueeze(-1) == windows[:, None, None, :, -1]
        )
        return (alike.masked_fill(same, 1.0) * complete[:, None, None]).sum(-1)

    def _alike(self, tokens: Tensor, others: Tensor) -> Tensor:
        """[n beam k], [n e] -> [n beam k e]: 1 for the same token, 0 where there is none."""
        cosine = self._cosine_to_all(self._vector(tokens), self._vector(others))
        same = tokens.unsqueeze(-1) == others[:, None, None]
        return cosine.masked_fill(same, 1.0) * (others >= 0)[:, None, None]

    def _vector(self, tokens: Tensor) -> Tensor:
        """[...] -> [... dim]; a place without a token gets some vector, to be masked."""
        if tokens.device not in self._whole:
            self._whole[tokens.device] = self._whole[self.vectors.device].to(tokens.device)
        return self._whole[tokens.device][tokens.clamp(min=0)]

    def _cosine_to_all(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """[n beam k dim], [n p dim] -> [n beam k p]."""
        dot = ours @ theirs.transpose(1, 2).unsqueeze(1)
        squares = (ours * ours).sum(-1).unsqueeze(-1) * (theirs * theirs).sum(-1)[:, None, None]
        return _clipped_cosine(dot, squares)

    def _cosine(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """[... dim], [... dim] -> [...], with the usual broadcasting."""
        squares = (ours * ours).sum(-1) * (theirs * theirs).sum(-1)
        return _clipped_cosine((ours * theirs).sum(-1), squares)


def _check_vectors(vectors: object) -> None:
    if not isinstance(vectors, Tensor) or vectors.dim() != 2 or not vectors.is_floating_point():
        got = (
            f"{vectors.dtype} {list(vectors.shape)}" if isinstance(vectors, Tensor) else checks.shown(vectors)
        )
        raise ArgumentError(f"vectors must be a float tensor [vocabulary dimensions], not {got}")
    if not vectors.numel():
        raise ArgumentError(f"vectors are {list(vectors.shape)}, which is empty: give a row for each token")
    if not bool(vectors.isfinite().all()):
        row = int((~vectors.isfinite()).any(1).nonzero()[0, 0])
        raise ArgumentError(f"vectors must be finite, but row {row} is NaN or infinite: give it zeros")


def _clipped_cosine(dot: Tensor, squares: Tensor) -> Tensor:
    return _on_grid((dot / squares.sqrt().clamp(min=1.0)).clamp(0.0, 1.0))


def _on_grid(x: Tensor) -> Tensor:
    return (x.double() * _GRID).round() / _GRID


@functools.lru_cache(maxsize=256)
def _decay_table(temperature: float, size: int) -> Tensor:
    """exp(-d / temperature) for d = 0 .. size-1, on the grid. From `math.exp`, which is the same for
    every position, as a vectorised exponential need not be.
    """
    return _on_grid(torch.tensor([math.exp(-d / temperature) for d in range(size)], dtype=torch.double))


def _windows(sequences: Tensor, n: int) -> Tensor | None:
    """All n-grams of the sequences: [n f length] -> [n p n], or None if they are too short."""
    if sequences.shape[-1] < n:
        return None
    return sequences.unfold(-1, n, 1).flatten(1, 2)


def _context(prefix: Tensor, n: int) -> Tensor:
    """The last n-1 tokens: [n beam time] -> [n beam n-1]."""
    return prefix[..., prefix.shape[-1] - (n - 1) :]
