"""How long candidate lists must be to make every step certain, and what users are told of it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from beamsplit import Cumulative, DiverseBeamSearch, Embedding, Hamming, NGram, decode
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities
from beamsplit.search.setting import Setting
from beamsplit.testing import PrefixHashModel
from search.test_contract import Lists

VOCABULARY, END, LENGTH = 60, 3, 6
MODEL = PrefixHashModel(VOCABULARY, seed=2)


def sure_width(strategy: Any, time: int, **options: Any) -> int | None:
    arguments: Any = {"max_length": LENGTH, "end": END, **options}
    answer, _ = MODEL.start([0])
    return Setting.of(strategy.plan(), DecodeOptions.of(arguments), Abilities(), answer).sure_width(time)


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        # Survivors and an end; a token for each earlier beam; and one that tells a tie.
        (DiverseBeamSearch(groups=5, strength=1.0), {}, 1 + 1 + 4 + 1),
        (DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0), {}, 2 + 1 + 4 + 1),
        (
            DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, diversity=Cumulative()),
            {},
            2 + 1 + 4 + 1,
        ),
        (DiverseBeamSearch(groups=5, strength=0.0), {}, 1 + 1 + 1),
        (DiverseBeamSearch(groups=5, strength=1.0), {"end": [3, 4]}, 1 + 2 + 4 + 1),
        # In the third step: two bigrams in each of two earlier beams, and in as many that have ended.
        (DiverseBeamSearch(groups=3, strength=1.0, diversity=NGram(n=2)), {}, 1 + 1 + 2 * 2 * 2 + 1),
        (DiverseBeamSearch(groups=3, strength=1.0, diversity=NGram(n=4)), {}, 1 + 1 + 0 + 1),
        # A beam that repeats nothing has two tokens that it must not say again.
        (DiverseBeamSearch(groups=5, strength=1.0), {"no_repeat_ngram": 1}, 1 + 1 + 4 + 2 + 1),
        (DiverseBeamSearch(groups=5, diversity=Embedding(vectors=torch.eye(VOCABULARY))), {}, None),
    ],
)
def test_widths_by_hand(strategy: Any, options: dict[str, Any], expected: int | None) -> None:
    assert sure_width(strategy, 2, **options) == expected


@pytest.mark.parametrize("term", [Hamming(), Cumulative(temperature=2.0), NGram(n=1), NGram(n=2)], ids=str)
@pytest.mark.parametrize(("groups", "beams"), [(4, 1), (3, 2)])
@pytest.mark.parametrize("strength", [0.5, 50.0])
def test_lists_of_this_width_are_always_certain(term: Any, groups: int, beams: int, strength: float) -> None:
    strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=strength, diversity=term)
    width = sure_width(strategy, LENGTH - 1)
    assert width is not None
    inputs = list(range(20))
    found = decode(Lists(MODEL, width), inputs, strategy, max_length=LENGTH, end=END)
    assert all(each.certified for list_ in found for each in list_)
    whole = decode(MODEL, inputs, strategy, max_length=LENGTH, end=END)
    assert [[each.tokens for each in a] for a in found] == [[each.tokens for each in b] for b in whole]


def test_one_candidate_less_is_not_always_enough() -> None:
    strategy = DiverseBeamSearch(groups=6, strength=50.0)
    width = sure_width(strategy, 0)
    assert width is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = decode(Lists(MODEL, width - 2), list(range(20)), strategy, max_length=LENGTH, end=END)
    assert not all(each.certified for list_ in found for each in list_)


@pytest.mark.parametrize(
    ("term", "enough"),
    [(Hamming(), "8 would be"), (Embedding(vectors=torch.eye(VOCABULARY)), "the whole vocabulary")],
)
def test_users_are_told_how_many_would_do(term: Any, enough: str) -> None:
    strategy = DiverseBeamSearch(groups=6, strength=50.0, diversity=term)
    with pytest.warns(UserWarning, match=f"lists of 3 candidates are too short .*{enough}"):
        decode(Lists(MODEL, 3), [0, 1], strategy, max_length=LENGTH, end=END)
