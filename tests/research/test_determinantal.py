"""Determinantal beam search: without a weight it is beam search, and the greedy choice is by determinants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from beamsplit import BeamSearch, decode
from beamsplit.models import load
from research.experiments.determinantal import determinantal_beam_search, greedy_subset, kernel_of


def test_without_a_weight_it_is_beam_search() -> None:
    """Its best, that is: the search goes on until all beams have ended, so the others may be longer."""
    model, texts = load("en-fr"), ["I see a dog.", "Come here!"]
    for index, plain in enumerate(decode(model, texts, BeamSearch(beams=3), max_length=20)):
        found = determinantal_beam_search(model, texts[index : index + 1], beams=3, weight=0.0, max_length=20)
        assert found[0].tokens == plain.best.tokens
        assert found[0].log_prob == pytest.approx(plain.best.log_prob, abs=1e-4)


def test_each_choice_adds_most_to_the_determinant() -> None:
    random = np.random.default_rng(0)
    half = random.normal(size=(6, 6))
    matrix = half @ half.T
    chosen = greedy_subset(matrix, 4)
    for size in range(1, 5):
        before = chosen[: size - 1]
        others = [place for place in range(6) if place not in before]
        assert chosen[size - 1] == max(
            others, key=lambda place: np.linalg.det(matrix[np.ix_([*before, place], [*before, place])])
        )


def test_a_kernel_is_one_for_equals_and_less_for_others() -> None:
    kernel = kernel_of([(1, 2, 3), (1, 2, 3), (1, 3, 2), (4, 5)])
    assert kernel.diagonal() == pytest.approx(1.0)
    assert kernel[0, 1] == pytest.approx(1.0)
    assert 0 < kernel[0, 2] < 1
    assert kernel[0, 3] == 0
    for first, second in itertools.product(range(4), repeat=2):
        assert kernel[first, second] == pytest.approx(kernel[second, first])


def test_a_weight_makes_beams_differ() -> None:
    model, text = load("en-fr"), ["We should leave."]
    plain, diverse = (
        {h.tokens for h in determinantal_beam_search(model, text, beams=5, weight=w, max_length=20)}
        for w in (0.0, 10.0)
    )
    assert len(plain) == len(diverse) == 5
    assert plain != diverse
