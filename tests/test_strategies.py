"""The strategies, against decodes worked by hand and distributions worked out exactly.

Strengths are logarithms, so that a penalty of 1 divides a probability: by two at strength log 2. Scores
and log-probabilities are given as the probabilities (times penalties) that they are the logarithms of.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import pytest
import torch

from beamsplit import (
    AntiLanguageModel,
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseSampling,
    DiverseSiblings,
    Diversity,
    DivMBest,
    Embedding,
    Guided,
    Hamming,
    Hypotheses,
    Hypothesis,
    NGram,
    Sampling,
    StepModel,
    StochasticBeamSearch,
    Strategy,
    decode,
)
from beamsplit.testing import MarkovModel, exhaustive_search

END, A, B, C = range(4)
HALVE, QUARTER = math.log(2), math.log(4)  # strengths
HALVING = 1 / math.log(2)  # a temperature: exp(-d / temperature) is 2 ** -d

Table = Sequence[Sequence[float]]


def markov(rows: Table) -> MarkovModel:
    """A model that says token j after token i with probability rows[i][j]; END's row is the first token's."""
    return MarkovModel(torch.tensor(rows, dtype=torch.double).log())


#   end    a    b    c
LETTERS: Table = [
    [0.0, 0.5, 0.3, 0.2],  # first
    [0.1, 0.1, 0.6, 0.2],  # after a
    [0.2, 0.5, 0.1, 0.2],  # after b
    [0.3, 0.4, 0.2, 0.1],  # after c
]


def by_hand(
    strategy: Strategy,
    *,
    max_length: int,
    table: Table = LETTERS,
    model: StepModel | None = None,
    **options: Any,
) -> list[list[tuple[str, float, float]]]:
    """Group by group: (sequence, exp of score, exp of log_prob); "." is the end."""
    options.setdefault("end", END)
    (found,) = decode(model or markov(table), [END], strategy, max_length=max_length, **options)
    return [[_readable(h) for h in group] for group in found.groups]


def _readable(h: Hypothesis) -> tuple[str, float, float]:
    assert h.finished == (h.tokens[-1] == END)
    return "".join(".abc"[token] for token in h.tokens), math.exp(h.score), math.exp(h.log_prob)


def close(
    groups: list[list[tuple[str, float, float]]], rel: float = 1e-6
) -> list[list[tuple[str, Any, Any]]]:
    return [
        [(s, pytest.approx(score, rel=rel), pytest.approx(prob)) for s, score, prob in group]
        for group in groups
    ]


# Beam search


def test_beam_search_keeps_the_likeliest_prefixes() -> None:
    # 1: a .5, b .3 (c .2)
    # 2: ab .5 * .6 = .30, ac .10, aa .05, a. .05 | ba .3 * .5 = .15, b. .06, bc .06, bb .03
    assert by_hand(BeamSearch(beams=2), max_length=2) == close([[("ab", 0.30, 0.30), ("ba", 0.15, 0.15)]])


def test_beam_search_of_width_one_is_greedy() -> None:
    # a .5, ab .30, aba .30 * .5 = .15
    assert by_hand(BeamSearch(beams=1), max_length=3) == close([[("aba", 0.15, 0.15)]])


def test_a_wider_beam_finds_what_a_narrow_one_lost() -> None:
    # After the likelier a everything is spread thin, b is followed by c for certain.
    table = [[0, 0.6, 0.4, 0], [0, 0.3, 0.3, 0.4], [0, 0, 0, 1.0], [0, 0, 0, 1.0]]
    assert by_hand(BeamSearch(beams=1), max_length=2, table=table) == close([[("ac", 0.24, 0.24)]])
    # bc .40, ac .24
    expected = close([[("bc", 0.40, 0.40), ("ac", 0.24, 0.24)]])
    assert by_hand(BeamSearch(beams=2), max_length=2, table=table) == expected


ENDING: Table = [
    [0.0, 0.6, 0.4, 0.0],  # first
    [0.5, 0.0, 0.3, 0.2],  # after a
    [0.1, 0.7, 0.0, 0.2],  # after b
    [1.0, 0.0, 0.0, 0.0],  # after c
]


def test_beams_that_end_make_room_for_the_next_best() -> None:
    # 1: a .6, b .4
    # 2: a. .30 ends; ba .28 and, in its place, ab .18 go on (ac .12, bc .08, b. .04 do not)
    # 3: ba. .14 ends, aba .126, bab .084, bac .056, abc .036, ab. .018
    # The best two of a. .30, ba. .14, aba .126, bab .084:
    expected = close([[("a.", 0.30, 0.30), ("ba.", 0.14, 0.14)]])
    assert by_hand(BeamSearch(beams=2), max_length=3, table=ENDING) == expected


def test_a_search_stops_when_no_beam_can_win_any_more() -> None:
    # a. .30 ends at the second step, when the only beam left has ba .28 at best: nothing can overtake.
    asked: list[int] = []

    class Counting(MarkovModel):
        def step(self, tokens: torch.Tensor, state: None) -> tuple[torch.Tensor, None]:
            asked.append(len(tokens))
            return super().step(tokens, state)

    table = torch.tensor([[0, 1.0, 0, 0], [0.5, 0, 0.3, 0.2], [1, 0, 0, 0], [1, 0, 0, 0]])
    found = decode(Counting(table.log()), [END], BeamSearch(beams=1), max_length=9, end=END)
    assert found[0].best.tokens == (A, END)
    assert asked == [1]


# Diverse Beam Search with Hamming


def test_one_beam_a_group_each_pays_for_what_earlier_groups_say() -> None:
    # A penalty of 1 halves.
    # Group 0: a .5, ab .30.
    # Group 1: a .5/2 = .25, b .3, c .2: b. Then, b being said: . .2, a .5, b .1/2, c .2: a, .3 * .5.
    # Group 2: a .25, b .3/2 = .15, c .2: a. Then, b and a being said: b .6/2 = .3, c .2: b, .25 * .3.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)], [("ab", 0.075, 0.30)]])
    assert by_hand(DiverseBeamSearch(groups=3, strength=HALVE), max_length=2) == expected


def test_more_strength_makes_the_third_group_speak_for_itself() -> None:
    # A penalty of 1 quarters. Groups 0 and 1 as above: a .5/4 < b .3.
    # Group 2: a .125, b .3/4 = .075, c .2: c. Then, b and a being said: . .3, a .4/4, b .05, c .1: end.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)], [("c.", 0.06, 0.06)]])
    assert by_hand(DiverseBeamSearch(groups=3, strength=QUARTER), max_length=2) == expected


def test_penalties_accumulate_in_the_score_and_leave_the_log_prob_alone() -> None:
    # After any token a has .9. The second group cannot help repeating it, and pays at every step.
    table = [[0, 0.9, 0.1, 0]] * 4
    expected = close([[("aaa", 0.729, 0.729)], [("aaa", 0.729 / 8, 0.729)]])
    assert by_hand(DiverseBeamSearch(groups=2, strength=HALVE), max_length=3, table=table) == expected


def test_each_group_may_have_a_strength_of_its_own() -> None:
    # The first is never used, the last is 0: a beam search.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)], [("ab", 0.30, 0.30)]])
    assert by_hand(DiverseBeamSearch(groups=3, strength=[99.0, QUARTER, 0.0]), max_length=2) == expected


def test_a_group_without_strength_is_still_heard_by_later_ones() -> None:
    # Groups 0 and 1 both say ab. Group 2: a .5/16 = .03, b .3: b; then b .1/16: a .5.
    expected = close([[("ab", 0.30, 0.30)], [("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)]])
    assert by_hand(DiverseBeamSearch(groups=3, strength=[0.0, 0.0, QUARTER]), max_length=2) == expected


def test_two_beams_a_group_pay_for_both_beams_of_earlier_groups() -> None:
    # Group 0 is the beam search above: 1: a .5, b .3; 2: ab .30, ba .15.
    # Group 1: 1: a .25, b .15, c .2: a .25 and c .2.
    #          2: said b (of ab) and a (of ba).
    #          a: . .025, a .25 * .1/2, b .25 * .6/2 = .075, c .25 * .2 = .05
    #          c: . .2 * .3 = .06, a .2 * .4/2 = .04, b .02, c .02
    # ab .075 and c. .06 are the best two; ac .05 lives on in the place of c., and comes third.
    expected = close([[("ab", 0.30, 0.30), ("ba", 0.15, 0.15)], [("ab", 0.075, 0.30), ("c.", 0.06, 0.06)]])
    strategy = DiverseBeamSearch(groups=2, beams_per_group=2, strength=HALVE)
    assert by_hand(strategy, max_length=2) == expected


def test_beams_of_one_group_do_not_pay_for_each_other() -> None:
    # Both beams of the only group may say a: after b and after c it is certain.
    table = [[0, 0, 0.6, 0.4], [0, 1.0, 0, 0], [0, 1.0, 0, 0], [0, 1.0, 0, 0]]
    strategy = DiverseBeamSearch(groups=1, beams_per_group=2, strength=99.0)
    assert by_hand(strategy, max_length=2, table=table) == close([[("ba", 0.6, 0.6), ("ca", 0.4, 0.4)]])


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_short_lists_find_the_same(width: int) -> None:
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=HALVE)
    assert by_hand(strategy, max_length=4, list_width=width) == by_hand(strategy, max_length=4)


# Ends

#   end     a     b     c
EARLY_END: Table = [
    [0.40, 0.35, 0.25, 0.0],  # first
    [0.45, 0.20, 0.35, 0.0],  # after a
    [0.55, 0.20, 0.25, 0.0],  # after b
    [1.00, 0.00, 0.00, 0.0],  # after c
]


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_an_end_counts_when_it_is_said_and_padding_never_does(schedule: Any) -> None:
    # 1: group 0 ends, .40. Group 1: the end is a token like any other, .40/2 = .20; a .35: a.
    #    Group 2: . .20, a .35/2 = .175, b .25: b.
    # 2: group 0 has ended. Were its padding an end, group 1 would see . .225 and say b .35; but it sees
    #    . .45 and ends: .35 * .45 = .1575. Group 2 hears that one end: . .55/2 = .275 > b .25, so it ends
    #    with .25 * .275 = .06875. (With padding it would see . .1375 and say b.)
    expected = close([[(".", 0.40, 0.40)], [("a.", 0.1575, 0.1575)], [("b.", 0.06875, 0.1375)]])
    strategy = DiverseBeamSearch(groups=3, strength=HALVE, schedule=schedule)
    assert by_hand(strategy, max_length=2, table=EARLY_END) == expected


def test_a_beam_that_ended_does_not_count_for_cumulative_either() -> None:
    # Group 0 ends at once, .40. Group 1, quartered by the same and halved by another token:
    # 1: . .40/4 = .10, a .35/2 = .175, b .125: a.   2: nobody speaks: . .45, .175 * .45 = .07875.
    expected = close([[(".", 0.40, 0.40)], [("a.", 0.07875, 0.1575)]])
    strategy = DiverseBeamSearch(groups=2, strength=QUARTER, diversity=Cumulative(temperature=HALVING))
    assert by_hand(strategy, max_length=2, table=EARLY_END) == expected


def test_a_hypothesis_that_ended_goes_on_counting_for_ngrams() -> None:
    # Group 0 says a. : 1.0 * .6 = .60, and is done. Group 1 can say no n-gram of it for free:
    # 1: a is certain, 1/2.   2: . .6/2 = .30, b .4: b, .5 * .4 = .20.
    # 3: the end was said two steps ago, in a hypothesis that is no beam any more: . .5/2 = .25, c .45: c.
    table = [[0, 1.0, 0, 0], [0.6, 0, 0.4, 0], [0.5, 0.05, 0, 0.45], [1.0, 0, 0, 0]]
    expected = close([[("a.", 0.60, 0.60)], [("abc", 0.09, 0.18)]])
    strategy = DiverseBeamSearch(groups=2, strength=HALVE, diversity=NGram(n=1))
    assert by_hand(strategy, max_length=3, table=table) == expected


# Diverse Beam Search with the other terms


def test_cumulative_forgives_groups_that_have_drifted_apart() -> None:
    # Penalty 2 ** -d for one earlier beam that is d positions away, strength log 4: 4 ** -(2 ** -d), so
    # d = 0 divides by 4, d = 1 by 2, d = 2 by sqrt 2.
    # Group 0: ab.  Group 1: 1: a .5/4, b .3/2 = .15, c .2/2: b.
    # 2: apart by one already. b .1/2; the others by sqrt 2: a .5/1.414 = .354: a.
    # (Penalties that are fractions lie on a grid of 2 ** -24.)
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15 * 0.5 / math.sqrt(2), 0.15)]], rel=1e-5)
    strategy = DiverseBeamSearch(groups=2, strength=QUARTER, diversity=Cumulative(temperature=HALVING))
    assert by_hand(strategy, max_length=2) == expected


def test_bigrams_are_free_until_the_second_token() -> None:
    # Group 0: a .5, ab .30, aba .15.
    # Group 1: 1: a .5, for free. 2: ab is said: b .6/4 = .15, c .2: c, .10.
    #          3: ca is not said: . .3, a .4, b .2: a, .04.
    expected = close([[("aba", 0.15, 0.15)], [("aca", 0.04, 0.04)]])
    strategy = DiverseBeamSearch(groups=2, strength=QUARTER, diversity=NGram(n=2))
    assert by_hand(strategy, max_length=3) == expected


def test_unigrams_count_wherever_they_stand() -> None:
    # Group 0: ab. Group 1: 1: only a is said: a .25, b .3: b.
    # 2: a was said at the first step, b now: . .2, a .5/2 = .25, b .05, c .2: a, .3 * .25.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.075, 0.15)]])
    strategy = DiverseBeamSearch(groups=2, strength=HALVE, diversity=NGram(n=1))
    assert by_hand(strategy, max_length=2) == expected


# a and b mean the same, c means something else, the end has no vector.
MEANINGS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])


def test_words_that_mean_the_same_count_as_the_same() -> None:
    # Group 0: ab. Group 1: 1: a is said, and b like it: a .125, b .075, c .2: c.
    # 2: b is said, and a like it: . .3, a .4/4 = .1, b .05, c .1: end, .06.
    expected = close([[("ab", 0.30, 0.30)], [("c.", 0.06, 0.06)]])
    strategy = DiverseBeamSearch(groups=2, strength=QUARTER, diversity=Embedding(vectors=MEANINGS))
    assert by_hand(strategy, max_length=2) == expected


def test_ngrams_that_mean_the_same_count_as_the_same() -> None:
    # Group 0: ab. Group 1: 1: c, as above.
    # 2: a and b are both said, and a and b are like both: a .4/16, b .2/16; . .3: end.
    # Group 2: 1: a and c are said: a .5/4 = .125, b .3/4, c .2/4: a (.125, .5).
    # 2: said: a, b, c and end. a .1/16, b .6/16 = .0375, c .2/4 = .05, . .1/4: c, .125 * .05.
    expected = close([[("ab", 0.30, 0.30)], [("c.", 0.06, 0.06)], [("ac", 0.00625, 0.10)]])
    term = Embedding(vectors=MEANINGS, of=NGram(n=1))
    strategy = DiverseBeamSearch(groups=3, strength=QUARTER, diversity=term)
    assert by_hand(strategy, max_length=2) == expected


def test_synonyms_far_apart_still_count_as_close_for_cumulative() -> None:
    # Group 0: ab. d = 0 divides by 4, d = 1 by 2.
    # Group 1: 1: a and b are 0 apart from a: a .125, b .075; c .2/2 = .1: a, though penalised.
    # 2: no difference so far. a and b, like b: a .1/4, b .6/4 = .15; . .1/2, c .2/2 = .1: b again.
    expected = close([[("ab", 0.30, 0.30)], [("ab", 0.125 * 0.15, 0.30)]])
    term = Embedding(vectors=MEANINGS, of=Cumulative(temperature=HALVING))
    assert by_hand(DiverseBeamSearch(groups=2, strength=QUARTER, diversity=term), max_length=2) == expected


# Siblings

#   end    a     b    c
SIBLINGS: Table = [
    [0.00, 0.50, 0.40, 0.10],  # first
    [0.10, 0.30, 0.35, 0.25],  # after a
    [0.05, 0.50, 0.00, 0.45],  # after b
    [1.00, 0.00, 0.00, 0.00],  # after c
]


def test_without_a_rate_siblings_may_crowd_out_the_rest() -> None:
    # ba .20 and bc .18 have one parent; ab .175, aa .15, ac .125.
    expected = close([[("ba", 0.20, 0.20), ("bc", 0.18, 0.18)]])
    assert by_hand(DiverseSiblings(beams=2, rate=0.0), max_length=2, table=SIBLINGS) == expected


def test_siblings_pay_for_their_rank_from_one() -> None:
    # Rank r divides by 2 ** r, at every step.
    # 1: a .5/2 = .25, b .4/4 = .1, c .1/8
    # 2: ab .25 * .35/2 = .04375, aa .25 * .3/4 = .01875, ac .25 * .25/8 | ba .1 * .5/2 = .025,
    #    bc .1 * .45/4 = .01125
    expected = close([[("ab", 0.04375, 0.175), ("ba", 0.025, 0.20)]])
    assert (
        by_hand(DiverseSiblings(beams=2, rate=HALVE, rank_root=True), max_length=2, table=SIBLINGS)
        == expected
    )


def test_an_end_is_a_sibling_too() -> None:
    # After a certain a: . .5 has rank 1, b .4 rank 2, c .1 rank 3. All of it halved for the a itself.
    table: Table = [[0, 1.0, 0, 0], [0.5, 0, 0.4, 0.1], [1, 0, 0, 0], [1, 0, 0, 0]]
    expected = close([[("a.", 0.5 * 0.5 / 2, 0.5), ("ab", 0.5 * 0.4 / 4, 0.4)]])
    assert (
        by_hand(DiverseSiblings(beams=2, rate=HALVE, rank_root=True), max_length=2, table=table) == expected
    )


@pytest.mark.parametrize("width", [1, 2, 3])
def test_short_lists_rank_siblings_the_same(width: int) -> None:
    strategy = DiverseSiblings(beams=2, rate=0.3)
    whole = by_hand(strategy, max_length=4, table=SIBLINGS)
    assert by_hand(strategy, max_length=4, table=SIBLINGS, list_width=width) == whole


# DivMBest


def test_each_run_keeps_its_best_and_avoids_those_kept_before() -> None:
    # A penalty of 1 quarters.
    # Run 0, the beam search: ab .30 (and ba .15, thrown away).
    # Run 1: 1: a .125, b .3, c .2: b, c. 2: b is kept at this place.
    #        ba .15, b. .06, bc .06, bb .0075 | ca .2 * .4 = .08, c. .06, ...: keeps ba.
    # Run 2: 1: a .125, b .075, c .2: c, a. 2: b and a are kept at this place.
    #        c. .06, ca .02, cc .02 | ac .125 * .2 = .025, ab .125 * .15, ...: keeps c.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)], [("c.", 0.06, 0.06)]])
    assert by_hand(DivMBest(runs=3, beams=2, strength=QUARTER, diversity=Hamming()), max_length=2) == expected


def test_runs_avoid_bigrams_unless_told_otherwise() -> None:
    # Run 0: ab .30. Run 1: ab .30/4 = .075, ac .10, ba .15: ba.
    # Run 2: ab .075, ac .10, ba .15/4 = .0375, b. .06, bc .06: ac.
    expected = close([[("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)], [("ac", 0.10, 0.10)]])
    assert by_hand(DivMBest(runs=3, beams=2, strength=QUARTER), max_length=2) == expected


def test_a_run_sees_the_whole_of_what_was_kept_before() -> None:
    # Unlike a group, a run knows at its first step that b will be said at the second.
    # Run 1: 1: a .25, b .3/2 = .15, c .2: a, c (a group would have said b).
    #        2: ab .25 * .3 = .075, ac .05 | c. .06, ca .2 * .2 = .04: ab, once more.
    expected = close([[("ab", 0.30, 0.30)], [("ab", 0.075, 0.30)]])
    strategy = DivMBest(runs=2, beams=2, strength=HALVE, diversity=NGram(n=1))
    assert by_hand(strategy, max_length=2) == expected


def test_unique_runs_keep_their_best_that_is_new() -> None:
    # As above, but ab is taken, so that run 1 keeps its second best, c. .06.
    expected = close([[("ab", 0.30, 0.30)], [("c.", 0.06, 0.06)]])
    strategy = DivMBest(runs=2, beams=2, strength=HALVE, diversity=NGram(n=1))
    assert by_hand(strategy, max_length=2, unique=True) == expected


def test_each_run_may_have_a_strength_of_its_own() -> None:
    # Run 1 has none, and finds ab again. Run 2 avoids it twice over: a .5/16, b .3, c .2: b, c; ba .15.
    expected = close([[("ab", 0.30, 0.30)], [("ab", 0.30, 0.30)], [("ba", 0.15, 0.15)]])
    strategy = DivMBest(runs=3, beams=2, strength=[9.0, 0.0, QUARTER], diversity=Hamming())
    assert by_hand(strategy, max_length=2) == expected


def test_a_kept_sequence_that_ended_early_costs_nothing_beyond_its_end() -> None:
    # Run 0 keeps the end alone, .40. Run 1: 1: . .20, a .35, b .25: a. 2: nothing is kept here: . .45.
    expected = close([[(".", 0.40, 0.40)], [("a.", 0.1575, 0.1575)]])
    strategy = DivMBest(runs=2, beams=1, strength=HALVE, diversity=Hamming())
    assert by_hand(strategy, max_length=2, table=EARLY_END) == expected


def test_runs_of_a_batch_do_not_mix() -> None:
    strategy = DivMBest(runs=3, beams=2, strength=QUARTER)
    model = markov(LETTERS)
    alone = [decode(model, [i], strategy, max_length=4, end=END)[0] for i in (A, B, C)]
    assert decode(model, [A, B, C], strategy, max_length=4, end=END) == alone


# Anti-language model

# Squares, so that strength 1/2 divides by the numbers on the right.
COMMON: Table = [
    [0.04, 0.64, 0.16, 0.16],  # first       .2 .8 .4 .4
    [0.64, 0.16, 0.04, 0.16],  # after a     .8 .4 .2 .4
    [0.04, 0.64, 0.16, 0.16],  # after b     .2 .8 .4 .4
    [0.25, 0.25, 0.25, 0.25],  # after c     .5 .5 .5 .5
]


def anti(strength: float = 0.5, first: int | None = None) -> AntiLanguageModel:
    return AntiLanguageModel(markov(LETTERS), markov(COMMON), strength=strength, first=first)


def test_what_is_common_anyway_loses() -> None:
    # 1: a .5/.8 = .625, b .3/.4 = .75, c .2/.4 = .5: b. 2: . .2/.2 = 1, a .5/.8 = .625, c .5: end.
    expected = close([[("b.", 0.75, 0.06)]])
    assert by_hand(BeamSearch(beams=1), max_length=2, model=anti()) == expected


def test_a_guided_search_goes_on_since_totals_may_rise() -> None:
    # b. .75 is found at the second step, and ba has .75 * .625 = .46875 then. But after a, b has
    # .6/.2 = 3: bab .46875 * 3 = 1.40625 overtakes.
    expected = close([[("bab", 1.40625, 0.09)]])
    assert by_hand(BeamSearch(beams=1), max_length=3, model=anti()) == expected


def test_only_the_first_tokens_need_be_compared() -> None:
    # 1: b .75 as above. 2: the model alone: a .5.
    expected = close([[("ba", 0.375, 0.15)]])
    assert by_hand(BeamSearch(beams=1), max_length=2, model=anti(first=1)) == expected


@pytest.mark.parametrize(("strength", "first"), [(0.0, None), (0.5, 0)])
def test_without_strength_or_reach_it_is_the_model(strength: float, first: int | None) -> None:
    plain = by_hand(BeamSearch(beams=3), max_length=3)
    assert by_hand(BeamSearch(beams=3), max_length=3, model=anti(strength, first)) == close(plain)


def test_full_strength_divides_by_the_language_model() -> None:
    # 1: a .5/.64, b .3/.16 = 1.875, c .2/.16: b. 2: . .2/.04 = 5: end, 9.375.
    expected = close([[("b.", 9.375, 0.06)]])
    assert by_hand(BeamSearch(beams=1), max_length=2, model=anti(strength=1.0)) == expected


def test_what_the_language_model_holds_to_be_impossible_is_left_as_it_is() -> None:
    # U gives a all the probability: a .5/1, b .3 and c .2 untouched.
    never = markov([[0.0, 1.0, 0.0, 0.0]] * 4)
    model = AntiLanguageModel(markov(LETTERS), never, strength=1.0)
    expected = close([[("a", 0.5, 0.5), ("b", 0.3, 0.3), ("c", 0.2, 0.2)]])
    assert by_hand(BeamSearch(beams=3), max_length=1, model=model) == expected


def test_anti_language_models_stack() -> None:
    # Twice strength 1/4 is once strength 1/2.
    once = AntiLanguageModel(markov(LETTERS), markov(COMMON), strength=0.25)
    twice = AntiLanguageModel(once, markov(COMMON), strength=0.25)
    expected = close(by_hand(BeamSearch(beams=2), max_length=3, model=anti()))
    assert by_hand(BeamSearch(beams=2), max_length=3, model=twice) == expected


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_penalties_and_guidance_add_up(schedule: Any) -> None:
    # Group 0: b .75, b. .75. Group 1, quartered: 1: a .625, b .1875, c .5: a.
    # 2: the end is said: . .125/4, a .1/.4 = .25, b .6/.2 = 3: b, 1.875.
    expected = close([[("b.", 0.75, 0.06)], [("ab", 1.875, 0.30)]])
    strategy = DiverseBeamSearch(groups=2, strength=QUARTER, schedule=schedule)
    assert by_hand(strategy, max_length=2, model=anti()) == expected


# Sampling

MANY = 2500
every_sampler = pytest.mark.parametrize("sampler", [Sampling, ArithmeticSampling])
every_grouped_sampler = pytest.mark.parametrize("sampler", [DiverseSampling, DiverseArithmeticSampling])

Sampler = Callable[..., Strategy]


def draw(
    strategy: Strategy, rows: Table, *, max_length: int = 1, many: int = MANY, **options: Any
) -> list[Hypotheses]:
    """As many searches, each with a seed of its own, after token 0."""
    return decode(markov(rows), [0] * many, strategy, max_length=max_length, **options)


def assert_follows(drawn: Sequence[Hashable], expected: Mapping[Any, float]) -> None:
    """Chi-square at one in ten thousand. Seeds are fixed, so it either fails or it does not."""
    counts = Counter(drawn)
    assert set(counts) <= {outcome for outcome, p in expected.items() if p > 0}
    assert _chi_square(counts, expected, len(drawn)) < _critical(sum(p > 0 for p in expected.values()) - 1)


def _chi_square(counts: Mapping[Any, int], expected: Mapping[Any, float], total: int) -> float:
    likely = {outcome: p * total for outcome, p in expected.items() if p > 0}
    assert sum(expected.values()) == pytest.approx(1)
    assert min(likely.values()) > 5, "too few draws for the test to mean something"
    return sum((counts.get(outcome, 0) - e) ** 2 / e for outcome, e in likely.items())


def _critical(freedom: int) -> float:
    """The 0.9999 quantile of chi-square (Wilson & Hilferty's approximation)."""
    if not freedom:
        return 1e-9
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.719 * math.sqrt(spread)) ** 3


