"""The requests of the API. Their form is checked here, their size against the limits in `jobs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from beamsplit.strategies.defaults import STRATEGY
from beamsplit.strategies.names import check_strategy_name, own_settings
from beamsplit.strategies.spec import StrategySpec, Widths, strategy_named_by

__all__ = ["DecodeRequest", "PictureRequest", "SearchRequest"]

_NAME_LENGTH = 200
_MAX_STRENGTH = 1_000.0
_MIN_SETTING = 0.001
_MAX_SEED = 2**53 - 1  # the largest whole number that a browser counts exactly


class _Strict(BaseModel):
    """Refuses unknown fields, and converts no value to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _check_setting(value: float) -> float:
    """Return whole numbers as `int`, which counts need. Refuse tiny numbers: division by them overflows."""
    if 0 < value < _MIN_SETTING:
        raise ValueError(f"Input should be 0 or at least {_MIN_SETTING:g}")
    return int(value) if value.is_integer() else value


Setting = Annotated[float, Field(ge=0, le=1_000_000), AfterValidator(_check_setting)]


class SearchRequest(_Strict):
    """A strategy and its settings. What is left out is the model's default."""

    strategy: str | None = Field(
        None,
        max_length=_NAME_LENGTH,
        examples=["dbs"],
        description=f"By default {STRATEGY}; with groups, a strength or a diversity term, dbs.",
    )
    groups: int | None = Field(None, ge=1, le=1_000)
    beams_per_group: int | None = Field(None, ge=1, le=1_000)
    strength: float | None = Field(
        None, ge=0, le=_MAX_STRENGTH, description="Of the penalty for what other outputs say."
    )
    diversity: str | None = Field(None, max_length=_NAME_LENGTH, examples=["cumulative:temperature=2"])
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        max_length=8,
        description="Settings of its own: temperature, top_k, top_p, min_p, rate, proposals.",
    )
    unique: bool = Field(
        False,
        description="Leave out outputs that an earlier group has found. Late branching never repeats one.",
    )
    model_temperature: float = Field(
        1.0,
        ge=_MIN_SETTING,
        le=1_000,
        description="What the model's logits are divided by before the search.",
    )

    def spec(self, defaults: Widths) -> StrategySpec:
        """Return the strategy, with the defaults for what is left out."""
        names = ("groups", "beams_per_group", "strength", "diversity")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        strategy = check_strategy_name(self.strategy or strategy_named_by(given, STRATEGY))
        settings: dict[str, Any] = dict(self.settings)
        if "strength" in given and "strength" in own_settings(strategy):
            settings.setdefault("strength", given["strength"])
        return StrategySpec.of_widths(
            strategy,
            replace(defaults, **given),
            settings,
            unique=self.unique,
            model_temperature=self.model_temperature,
        )


class PictureRequest(_Strict):
    """A sample picture by its name, or a file as base64."""

    sample: str | None = Field(None, max_length=_NAME_LENGTH)
    data: str | None = Field(None, description="A JPEG, PNG, WebP, GIF or BMP file, as base64.")

    @model_validator(mode="after")
    def _check_one_given(self) -> PictureRequest:
        if (self.sample is None) == (self.data is None):
            raise ValueError("give either sample or data")
        return self


class DecodeRequest(_Strict):
    """An input, and the searches to compare on it."""

    model: str = Field("en-fr", max_length=1_000)
    text: str | None = Field(None, examples=["I have to find a new job before the summer."])
    picture: PictureRequest | None = None
    searches: list[SearchRequest] | None = Field(
        None,
        min_length=1,
        max_length=4,
        description="By default two: beam search, and late branching with as many outputs.",
    )
    max_length: int | None = Field(None, ge=1, le=10_000, description="The most tokens of an output.")
    seed: int = Field(0, ge=0, le=_MAX_SEED, description="The seed of strategies that sample.")
    tree: bool = Field(False, description="Draw the searches, as SVG.")
    recordings: bool = Field(False, description="Return all that the searches tried, as data.")

    @model_validator(mode="after")
    def _check_one_input(self) -> DecodeRequest:
        if (self.text is None) == (self.picture is None):
            raise ValueError("give either a text or a picture")
        return self
