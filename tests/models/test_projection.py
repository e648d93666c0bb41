"""Projections: what is projected comes back, as far as the components reach."""

from __future__ import annotations

import re

import pytest
import torch

from beamsplit import ArgumentError
from beamsplit.models.projection import Projection


def _projection(short: int = 2, long: int = 5) -> Projection:
    torch.manual_seed(0)
    rows = torch.linalg.qr(torch.randn(long, long))[0][:short]
    return Projection(torch.randn(long), rows)


def test_undo_gives_back_what_lies_in_the_subspace() -> None:
    projection = _projection()
    inside = torch.randn(4, 2) @ projection.components + projection.mean
    torch.testing.assert_close(projection.undo(projection.project(inside)), inside)


def test_project_gives_back_what_was_undone() -> None:
    projection, short = _projection(), torch.randn(4, 2)
    torch.testing.assert_close(projection.project(projection.undo(short)), short)


def test_undo_by_hand() -> None:
    projection = Projection(torch.tensor([1.0, 2, 3]), torch.tensor([[0.0, 1, 0], [0, 0, 1]]))
    assert projection.undo(torch.tensor([[5.0, 7.0]])).tolist() == [[1, 7, 10]]


@pytest.mark.parametrize(("name", "width"), [("project", 5), ("undo", 2)])
def test_features_of_another_width_are_refused(name: str, width: int) -> None:
    said = f"{name} takes features of shape [n {width}], not [2, 3]"
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        getattr(_projection(), name)(torch.zeros(2, 3))


def test_parts_that_do_not_fit_are_refused() -> None:
    said = "mean [2] and components [1, 3] must have shapes [long] and [short long]"
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        Projection(torch.ones(2), torch.ones(1, 3))
