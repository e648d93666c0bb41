"""Rows and ancestry: a beam's row is always the one that its tokens went through."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from beamsplit.search.rows import Rows, are_all

CPU = torch.device("cpu")


def test_all_beams_of_an_input_start_from_its_row() -> None:
    rows = Rows.roots(batch=3, groups=2, beams=2, device=CPU)
    assert rows.count == 3
    assert rows.index.tolist() == [[[0, 0], [0, 0]], [[1, 1], [1, 1]], [[2, 2], [2, 2]]]


def test_roots_may_stand_below_other_rows() -> None:
    rows = Rows.roots(batch=2, groups=1, beams=1, device=CPU, above=5)
    assert rows.index.flatten().tolist() == [5, 6]
    assert rows.count == 7


def test_a_beam_goes_on_from_the_row_of_its_parent() -> None:
    rows = Rows(torch.tensor([[[4, 7, 9]]]), 10)
    assert rows.follow(torch.tensor([[[2, 0, 0]]])).index.tolist() == [[[9, 4, 4]]]


def test_every_beam_gets_a_row_in_the_order_of_the_beams() -> None:
    parents, rows = Rows(torch.tensor([[[4, 7], [7, 1]]]), 10).hand_out()
    assert parents.tolist() == [4, 7, 7, 1]
    assert rows.index.tolist() == [[[0, 1], [2, 3]]]
    assert rows.count == 4
    assert rows.in_order


def test_only_live_beams_get_a_row() -> None:
    live = torch.tensor([[[True, False], [False, True]], [[False, True], [True, True]]])
    parents, rows = Rows(torch.arange(8).view(2, 2, 2), 8).hand_out(live)
    assert parents.tolist() == [0, 3, 5, 6, 7]
    assert rows.index[live].tolist() == [0, 1, 2, 3, 4]
    assert rows.count == 5
    assert not rows.in_order
    assert bool((rows.index >= 0).all())  # those of the others are rows too, if anyone looks
    assert bool((rows.index < 5).all())


def test_rows_of_other_inputs_stay_in_the_answer() -> None:
    rows = Rows(torch.arange(6).view(3, 1, 2), 6, in_order=True).inputs(torch.tensor([2]))
    assert rows.index.tolist() == [[[4, 5]]]
    assert rows.count == 6
    assert not rows.in_order


def test_rows_below_others_move_down() -> None:
    rows = Rows(torch.tensor([[[0, 1]]]), 2, in_order=True).below(3, 5)
    assert rows.index.tolist() == [[[3, 4]]]
    assert rows.count == 5
    assert not rows.in_order


def test_what_is_handed_out_is_not_the_search_s_own() -> None:
    parents, rows = Rows(torch.tensor([[[1, 0]]]), 2).hand_out()
    parents += 100  # as a careless model might
    assert rows.index.tolist() == [[[0, 1]]]


@pytest.mark.parametrize(
    ("parents", "count", "expected"),
    [
        ([0, 1, 2], 3, True),
        ([0, 1], 3, False),
        ([1, 0, 2], 3, False),
        ([0, 1, 2, 2], 3, False),
        ([], 0, True),
    ],
)
def test_all_rows_in_their_order_are_told(parents: list[int], count: int, expected: bool) -> None:
    assert are_all(torch.tensor(parents, dtype=torch.long), count) is expected


@pytest.mark.parametrize("seed", range(20))
def test_a_row_remembers_what_its_beam_went_through(seed: int) -> None:
    """The law of ancestry, on random lives and deaths: each row's history is that of its beam."""
    generator = torch.Generator().manual_seed(seed)
    batch, groups, beams = 2, 2, 3
    rows = Rows.roots(batch, groups, beams, CPU)
    histories = [(i,) for i in range(batch)]  # of each row of the model
    spelled = torch.arange(batch).view(batch, 1, 1, 1).expand(batch, groups, beams, 1)
    live = torch.ones(batch, groups, beams, dtype=torch.bool)
    for _ in range(6):
        parent = _live_parents(live, generator)
        rows = rows.follow(parent)
        spelled = spelled.gather(2, parent.unsqueeze(-1).expand(*parent.shape, spelled.shape[-1]))
        token = torch.randint(50, parent.shape, generator=generator)
        spelled = torch.cat([spelled, token.unsqueeze(-1)], -1)
        # A beam of a group that has none left is dead too.
        live = live.gather(2, parent) & (torch.rand(parent.shape, generator=generator) < 0.8)
        if bool(torch.rand((), generator=generator) < 0.3):  # an input leaves
            keep = torch.tensor([0])
            rows, spelled, live = rows.inputs(keep), spelled[keep], live[keep]
        if not bool(live.any()):
            return
        dense = bool(live.all())
        parents, rows = rows.hand_out(None if dense else live)
        tokens = spelled[..., -1].flatten() if dense else spelled[..., -1][live]
        histories = [(*histories[p], t) for p, t in zip(parents.tolist(), tokens.tolist(), strict=True)]
        assert rows.count == len(histories)
        for row, tokens_of_beam in zip(rows.index[live].tolist(), spelled[live].tolist(), strict=True):
            assert histories[row] == tuple(tokens_of_beam)


def _live_parents(live: Tensor, generator: torch.Generator) -> Tensor:
    weights = live.float().flatten(0, 1) + 1e-9
    return torch.multinomial(weights, live.shape[2], replacement=True, generator=generator).view_as(live)
