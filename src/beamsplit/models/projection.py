"""The projection of features to fewer dimensions, and back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from beamsplit.errors import ArgumentError

__all__ = ["Projection"]


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
        """Project features to fewer dimensions: [n long] -> [n short]."""
        _check_width("project", values, self.components.shape[1])
        return (values - self.mean) @ self.components.T

    def undo(self, values: Tensor) -> Tensor:
        """Return the features that project to these values: [n short] -> [n long].

        What the components do not span is lost.
        """
        _check_width("undo", values, self.components.shape[0])
        return values @ self.components + self.mean


def _check_width(name: str, values: Tensor, width: int) -> None:
    if values.ndim != 2 or values.shape[1] != width:
        raise ArgumentError(f"{name} takes features of shape [n {width}], not {list(values.shape)}")
