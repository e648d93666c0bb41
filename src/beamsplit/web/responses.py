"""The responses of the API, for its description; tests compare them with what is sent."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beamsplit.web.limits import DemoLimits

__all__ = ["CatalogueResponse", "DecodeResponse", "ErrorResponse", "HealthResponse", "StepEvent"]


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorResponse(_Exact):
    error: str = Field(description="One line that says what is wrong and what to do.")


class HealthResponse(_Exact):
    status: Literal["ok"]
    searching: int = Field(description="The number of requests that are searching.")


# Results of a search


class OutputInfo(_Exact):
    text: str | None
    tokens: list[int]
    log_prob: float | None = Field(description="The model's log-probability, without penalties.")
    score: float | None = Field(description="The score that ranks it in its group, penalties included.")
    group: int
    finished: bool = Field(description="Whether it ended by itself, rather than at max_length.")
    certified: bool = Field(description="Whether every choice that led to it was certain.")
    differs: list[tuple[int, int]] = Field(
        description="Spans of the text, in characters, that differ from the first output of the list."
    )
    alone: bool = Field(description="Whether no other list has it.")


class Distinct(_Exact):
    one: float = Field(alias="1")
    two: float = Field(alias="2")
    three: float = Field(alias="3")
    four: float = Field(alias="4")


class ColumnInfo(_Exact):
    title: str
    asked: int | None = Field(description="The number of outputs that were asked for; there may be fewer.")
    distinct: Distinct = Field(description="Distinct n-grams divided by words, for n from 1 to 4.")
    repeats: int = Field(description="The number of outputs left out because another has the same text.")
    hypotheses: list[OutputInfo]


class BranchInfo(_Exact):
    parent: int = Field(description="The index of the branch that it continues, or -1.")
    group: int
    time: int
    token: int
    text: str
    log_prob: float | None
    score: float | None
    cost: float | None = Field(description="The penalty of this token alone.")
    fate: Literal["lives", "ended", "dropped"]
    tokens: list[int] | None = Field(None, description="All tokens of a chunk, of which `token` is the last.")


class RecordingInfo(_Exact):
    title: str
    branches: list[BranchInfo]
    asked: int | None
    hypotheses: list[dict[str, Any]]
    one_tree: bool = Field(description="Whether groups went on from prefixes of each other.")


class DecodeResponse(_Exact):
    columns: list[ColumnInfo]
    tree: str | None = Field(None, description="A drawing of the searches, one above the other, as SVG.")
    recordings: list[RecordingInfo] | None = None


class StepEvent(DecodeResponse):
    """The response if the search ended at this step."""

    number: int = Field(ge=0)


# The catalogue


class SearchDefaults(_Exact):
    """A diverse search, as a request would ask for it."""

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
    choice: SearchDefaults = Field(description="The default diverse search of this model.")
    max_length: int
    examples: list[str]


class StrategyInfo(_Exact):
    name: str
    title: str
    source: str
    uses: list[str] = Field(description="Which of groups, strength and diversity it uses.")
    strength: float | None = Field(description="Its default strength; null: none, or the model's.")
    settings: list[str]
    groups: bool = Field(description="Whether its outputs come in groups, or runs.")
    order: Literal["log-prob", "choice"] = Field(description="The order of its lists.")
    samples: bool = Field(description="Whether another seed gives another list.")


class TermInfo(_Exact):
    name: str
    title: str
    pays: str = Field(description="What a word is penalised for.")


class SampleInfo(_Exact):
    name: str
    title: str
    address: str


class CatalogueResponse(_Exact):
    version: str
    default: str = Field(description="The model that the page starts with.")
    models: list[ModelInfo]
    strategies: list[StrategyInfo]
    terms: list[TermInfo]
    pictures: list[SampleInfo]
    limits: DemoLimits
