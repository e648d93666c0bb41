"""Features that are written: what is read again, and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from research.data import read_features, write_features

VALUES = torch.tensor([[0.5, -2.0, 0.1], [3.0, 1e-3, 7.0]])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_features(path, ["9", "2008_000001"], VALUES)
    read = read_features(path)
    assert read.images == ("9", "2008_000001")
    assert read.values.dtype == torch.float32
    assert torch.equal(read.values, VALUES.half().float())
    write_features(path, read.images, read.values)
    assert torch.equal(read_features(path).values, read.values)
    assert os.listdir(tmp_path) == ["a.npz"]


def test_no_pictures_are_written_and_read(tmp_path: Path) -> None:
    write_features(tmp_path / "a.npz", [], torch.empty(0, 3))
    assert read_features(tmp_path / "a.npz").of([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("images", "values", "said"),
    [
        (("a", "a"), VALUES, "picture 'a' is there 2 times: give each once"),
        (("a",), VALUES, "1 pictures and 2 rows of features: give as many"),
        (("a", 9), VALUES, "a picture's id must be a string, not 9"),
        (("a", "b"), VALUES[0], "features must be two-dimensional, a row a picture, not [3]"),
        (("a", "b"), VALUES / torch.tensor([1, 0, 1]), "the features of picture 'a' are not finite numbers"),
        (("a", "b"), VALUES.double() * 1e38, "the features of picture 'b' are not finite numbers"),
    ],
)
def test_features_are_refused_in_a_line(tmp_path: Path, images: Any, values: Tensor, said: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        write_features(tmp_path / "a.npz", images, values)
    assert not os.listdir(tmp_path)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    write_features(path, ["a", "b"], VALUES)
    said = "features beyond ±65504 do not fit into float16, scale them"
    with pytest.raises(ArgumentError, match=f"^{re.escape(str(path))}: {said}$"):
        write_features(path, ["a", "b"], VALUES * 1e5)
    with pytest.raises(ArgumentError, match=r"a\.npy: unknown extension '\.npy' \(known: \.npz\)"):
        write_features(path.with_suffix(".npy"), ["a", "b"], VALUES)
    with pytest.raises(ArgumentError, match=r"x\.npz cannot be written: .* \(give another place\)$"):
        write_features(path / "x.npz", ["a", "b"], VALUES)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ArgumentError, match=r"a\.npz cannot be written: No space left on device"):
        write_features(path, ["a", "b"], VALUES * 2)
    assert os.listdir(tmp_path) == ["a.npz"]
    assert torch.equal(read_features(path).values, VALUES.half().float())
