"""What is asked, as it comes in: checked for its form here, against the limits in `jobs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from beamsplit.strategies.defaults import STRATEGY
from beamsplit.strategies.spec import StrategySpec, Widths

__all__ = ["Asked", "AskedPicture", "AskedSearch"]

_LONG = 200  # letters of a name
_STRONGEST = 1_000.0
_LEAST = 0.001
_SEED = 2**53 - 1  # what a browser can count to


class _Strict(BaseModel):
    """A slip of the pen is refused, and nothing is taken for what it is not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _sensible(value: float) -> float:
    """Return whole numbers as integers, since some settings are counts. Raise if one is close to 0."""
    if 0 < value < _LEAST:
        raise ValueError(f"Input should be 0 or at least {_LEAST:g}")
    return int(value) if value.is_integer() else value


Setting = Annotated[float, Field(ge=0, le=1_000_000), AfterValidator(_sensible)]


class AskedSearch(_Strict):
    """A strategy; what is left out is as suits the model."""

    strategy: str = Field(STRATEGY, max_length=_LONG, examples=["dbs"])
    groups: int | None = Field(None, ge=1, le=1_000)
    beams_per_group: int | None = Field(None, ge=1, le=1_000)
    strength: float | None = Field(None, ge=0, le=_STRONGEST)
    diversity: str | None = Field(None, max_length=_LONG, examples=["cumulative:temperature=2"])
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        max_length=8,
        description="Of the strategy's own: temperature, top_k, top_p, min_p, rate.",
    )
    unique: bool = Field(False, description="Leave out outputs that an earlier group has found.")

    def spec(self, defaults: Widths) -> StrategySpec:
        """Return the strategy; what is left out is as in `defaults`."""
        names = ("groups", "beams_per_group", "strength", "diversity")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        widths = replace(defaults, **{name: value for name, value in given.items() if value is not None})
        return StrategySpec.of_widths(self.strategy, widths, self.settings, unique=self.unique)


class AskedPicture(_Strict):
    """One of the samples by its name, or a file as base64."""

    sample: str | None = Field(None, max_length=_LONG)
    data: str | None = Field(None, description="A JPEG, PNG, WebP, GIF or BMP file, as base64.")

    @model_validator(mode="after")
    def _one_of_them(self) -> AskedPicture:
        if (self.sample is None) == (self.data is None):
            raise ValueError("give either sample or data")
        return self


class Asked(_Strict):
    """Something to write about, and searches to compare on it."""

    model: str = Field("en-fr", max_length=1_000)
    text: str | None = Field(None, examples=["I have to find a new job before the summer."])
    picture: AskedPicture | None = None
    searches: list[AskedSearch] | None = Field(
        None,
        min_length=1,
        max_length=4,
        description="By default two: beam search, and diverse beam search of the same width.",
    )
    max_length: int | None = Field(None, ge=1, le=10_000, description="The most tokens of an output.")
    seed: int = Field(0, ge=0, le=_SEED, description="Of strategies that sample.")
    tree: bool = Field(False, description="Draw the searches, in SVG.")
    recordings: bool = Field(False, description="Tell all that the searches tried, as data.")

    @model_validator(mode="after")
    def _one_input(self) -> Asked:
        if (self.text is None) == (self.picture is None):
            raise ValueError("give either a text or a picture")
        return self
