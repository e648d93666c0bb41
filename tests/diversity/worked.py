"""What earlier groups hold, and what a beam then pays: for tables worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from beamsplit import Diversity, Earlier

HALVING = 1 / math.log(2)  # a temperature at which exp(-d / temperature) is 2 ** -d
CLOSE = 1e-6  # fractions lie on a grid of 2 ** -24


def table(rows: Sequence[Sequence[int]]) -> Tensor:
    """[1 rows length], -1 after the end of those that are shorter."""
    width = max((len(row) for row in rows), default=0)
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(1, len(rows), width)


def holding(beams: Sequence[Sequence[int]], finished: Sequence[Sequence[int]] = ()) -> Earlier:
    """Earlier groups with these beams, their token at this step last, and these hypotheses from before."""
    held = table(beams)
    return Earlier(held[..., -1], lambda: held, lambda: table([*beams, *finished]))


def price(term: Diversity, candidates: Sequence[int], prefix: Sequence[int], earlier: Earlier) -> list[float]:
    """What one beam of one search pays for each candidate."""
    tokens = torch.tensor(candidates).view(1, 1, -1)
    said = torch.tensor(prefix, dtype=torch.long).view(1, 1, -1)
    return [float(cost) for cost in term.penalty(tokens, said, earlier)[0, 0]]
