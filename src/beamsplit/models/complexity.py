"""Image complexity: how hard a picture is to search for people, predicted from its features.

This is the paper's measure: a support vector regressor, trained on people's response times (Ionescu et al.
2016). The scores of a data set are split at one standard deviation from their mean.

scores = Complexity.load().predict(["dog.jpg", "street.jpg"])     [2]
split(scores)                                                     ["simple", "complex"]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.models import storage
from beamsplit.models.projection import Projection

if TYPE_CHECKING:
    from beamsplit.models.vision import Picture

__all__ = ["Complexity", "distances", "roots", "split"]

SHIPPED = storage.WEIGHTS / "complexity.safetensors"
KIND = "complexity"
_AT_ONCE = 1024  # pictures to score at once, to save memory
_DIMENSIONS = {
    "mean": 1,
    "components": 2,
    "scale": 1,
    "support": 2,
    "weights": 1,
    "gamma": 0,
    "offset": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class Complexity:
    """A support vector regressor: a weighted sum of similarities to pictures of the training set."""

    projection: Projection
    scale: Tensor
    """[short] The size of one step of `support`."""
    support: Tensor
    """[pictures short] The projected features of the support vectors, in steps: int8."""
    weights: Tensor
    """[pictures]"""
    gamma: float
    """The gamma of the RBF kernel: how fast similarity falls with the squared distance."""
    offset: float

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> Complexity:
        """Read a file that `save` wrote; without a path, the one that comes with the package."""
        file = SHIPPED if path is None else Path(path)
        tensors, description = storage.read(file)
        storage.check_kind(file, description, KIND)
        _check_tensors(file, tensors)
        return cls(
            Projection(tensors["mean"], tensors["components"]),
            tensors["scale"],
            tensors["support"],
            tensors["weights"],
            tensors["gamma"].item(),
            tensors["offset"].item(),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `load`, whole or not at all, with numbers rounded as in `storage`."""
        tensors = {
            "mean": self.projection.mean,
            "components": self.projection.components,
            "scale": self.scale,
            "support": self.support,
            "weights": self.weights,
            "gamma": torch.tensor(self.gamma),
            "offset": torch.tensor(self.offset),
        }
        storage.write(Path(path), tensors, {"kind": KIND})

    def predict(self, pictures: Sequence[Picture] | Tensor) -> Tensor:
        """Return a score for each picture, or for each row of features [n 1280] -> [n]. Larger is harder."""
        features = self._features(pictures)
        known = roots(self.projection.undo(self.support * self.scale))
        scores = [self._scores(part, known) for part in torch.split(features, _AT_ONCE)]
        return torch.cat(scores)

    def _features(self, pictures: Any) -> Tensor:
        if isinstance(pictures, Tensor):
            features = pictures
        else:
            from beamsplit.models import vision  # needs more than torch

            features = vision.features(_several(pictures))
        width = self.projection.mean.shape[0]
        if features.ndim != 2 or features.shape[1] != width or not features.is_floating_point():
            raise ArgumentError(
                f"features must be floats of shape [n {width}], not {_kind(features)}: "
                "give those of vision.features, or a list of pictures"
            )
        _check_finite(features)
        return features.detach().to(self.weights)

    def _scores(self, features: Tensor, known: Tensor) -> Tensor:
        seen = roots(self.projection.undo(self.projection.project(features)))
        return torch.exp(-self.gamma * distances(seen, known)) @ self.weights + self.offset


def roots(features: Tensor) -> Tensor:
    """Return square roots, so that differences of small features count for more (Hellinger distance)."""
    return features.clamp(min=0).sqrt()


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances between rows: [n d], [m d] -> [n m]."""
    squares = a.square().sum(1).unsqueeze(1) + b.square().sum(1)
    return (squares - 2 * a @ b.T).clamp(min=0)


def split(
    scores: Sequence[float] | Tensor, *, mean: float | None = None, deviation: float | None = None
) -> list[str]:
    """Label pictures "simple", "average" or "complex": within a standard deviation of the mean is average.

    Mean and deviation are those of `scores`, which should be of a whole data set, unless both are given.

    >>> split([1.0, 3.0, 3.0, 3.0, 5.0])
    ['simple', 'average', 'average', 'average', 'complex']
    >>> split([2.0], mean=3.3, deviation=0.61)
    ['simple']
    """
    values = _numbers(scores)
    low, high = _bounds(values, mean, deviation)
    return ["simple" if s <= low else "complex" if s >= high else "average" for s in values.tolist()]


def _bounds(values: Tensor, mean: float | None, deviation: float | None) -> tuple[float, float]:
    if mean is not None and deviation is not None:
        centre, width = checks.number("mean", mean), checks.positive("deviation", deviation)
    elif mean is not None or deviation is not None:
        missing = "mean" if mean is None else "deviation"
        raise ArgumentError(f"{missing} is missing: give mean and deviation, or neither")
    elif len(values) < 2:
        raise ArgumentError(
            f"{len(values)} scores have no standard deviation: give mean and deviation, or all of a data set"
        )
    elif values.min() == values.max():
        raise ArgumentError(
            f"all scores are {values[0]:g}: there is nothing to split, give mean and deviation"
        )
    else:
        centre, width = values.mean().item(), values.std(correction=0).item()
    return centre - width, centre + width


def _numbers(scores: Any) -> Tensor:
    """Return scores as float64 [n]."""
    try:
        values = torch.as_tensor(checks.materialise(scores), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"scores must be a list of numbers, not {checks.short_repr(scores)}") from error
    if values.ndim != 1:
        raise ArgumentError(f"scores must be a list of numbers, not {checks.short_repr(scores)}")
    if not values.isfinite().all():
        index = values.isfinite().tolist().index(False)
        raise ArgumentError(f"scores[{index}] is {values[index]:g}: scores must be finite, leave it out")
    return values


def _several(pictures: Any) -> Sequence[Picture]:
    """Raise unless this is a list of pictures: a single picture may be iterable too."""
    if isinstance(pictures, (str, bytes)) or not isinstance(pictures, Sequence):
        raise ArgumentError(
            f"pictures must be a list of pictures, not one {type(pictures).__name__}: write [picture]"
        )
    if not pictures:
        raise ArgumentError("pictures is empty: give at least one")
    return pictures


def _check_finite(features: Tensor) -> None:
    if not len(features):
        raise ArgumentError("features has no rows: give at least one picture's")
    finite = features.isfinite().all(dim=1)
    if not finite.all():
        row = finite.tolist().index(False)
        raise ArgumentError(f"features[{row}] has NaN or infinite values: compute that picture's anew")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _check_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Raise unless a file has the tensors of a predictor, in matching shapes."""
    for name, dimensions in _DIMENSIONS.items():
        if name not in tensors or tensors[name].ndim != dimensions:
            raise ArgumentError(f"{path} has no {name} of {dimensions} dimensions: make the file anew")
    short, long = tensors["components"].shape
    expected = {"mean": [long], "scale": [short], "support": [len(tensors["weights"]), short]}
    for name, shape in expected.items():
        if list(tensors[name].shape) != shape:
            raise ArgumentError(
                f"{path}: {name} is {list(tensors[name].shape)}, not {shape}: make the file anew"
            )
