"""One step of some groups by sorting, as a GPU does it that runs ahead: it is what settling finds."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from beamsplit import Hamming, Shortlist
from beamsplit.search.kernels import ENDS, GAPS, MOVES, UNCERTAIN, Outcome
from beamsplit.search.kernels.sorting import sort_into
from beamsplit.search.pricing import GroupPenalty
from beamsplit.search.rules import Maximise
from beamsplit.search.select import settle, split_ends
from beamsplit.search.state import Beams
from graph_twin import record

VOCABULARY = 30
NONE = -torch.inf


def outcome_of(
    score: Tensor, lists: Shortlist, strengths: Tensor | None, ends: list[int], count: int
) -> Outcome:
    """What is written down of a step, by operations that a graph can hold, done again as a graph would."""
    outcome = Outcome.like(score, lists.tokens, count, score.shape[2])
    is_end = torch.zeros(VOCABULARY, dtype=torch.bool)
    is_end[ends] = True
    log_prob = score * 0.5  # not the score: penalties do not touch it
    recording, _ = record(lambda: sort_into(outcome, score, log_prob, lists, strengths, is_end))
    for part in outcome:
        part.fill_(0)
    recording.replay()
    return outcome


def one_group(scores: list[float], gains: list[list[float]], rest: float = NONE) -> tuple[Tensor, Shortlist]:
    """Beams of one group of one input that have these tokens: 0, 1, 2, ..."""
    listed = torch.tensor([[gains]])
    tokens = torch.arange(listed.shape[3]).expand_as(listed)
    return torch.tensor([[scores]]), Shortlist(tokens, listed, torch.full(listed.shape[:3], rest))


def told(outcome: Outcome) -> int:
    return int(outcome.flags)


def test_the_best_over_all_beams_and_of_equals_the_lower_beam_and_token() -> None:
    score, lists = one_group([-1.0, -2.0], [[-1.5, -1.0, -3.0], [0.0, 0.0, -0.5]])
    outcome = outcome_of(score, lists, None, [], 2)
    # -2.0 three times: beam 0 with token 1, then beam 1 with token 0, and with token 1.
    assert outcome.picked[:2].flatten(1).tolist() == [[0, 1], [1, 0]]
    assert outcome.live[:2].flatten(1).tolist() == [[0, 1], [1, 0]]
    assert outcome.live_scores[:2].flatten(1).tolist() == [[-1.5, -1.0], [-2.0, -2.0]]
    assert told(outcome) == 0


def test_flags() -> None:
    gains = [[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]]
    moved = one_group([-5.0, -1.0], gains)
    assert told(outcome_of(*moved, None, [], 2)) == MOVES
    assert told(outcome_of(*one_group([-3.0, -1.0], gains), None, [0], 4)) == ENDS | MOVES
    assert told(outcome_of(*one_group([-1.0, -1.0], gains), None, [0], 4)) == ENDS
    assert told(outcome_of(*one_group([-1.0, NONE], gains), None, [1, 2], 6)) == ENDS | GAPS
    assert told(outcome_of(*one_group([NONE, NONE], gains), None, [], 2)) == GAPS
    assert told(outcome_of(*one_group([-1.0, -1.0], gains, rest=-1.5), None, [], 2)) == 0
    assert told(outcome_of(*one_group([-1.0, -1.0], gains, rest=-1.0), None, [], 2)) == UNCERTAIN
    assert told(outcome_of(*one_group([-1.0, -1.0], gains, rest=torch.nan), None, [], 2)) & UNCERTAIN


def test_groups_pay_for_what_those_before_them_pick() -> None:
    score = torch.zeros(1, 3, 1)
    gains = torch.tensor([-1.0, -1.5, -3.0]).expand(1, 3, 1, 3)
    lists = Shortlist(torch.tensor([1, 2, 3]).expand_as(gains), gains, torch.full((1, 3, 1), -9.0))
    outcome = outcome_of(score, lists, torch.tensor([0.0, 1.0, 1.0]).view(3, 1, 1), [], 1)
    assert outcome.picked[1].flatten().tolist() == [1, 2, 1]
    assert outcome.picked_scores[1:].flatten(1).tolist() == [[-1.0, -1.5, -2.0], [0.0, 0.0, 1.0]]


CASES = list(itertools.product([(1, 5), (4, 1), (3, 4)], [None, 0.7], [[], [2], [1, 3, 4]], [1, 3, 8]))


@pytest.mark.parametrize(("shape", "strength", "ends", "width"), CASES)
def test_sorting_finds_what_settling_finds(
    shape: tuple[int, int], strength: float | None, ends: list[int], width: int
) -> None:
    """With many ties, dead beams and dead groups; and what is uncertain is told of the right inputs."""
    (groups, beams), batch = shape, 6
    source = torch.Generator().manual_seed(len(ends) + width)
    score = -torch.randint(6, (batch, groups, beams), generator=source).float()
    score = score.sort(2, descending=True).values.masked_fill(score == -5, NONE)
    score[3] = NONE
    score[4, -1] = NONE
    tokens = torch.rand(batch, groups, beams, VOCABULARY, generator=source).argsort(3)[..., :width]
    gains = -torch.randint(4, tokens.shape, generator=source).float()
    rest = -torch.randint(3, 9, score.shape, generator=source).float()
    lists = Shortlist(tokens.sort(3).values, gains, rest)
    count = beams * (1 + len(ends))
    strengths = penalty = None
    if strength is not None:
        strengths = torch.full((groups, 1, 1), strength)
        strengths[0] = 0.0
        not_earlier = torch.ones(1, groups, groups, dtype=torch.bool).triu().unsqueeze(3)
        finished = torch.full((batch, groups, beams, 0), -1)
        penalty = GroupPenalty(Hamming(), strengths, not_earlier, finished, None)
    outcome = outcome_of(score, lists, strengths, ends, count)

    held = Beams(torch.empty(*score.shape, 0, dtype=torch.long), score * 0.5, score)
    picks, bound = settle(Maximise(), held, lists, count, penalty)
    ended = torch.isin(picks.token, torch.tensor(ends, dtype=torch.long))
    survivors, secure, _ = split_ends(Maximise(), picks, bound, ended, picks.token.shape[2], beams)
    found, size = outcome.selection, picks.token.shape[2]
    real = picks.score > NONE
    for ours, theirs in [
        (found.picks.parent, picks.parent),
        (found.picks.token, picks.token),
        (found.picks.log_prob, picks.log_prob),
        (found.picks.cost, picks.cost),
        (found.ended, ended),
    ]:
        assert torch.equal(ours[..., :size][real], theirs[real])
    assert torch.equal(found.picks.score[..., :size], picks.score)
    assert bool((found.picks.score[..., size:] == NONE).all())
    kept = survivors.score.shape[2]
    assert torch.equal(found.survivors.score[..., :kept], survivors.score)
    assert bool((found.survivors.score[..., kept:] == NONE).all())
    alive = survivors.score > NONE
    for ours, theirs in [
        (found.survivors.parent, survivors.parent),
        (found.survivors.token, survivors.token),
        (found.survivors.log_prob, survivors.log_prob),
    ]:
        assert torch.equal(ours[..., :kept][alive], theirs[alive])
    gaps = (found.survivors.score == NONE).flatten(1).any(1)
    assert torch.equal((outcome.flags & GAPS) > 0, gaps)
    assert torch.equal((outcome.flags & UNCERTAIN) > 0, (~secure).any(1)) or kept < beams or size < count
    moved = (survivors.parent != torch.arange(kept)) & alive
    assert torch.equal((outcome.flags & MOVES) > 0, moved.flatten(1).any(1))
    ending = (found.ended & (found.picks.score > NONE))[..., :beams]
    assert torch.equal((outcome.flags & ENDS) > 0, ending.flatten(1).any(1))