def first_tokens(found: Sequence[Hypotheses], group: int = 0) -> list[int]:
    return [h.tokens[0] for each in found for h in each if h.group == group]


def alone(probabilities: Sequence[float]) -> list[list[float]]:
    """A model whose every token has these probabilities."""
    return [list(probabilities)] * len(probabilities)


SLOPE = (0.4, 0.3, 0.2, 0.1)


def test_the_test_for_a_distribution_can_fail() -> None:
    drawn = first_tokens(draw(Sampling(samples=1), alone(SLOPE)))
    off_by_a_twentieth = {0: 0.45, 1: 0.25, 2: 0.20, 3: 0.10}
    assert _chi_square(Counter(drawn), off_by_a_twentieth, len(drawn)) > _critical(3)


@every_sampler
def test_samples_follow_the_model(sampler: Sampler) -> None:
    drawn = first_tokens(draw(sampler(samples=1), alone(SLOPE)))
    assert_follows(drawn, dict(enumerate(SLOPE)))


def test_samples_of_one_input_follow_the_model_too() -> None:
    # One search with thousands of chains, in place of thousands of searches.
    drawn = first_tokens(draw(Sampling(samples=MANY), alone(SLOPE), many=1))
    assert_follows(drawn, dict(enumerate(SLOPE)))


