"""The parts of `LateBranching`, on trees that are worked by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from beamsplit import LogProb
from beamsplit.search.branching.choice import (
    Chooser,
    Said,
    _best_of_each,
    _expected,
    _places,
    pair_codes,
    price_of,
)
from beamsplit.search.branching.tree import NOTHING, Outputs, Prefixes, Tree

BASE = 10


def column(*values: float, dtype: torch.dtype = torch.long) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def prefixes(*rows: tuple[int, int, int, int, float]) -> Prefixes:
    """Return prefixes (input, parent, token, length, score). Each has candidates 7, 8 and 9."""
    input_, parent, token, length, score = zip(*rows, strict=True)
    total = column(*score, dtype=torch.float32)
    gains = torch.tensor([-1.0, -2.0, -4.0])
    return Prefixes(
        input=column(*input_),
        parent=column(*parent),
        token=column(*token),
        length=column(*length),
        log_prob=total.clone(),
        score=total,
        next_token=torch.tensor([7, 8, 9]).repeat(len(rows), 1),
        next_log_prob=total.unsqueeze(1) + gains,
        next_score=total.unsqueeze(1) + gains,
        is_open=torch.ones(len(rows), 3, dtype=torch.bool),
        answer=torch.zeros(len(rows), dtype=torch.long),
        row=torch.arange(len(rows)),
    )


def outputs(*rows: tuple[int, int, int, int, float]) -> Outputs:
    """Return outputs (input, prefix, token, length, score)."""
    input_, prefix, token, length, score = zip(*rows, strict=True)
    total = column(*score, dtype=torch.float32)
    return Outputs(
        input=column(*input_),
        prefix=column(*prefix),
        token=column(*token),
        length=column(*length),
        log_prob=total.clone(),
        score=total.clone(),
        worth=total.clone(),
        ended=torch.ones(len(rows), dtype=torch.bool),
    )


def small_tree() -> Tree:
    """Return the tree of two inputs: one with 7, 7 8 and 8, one with its root alone."""
    tree = Tree(prefixes((0, NOTHING, NOTHING, 0, 0.0), (1, NOTHING, NOTHING, 0, 0.0)))
    assert tree.add(prefixes((0, 0, 7, 1, -1.0), (0, 0, 8, 1, -2.0))).tolist() == [2, 3]
    assert tree.add(prefixes((0, 2, 8, 2, -3.0))).tolist() == [4]
    return tree


# Prices


def test_a_pair_costs_more_each_time_it_is_said() -> None:
    assert price_of(torch.tensor([0, 1, 2, 3, 5]), 20).tolist() == [0.0, 1.0, 1.25, 1.5, 2.0]
    assert price_of(torch.tensor([0, 1, 2, 3]), 5).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_codes_of_pairs_are_all_different() -> None:
    pairs = list(itertools.product(range(3), range(-1, 4), range(4)))  # input, token before, token
    input_, before, token = torch.tensor(pairs).unbind(1)
    codes = pair_codes(input_, before, token, 4)
    assert len(set(codes.tolist())) == len(pairs)
    assert int(codes.min()) >= 0


def test_what_was_said_has_its_price() -> None:
    said = Said(column(3, 8, 20), column(1, 2, 1), 20)
    assert said.prices(column(1, 3, 8, 9, 20, 99)).tolist() == [0.0, 1.0, 1.25, 0.0, 1.0, 0.0]
    assert said.prices(torch.tensor([[3, 4], [20, 8]])).tolist() == [[1.0, 0.0], [1.0, 1.25]]


def test_more_may_be_said() -> None:
    said = Said(column(3, 8), column(1, 2), 20).add(column(8, 5, 5))
    assert (said.codes.tolist(), said.times.tolist()) == ([3, 5, 8], [1, 2, 3])
    nothing = Said(column(3), column(1), 20).add(column())
    assert (nothing.codes.tolist(), nothing.times.tolist()) == ([3], [1])


# The tree


def test_a_tree_knows_its_paths() -> None:
    tree = small_tree()
    assert tree.paths().tolist() == [
        [0, NOTHING, NOTHING],
        [1, NOTHING, NOTHING],
        [0, 2, NOTHING],
        [0, 3, NOTHING],
        [0, 2, 4],
    ]
    tree.add(prefixes((1, 1, 9, 1, -4.0)))  # paths are those of the tree as it is now
    assert tree.paths()[5].tolist() == [1, 5, NOTHING]


def test_what_is_followed_is_open_no_more() -> None:
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (0, 3, 7, 2, -3.0)))
    assert tree.prefixes.is_open.tolist() == [
        [False, False, True],
        [True, True, True],
        [True, False, True],
        [False, True, True],
        [True, True, False],
    ]


def test_a_token_that_is_not_listed_closes_nothing() -> None:
    tree = Tree(prefixes((0, NOTHING, NOTHING, 0, 0.0)))
    tree.finish(outputs((0, 0, 5, 1, -9.0)))
    assert tree.prefixes.is_open.all()


def test_a_tree_spells_outputs() -> None:
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (1, 1, 8, 1, -2.0)))
    tree.finish(outputs((0, 3, 7, 2, -3.0)))
    assert tree.spell(tree.outputs) == [(7, 8, 9), (8,), (8, 7)]


def test_a_tree_grows_without_losing_anything() -> None:
    tree = Tree(prefixes((0, NOTHING, NOTHING, 0, 0.0)))
    for length in range(1, 40):
        tree.add(prefixes((0, length - 1, length % BASE, length, -float(length))))
    assert tree.prefixes.length.tolist() == list(range(40))
    assert tree.prefixes.score.tolist() == [-float(length) for length in range(40)]
    assert tree.paths()[39].tolist() == list(range(40))


# Expectations


def expected(tree: Tree, max_length: int = 99) -> tuple[list[float], list[int]]:
    rest, ahead = _expected(tree.outputs, tree.prefixes, tree.paths(), max_length)
    return rest.tolist(), ahead.tolist()


def test_what_follows_is_what_follows_in_the_best_output_of_the_prefix() -> None:
    """Outputs: 7 8 9 of -7, and 8 of input 1.

    After the root and one more token, 8 9 follow: -7 - -1 = -6. After 7 and one more, 9: -7 - -3 = -4. After
    7 8 and one more, nothing would follow, so the last token, 9, stands for it. The prefix 8 has no output
    of its own: it looks at the root's, and 9 follows there. Input 1 has an output of one token: that one.
    """
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (1, 1, 8, 1, -2.0)))
    assert expected(tree) == ([-6.0, -2.0, -4.0, -4.0, -4.0], [2, 1, 1, 1, 1])


def test_of_several_outputs_the_best_counts() -> None:
    tree = small_tree()
    tree.finish(outputs((1, 1, 8, 1, -2.0), (0, 4, 9, 3, -7.0), (0, 3, 7, 2, -3.0), (0, 3, 9, 2, -6.0)))
    # The best of all is 8 7. Its own prefixes look at it, and 7 at the best that it has: 7 8 9.
    assert expected(tree) == ([-1.0, -2.0, -4.0, -1.0, -4.0], [1, 1, 1, 1, 1])


def test_nothing_follows_where_outputs_are_as_long_as_they_may_be() -> None:
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (1, 1, 8, 1, -2.0)))
    assert expected(tree, max_length=3) == ([-6.0, -2.0, -4.0, -4.0, 0.0], [2, 1, 1, 1, 0])


# Choices


def chosen(tree: Tree, count: int, price: float, *, branches: bool) -> list[tuple[int, int, int, float]]:
    """Return what is chosen for input 0: output, prefix, slot and value."""
    chooser = Chooser(count, column(price, price, dtype=torch.float32), LogProb(), 3, BASE)
    keys = torch.arange(len(tree.outputs.input))
    choice = chooser.choose(tree, tree.outputs, keys, column(0, 1), branches=branches)
    columns = choice.output, choice.prefix, choice.slot, choice.value
    return list(zip(*(each[0].tolist() for each in columns), strict=True))


def finished_tree() -> Tree:
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (1, 1, 8, 1, -2.0), (0, 2, 9, 2, -5.0), (0, 3, 7, 2, -5.5)))
    return tree


def test_outputs_pay_for_pairs_of_those_before_them() -> None:
    """The first is 7 8 9, given as such. 7 9 shares the pair of the beginning and 7; 8 7 shares nothing."""
    tree = finished_tree()
    free, dear = (chosen(tree, 3, price, branches=False) for price in (0.0, 1.0))
    assert free == [(0, NOTHING, NOTHING, -7.0), (2, NOTHING, NOTHING, -5.0), (3, NOTHING, NOTHING, -5.5)]
    assert dear == [(0, NOTHING, NOTHING, -7.0), (3, NOTHING, NOTHING, -5.5), (2, NOTHING, NOTHING, -6.0)]


def test_a_list_has_no_more_than_there_is() -> None:
    assert len(chosen(finished_tree(), 9, 0.5, branches=False)) == 3


def test_branches_take_part() -> None:
    """Outputs have three tokens at most, and there is no price.

    After 7 8 (-3) nothing follows a third token: 7 8 7 has -4, and 7 8 8 has -5. After 7 (-1) one more token
    is expected to follow, of -4, as the best output with a 7 is 7 9, of -5: 7 7 has -2 - 4. After 8 it is
    -3.5, by 8 7: 8 8 has -4 - 3.5, and 8 9 has -6 - 3.5. After the root it is -4 again: 9 has -4 - 4.
    """
    assert chosen(finished_tree(), 9, 0.0, branches=True) == [
        (0, NOTHING, NOTHING, -7.0),  # the first, whatever it is worth
        (NOTHING, 4, 0, -4.0),
        (2, NOTHING, NOTHING, -5.0),  # of equals, the one that is complete
        (NOTHING, 4, 1, -5.0),
        (3, NOTHING, NOTHING, -5.5),
        (NOTHING, 2, 0, -6.0),
        (NOTHING, 3, 1, -7.5),
        (NOTHING, 0, 2, -8.0),
        (NOTHING, 3, 2, -9.5),
    ]


def test_branches_pay_for_their_own_pairs_and_for_half_of_what_follows() -> None:
    """The only output is 7 8 9: the list has the pairs .7, 78 and 89.

    At a price of 1, 7 8 7 pays for .7 and 78: -4 - 2. At a price of 3 that is -10. Then 8 7 is better, which
    pays for half of the one token that is expected after it: -3 - 4 - 1.5.
    """
    tree = small_tree()
    tree.finish(outputs((0, 4, 9, 3, -7.0), (1, 1, 8, 1, -2.0)))
    assert chosen(tree, 2, 1.0, branches=True)[1] == (NOTHING, 4, 0, -6.0)
    assert chosen(tree, 2, 3.0, branches=True)[1] == (NOTHING, 3, 0, -8.5)


def test_a_pair_that_an_output_has_twice_is_said_once() -> None:
    """The outputs are 7 7 7, which has 77 twice, and 8 of another input."""
    tree = Tree(prefixes((0, NOTHING, NOTHING, 0, 0.0), (1, NOTHING, NOTHING, 0, 0.0)))
    tree.add(prefixes((0, 0, 7, 1, -1.0)))
    tree.add(prefixes((0, 2, 7, 2, -2.0)))
    tree.finish(outputs((0, 3, 7, 3, -3.0), (1, 1, 8, 1, -2.0)))
    chooser = Chooser(1, torch.ones(2), LogProb(), 3, BASE)
    said = chooser.choose(tree, tree.outputs, column(0, 1), column(0, 1), branches=False).said
    assert (
        said.codes.tolist() == pair_codes(column(0, 0, 1), column(-1, 7, -1), column(7, 7, 8), BASE).tolist()
    )
    assert said.times.tolist() == [1, 1, 1]


def test_outputs_that_read_the_same_are_chosen_once() -> None:
    tree = finished_tree()
    chooser = Chooser(3, torch.zeros(2), LogProb(), 3, BASE)
    choice = chooser.choose(tree, tree.outputs, column(0, 1, 0, 3), column(0, 1), branches=False)
    assert choice.output[0].tolist() == [0, 3, NOTHING]


def test_places_in_a_table_with_a_row_for_each_input() -> None:
    where, width = _places(column(2, 0, 2, 2, 0), 4)
    assert (where.tolist(), width) == ([6, 0, 7, 8, 1], 3)


def test_the_best_of_each_input_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamsplit.search.branching.choice._BRANCHES", 2)
    value = column(1.0, 5.0, 2.0, 3.0, 4.0, dtype=torch.float32)
    assert _best_of_each(column(1, 0, 1, 1, 3), value, 5).tolist() == [1, 3, 2, 4]
