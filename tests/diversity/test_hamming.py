"""The Hamming term, against tables worked by hand."""

from __future__ import annotations

import torch

from beamsplit import Earlier, Hamming
from diversity.worked import holding, price


def test_hamming_counts_earlier_beams_that_say_the_same_now() -> None:
    # Now: 7, 7, 3. What they said before (5, 5, 5) does not matter.
    earlier = holding([[5, 7], [5, 7], [5, 3]])
    assert price(Hamming(), [3, 5, 7], [5], earlier) == [1, 0, 2]


def test_hamming_ignores_beams_that_ended() -> None:
    # The second beam ended a step ago: its -1 is nobody's token, not even token 0's.
    earlier = holding([[5, 7], [0, -1]])
    assert price(Hamming(), [0, 5, 7], [5], earlier) == [0, 0, 1]


def test_hamming_tells_searches_and_beams_apart() -> None:
    # Two searches of two beams: the first hears 1 and 1, the second 2 and nothing.
    says = torch.tensor([[1, 1], [2, -1]])
    tokens = torch.tensor([[[1, 2], [2, 3]], [[1, 2], [2, 3]]])
    nothing_yet = torch.empty(2, 2, 0, dtype=torch.long)
    answer = Hamming().penalty(tokens, nothing_yet, Earlier.of(says.unsqueeze(-1), time=0))
    assert answer.tolist() == [[[2, 0], [0, 0]], [[0, 1], [1, 0]]]