@every_sampler
def test_sampled_sequences_follow_the_model(sampler: Sampler) -> None:
    # With ends: every sequence there is, at its probability. Scores are log-probabilities.
    expected = {
        h.tokens: math.exp(h.log_prob) for h in exhaustive_search(markov(ENDING), [0], max_length=3, end=0)[0]
    }
    found = [h for each in draw(sampler(samples=2), ENDING, max_length=3, end=0) for h in each]
    assert len(found) == 2 * MANY
    assert_follows([h.tokens for h in found], expected)
    assert all(h.score == h.log_prob == pytest.approx(math.log(expected[h.tokens])) for h in found)


def test_two_samples_of_one_input_are_independent() -> None:
    # `groups` sorts by score, but a single token's order says nothing beyond that: compare unordered pairs.
    found = draw(Sampling(samples=2), alone(SLOPE))
    pairs = [tuple(sorted(h.tokens[0] for h in each)) for each in found]
    assert_follows(
        pairs,
        {
            (i, j): SLOPE[i] * SLOPE[j] * (1 if i == j else 2)
            for i, j in itertools.combinations_with_replacement(range(4), 2)
        },
    )


@every_sampler
def test_tokens_at_different_times_are_independent(sampler: Sampler) -> None:
    found = draw(sampler(samples=1), alone(SLOPE), max_length=2)
    expected = {(i, j): SLOPE[i] * SLOPE[j] for i in range(4) for j in range(4)}
    assert_follows([h.tokens for each in found for h in each], expected)


