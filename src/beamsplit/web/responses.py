"""What is answered: these describe it for the API's own description, and the tests hold us to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beamsplit.web.limits import DemoLimits

__all__ = ["CatalogueResponse", "DecodeResponse", "ErrorResponse", "HealthResponse", "StepEvent"]


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorResponse(_Exact):
    error: str = Field(description="One line that says what is wrong, and the way out.")


class HealthResponse(_Exact):
    status: Literal["ok"]
    searching: int = Field(description="Requests that search now.")


# What a search finds


class OutputInfo(_Exact):
    text: str | None
    tokens: list[int]
    log_prob: float | None = Field(description="The model's: no penalty, no normalisation.")
    score: float | None = Field(description="What its group ranks it by, penalties included.")
    group: int
    finished: bool = Field(description="Whether it came to its end, or was cut at max_length.")
    differs: list[tuple[int, int]] = Field(
        description="Parts of the text, from letter to letter, that the first of the list does not have."
    )
    alone: bool = Field(description="Whether no other list has it.")


class Distinct(_Exact):
    one: float = Field(alias="1")
    two: float = Field(alias="2")
    three: float = Field(alias="3")
    four: float = Field(alias="4")


class ColumnInfo(_Exact):
    title: str
    distinct: Distinct = Field(description="Different n-grams over words, for n from 1 to 4.")
    repeats: int = Field(description="Outputs that are left out because they read as another does.")
    hypotheses: list[OutputInfo]


class BranchInfo(_Exact):
    parent: int = Field(description="The branch that it goes on from, by its place; -1 if none.")
    group: int
    time: int
    token: int
    text: str
    log_prob: float | None
    score: float | None
    cost: float | None = Field(description="What its penalty took off the score, at this token alone.")
    fate: Literal["lives", "ended", "dropped"]


class RecordingInfo(_Exact):
    title: str
    branches: list[BranchInfo]
    hypotheses: list[dict[str, Any]]


class DecodeResponse(_Exact):
    columns: list[ColumnInfo]
    tree: str | None = Field(None, description="The searches one above the other, in SVG.")
    recordings: list[RecordingInfo] | None = None


class StepEvent(DecodeResponse):
    """What would be answered if the search ended here."""

    number: int = Field(ge=0)


# What there is


class SearchDefaults(_Exact):
    """A choice as a request would have it."""

    strategy: str
    groups: int
    beams_per_group: int
    strength: float
    diversity: str


class ModelInfo(_Exact):
    name: str
    task: str
    title: str
    takes: Literal["text", "picture"]
    choice: SearchDefaults = Field(description="The diverse search that suits it.")
    max_length: int
    examples: list[str]


class StrategyInfo(_Exact):
    name: str
    title: str
    source: str
    uses: list[str] = Field(description="Which of groups, strength and diversity it looks at.")
    settings: list[str]
    groups: bool = Field(description="Whether its outputs come in groups, or runs.")
    samples: bool = Field(description="Whether another seed gives another list.")


class TermInfo(_Exact):
    name: str
    title: str
    pays: str = Field(description="What a word pays for.")


class SampleInfo(_Exact):
    name: str
    title: str
    address: str


class CatalogueResponse(_Exact):
    version: str
    default: str = Field(description="The model to begin with.")
    models: list[ModelInfo]
    strategies: list[StrategyInfo]
    terms: list[TermInfo]
    pictures: list[SampleInfo]
    limits: DemoLimits
