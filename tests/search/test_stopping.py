"""When a group is done, and what it has finished by then: tables worked out by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from beamsplit import LengthNormalised, LogProb, Picks, Scorer, Selection
from beamsplit.huggingface.scoring import AsIn455
from beamsplit.search.state import FinishedPool
from beamsplit.search.stopping import Settled, Stopping, StoppingRule, fresh_scores, stopping_rule_of

NONE = -torch.inf


def picks_of(scores: list[float]) -> Picks:
    score = torch.tensor([[scores]])
    index = torch.arange(len(scores)).view(1, 1, -1)
    return Picks(index, index + 10, score, score, torch.zeros_like(score), score)


def selection(scores: list[float], ended: list[bool], survivors: list[float], time: int = 0) -> Selection:
    """One group's picks at a time step."""
    return Selection(
        range(1),
        time,
        picks_of(scores),
        torch.tensor([[ended]]),
        picks_of(survivors),
        width=9,
        any_end=any(ended),
    )


def pool_of(*groups: list[tuple[list[int], float]], slots: int = 2, length: int = 3) -> FinishedPool:
    """Pools of one input: of each group its sequences with their scores, best first."""
    tokens = torch.full((1, len(groups), slots, length), -1)
    score = torch.full((1, len(groups), slots), NONE)
    for g, group in enumerate(groups):
        for slot, (sequence, value) in enumerate(group):
            tokens[0, g, slot, : len(sequence)] = torch.tensor(sequence)
            score[0, g, slot] = value
    yes = torch.ones_like(score, dtype=torch.bool)
    return FinishedPool(tokens, score, score, yes, yes)


def stopping(
    rule: StoppingRule | None = None,
    scorer: Scorer | None = None,
    beams: int = 2,
    max_length: int = 5,
    unique: bool = False,
) -> Stopping:
    return Stopping(rule or Settled(), scorer or LogProb(), beams, max_length, unique)


def is_done(pool: FinishedPool, chosen: Selection, may_rise: bool = False, **settings: object) -> bool:
    done = stopping(**settings).done(pool, chosen, None, may_rise)  # type: ignore[arg-type]
    assert done.shape == (1, 1)
    return bool(done)


FULL = pool_of([([1], -1.0), ([2], -2.0)])


def test_a_group_is_done_when_its_worst_beats_its_best_beam() -> None:
    assert is_done(FULL, selection([-3.0], [False], [-3.0]))
    assert not is_done(FULL, selection([-1.5], [False], [-1.5]))


def test_a_beam_as_good_as_the_worst_cannot_win() -> None:
    assert is_done(FULL, selection([-2.0], [False], [-2.0]))  # of equals, those found first count


def test_a_group_with_too_few_hypotheses_is_not_done() -> None:
    one = pool_of([([1], -1.0)])
    assert not is_done(one, selection([-90.0], [False], [-90.0]))
    assert is_done(one, selection([-90.0], [False], [-90.0]), beams=1)


def test_a_group_whose_totals_may_rise_is_not_done() -> None:
    low = selection([-90.0], [False], [-90.0])
    assert is_done(FULL, low)
    assert not is_done(FULL, low, may_rise=True)
    # But it is if it has no beam left.
    assert is_done(FULL, selection([NONE], [False], [NONE]), may_rise=True)


def test_a_length_normalising_scorer_looks_ahead() -> None:
    # A total of -4 may still become -4 / 5 by length 5, which beats -1.
    pool = pool_of([([1], -0.9), ([2], -1.0)])
    chosen = selection([-4.0], [False], [-4.0])
    assert not is_done(pool, chosen, scorer=LengthNormalised())
    assert is_done(pool, chosen, scorer=LengthNormalised(stop="first"))
    assert is_done(pool, selection([-5.5], [False], [-5.5]), scorer=LengthNormalised())


