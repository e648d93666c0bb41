"""Features from their files: by id, scaled, and as long as they were before a projection."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError, files
from beamsplit.evaluation.features import Features, read_features, read_projection
from beamsplit.models.projection import Projection

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


# Reading


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
def test_features_are_refused_in_a_line(images: Any, values: Tensor, said: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        Features(images, values)


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
    _refused(tmp_path / "b.npz", " cannot be read: No such file or directory")
    _refused(tmp_path / "b.npy", ": unknown extension '.npy' (known: .npz)")


def test_arrays_are_not_unpacked_beyond_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros take a thousandth of their room in an archive; what is not asked for does not count."""
    path = tmp_path / "a.npz"
    np.savez_compressed(
        path, image=["a"], feature=np.zeros((1, 10_000_000), np.float32), more=np.zeros(10**6)
    )
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(files, "UNPACKED_LIMIT", 39_999_999)
    line = " unpacks to more than 39,999,999 bytes, the most that is read at once: give fewer pictures"
    tracemalloc.start()
    _refused(path, line)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    monkeypatch.setattr(files, "UNPACKED_LIMIT", 41_000_000)
    assert read_features(path).values.shape == (1, 10_000_000)


# The projection


def test_features_come_back_long(tmp_path: Path) -> None:
    projection, short = _projection(), torch.tensor([[1.0, -2.0]])
    _npz(tmp_path / "a.npz", image=["a"], feature=short.numpy())
    saved = _npz(tmp_path / "p.npz", mean=projection.mean.numpy(), components=projection.components.numpy())
    for given in (projection, saved, str(saved)):
        assert torch.equal(read_features(tmp_path / "a.npz", given).values, projection.undo(short))


def test_projections_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.npz", tmp_path / "p.npz"
    _npz(path, image=["a", "b"], feature=VALUES.numpy())
    _refused(path, ": undo takes features of shape [n 2], not [2, 3]", projection=_projection())
    said = f"^{re.escape(str(saved))}: mean \\[2\\] and components \\[1, 3\\] must have shapes "
    with pytest.raises(ArgumentError, match=said):
        read_projection(_npz(saved, mean=np.ones(2), components=np.ones((1, 3))))
    with pytest.raises(ArgumentError, match=f"^{re.escape(str(saved))}: no array 'components' "):
        read_features(path, _npz(saved, mean=np.ones(2)))
