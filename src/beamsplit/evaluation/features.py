"""Read the features of pictures: a row of numbers each, as a network sees them."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beamsplit import files
from beamsplit.checks import reason, short_repr
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.datasets import join_names
from beamsplit.files import AnyPath, check_extension, read_bytes
from beamsplit.models.projection import Projection

__all__ = ["Features", "read_arrays", "read_features", "read_projection"]


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
    keys: tuple[str, ...] | None = None
    """What tells each from others on any machine, while products of matrices differ in their last bits."""
    _rows: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", tuple(self.images))
        object.__setattr__(self, "values", self.values.float())
        _check(self.images, self.values)
        object.__setattr__(self, "_rows", {image: row for row, image in enumerate(self.images)})

    def of(self, images: Sequence[str]) -> Tensor:
        """Return the features of these pictures, in their order: [len(images) d]."""
        missing = [image for image in images if image not in self._rows]
        if missing:
            raise ArgumentError(
                f"no features of picture {short_repr(missing[0])}: {len(missing)} of {len(images)} are "
                f"missing from the {len(self.images)} there are, read the features that belong to them"
            )
        return self.values[[self._rows[image] for image in images]]

    def keys_of(self, images: Sequence[str]) -> tuple[str, ...] | None:
        """Return the keys of these pictures, if there are any."""
        return None if self.keys is None else tuple(self.keys[self._rows[image]] for image in images)


def _check(images: Sequence[str], values: Tensor) -> None:
    _check_rows(values)
    if len(images) != len(values):
        raise ArgumentError(f"{len(images)} pictures and {len(values)} rows of features: give as many")
    for image in images:
        if not isinstance(image, str):
            raise ArgumentError(f"a picture's id must be a string, not {short_repr(image)}")
    if len(set(images)) != len(images):
        image, times = Counter(images).most_common(1)[0]
        raise ArgumentError(f"picture {short_repr(image)} is there {times} times: give each once")
    # The sum is quick. If it is finite, all values are; if not, it may only have overflowed.
    if not values.sum().isfinite() and not (finite := values.isfinite().all(dim=1)).all():
        image = images[finite.tolist().index(False)]
        raise ArgumentError(f"the features of picture {short_repr(image)} are not finite numbers")


def _check_rows(values: Tensor) -> None:
    if values.ndim != 2:
        raise ArgumentError(f"features must be two-dimensional, a row a picture, not {list(values.shape)}")


def read_features(path: AnyPath, projection: Projection | AnyPath | None = None) -> Features:
    """Return the features of an `.npz` file with arrays `image` and `feature`.

    Where there is an array `scale`, features are `feature * scale`: int8 has to have one. With `projection`,
    or the path of one, they come in as many dimensions as they had before it.
    """
    arrays = read_arrays(path, ["image", "feature"], optional=["scale"])
    if not isinstance(projection, Projection | None):
        projection = read_projection(projection)
    try:
        values = _values(arrays["feature"], arrays.get("scale"))
        whole = projection.undo(values) if projection else values
        return Features(_ids(arrays["image"]), whole, _keys(arrays, projection))
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error


def _keys(arrays: Mapping[str, Any], projection: Projection | None) -> tuple[str, ...]:
    """Return a hash of each row of the file, and of what all rows are multiplied by."""
    common = hashlib.sha256(arrays["scale"].tobytes() if "scale" in arrays else b"")
    for each in () if projection is None else (projection.mean, projection.components):
        common.update(each.numpy().tobytes())
    found = []
    for row in arrays["feature"]:
        digest = common.copy()
        digest.update(str(row.dtype).encode() + row.tobytes())
        found.append(digest.hexdigest()[:24])
    return tuple(found)


def _values(feature: Any, scale: Any | None) -> Tensor:
    values = _tensor(feature, "features")
    _check_rows(values)
    if scale is None:
        if feature.dtype.kind != "f":
            raise ArgumentError(f"features of {feature.dtype} need an array 'scale' to multiply them by")
        return values
    factor = _tensor(scale, "scale")
    if factor.shape not in ((), values.shape[1:]):
        raise ArgumentError(f"scale has shape {list(factor.shape)}, not [{values.shape[1]}] as a feature")
    return values.mul_(factor)


def _ids(image: Any) -> tuple[str, ...]:
    if image.ndim != 1 or image.dtype.kind not in "iuU":
        raise ArgumentError(f"image must be a list of numbers or names, not {image.dtype}{list(image.shape)}")
    return tuple(map(str, image.tolist()))


def read_projection(path: AnyPath) -> Projection:
    """Return the projection of an `.npz` file with arrays `mean` and `components`."""
    arrays = read_arrays(path, ["mean", "components"])
    try:
        return Projection(*(_tensor(arrays[name], name) for name in ("mean", "components")))
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error


def read_arrays(path: AnyPath, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return arrays of an `.npz` file by name; `optional` ones may be missing. Nothing is unpickled."""
    check_extension(path, [".npz"])
    data = read_bytes(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            present = list(found.files)
            wanted = [name for name in (*names, *optional) if name in present]
            _check_unpacked(path, found.zip, wanted)
            arrays = {name: found[name] for name in wanted}
    except ArgumentError:
        raise
    except Exception as error:  # zip, zlib and numpy each have their own ways to fail
        raise ArgumentError(f"{path}: broken or no .npz ({reason(error)}): fetch the file again") from error
    for name in names:
        if name not in arrays:
            raise ArgumentError(f"{path}: no array {name!r} (it has: {join_names(present)})")
    return arrays


def _check_unpacked(path: AnyPath, archive: zipfile.ZipFile, names: Sequence[str]) -> None:
    """Raise if the arrays are larger than what is read at once: no more than the archive says is unpacked."""
    size = sum(each.file_size for each in archive.infolist() if each.filename.removesuffix(".npy") in names)
    if size > files.UNPACKED_LIMIT:
        raise ArgumentError(
            f"{path} unpacks to more than {files.UNPACKED_LIMIT:,} bytes, the most that is read at once: "
            "give fewer pictures"
        )


def _tensor(array: Any, name: str) -> Tensor:
    """Return numbers as a float32 tensor."""
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} must be numbers, not {array.dtype}")
    return torch.from_numpy(array.astype("float32"))
