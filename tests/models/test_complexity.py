"""Image complexity: the sum worked by hand, the split, what is refused, and the predictor that ships."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.evaluation.datasets import data_folder
from beamsplit.evaluation.features import read_features
from beamsplit.models.complexity import SHIPPED, Complexity, split
from beamsplit.models.projection import Projection
from research.training.complexity import held_out

TAU = 0.438  # on the 1,000 pictures of PASCAL-50S: what the card says


def by_hand(**changes: Any) -> Complexity:
    """Two features, both kept; two pictures remembered, (1, 4) and (9, 0)."""
    settings: dict[str, Any] = {
        "projection": Projection(torch.zeros(2), torch.eye(2)),
        "scale": torch.tensor([1.0, 2.0]),
        "support": torch.tensor([[1, 2], [9, 0]], dtype=torch.int8),
        "weights": torch.tensor([0.5, -1.0]),
        "gamma": 0.1,
        "offset": 3.0,
    }
    return Complexity(**{**settings, **changes})


# Square roots: the remembered are (1, 2) and (3, 0), whose squared distance is 8.
PREDICTIONS = {
    (1.0, 4.0): 3 + 0.5 - math.exp(-0.8),
    (9.0, 0.0): 3 + 0.5 * math.exp(-0.8) - 1,
    (4.0, 9.0): 3 + 0.5 * math.exp(-0.2) - math.exp(-1.0),  # (2, 3): 1 + 1 and 1 + 9
    (0.0, -5.0): 3 + 0.5 * math.exp(-0.5) - math.exp(-0.9),  # (0, 0): nothing is less than nothing
}


@pytest.mark.parametrize(("features", "score"), PREDICTIONS.items())
def test_prediction_by_hand(features: tuple[float, float], score: float) -> None:
    assert by_hand().predict(torch.tensor([features])).tolist() == pytest.approx([score], abs=1e-5)


def test_only_what_the_components_show_counts() -> None:
    first = Projection(torch.tensor([0.0, 4.0]), torch.tensor([[1.0, 0.0]]))  # the second is always 4
    made = by_hand(projection=first, scale=torch.ones(1), support=torch.tensor([[1], [9]], dtype=torch.int8))
    scores = made.predict(torch.tensor([[1.0, 4.0], [1.0, 100.0]]))
    assert scores.tolist() == pytest.approx([3 + 0.5 - math.exp(-0.4)] * 2, abs=1e-5)


def test_many_pictures_are_as_one_by_one() -> None:
    features = torch.rand(2100, 2, generator=torch.Generator().manual_seed(0)) * 9
    alone = torch.cat([by_hand().predict(row) for row in features[::300].split(1)])  # type: ignore[no-untyped-call]
    assert torch.allclose(by_hand().predict(features)[::300], alone, atol=1e-5)


def test_save_and_load(tmp_path: Path) -> None:
    made, features = by_hand(), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    made.save(tmp_path / "new" / "one.safetensors")
    made.save(tmp_path / "two.safetensors")
    loaded = Complexity.load(tmp_path / "new" / "one.safetensors")
    assert torch.allclose(loaded.predict(features), made.predict(features), atol=2e-3)  # 16 bits
    assert (tmp_path / "new" / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "two.safetensors"]


# The split

SPLITS: list[tuple[list[float], dict[str, float], str]] = [
    ([1, 3, 3, 3, 5], {}, "saaac"),  # mean 3, standard deviation 1.26
    ([1, 3], {}, "sc"),  # mean 2, standard deviation 1: the bounds belong to the outer parts
    ([2.68, 2.7, 3.9, 3.92], {"mean": 3.3, "deviation": 0.61}, "saac"),
    ([2.0], {"mean": 3.3, "deviation": 0.61}, "s"),
    ([], {"mean": 3.3, "deviation": 0.61}, ""),
]


@pytest.mark.parametrize(("scores", "given", "expected"), SPLITS)
def test_split(scores: list[float], given: dict[str, float], expected: str) -> None:
    assert "".join(each[0] for each in split(scores, **given)) == expected
    assert split(torch.tensor(scores, dtype=torch.float64), **given) == split(scores, **given)


REFUSED_SPLITS: list[tuple[Any, dict[str, Any], str]] = [
    ([2.0], {}, "1 scores have no standard deviation: give mean and deviation, or all of a data set"),
    ([2.0, 2.0], {}, "all scores are 2: there is nothing to split, give mean and deviation"),
    ([1.0, 2.0], {"mean": 1.0}, "deviation is missing: give mean and deviation, or neither"),
    ([1.0, 2.0], {"deviation": 1.0}, "mean is missing: give mean and deviation, or neither"),
    ([1.0], {"mean": 1.0, "deviation": 0.0}, "deviation must be a finite number above 0, not 0.0"),
    ([1.0, math.nan], {}, "scores[1] is nan: scores must be finite, leave it out"),
    ("hard", {}, "scores must be a list of numbers, not 'hard'"),
    ([[1.0]], {}, "scores must be a list of numbers, not [[1.0]]"),
    (["hard"], {}, "scores must be a list of numbers, not ['hard']"),
]


@pytest.mark.parametrize(("scores", "given", "message"), REFUSED_SPLITS)
def test_refused_splits(scores: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        split(scores, **given)
    assert str(caught.value) == message


# What is refused

WAY_OUT = "give those of vision.features, or a list of pictures"
REFUSED: list[tuple[Any, str]] = [
    (torch.zeros(3), f"features must be floats of shape [n 2], not float32 [3]: {WAY_OUT}"),
    (torch.zeros(1, 3), f"features must be floats of shape [n 2], not float32 [1, 3]: {WAY_OUT}"),
    (torch.zeros(4, 2).byte(), f"features must be floats of shape [n 2], not uint8 [4, 2]: {WAY_OUT}"),
    (torch.zeros(0, 2), "features has no rows: give at least one picture's"),
    (
        torch.tensor([[0.0, 1.0], [math.nan, 1.0]]),
        "features[1] has NaN or infinite values: compute that picture's anew",
    ),
    ("dog.jpg", "pictures must be a list of pictures, not one str: write [picture]"),
    (
        Path("dog.jpg"),
        f"pictures must be a list of pictures, not one {type(Path()).__name__}: write [picture]",
    ),
    ([], "pictures is empty: give at least one"),
]


@pytest.mark.parametrize(("pictures", "message"), REFUSED)
def test_refused(pictures: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        by_hand().predict(pictures)
    assert str(caught.value) == message


def test_a_file_that_does_not_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    by_hand(weights=torch.ones(3)).save(path)
    with pytest.raises(ArgumentError) as caught:
        Complexity.load(path)
    assert str(caught.value) == f"{path}: support is [2, 2], not [3, 2]: make the file anew"


def test_a_file_without_a_part(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    by_hand(weights=torch.ones(2, 1)).save(path)
    with pytest.raises(ArgumentError) as caught:
        Complexity.load(path)
    assert str(caught.value) == f"{path} has no weights of 1 dimensions: make the file anew"


# The one that ships


def test_the_shipped_file_is_small() -> None:
    assert SHIPPED.stat().st_size < 1_500_000


def test_the_shipped_predictor_says_something_of_any_features() -> None:
    made = Complexity.load()
    features = torch.rand(5, 1280, generator=torch.Generator().manual_seed(0))
    scores = made.predict(torch.cat([features, features * 1e3, torch.zeros(1, 1280)]))
    assert scores.shape == (11,)
    assert ((scores > 2) & (scores < 5)).all()  # people's are 3.3, give or take 0.6


def test_the_shipped_predictor_finds_what_it_remembers_harder_where_its_weight_is_positive() -> None:
    made = Complexity.load()
    scores = made.predict(made.projection.undo(made.support * made.scale))
    harder, easier = scores[made.weights > 0].mean(), scores[made.weights < 0].mean()
    assert harder > easier + 0.1


@pytest.fixture(scope="module")
def folder() -> Path:
    if not os.environ.get("BEAMSPLIT_DATA"):
        pytest.skip("BEAMSPLIT_DATA is not set to a folder of real data")
    return data_folder()


def test_pictures_it_never_saw(folder: Path) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is absent: pip install '.[dev]'")
    _, test, _ = held_out(folder)
    tau = stats.kendalltau(Complexity.load().predict(test.features), test.difficulty).statistic
    assert tau == pytest.approx(TAU, abs=0.002)


def sizes(scores: Tensor) -> tuple[int, int, int]:
    count = Counter(split(scores))
    return count["simple"], count["average"], count["complex"]


def near(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Rounding may move a picture that lies on a bound."""
    return all(abs(a - b) <= 3 for a, b in zip(found, expected, strict=True))


def test_the_sizes_on_the_card(folder: Path) -> None:
    made = Complexity.load()
    _, test, projection = held_out(folder)
    coco = read_features(folder / "captions" / "coco.test.features.npz", projection)
    assert sizes(test.difficulty) == (36, 865, 99)
    assert near(sizes(made.predict(test.features)), (150, 678, 172))
    assert near(sizes(made.predict(coco.values)), (650, 3020, 737))