@every_sampler
@pytest.mark.parametrize("width", [1, 2, 3])
def test_samples_do_not_depend_on_the_width_of_lists(sampler: Sampler, width: int) -> None:
    strategy = sampler(samples=3, temperature=1.3)
    whole = draw(strategy, LETTERS, max_length=4, many=50, end=0)
    assert draw(strategy, LETTERS, max_length=4, many=50, end=0, list_width=width) == whole


@every_sampler
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_sharpens_and_flattens(sampler: Sampler, temperature: float) -> None:
    # At 1/2 probabilities are squared, .16 .09 .04 .01, at 2 their roots are taken; then normalised.
    powers = [p ** (1 / temperature) for p in SLOPE]
    found = draw(sampler(samples=1, temperature=temperature), alone(SLOPE))
    assert_follows(first_tokens(found), {i: p / sum(powers) for i, p in enumerate(powers)})
    # What is reported is the model's own.
    assert all(h.log_prob == pytest.approx(math.log(SLOPE[h.tokens[0]])) for each in found for h in each)


TIED = (0.4, 0.2, 0.2, 0.2)


@every_sampler
@pytest.mark.parametrize(
    ("probabilities", "options", "admitted"),
    [
        (SLOPE, {"top_k": 1}, {0}),
        (SLOPE, {"top_k": 2}, {0, 1}),
        (SLOPE, {"top_k": 3}, {0, 1, 2}),
        (SLOPE, {"top_k": 99}, {0, 1, 2, 3}),
        # The smallest set with so much: .4, .7, .9, 1.
        (SLOPE, {"top_p": 0.35}, {0}),
        (SLOPE, {"top_p": 0.6}, {0, 1}),
        (SLOPE, {"top_p": 0.75}, {0, 1, 2}),
        (SLOPE, {"top_p": 0.95}, {0, 1, 2, 3}),
        (SLOPE, {"top_p": 1.0}, {0, 1, 2, 3}),
        # So much of the likeliest's .4: at least .36, .24, .16, .08.
        (SLOPE, {"min_p": 0.9}, {0}),
        (SLOPE, {"min_p": 0.6}, {0, 1}),
        (SLOPE, {"min_p": 0.4}, {0, 1, 2}),
        (SLOPE, {"min_p": 0.2}, {0, 1, 2, 3}),
        # top_k comes before top_p: of what it leaves, .4 .3 .2 of .9, the first two have .78.
        (SLOPE, {"top_k": 3, "top_p": 0.75}, {0, 1}),
        # And so does min_p.
        (SLOPE, {"min_p": 0.4, "top_p": 0.75}, {0, 1}),
        # The stricter of top_k and min_p.
        (SLOPE, {"top_k": 2, "min_p": 0.4}, {0, 1}),
        (SLOPE, {"top_k": 3, "min_p": 0.6}, {0, 1}),
        # Tokens as likely as the last one admitted are admitted too.
        (TIED, {"top_k": 2}, {0, 1, 2, 3}),
        (TIED, {"top_p": 0.5}, {0, 1, 2, 3}),
    ],
)
def test_truncation_admits_these_and_no_others(
    sampler: Sampler, probabilities: Sequence[float], options: dict[str, Any], admitted: set[int]
) -> None:
    drawn = first_tokens(draw(sampler(samples=1, **options), alone(probabilities)))
    assert set(drawn) == admitted
    mass = sum(probabilities[i] for i in admitted)
    assert_follows(drawn, {i: probabilities[i] / mass for i in admitted})


