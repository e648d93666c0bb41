"""A few of many outputs: by consensus, by difference, by clusters, by a determinant."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from beamsplit import ArgumentError, Hypotheses, Hypothesis, reorder, select
from beamsplit.ordering import SELECTIONS, mean_of_others
from beamsplit.selecting import (
    _matrix,
    _nearest_kernel,
    vector_similarity,
    word_overlap,
    word_vector_similarity,
)

SENTENCES = [
    ("a red boat", -1.0),
    ("a red boat sails", -2.0),
    ("a red boat sinks", -2.5),
    ("some green tree", -6.0),
    ("some green tree grows", -7.0),
    ("nothing", -3.0),
]


def listed(sentences: list[tuple[str, float]]) -> Hypotheses:
    return Hypotheses(
        [
            Hypothesis((i,), log_prob, log_prob, i % 2, text=text)
            for i, (text, log_prob) in enumerate(sentences)
        ]
    )


FOUND = listed(SENTENCES)


def made_up(seed: int, outputs: int = 7) -> Hypotheses:
    draw = np.random.default_rng(seed)
    return listed([(" ".join(draw.choice(list("abcdef"), 4)), -float(draw.random())) for _ in range(outputs)])


# Laws


@pytest.mark.parametrize("by", SELECTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_so_many_outputs_are_chosen_each_once(by: str, seed: int) -> None:
    found = made_up(seed)
    for count in range(1, 9):
        chosen = select(found, count, by=by)
        assert len(chosen) == min(count, len(found))
        assert len({each.tokens for each in chosen}) == len(chosen)
        assert {each.tokens for each in chosen} <= {each.tokens for each in found}


@pytest.mark.parametrize("seed", range(5))
def test_without_diversity_the_most_agreed_with_and_the_likeliest_are_chosen(seed: int) -> None:
    found = made_up(seed)
    by_consensus = reorder(found, "mbr")
    for count in (1, 3):
        assert select(found, count, by="mbr") == by_consensus[:count]
        assert select(found, count, by="diverse-mbr", diversity=0) == by_consensus[:count]
        assert select(found, count, by="dpp", diversity=0) == reorder(found, "score")[:count]


@pytest.mark.parametrize("seed", range(5))
def test_every_choice_of_diverse_mbr_gains_most(seed: int) -> None:
    found, weight = made_up(seed), 0.6
    alike = _matrix(found, word_overlap)
    places = {each.tokens: index for index, each in enumerate(found)}
    chosen: list[int] = []
    for each in select(found, 4, diversity=weight):
        gains = {
            index: (1 - weight) * (sum(alike[index]) - 1) / (len(found) - 1)
            - weight * (sum(alike[index][other] for other in chosen) / len(chosen) if chosen else 0.0)
            for index in range(len(found))
            if index not in chosen
        }
        assert gains[places[each.tokens]] == pytest.approx(max(gains.values()))
        chosen.append(places[each.tokens])


@pytest.mark.parametrize("seed", range(5))
def test_every_choice_of_a_dpp_makes_the_determinant_largest(seed: int) -> None:
    found, weight = made_up(seed), 0.7
    kernel = _nearest_kernel(_matrix(found, word_overlap))
    places = {each.tokens: index for index, each in enumerate(found)}
    chosen: list[int] = []

    def value(indices: list[int]) -> float:
        quality = sum(found[index].log_prob / len(found[index].tokens) for index in indices)
        volume = float(np.linalg.det(kernel[np.ix_(indices, indices)]))
        return (1 - weight) * quality + weight * math.log(max(volume, 1e-12))

    for each in select(found, 3, by="dpp", diversity=weight):
        chosen.append(places[each.tokens])
        rivals = [value([*chosen[:-1], index]) for index in range(len(found)) if index not in chosen[:-1]]
        assert value(chosen) == pytest.approx(max(rivals), abs=1e-6)


@pytest.mark.parametrize("seed", range(40))  # with some, the first choices have to be changed
def test_no_other_output_covers_the_list_better_than_a_medoid(seed: int) -> None:
    found = made_up(seed, outputs=12)
    alike = _matrix(found, word_overlap)
    places = {each.tokens: index for index, each in enumerate(found)}
    chosen = [places[each.tokens] for each in select(found, 3, by="k-medoids")]

    def covered(indices: list[int]) -> float:
        return float(sum(max(alike[i][j] for j in indices) for i in range(len(found))))

    for place, index in itertools.product(range(3), range(len(found))):
        assert covered([*chosen[:place], index, *chosen[place + 1 :]]) <= covered(chosen) + 1e-9


def test_more_weight_on_diversity_makes_the_chosen_less_alike() -> None:
    def alike(chosen: Hypotheses) -> float:
        return sum(word_overlap(a, b) for a, b in itertools.combinations(chosen, 2))

    for by in ("diverse-mbr", "dpp"):
        assert alike(select(FOUND, 3, by=by, diversity=0.9)) < alike(select(FOUND, 3, by=by, diversity=0.0))


# By hand


def test_one_of_each_cluster() -> None:
    assert set(select(FOUND, 3, by="k-medoids").texts) == {"a red boat", "some green tree", "nothing"}
    assert select(FOUND, 2, by="mbr").texts == ("a red boat", "a red boat sails")


def test_a_kernel_has_no_negative_part() -> None:
    impossible = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])  # of no three vectors
    assert np.linalg.eigvalsh(impossible).min() < -0.2
    assert np.linalg.eigvalsh(_nearest_kernel(impossible)).min() > -1e-12
    possible = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert _nearest_kernel(possible) == pytest.approx(possible)


def test_consensus_is_what_mbr_orders_by() -> None:
    alike = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
    assert mean_of_others(alike.tolist()) == [0.25, 0.375, 0.125]


def test_word_vectors_tell_that_words_are_alike() -> None:
    vectors = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 0.0], [-1.0, 0.0]]
    boat, ship, tree, nothing, land = (Hypothesis((i,), -1.0 - i, -1.0 - i) for i in range(5))
    alike = vector_similarity(vectors)
    assert alike(boat, ship) == pytest.approx(0.9 / math.hypot(0.9, 0.1))
    assert alike(boat, tree) == alike(boat, nothing) == alike(boat, land) == 0.0
    assert alike(nothing, nothing) == 1.0
    chosen = select(Hypotheses([boat, ship, tree]), 2, by="k-medoids", similarity=alike)
    assert [each.tokens for each in chosen] in ([(0,), (2,)], [(1,), (2,)])


def test_a_cosine_that_is_rounded_up_is_no_error() -> None:
    chosen = select(FOUND, 2, by="k-medoids", similarity=lambda a, b: 1 + 1e-9)
    assert len(chosen) == 2


def test_lists_of_none_and_one() -> None:
    for by in SELECTIONS:
        assert select(Hypotheses([]), 3, by=by) == Hypotheses([])
        assert select(listed([("a", -1.0)]), 3, by=by).texts == ("a",)


def test_the_same_output_twice_is_chosen_last() -> None:
    twice = listed([("a red boat", -1.0), ("a red boat", -1.1), ("some tree", -5.0)])
    for by in ("diverse-mbr", "dpp"):
        assert set(select(twice, 2, by=by, diversity=0.9).texts) == {"a red boat", "some tree"}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"count": 0}, "count must be a whole number of at least 1, not 0"),
    ({"by": "kmedoids"}, "there is no selection 'kmedoids': did you mean 'k-medoids'?"),
    ({"diversity": 2}, "diversity is 2: give a number from 0 (quality alone) to 1"),
    ({"similarity": lambda a, b: 7.0}, "the similarity of outputs 0 and 1 is 7.0: return 0 to 1"),
    ({"similarity": lambda a, b: math.nan}, "the similarity of outputs 0 and 1 is nan: return 0 to 1"),
]


@pytest.mark.parametrize(("options", "line"), MISTAKES)
def test_mistakes_are_explained(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        select(FOUND, **{"count": 2, **options})
    assert str(raised.value).startswith(line)


def test_vectors_have_a_row_for_each_token() -> None:
    with pytest.raises(ArgumentError, match=r"vectors have the shape \[3\]"):
        vector_similarity([1.0, 2.0, 3.0])


# No text twice


@pytest.mark.parametrize("by", SELECTIONS)
def test_a_text_is_chosen_once_but_counts_as_often_as_it_is_there(by: str) -> None:
    boat = "a red boat"
    found = listed([(boat, -1.0), (f" {boat}", -1.1), ("a red\u00a0boat", -1.2), ("x y", -1.3), ("x", -9.0)])
    assert set(select(found, 9, by=by, unique=True).texts) == {boat, "x y", "x"}
    assert len(select(found, 9, by=by, unique=True)) == 3
    assert len(select(found, 9, by=by)) == 5
    assert select(found, 1, by="mbr", unique=True).texts == (boat,)
    assert select(found.only([0, 3, 4]), 1, by="mbr", unique=True).texts == ("x y",)  # which "x" is like


def test_word_vectors_of_texts() -> None:
    def alike(first: str, second: str) -> float:
        compare = word_vector_similarity(["boat", "ship", "tree"], [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        one, other = listed([(first, -1.0), (second, -2.0)])
        return compare(one, other)

    assert alike("A boat", "the Ship") == pytest.approx(0.9 / math.hypot(0.9, 0.1))
    assert alike("boat", "tree") == alike("unheard of", "boat") == alike("unheard of", "neither") == 0.0
    assert alike("unheard of", "unheard of") == 1.0
    with pytest.raises(
        ArgumentError, match=r"vectors have the shape \[1, 1\] for 2 words: give a row for each"
    ):
        word_vector_similarity(["a", "b"], [[1.0]])


def test_texts_and_plain_lists_of_outputs_are_taken() -> None:
    texts = ["a b c", "a b d", "x y"]
    made = Hypotheses([Hypothesis((i,), 0.0, 0.0, text=text) for i, text in enumerate(texts)])
    for by in ("mbr", "diverse-mbr", "k-medoids", "dpp"):
        assert select(texts, 2, by=by).texts == select(made, 2, by=by).texts
        assert select(list(made), 2, by=by) == select(made, 2, by=by)
    assert len(select([], 2)) == 0


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ("abc", "found must be a list of outputs, not the text 'abc'"),
        (
            [Hypotheses()],
            "found must be a list of outputs or of texts, and has a Hypotheses: give the list of one input, "
            "such as found[0]",
        ),
    ],
)
def test_what_is_no_list_of_outputs_is_refused(found: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        select(found, 2)
    assert str(raised.value) == line
