"""Pictures as a network sees them: a row of numbers each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from beamsplit.checks import shown
from beamsplit.data.arrays import read_arrays, tensor, write_arrays
from beamsplit.data.files import AnyPath, need
from beamsplit.data.projection import Projection, read_projection
from beamsplit.errors import ArgumentError

__all__ = ["Features", "read_features", "write_features"]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of pictures, in the order of their ids.

    >>> features = Features(("7", "9"), torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    >>> features.of(["9", "7", "9"])
    tensor([[2., 3.],
            [0., 1.],
            [2., 3.]])
    """

    images: tuple[str, ...]
    values: Tensor
    """[n d], float32."""
    _rows: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", tuple(self.images))
        object.__setattr__(self, "values", self.values.float())
        _check(self.images, self.values)
        object.__setattr__(self, "_rows", {image: row for row, image in enumerate(self.images)})

    def of(self, images: Sequence[str]) -> Tensor:
        """The features of these pictures, in their order: [len(images) d]."""
        missing = [image for image in images if image not in self._rows]
        if missing:
            raise ArgumentError(
                f"no features of picture {shown(missing[0])}: {len(missing)} of {len(images)} are missing "
                f"from the {len(self.images)} there are, read the features that belong to them"
            )
        return self.values[[self._rows[image] for image in images]]


def _check(images: Sequence[str], values: Tensor) -> None:
    _check_rows(values)
    if len(images) != len(values):
        raise ArgumentError(f"{len(images)} pictures and {len(values)} rows of features: give as many")
    for image in images:
        if not isinstance(image, str):
            raise ArgumentError(f"a picture's id must be a string, not {shown(image)}")
    if len(set(images)) != len(images):
        image, times = Counter(images).most_common(1)[0]
        raise ArgumentError(f"picture {shown(image)} is there {times} times: give each once")
    # The sum is quick, and finite only if all are; that it is not may also be for their size.
    if not values.sum().isfinite() and not (finite := values.isfinite().all(dim=1)).all():
        image = images[finite.tolist().index(False)]
        raise ArgumentError(f"the features of picture {shown(image)} are not finite numbers")


def _check_rows(values: Tensor) -> None:
    if values.ndim != 2:
        raise ArgumentError(f"features must be two-dimensional, a row a picture, not {list(values.shape)}")


def read_features(path: AnyPath, projection: Projection | AnyPath | None = None) -> Features:
    """Features from an `.npz` with arrays `image` and `feature`.

    Where there is an array `scale`, features are `feature * scale`: int8 has to have one. With `projection`,
    or the path of one, they come in as many dimensions as they had before it.
    """
    arrays = read_arrays(path, ["image", "feature"], optional=["scale"])
    if not isinstance(projection, Projection | None):
        projection = read_projection(projection)
    try:
        values = _values(arrays["feature"], arrays.get("scale"))
        return Features(_ids(arrays["image"]), projection.undo(values) if projection else values)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error


def _values(feature: Any, scale: Any | None) -> Tensor:
    values = tensor(feature, "features")
    _check_rows(values)
    if scale is None:
        if feature.dtype.kind != "f":
            raise ArgumentError(f"features of {feature.dtype} need an array 'scale' to multiply them by")
        return values
    factor = tensor(scale, "scale")
    if factor.shape not in ((), values.shape[1:]):
        raise ArgumentError(f"scale has shape {list(factor.shape)}, not [{values.shape[1]}] as a feature")
    return values.mul_(factor)


def _ids(image: Any) -> tuple[str, ...]:
    if image.ndim != 1 or image.dtype.kind not in "iuU":
        raise ArgumentError(f"image must be a list of numbers or names, not {image.dtype}{list(image.shape)}")
    return tuple(map(str, image.tolist()))


def write_features(path: AnyPath, images: Sequence[str], values: Tensor) -> None:
    """Writes features for `read_features`, in float16; a reader meets the whole file or none."""
    made = Features(tuple(images), values.detach().cpu())
    numpy = need("numpy")
    half = made.values.half()
    if not torch.isfinite(half).all():
        raise ArgumentError(f"{path}: features beyond ±65504 do not fit into float16, scale them")
    write_arrays(path, {"image": numpy.array(made.images, dtype=numpy.str_), "feature": half.numpy()})