def test_temperature_comes_before_truncation() -> None:
    # At 1/2: .16 .09 .04 .01 of .30, that is .533 .3 .133 .033: the first has half of it. Without
    # temperature it has .4 and is not enough.
    strategy = Sampling(samples=1, temperature=0.5, top_p=0.5)
    assert set(first_tokens(draw(strategy, alone(SLOPE), many=300))) == {0}
    assert set(first_tokens(draw(Sampling(samples=1, top_p=0.5), alone(SLOPE), many=300))) == {0, 1}


@every_sampler
def test_an_input_draws_the_same_in_any_company(sampler: Sampler) -> None:
    strategy = sampler(samples=3)
    batch = draw(strategy, LETTERS, max_length=4, many=5, seed=[7, 8, 9, 8, 7], end=0)
    (alone_,) = draw(strategy, LETTERS, max_length=4, many=1, seed=9, end=0)
    assert batch[2] == alone_
    assert batch[0] == batch[4]
    assert batch[0] != batch[1]


@every_sampler
def test_one_seed_serves_a_whole_batch_and_neighbouring_seeds_have_nothing_in_common(
    sampler: Sampler,
) -> None:
    strategy = sampler(samples=3)
    five, six = (draw(strategy, LETTERS, max_length=6, many=3, seed=seed) for seed in (5, 6))
    assert five[0] == draw(strategy, LETTERS, max_length=6, many=1, seed=[5])[0]
    # Were the place in the batch simply added to the seed, input 1 of seed 5 would be input 0 of seed 6.
    everything = [*five, *six]
    assert all(a != b for i, a in enumerate(everything) for b in everything[:i])


