"""Running a job: parts of a file, windows, and batches of a size that suits the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from beamsplit import FunctionModel
from beamsplit.jobs.lines import Input, InputLine
from beamsplit.jobs.running import WINDOW, KnownLine, Windows, decode_windows, shard_range
from beamsplit.jobs.searching import Searcher
from beamsplit.strategies.spec import StrategySpec, Widths


@pytest.mark.parametrize("lines", [0, 1, 7, 64, 100, 1000])
@pytest.mark.parametrize("shards", [1, 2, 3, 8])
def test_shards_cover_a_file_once(lines: int, shards: int) -> None:
    parts = [shard_range(shard, shards, lines) for shard in range(1, shards + 1)]
    assert [number for part in parts for number in part] == list(range(lines))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= 1.25 * lines / shards + 1


def test_shards_of_a_long_file_divide_no_window() -> None:
    """Of batches of 1, 2, ..., 64, where a part has 64 of them."""
    for size in (1, 4, 32, 64):
        for lines in (3 * 64 * size, 3 * 64 * size + 77, 10**6):
            starts = [shard_range(shard, 3, lines).start for shard in (1, 2, 3)]
            assert [start % (WINDOW * size) for start in starts] == [0, 0, 0]


def known(texts: str, done: str = "") -> list[KnownLine]:
    """A line for each letter; a space is a blank line, and a question mark cannot be read."""
    return [
        KnownLine(
            InputLine(
                number,
                {"id": str(number)},
                Input(text, text, fault="is odd" if text == "?" else "", blank=text == " "),
            ),
            done=text in done,
            refused=text in done and text == "?",
        )
        for number, text in enumerate(texts)
    ]


def model(started: list[list[str]]) -> FunctionModel:
    """A model of two tokens, which writes down the batches that it is started with."""

    def start(inputs: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        started.append(list(inputs))
        return torch.zeros(len(inputs), 2), torch.zeros(len(inputs), 1)

    return FunctionModel(lambda tokens, state: (torch.zeros(len(tokens), 2), state), start=start)


def searcher(model: Any, groups: int = 2, max_length: int = 2) -> Searcher:
    widths = Widths(groups=groups, beams_per_group=1, strength=1.0, diversity="hamming")
    return Searcher(model, (StrategySpec.of_widths("dbs", widths),), {"max_length": max_length})


def test_windows_begin_with_the_first_that_is_not_done() -> None:
    windows = Windows(known("ab?cdefgh", done="ab?cdg"), 2)
    assert (windows.done, windows.refused, windows.lines) == (5, 1, 6)
    assert [[each.line.given.shown for each in window] for window in windows] == [
        ["d", "e"],
        ["f", "g"],
        ["h"],
    ]
    assert (windows.done, windows.lines) == (6, 9)


def test_a_batch_that_is_half_done_is_decoded_whole() -> None:
    """Or the last bits of the others might differ. What is done is not written again."""
    started: list[list[str]] = []
    windows = [known("ab c?de", done="abd")]
    found = list(decode_windows(searcher(model(started)), windows, 2))
    assert started == [["c", "d"], ["e"]]
    assert [[(each.number, each.refused) for each in batch] for batch in found] == [
        [(2, False), (4, True)],
        [(3, False)],
        [(6, False)],
    ]


class Large:
    """A model with weights of transformers, which are not there."""

    def __init__(self, weights: int, device: str = "meta") -> None:
        self.module = nn.Module()
        self.module.weight = nn.Parameter(torch.empty(weights, device=device))

    end = None

    def start(self, inputs: Any) -> Any: ...
    def step(self, tokens: Any, state: Any) -> Any: ...
    def select(self, state: Any, rows: Any) -> Any: ...


def test_batches_of_large_models_on_a_cpu_are_small() -> None:
    """One million weights, 100 tokens of 500 beams: 10^11 operations for an input, of 10^12 for a batch.

    It is a power of two, so that parts of a file have the batches of the whole.
    """
    small, large, elsewhere = Large(1000, "cpu"), Large(1_000_000, "cpu"), Large(1_000_000)
    assert searcher(large, groups=500, max_length=100).batch_size(32) == 8
    assert searcher(large, groups=500, max_length=100).batch_size(7) == 7
    assert searcher(large, groups=500, max_length=2000).batch_size(32) == 1
    assert searcher(small, groups=500, max_length=100).batch_size(32) == 32
    assert searcher(elsewhere, groups=500, max_length=100).batch_size(32) == 32
    assert searcher(model([])).batch_size(32) == 32
