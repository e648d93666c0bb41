"""The linear map by which features were made shorter, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from beamsplit.data.arrays import read_arrays, tensor
from beamsplit.data.files import AnyPath
from beamsplit.errors import ArgumentError

__all__ = ["Projection", "read_projection"]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The first principal components of features, and their mean."""

    mean: Tensor
    """[long]"""
    components: Tensor
    """[short long], with orthonormal rows."""

    def __post_init__(self) -> None:
        if self.components.ndim != 2 or self.mean.shape != self.components.shape[1:]:
            raise ArgumentError(
                f"mean {list(self.mean.shape)} and components {list(self.components.shape)} "
                "must have shapes [long] and [short long]"
            )

    def project(self, values: Tensor) -> Tensor:
        """[n long] -> [n short]"""
        _check_width("project", values, self.components.shape[1])
        return (values - self.mean) @ self.components.T

    def undo(self, values: Tensor) -> Tensor:
        """[n short] -> [n long], as near to what was projected as the components reach."""
        _check_width("undo", values, self.components.shape[0])
        return values @ self.components + self.mean


def _check_width(name: str, values: Tensor, width: int) -> None:
    if values.ndim != 2 or values.shape[1] != width:
        raise ArgumentError(f"{name} takes features of shape [n {width}], not {list(values.shape)}")


def read_projection(path: AnyPath) -> Projection:
    """A projection from an `.npz` with arrays `mean` and `components`."""
    arrays = read_arrays(path, ["mean", "components"])
    try:
        return Projection(*(tensor(arrays[name], name) for name in ("mean", "components")))
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error