# Diverse sampling


def pairs_of_groups(found: Sequence[Hypotheses]) -> list[tuple[int, int]]:
    return list(zip(first_tokens(found, 0), first_tokens(found, 1), strict=True))


def joint(
    weight: Callable[[int, int], float], probabilities: Sequence[float] = SLOPE
) -> dict[tuple[int, int], float]:
    """Group 0 draws from the model, group 1 from the model times weight(what group 0 said, token)."""
    expected = {}
    for i, p in enumerate(probabilities):
        weighted = [q * weight(i, j) for j, q in enumerate(probabilities)]
        expected.update({(i, j): p * w / sum(weighted) for j, w in enumerate(weighted)})
    return expected


@pytest.mark.parametrize(
    ("strength", "repeated"),
    # A strength of 0 leaves groups independent; log 2 and log 4 make a repetition half and a quarter as
    # likely; a huge one rules it out.
    [(0.0, 1.0), (HALVE, 0.5), (QUARTER, 0.25), (1e6, 0.0)],
)
@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
@every_grouped_sampler
def test_groups_draw_from_the_model_times_the_penalty(
    sampler: Sampler, strength: float, repeated: float, schedule: Any
) -> None:
    strategy = sampler(groups=2, samples_per_group=1, strength=strength, schedule=schedule)
    found = draw(strategy, alone(SLOPE))
    assert_follows(pairs_of_groups(found), joint(lambda said, token: repeated if said == token else 1.0))


