"""Lists in another order: by log-probability, per token, by consensus, by a function of the user's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from beamsplit import ArgumentError, Hypotheses, Hypothesis, reorder
from beamsplit.ordering import ORDERS, consensus, scorer_of, similarity


def said(text: str, log_prob: float, length: int, group: int = 0) -> Hypothesis:
    return Hypothesis(tuple(range(length)), log_prob, log_prob, group, text=text)


FOUND = Hypotheses(
    [
        said("", -1.0, 1),
        said("a red boat", -3.0, 4, group=1),
        said("a red car", -3.5, 4),
        said("the red boat sails away", -4.0, 8, group=2),
    ]
)


def texts(found: Hypotheses) -> list[str | None]:
    return [each.text for each in found]


def test_by_log_probability_the_empty_output_comes_first() -> None:
    assert texts(reorder(FOUND, "log-prob")) == ["", "a red boat", "a red car", "the red boat sails away"]


def test_per_token_long_outputs_come_first() -> None:
    # -4 / 8, -3 / 4, -3.5 / 4, -1 / 1
    assert texts(reorder(FOUND, "score")) == ["the red boat sails away", "a red boat", "a red car", ""]


def test_by_consensus_what_is_most_like_the_others_comes_first() -> None:
    # Words: boat-car 2*2/6, boat-sails 2*2/8, car-sails 2*1/8. Pairs: 2*1/4, 2*1/6, 0. Empty: 0.
    boat, car = (2 / 3 + 1 / 2) / 2, (1 / 2 + 1 / 3) / 2
    expected = [0.0, (boat + car) / 3, (boat + 1 / 8) / 3, (car + 1 / 8) / 3]
    assert consensus([(each.text or "").split() for each in FOUND]) == pytest.approx(expected)
    assert texts(reorder(FOUND, "mbr")) == ["a red boat", "a red car", "the red boat sails away", ""]


def test_by_a_function_the_highest_comes_first_and_equals_stay() -> None:
    assert texts(reorder(FOUND, lambda all_: [len(text) > 0 for text in all_])) == [
        "a red boat",
        "a red car",
        "the red boat sails away",
        "",
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_changes_nothing_but_the_order(order: str) -> None:
    found = reorder(FOUND, order)
    assert sorted(found, key=repr) == sorted(FOUND, key=repr)
    assert found.groups == FOUND.groups
    assert reorder(found, order) == found


def test_equals_in_a_group_keep_the_order_of_the_search() -> None:
    tied = [said("b", -2.0, 2), said("a", -2.0, 4), said("c", -2.0, 1)]
    found = Hypotheses.ordered(tied, [1, 2, 0])  # the search ranked c first, then b, then a
    assert texts(reorder(found, "score")) == ["a", "b", "c"]
    assert [each.text for each in reorder(found, "score").groups[0]] == ["c", "b", "a"]


def test_similarity_is_symmetric_and_one_for_the_same() -> None:
    sentences = ["a red boat", "a boat", "", "boat boat boat", "something else"]
    for first, second in itertools.product(map(str.split, sentences), repeat=2):
        assert similarity(first, second) == similarity(second, first)
        assert 0 <= similarity(first, second) <= 1
        assert (similarity(first, second) == 1) == (first == second)
    assert similarity(["boat"], ["car"]) == 0  # without pairs, words alone count


def test_outputs_without_text_agree_by_their_tokens() -> None:
    bare = [Hypothesis(tokens, -1.0, -1.0) for tokens in ((1, 2, 3), (7, 8, 9), (1, 2, 4))]
    assert [each.tokens for each in reorder(Hypotheses(bare), "mbr")] == [(1, 2, 3), (1, 2, 4), (7, 8, 9)]
    with pytest.raises(ArgumentError, match="the outputs have no text for a scorer to read"):
        reorder(Hypotheses(bare), lambda all_: [0.0] * len(all_))


def test_lists_of_none_and_one() -> None:
    for order in ORDERS:
        assert reorder(Hypotheses([]), order) == Hypotheses([])
        assert texts(reorder(Hypotheses([said("a", -1.0, 1)]), order)) == ["a"]


MISTAKES: list[tuple[Any, str]] = [
    ("log_prob", "there is no order 'log_prob': did you mean 'log-prob'?"),
    (3, "there is no order 3: "),
    (lambda _: [1.0], "the scorer returned 1 numbers for 4 texts: return one for each"),
    (lambda all_: [float("nan")] * len(all_), "the scorer returned NaN for '': return a number"),
]


@pytest.mark.parametrize(("order", "line"), MISTAKES)
def test_mistakes_are_explained(order: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        reorder(FOUND, order)
    assert str(raised.value).startswith(line)


def test_a_search_ranks_by_what_its_lists_are_ordered_by() -> None:
    import torch

    total = torch.tensor([-4.0])
    assert scorer_of("log-prob").final(total, 8).item() == -4.0
    assert scorer_of("score").final(total, 8).item() == scorer_of("mbr").final(total, 8).item() == -0.5
