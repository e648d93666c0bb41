"""One step of some groups, from candidate lists to survivors: tables worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from beamsplit import Hamming, Shortlist
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Picks, settle, split_ends
from beamsplit.search.state import Beams

NONE = -torch.inf


def beams_of(scores: list[list[float]]) -> Beams:
    """Beams of one input, a list for each group, with no token yet."""
    return Beams.roots(torch.tensor([scores]))


def lists_of(gains: Tensor, tokens: list[int], rest: float) -> Shortlist:
    """The same tokens for every beam [batch group beam k]."""
    listed = torch.tensor(tokens).expand_as(gains)
    return Shortlist(listed, gains, torch.full(gains.shape[:3], rest))


def penalty_of(groups: int, beams: int, strength: float) -> GroupPenalty:
    strengths = torch.full((groups, 1, 1), strength)
    strengths[0] = 0.0
    not_earlier = torch.ones(1, groups, groups, dtype=torch.bool).triu().unsqueeze(3)
    return GroupPenalty(Hamming(), strengths, not_earlier, torch.full((1, groups, beams, 0), -1), None)


def test_one_group_takes_the_best_over_all_beams() -> None:
    beams = beams_of([[-1.0, -2.0]])
    gains = torch.tensor([[[[-1.0, -4.0], [-0.5, -0.5]]]])
    picks, bound = settle(Maximise(), beams, lists_of(gains, [3, 7], -6.0), 3, None)
    # -2.0 by beam 0 and token 3; then -2.5 twice by beam 1, the lower token first.
    assert picks.parent.tolist() == [[[0, 1, 1]]]
    assert picks.token.tolist() == [[[3, 3, 7]]]
    assert picks.score.tolist() == [[[-2.0, -2.5, -2.5]]]
    assert picks.cost.tolist() == [[[0.0, 0.0, 0.0]]]
    assert bound.tolist() == [[[-7.0, -8.0]]]


def test_each_group_pays_for_what_those_before_it_pick() -> None:
    gains = torch.tensor([-1.0, -1.5, -3.0]).expand(1, 3, 1, 3)
    lists = lists_of(gains, [1, 2, 3], -9.0)
    picks, _ = settle(Maximise(), beams_of([[0.0]] * 3), lists, 1, penalty_of(3, 1, 1.0))
    # Group 0: 1 at -1. Group 1: 1 would be -2, so 2 at -1.5. Group 2: 1 at -2, before 2 at -2.5 and 3 at -3.
    assert picks.token.flatten().tolist() == [1, 2, 1]
    assert picks.score.flatten().tolist() == [-1.0, -1.5, -2.0]
    assert picks.cost.flatten().tolist() == [0.0, 0.0, 1.0]
    assert picks.log_prob.flatten().tolist() == [-1.0, -1.5, -1.0]  # which no penalty touches


@pytest.mark.parametrize("seed", range(20))
def test_settling_at_once_is_one_after_another(seed: int) -> None:
    groups, width, strength = 6, 5, 0.5
    gains = torch.randn(1, groups, 1, width, generator=torch.Generator().manual_seed(seed))
    lists = lists_of(gains, list(range(width)), -9.0)
    picks, _ = settle(Maximise(), beams_of([[0.0]] * groups), lists, 1, penalty_of(groups, 1, strength))
    times_picked = torch.zeros(width)
    for group in range(groups):
        token = int((gains[0, group, 0] - strength * times_picked).argmax())
        assert int(picks.token[0, group, 0]) == token
        times_picked[token] += 1


def split(
    order: list[float], ended: list[bool], keep: int, bound: float, count: int | None = None
) -> tuple[list[float], bool, bool]:
    """The order of what goes on, whether it is certain, and whether anything ends."""
    values = torch.tensor([[order]])
    slots = torch.arange(len(order)).view(1, 1, -1)
    picks = Picks(slots, slots, values, values, torch.zeros_like(values), values)
    survivors, secure, any_end = split_ends(
        Maximise(), picks, torch.tensor([[[bound]]]), torch.tensor([[ended]]), count or len(order), keep
    )
    return survivors.order[0, 0].tolist(), bool(secure), any_end


def test_without_ends_the_best_go_on() -> None:
    assert split([-1.0, -2.0, -3.0], [False] * 3, keep=2, bound=-2.5) == ([-1.0, -2.0], True, False)


def test_a_pick_that_ends_gives_its_place_to_the_next() -> None:
    found = split([-1.0, -2.0, -3.0], [True, False, False], keep=2, bound=-4.0)
    assert found == ([-2.0, -3.0], True, True)
    # The last that goes on is the one that counts: it might have been an unlisted token.
    assert split([-1.0, -2.0, -3.0], [True, False, False], keep=2, bound=-2.5)[1] is False


def test_where_too_few_go_on_the_last_pick_counts() -> None:
    assert split([-1.0, -2.0, -3.0], [True, True, False], keep=2, bound=-4.0) == ([-3.0, NONE], True, True)
    assert split([-1.0, -2.0, -3.0], [True, True, False], keep=2, bound=-2.5)[1] is False


def test_a_tie_with_what_is_not_listed_is_not_certain() -> None:
    assert split([-1.0, -2.0], [False] * 2, keep=2, bound=-2.0)[1] is False
    assert split([-1.0, -2.0], [False] * 2, keep=2, bound=NONE)[1] is True


def test_fewer_picks_than_wanted_are_not_certain_unless_all_is_listed() -> None:
    assert split([-1.0], [False], keep=1, bound=-9.0, count=2)[1] is False
    assert split([-1.0], [False], keep=1, bound=NONE, count=2)[1] is True
