"""Features and their projection: what is written is read, and what is projected comes back."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.data import Features, Projection, read_features, read_projection, write_features

VALUES = torch.tensor([[0.5, -2.0, 0.1], [3.0, 1e-3, 7.0]])


def _npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def _refused(path: Path, said: str, **options: Any) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"{path}{said}")) as caught:
        read_features(path, **options)
    assert "\n" not in str(caught.value)


def _projection(short: int = 2, long: int = 5) -> Projection:
    torch.manual_seed(0)
    rows = torch.linalg.qr(torch.randn(long, long))[0][:short]
    return Projection(torch.randn(long), rows)


# Reading and writing


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


def test_int8_has_a_scale(tmp_path: Path) -> None:
    feature = np.array([[127, -2], [0, 1]], dtype=np.int8)
    path = _npz(tmp_path / "a.npz", image=np.array([7, 318556]), feature=feature, scale=np.array([0.5, 2]))
    read = read_features(path)
    assert read.images == ("7", "318556")
    assert read.values.tolist() == [[63.5, -4.0], [0.0, 2.0]]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_floats_need_no_scale(tmp_path: Path, kind: str) -> None:
    path = _npz(tmp_path / "a.npz", image=["a"], feature=np.array([[0.5, 2]], dtype=kind))
    assert read_features(path).values.tolist() == [[0.5, 2.0]]


def test_of_follows_the_ids_given() -> None:
    features = Features(("a", "b"), VALUES)
    assert torch.equal(features.of(["b", "a", "b"]), VALUES[[1, 0, 1]])
    assert features.of([]).shape == (0, 3)


def test_large_finite_features_are_taken() -> None:
    assert Features(("a",), torch.full((1, 4), 3e38)).values.isfinite().all()


# Refusals


def test_a_picture_without_features_is_named() -> None:
    said = (
        "no features of picture 'x': 2 of 3 are missing from the 2 there are, read the features that belong"
    )
    with pytest.raises(ArgumentError, match=re.escape(said)):
        Features(("a", "b"), VALUES).of(["a", "x", "y"])


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
        Features(images, values)
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        write_features(tmp_path / "a.npz", images, values)
    assert not os.listdir(tmp_path)


ONE = np.ones((1, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"image": ["a"]}, ": no array 'feature' (it has: image)"),
        ({}, ": no array 'image' (it has: nothing)"),
        ({"image": ["a"], "feature": ONE[0]}, ": features must be two-dimensional, a row a picture, not [2]"),
        ({"image": ["a"], "feature": ONE * np.nan}, ": the features of picture 'a' are not finite numbers"),
        (
            {"image": ["a"], "feature": ONE.astype(np.int8)},
            ": features of int8 need an array 'scale' to multiply",
        ),
        ({"image": ["a"], "feature": ONE, "scale": ONE}, ": scale has shape [1, 2], not [2] as a feature"),
        ({"image": ["a"], "feature": ONE, "scale": ["x"]}, ": scale must be numbers, not <U1"),
        ({"image": ["a"], "feature": [["x"]]}, ": features must be numbers, not <U1"),
        ({"image": [["a"]], "feature": ONE}, ": image must be a list of numbers or names, not <U1[1, 1]"),
        ({"image": [0.5], "feature": ONE}, ": image must be a list of numbers or names, not float64[1]"),
        ({"image": [7, 7], "feature": ONE[[0, 0]]}, ": picture '7' is there 2 times: give each once"),
        (
            {"image": np.array(["a"], dtype=object), "feature": ONE},
            ": broken or no .npz (Object arrays cannot be loaded when allow_pickle=False): fetch",
        ),
    ],
)
def test_files_are_refused_in_a_line(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    _refused(_npz(tmp_path / "a.npz", **arrays), said)


def test_broken_files_are_refused_in_a_line(tmp_path: Path) -> None:
    path = _npz(tmp_path / "a.npz", image=["a"], feature=ONE)
    for size in (0, 3, 50, path.stat().st_size - 1):
        path.write_bytes(path.read_bytes()[:size] if size else b"")
        _refused(path, ": broken or no .npz (")
        _npz(path, image=["a"], feature=ONE)
    np.save(path.with_suffix(".npy"), ONE)
    path.with_suffix(".npy").replace(path)
    _refused(path, ": broken or no .npz (")
    _refused(tmp_path / "b.npz", ": no such file, check the path")
    _refused(tmp_path / "b.npy", ": unknown extension '.npy' (known: .npz)")


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    write_features(path, ["a", "b"], VALUES)
    said = "features beyond ±65504 do not fit into float16, scale them"
    with pytest.raises(ArgumentError, match=f"^{re.escape(str(path))}: {said}$"):
        write_features(path, ["a", "b"], VALUES * 1e5)
    with pytest.raises(ArgumentError, match=r"a\.npy: unknown extension '\.npy' \(known: \.npz\)"):
        write_features(path.with_suffix(".npy"), ["a", "b"], VALUES)
    with pytest.raises(ArgumentError, match=r"x/a\.npz: cannot be written \(No such file or directory\)$"):
        write_features(tmp_path / "x" / "a.npz", ["a", "b"], VALUES)

    def full(file: Any, **_: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(ArgumentError, match=r"a\.npz: cannot be written \(No space left on device\)$"):
        write_features(path, ["a", "b"], VALUES)
    assert os.listdir(tmp_path) == ["a.npz"]
    assert torch.equal(read_features(path).values, VALUES.half().float())


def test_without_numpy_the_way_to_install_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _npz(tmp_path / "a.npz", image=["a"], feature=ONE)
    monkeypatch.setitem(sys.modules, "numpy", None)
    said = re.escape("beamsplit.data needs numpy: pip install 'beamsplit[train]'")
    with pytest.raises(ImportError, match=f"^{said}$"):
        read_features(path)


# The projection


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


def test_features_come_back_long(tmp_path: Path) -> None:
    projection, short = _projection(), torch.tensor([[1.0, -2.0]])
    write_features(tmp_path / "a.npz", ["a"], short)
    saved = _npz(tmp_path / "p.npz", mean=projection.mean.numpy(), components=projection.components.numpy())
    for given in (projection, saved, str(saved)):
        assert torch.equal(read_features(tmp_path / "a.npz", given).values, projection.undo(short))


def test_projections_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.npz", tmp_path / "p.npz"
    write_features(path, ["a", "b"], VALUES)
    _refused(path, ": undo takes features of shape [n 2], not [2, 3]", projection=_projection())
    with pytest.raises(ArgumentError, match=re.escape("project takes features of shape [n 5], not [2, 3]")):
        _projection().project(VALUES)
    said = f"^{re.escape(str(saved))}: mean \\[2\\] and components \\[1, 3\\] must have shapes "
    with pytest.raises(ArgumentError, match=said):
        read_projection(_npz(saved, mean=np.ones(2), components=np.ones((1, 3))))
    with pytest.raises(ArgumentError, match=f"^{re.escape(str(saved))}: no array 'components' "):
        read_features(path, _npz(saved, mean=np.ones(2)))