@every_grouped_sampler
def test_with_huge_strength_groups_share_no_token_at_any_step(sampler: Sampler) -> None:
    strategy = sampler(groups=3, samples_per_group=1, strength=1e6)
    found = draw(strategy, alone(SLOPE), max_length=5, many=200)
    for each in found:
        assert all(len(set(said)) == 3 for said in zip(*(h.tokens for h in each), strict=True))


@every_grouped_sampler
def test_with_two_samples_a_group_both_are_heard(sampler: Sampler) -> None:
    # Group 1 may repeat neither of group 0's two samples, but its own two may agree.
    found = draw(sampler(groups=2, samples_per_group=2, strength=1e6), alone(SLOPE), many=300)
    said = [[{h.tokens[0] for h in group} for group in each.groups] for each in found]
    assert all(not first & second for first, second in said)
    assert any(len(second) == 1 for _, second in said)


@every_grouped_sampler
def test_penalties_of_samples_show_in_the_score_alone(sampler: Sampler) -> None:
    # Nothing but token 0 may be drawn, so group 1 pays log 4 and group 2 twice that.
    strategy = sampler(groups=3, samples_per_group=1, strength=QUARTER, top_k=1)
    found = draw(strategy, alone(SLOPE), many=2)
    for each in found:
        assert [math.exp(h.log_prob) for h in each] == pytest.approx([0.4, 0.4, 0.4])
        scores = [math.exp(group[0].score) for group in each.groups]
        assert scores == pytest.approx([0.4, 0.1, 0.025])


@every_grouped_sampler
def test_a_penalty_never_lets_in_what_truncation_keeps_out(sampler: Sampler) -> None:
    strategy = sampler(groups=3, samples_per_group=1, strength=1e6, top_k=2)
    found = draw(strategy, alone(SLOPE), max_length=3, many=100)
    assert {token for each in found for h in each for token in h.tokens} == {0, 1}


@every_grouped_sampler
def test_truncation_knows_nothing_of_penalties(sampler: Sampler) -> None:
    # The nucleus of .6 is the model's own {0, 1}. Group 1 draws from it with group 0's token quartered.
    expected = joint(lambda said, token: 0.25 if said == token else 1.0, probabilities=(4 / 7, 3 / 7))
    strategy = sampler(groups=2, samples_per_group=1, strength=QUARTER, top_p=0.6)
    found = draw(strategy, alone(SLOPE))
    assert_follows(pairs_of_groups(found), expected)


@every_grouped_sampler
def test_other_terms_penalise_samples_as_well(sampler: Sampler) -> None:
    # Unigrams wherever they stand: with huge strength group 1 says nothing that group 0 has said by then.
    term: Diversity = NGram(n=1)
    strategy = sampler(groups=2, samples_per_group=1, strength=1e6, diversity=term)
    found = draw(strategy, alone([1 / 6] * 6), max_length=3, many=100)
    for each in found:
        first, second = (group[0].tokens for group in each.groups)
        assert all(second[t] not in first[: t + 1] for t in range(3))
        assert len(second) == 3


@every_grouped_sampler
@pytest.mark.parametrize("max_length", [1, 4])
def test_sampled_groups_may_be_staggered(sampler: Sampler, max_length: int) -> None:
    # Group 0 is done before later groups are, whether by its end or by max_length.
    def found(schedule: Any) -> list[Hypotheses]:
        strategy = sampler(groups=3, samples_per_group=2, strength=1.0, schedule=schedule)
        return draw(strategy, EARLY_END, max_length=max_length, many=20, end=0)

    assert found("staggered") == found("lockstep")


# Sampling from guided models


class GuidedDraw:
    """SLOPE, with guidance that doubles the last token's weight and rules out the first."""

    weight = (0.0, 1.0, 1.0, 2.0)

    def _answer(self, rows: int) -> Guided:
        probabilities = torch.tensor([SLOPE] * rows, dtype=torch.double)
        return Guided(
            probabilities.log(), torch.tensor(self.weight, dtype=torch.double).log().expand(rows, -1)
        )

    def start(self, inputs: Sequence[int]) -> tuple[Guided, None]:
        return self._answer(len(inputs)), None

    def step(self, tokens: torch.Tensor, state: None) -> tuple[Guided, None]:
        return self._answer(len(tokens)), None

    def select(self, state: None, rows: torch.Tensor) -> None:
        return None


GUIDED = (0.0, 0.3 / 0.7, 0.2 / 0.7, 0.2 / 0.7)  # .3, .2, .1 * 2 of .7


@every_sampler
def test_samples_follow_the_guided_distribution_and_report_the_models(sampler: Sampler) -> None:
    found = decode(GuidedDraw(), [0] * MANY, sampler(samples=1), max_length=1)
    assert_follows(first_tokens(found), dict(enumerate(GUIDED)))
    for h in (h for each in found for h in each):
        token = h.tokens[0]
        assert math.exp(h.log_prob) == pytest.approx(SLOPE[token])
        assert math.exp(h.score) == pytest.approx(SLOPE[token] * GuidedDraw.weight[token])


@every_grouped_sampler
def test_sampled_groups_of_a_guided_model_add_penalties_to_guidance(sampler: Sampler) -> None:
    strategy = sampler(groups=2, samples_per_group=1, strength=HALVE)
    found = decode(GuidedDraw(), [0] * MANY, strategy, max_length=1)
    expected = joint(lambda said, token: 0.5 if said == token else 1.0, probabilities=GUIDED)
    assert_follows(pairs_of_groups(found), expected)


def test_truncation_is_of_the_guided_distribution() -> None:
    # Without guidance token 0 would be the likeliest; with it, 1 has .43 and 2 and 3 tie.
    found = decode(GuidedDraw(), [0] * 300, Sampling(samples=1, top_k=1), max_length=1)
    assert set(first_tokens(found)) == {1}


def test_samples_of_an_anti_language_model_follow_the_ratio() -> None:
    # P / sqrt U of the first token: .625, .75, .5 of 1.875, for a, b, c.
    found = decode(anti(), [END] * MANY, Sampling(samples=1), max_length=1)
    assert_follows(first_tokens(found), {A: 0.625 / 1.875, B: 0.75 / 1.875, C: 0.5 / 1.875})


