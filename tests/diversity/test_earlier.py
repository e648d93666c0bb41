"""What the earlier groups hold, as a term sees it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from beamsplit import Earlier, Hamming

FINISHED = torch.tensor([[[4, 5, 6], [7, -1, -1]]])


def test_finished_sequences_say_at_a_time_what_stands_there() -> None:
    assert Earlier.of(FINISHED, time=0).tokens.tolist() == [[4, 7]]
    assert Earlier.of(FINISHED, time=1).tokens.tolist() == [[5, -1]]
    assert Earlier.of(FINISHED, time=2).tokens.tolist() == [[6, -1]]


def test_finished_sequences_say_nothing_beyond_their_length() -> None:
    beyond = Earlier.of(FINISHED, time=4)
    assert beyond.tokens.tolist() == [[-1, -1]]
    assert beyond.beams.tolist() == [[[4, 5, 6, -1, -1], [7, -1, -1, -1, -1]]]


def test_beams_reach_to_this_step_and_sequences_to_the_end() -> None:
    seen = Earlier.of(FINISHED, time=1)
    assert seen.beams.tolist() == [[[4, 5], [7, -1]]]
    assert seen.sequences.tolist() == FINISHED.tolist()


def test_full_sequences_are_made_once_and_only_if_asked_for() -> None:
    calls: list[str] = []

    def made(name: str) -> Callable[[], Tensor]:
        def make() -> Tensor:
            calls.append(name)
            return FINISHED

        return make

    earlier = Earlier(FINISHED[..., 0], made("beams"), made("sequences"))
    Hamming().penalty(torch.tensor([[[4]]]), torch.empty(1, 1, 0, dtype=torch.long), earlier)
    assert calls == []
    assert earlier.beams is earlier.beams
    assert earlier.sequences is earlier.sequences
    assert calls == ["beams", "sequences"]
