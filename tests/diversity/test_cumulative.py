"""The cumulative term, against tables worked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from beamsplit import Cumulative, DiverseBeamSearch, steps
from beamsplit.testing import MarkovModel
from diversity.worked import CLOSE, HALVING, holding, price

# The beam has said 1 2. Positions at which the earlier beams have differed from it so far:
#   1 2 (then 6): 0      1 3 (then 6): 1      4 5 (then 7): 2
# With this step's position, where a candidate differs from what is said or does not:
#   candidate 6:  0  1  3
#   candidate 7:  1  2  2
#   candidate 9:  1  2  3
DRIFTED = [[1, 2, 6], [1, 3, 6], [4, 5, 7]]
DISTANCES = {6: (0, 1, 3), 7: (1, 2, 2), 9: (1, 2, 3)}


def test_cumulative_halves_with_each_difference() -> None:
    # 6: 1 + 1/2 + 1/8    7: 1/2 + 1/4 + 1/4    9: 1/2 + 1/4 + 1/8
    paid = price(Cumulative(temperature=HALVING), [6, 7, 9], [1, 2], holding(DRIFTED))
    assert paid == pytest.approx([1.625, 1.0, 0.875], abs=CLOSE)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 1.0, 2.0, 10.0])
def test_cumulative_decays_with_temperature(temperature: float) -> None:
    expected = [sum(math.exp(-d / temperature) for d in apart) for apart in DISTANCES.values()]
    paid = price(Cumulative(temperature=temperature), list(DISTANCES), [1, 2], holding(DRIFTED))
    assert paid == pytest.approx(expected, abs=CLOSE)


def test_cumulative_has_temperature_one_by_default() -> None:
    # One beam, apart at both positions so far, and now: exp(-3); or the same token now: exp(-2).
    paid = price(Cumulative(), [6, 7], [1, 2], holding([[3, 4, 7]]))
    assert paid == pytest.approx([math.exp(-3), math.exp(-2)], abs=CLOSE)


def test_cumulative_ignores_beams_that_ended() -> None:
    # 1 2 ended: though it agreed with the beam all along, it says nothing now.
    paid = price(Cumulative(temperature=HALVING), [6, 7, 9], [1, 2], holding([*DRIFTED, [1, 2]]))
    assert paid == pytest.approx([1.625, 1.0, 0.875], abs=CLOSE)
    assert price(Cumulative(), [6, 7], [1, 2], holding([[1, 2, -1]])) == [0, 0]


def test_cumulative_at_the_first_step_knows_same_and_other_only() -> None:
    # Two beams say 3, one says 4. 3: 1 + 1 + 1/2    4: 1/2 + 1/2 + 1    5: 1/2 each
    paid = price(Cumulative(temperature=HALVING), [3, 4, 5], [], holding([[3], [3], [4]]))
    assert paid == pytest.approx([2.5, 2.0, 1.5], abs=CLOSE)


# What any token pays


def test_the_least_is_what_a_token_pays_that_nobody_says() -> None:
    earlier = holding([[4, 5, 6], [4, 9, 8], [3, 9, -1]])
    term = Cumulative(temperature=HALVING)
    prefix = torch.tensor([[[4, 5]]])
    # Beside the first, 0 places apart and then 1; beside the second, 1 and then 2; the third has ended.
    assert term.least(prefix, earlier).tolist() == [[pytest.approx(1 / 2 + 1 / 4, abs=CLOSE)]]
    assert price(term, [7], [4, 5], earlier) == term.least(prefix, earlier)[0].tolist()


def test_lists_stay_short_where_every_token_pays_much() -> None:
    model = MarkovModel(torch.randn(2000, 2000, generator=torch.Generator().manual_seed(0)).log_softmax(1))
    strategy = DiverseBeamSearch(groups=10, strength=2.0, diversity=Cumulative(temperature=10.0))
    widths = [step.selections[0].width for step in steps(model, [0, 1], strategy, max_length=6)]
    assert max(widths) < 500