def test_what_an_earlier_group_has_found_does_not_count_if_lists_are_unique() -> None:
    pool = pool_of([([1], -1.0), ([2], -2.0)], [([2], -1.5), ([3], -2.5)])
    low = Selection(
        range(2),
        0,
        *(lambda p: (p, torch.zeros_like(p.token, dtype=torch.bool), p))(_two_groups(-9.0)),
        width=9,
        any_end=False,
    )
    assert stopping().done(pool, low, None, False).tolist() == [[True, True]]
    assert stopping(unique=True).done(pool, low, None, False).tolist() == [[True, False]]
    elsewhere = torch.tensor([[[1, -1]]])  # a group before both has the first one's best
    assert stopping(unique=True).done(pool, low, elsewhere, False).tolist() == [[False, False]]


def _two_groups(score: float) -> Picks:
    values = torch.full((1, 2, 2), score)
    index = torch.zeros_like(values, dtype=torch.long)
    return Picks(index, index, values, values, values, values)


def test_fresh_scores_see_all_earlier_groups_and_come_sorted() -> None:
    pool = pool_of(
        [([1], -1.0), ([2], -2.0)],
        [([3], -1.0), ([4], -2.0)],
        [([1], -0.5), ([5], -3.0)],  # the first is the first group's
    )
    assert fresh_scores(pool).tolist() == [[[-1.0, -2.0], [-1.0, -2.0], [-3.0, NONE]]]


def test_sequences_that_begin_alike_are_not_the_same() -> None:
    pool = pool_of([([1, 2], -1.0)], [([1], -1.0)], [([1, 2, 3], -1.0)], slots=1)
    assert fresh_scores(pool).flatten().tolist() == [-1.0, -1.0, -1.0]


def found_of(chosen: Selection, spelled: Tensor) -> FinishedPool:
    picks = chosen.picks
    yes = torch.ones_like(chosen.ended)
    return FinishedPool(spelled, picks.log_prob, picks.score, chosen.ended, yes)


def collected(chosen: Selection, pool: FinishedPool, **settings: object) -> list[tuple[list[int], float]]:
    count = chosen.picks.token.shape[2]
    spelled = torch.arange(count).view(1, 1, count, 1) + 10
    found = stopping(**settings).collect(pool, found_of(chosen, spelled), chosen, None, False)  # type: ignore[arg-type]
    sequences = [[token for token in tokens if token >= 0] for tokens in found.tokens[0, 0].tolist()]
    return [
        (tokens, score) for tokens, score in zip(sequences, found.score[0, 0].tolist(), strict=True) if tokens
    ]


def test_an_end_counts_among_as_many_picks_as_there_are_beams() -> None:
    chosen = selection([-1.0, -2.0, -3.0], [False, True, True], [-1.0])
    assert collected(chosen, pool_of([])) == [([11], -2.0)]


def test_at_the_last_step_what_would_live_on_is_complete() -> None:
    chosen = selection([-1.0, -2.0, -3.0, -4.0], [False, True, False, False], [-1.0, -3.0], time=4)
    assert collected(chosen, pool_of([], slots=4)) == [([10], -1.0), ([11], -2.0), ([12], -3.0), ([13], -4.0)]
    # As many as the pool has room for, counting only those that have not ended.
    assert collected(chosen, pool_of([], slots=2)) == [([10], -1.0), ([11], -2.0)]


def test_groups_of_transformers_455_take_nothing_unfinished_when_they_are_done() -> None:
    chosen = selection([-3.0, -4.0], [False, False], [-3.0, -4.0], time=4)
    assert collected(chosen, FULL, rule=AsIn455()) == [([1], -1.0), ([2], -2.0)]
    high = selection([-1.5, -4.0], [False, False], [-1.5, -4.0], time=4)
    assert collected(high, FULL, rule=AsIn455()) == [([1], -1.0), ([10], -1.5)]


def test_groups_of_transformers_455_are_judged_by_picks_that_have_ended_too() -> None:
    # The best pick has just ended; the best beam is worse than all that was found.
    chosen = selection([-0.5, -3.0], [True, False], [-3.0])
    assert is_done(FULL, chosen)
    assert not is_done(FULL, chosen, rule=AsIn455())


def test_a_scorer_may_bring_its_rule() -> None:
    assert stopping_rule_of(LogProb()) == Settled()
    from beamsplit.huggingface.scoring import GenerationScorer

    assert stopping_rule_of(GenerationScorer(stopping=AsIn455())) == AsIn455()
