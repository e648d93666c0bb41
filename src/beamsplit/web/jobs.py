"""Turn requests into searches that are ready to run. Everything is checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from beamsplit.strategies.spec import StrategySpec
from beamsplit.web.catalogue import Catalogue, Entry
from beamsplit.web.limits import DemoLimits
from beamsplit.web.pictures import decode_base64, picture_features
from beamsplit.web.problems import Problem
from beamsplit.web.requests import DecodeRequest, PictureRequest, SearchRequest
from beamsplit.web.samples import SamplePictures

__all__ = ["Job", "JobFactory"]

_DEFAULT_SEARCHES = [SearchRequest.model_validate(each) for each in ({"strategy": "bs"}, {})]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Searches to compare on one input."""

    model: str
    specs: tuple[StrategySpec, ...]
    make_inputs: Callable[[], Any]
    """Returns the inputs for `steps`. Pictures take a while, so the thread that searches calls this."""
    max_length: int
    seed: int
    tree: bool
    recordings: bool


@dataclass(frozen=True)
class JobFactory:
    """Makes jobs from requests, within the limits."""

    catalogue: Catalogue
    samples: SamplePictures
    limits: DemoLimits

    def make(self, request: DecodeRequest) -> Job:
        entry = self.catalogue.entry(request.model)
        return Job(
            model=entry.name,
            specs=self._specs(request, entry),
            make_inputs=self._make_inputs(request, entry),
            max_length=self._max_length(request.max_length, entry),
            seed=request.seed,
            tree=request.tree,
            recordings=request.recordings,
        )

    def _specs(self, request: DecodeRequest, entry: Entry) -> tuple[StrategySpec, ...]:
        searches = _DEFAULT_SEARCHES if request.searches is None else request.searches
        specs = tuple(search.spec(entry.widths) for search in searches)
        beams = sum(spec.rows for spec in specs)
        if beams > self.limits.beams:
            raise Problem(
                422, f"the searches have {beams} beams, and the limit is {self.limits.beams}: ask for fewer"
            )
        return specs

    def _max_length(self, requested: int | None, entry: Entry) -> int:
        most = self.limits.max_length
        if requested is not None and requested > most:
            raise Problem(422, f"max_length is {requested}, and the limit is {most}: ask for less")
        return requested or min(entry.max_length, most)

    # Inputs

    def _make_inputs(self, request: DecodeRequest, entry: Entry) -> Callable[[], Any]:
        given = "text" if request.text is not None else "picture"
        if given != entry.takes:
            raise Problem(422, f"{entry.name} takes a {entry.takes}, and the request has a {given}")
        if request.text is not None:
            inputs = [self._checked_text(request.text)]
            return lambda: inputs
        assert request.picture is not None
        return partial(picture_features, self._picture_bytes(request.picture), self.limits)

    def _checked_text(self, text: str) -> str:
        most = self.limits.text_letters
        if len(text) > most:
            raise Problem(422, f"the text has {len(text)} characters, and the limit is {most}: shorten it")
        if not text.strip():
            raise Problem(422, "the text is empty: write something to begin with")
        return text

    def _picture_bytes(self, picture: PictureRequest) -> bytes:
        if picture.data is not None:
            return decode_base64(picture.data, self.limits)
        data, _ = self.samples.read(str(picture.sample))
        return data