# Stochastic beam search

#   end    1     2
SMALL: Table = [
    [0.20, 0.50, 0.30],  # first
    [0.20, 0.50, 0.30],  # after 1
    [0.40, 0.25, 0.35],  # after 2
]
SEARCHES = 5000


def leaves() -> dict[tuple[int, ...], float]:
    """Every sequence of at most two tokens, with its probability: 0 | 10 11 12 | 20 21 22."""
    return {
        h.tokens: math.exp(h.log_prob) for h in exhaustive_search(markov(SMALL), [0], max_length=2, end=0)[0]
    }


def without_replacement(count: int) -> dict[tuple[tuple[int, ...], ...], float]:
    """Sequences drawn one after another, none twice: the probability of each order."""
    prob = leaves()
    orders = {}
    for order in itertools.permutations(prob, count):
        left, chance = 1.0, 1.0
        for sequence in order:
            chance *= prob[sequence] / left
            left -= prob[sequence]
        orders[order] = chance
    return orders


def stochastic(beams: int, many: int = SEARCHES, seed: int = 1) -> list[tuple[Hypothesis, ...]]:
    """For each search its sequences, highest perturbed log-probability first."""
    found = draw(StochasticBeamSearch(beams=beams), SMALL, max_length=2, many=many, end=0, seed=seed)
    return [each.groups[0] for each in found]


def test_there_are_seven_leaves() -> None:
    assert leaves() == pytest.approx(
        {(0,): 0.2, (1, 0): 0.10, (1, 1): 0.25, (1, 2): 0.15, (2, 0): 0.12, (2, 1): 0.075, (2, 2): 0.105}
    )


def test_stochastic_beams_are_distinct() -> None:
    assert all(len({h.tokens for h in group}) == 4 for group in stochastic(4, many=500))


def test_enough_stochastic_beams_find_every_sequence() -> None:
    assert all({h.tokens for h in group} == set(leaves()) for group in stochastic(7, many=50))


@pytest.mark.parametrize("beams", [1, 2, 3])
def test_sequences_are_included_as_often_as_in_sampling_without_replacement(beams: int) -> None:
    exact = dict.fromkeys(leaves(), 0.0)
    for order, chance in without_replacement(beams).items():
        for sequence in order:
            exact[sequence] += chance
    seen = Counter(h.tokens for group in stochastic(beams) for h in group)
    for sequence, chance in exact.items():
        deviation = math.sqrt(SEARCHES * chance * (1 - chance))
        assert abs(seen[sequence] - SEARCHES * chance) < 4 * deviation, sequence


def test_the_order_of_scores_is_the_order_of_drawing() -> None:
    drawn = [tuple(h.tokens for h in group) for group in stochastic(2)]
    assert_follows(drawn, without_replacement(2))


def test_fewer_beams_find_the_first_of_what_more_beams_find() -> None:
    # The top of the perturbed log-probabilities does not depend on how many are asked for: same seeds.
    few, more = stochastic(2, many=300), stochastic(5, many=300)
    for short, long in zip(few, more, strict=True):
        assert short[0].tokens == long[0].tokens
        assert short[0].score == long[0].score


def test_scores_descend_and_log_probs_are_the_models() -> None:
    prob = leaves()
    for group in stochastic(5, many=300):
        scores = [h.score for h in group]
        assert scores == sorted(scores, reverse=True)
        assert len(set(scores)) == len(scores)
        assert all(math.isfinite(score) for score in scores)
        assert [math.exp(h.log_prob) for h in group] == pytest.approx([prob[h.tokens] for h in group])


@pytest.mark.parametrize("beams", [2, 4])
def test_importance_weights_from_the_scores_are_unbiased(beams: int) -> None:
    # Kool et al., section 4.2: with the lowest score of k+1 sequences as threshold, the other k, weighted
    # by p / q with q = 1 - exp(-exp(log p - threshold)), estimate any sum: sum of w f(y) has the mean E f.
    # That is what a score is for. Here f is the indicator of each leaf, and then 1.
    prob = leaves()
    weights: dict[tuple[int, ...], list[float]] = {sequence: [0.0] * SEARCHES for sequence in prob}
    for search, group in enumerate(stochastic(beams)):
        *sample, lowest = group
        for h in sample:
            inclusion = -math.expm1(-math.exp(h.log_prob - lowest.score))
            weights[h.tokens][search] = prob[h.tokens] / inclusion
    for sequence, p in prob.items():
        _assert_mean(weights[sequence], p)
    _assert_mean([sum(each) for each in zip(*weights.values(), strict=True)], 1.0)


def _assert_mean(values: Sequence[float], expected: float) -> None:
    x = torch.tensor(values, dtype=torch.double)
    error = float(x.std()) / math.sqrt(len(values))
    assert float(x.mean()) == pytest.approx(expected, abs=4.5 * error)


@pytest.mark.parametrize("width", [1, 2])
def test_stochastic_beams_do_not_depend_on_the_width_of_lists(width: int) -> None:
    strategy = StochasticBeamSearch(beams=3)
    whole = draw(strategy, LETTERS, max_length=4, many=100, end=0)
    assert draw(strategy, LETTERS, max_length=4, many=100, end=0, list_width=width) == whole


# Dead ends


@pytest.mark.parametrize(
    "strategy",
    [
        BeamSearch(beams=4),
        Sampling(samples=4),
        Sampling(samples=4, top_p=0.9),
        StochasticBeamSearch(beams=4),
        DiverseSampling(groups=2, samples_per_group=2),
        ArithmeticSampling(samples=4, top_p=0.9),
        DiverseArithmeticSampling(groups=2, samples_per_group=2),
    ],
    ids=repr,
)
def test_a_beam_that_may_not_end_and_cannot_go_on_is_dropped(strategy: Strategy) -> None:
    # After c only the end can follow, and min_length forbids it: c's beams lead nowhere, a's go on.
    table = [[0, 0.5, 0, 0.5], [0.5, 0.5, 0, 0], [1.0, 0, 0, 0], [1.0, 0, 0, 0]]
    found = draw(strategy, table, max_length=4, many=20, end=END, min_length=4)
    assert {h.tokens for each in found for h in each} == {(A, A, A, A), (A, A, A, END)}
