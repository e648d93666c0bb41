"""What a branching search knows so far: prefixes with their likeliest next tokens, and complete outputs.

Both are tables on the CPU, with a row for each prefix or output of any input of the batch.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

__all__ = ["NOTHING", "Outputs", "Prefixes", "Tree"]

NOTHING = -1
"""Stands in the place of a token, a prefix or an output where there is none."""


class Prefixes(NamedTuple):
    """Prefixes after which the model was asked for the next token, and its likeliest answers."""

    input: Tensor  # [n]
    parent: Tensor  # [n] the prefix that is one token shorter
    token: Tensor  # [n] its last token
    length: Tensor  # [n]
    log_prob: Tensor  # [n]
    score: Tensor  # [n] the same with guidance
    next_token: Tensor  # [n k] candidates; NOTHING where there are fewer
    next_log_prob: Tensor  # [n k] of the prefix and the candidate
    next_score: Tensor  # [n k] the same with guidance; -inf where there is no candidate
    is_open: Tensor  # [n k] whether there is a candidate that was not followed
    answer: Tensor  # [n] the number of the model's answer
    row: Tensor  # [n] its row in that answer


class Outputs(NamedTuple):
    """Complete outputs."""

    input: Tensor  # [n]
    prefix: Tensor  # [n] all but the last token
    token: Tensor  # [n] the last token
    length: Tensor  # [n]
    log_prob: Tensor  # [n]
    score: Tensor  # [n] the same with guidance
    worth: Tensor  # [n] what it is chosen by: its score, or what was expected of it if that is less
    ended: Tensor  # [n] by an end, not by the limit on length


_Table = TypeVar("_Table", Prefixes, Outputs)


class _Growing(Generic[_Table]):
    """A table that grows at its end without being copied each time."""

    def __init__(self, first: _Table) -> None:
        self._kind: type[_Table] = type(first)
        self._size = len(first.input)
        self._columns: list[Tensor] = list(first)

    @property
    def rows(self) -> _Table:
        """All rows. What is written into them stays."""
        return self._kind(*(column[: self._size] for column in self._columns))

    def add(self, more: _Table) -> Tensor:
        """Add rows, and return their places."""
        before, self._size = self._size, self._size + len(more.input)
        if self._size > len(self._columns[0]):
            self._columns = [_with_room(column[:before], 2 * self._size) for column in self._columns]
        for column, added in zip(self._columns, more, strict=True):
            column[before : self._size] = added
        return torch.arange(before, self._size, device="cpu")


def _with_room(column: Tensor, rows: int) -> Tensor:
    larger = column.new_empty((rows, *column.shape[1:]))
    larger[: len(column)] = column
    return larger


class Tree:
    """The prefixes and outputs of a batch of inputs."""

    def __init__(self, roots: Prefixes) -> None:
        self._prefixes = _Growing(roots)
        self._outputs: _Growing[Outputs] | None = None
        self._paths = torch.empty(0, 0, dtype=torch.long, device="cpu")

    @property
    def prefixes(self) -> Prefixes:
        """All prefixes: the roots first, and each after the one that it extends."""
        return self._prefixes.rows

    @property
    def outputs(self) -> Outputs:
        """All complete outputs, in the order in which they were found."""
        assert self._outputs is not None, "nothing is complete yet"
        return self._outputs.rows

    def add(self, prefixes: Prefixes) -> Tensor:
        """Add prefixes, and return their places in the table."""
        self._close(prefixes.parent, prefixes.token)
        return self._prefixes.add(prefixes)

    def finish(self, outputs: Outputs) -> None:
        """Add complete outputs."""
        self._close(outputs.prefix, outputs.token)
        if self._outputs is None:
            self._outputs = _Growing(outputs)
        else:
            self._outputs.add(outputs)

    def paths(self) -> Tensor:
        """[n longest+1] the places of every prefix's own prefixes, by length; NOTHING beyond itself."""
        prefixes = self.prefixes
        if len(self._paths) < len(prefixes.input):
            self._paths = _paths(prefixes)
        return self._paths

    def spell(self, outputs: Outputs) -> list[tuple[int, ...]]:
        """Return the tokens of outputs."""
        along = self.paths()[outputs.prefix, 1:]
        columns = self.prefixes.token[along].tolist(), outputs.token.tolist(), outputs.length.tolist()
        return [(*tokens[: length - 1], last) for tokens, last, length in zip(*columns, strict=True)]

    def _close(self, parent: Tensor, token: Tensor) -> None:
        """Put down that these candidates were followed."""
        which, slot = (self.prefixes.next_token[parent] == token.unsqueeze(1)).nonzero(as_tuple=True)
        self.prefixes.is_open[parent[which], slot] = False


def _paths(prefixes: Prefixes) -> Tensor:
    longest = int(prefixes.length.max())
    paths = torch.full((len(prefixes.input), longest + 1), NOTHING, device="cpu")
    for length in range(longest + 1):
        places = (prefixes.length == length).nonzero().squeeze(1)
        if length:
            paths[places, :length] = paths[prefixes.parent[places], :length]
        paths[places, length] = places
    return paths
