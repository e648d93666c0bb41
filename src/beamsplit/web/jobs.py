"""From a request to searches that are ready to run: everything is checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from beamsplit.strategies.spec import StrategySpec
from beamsplit.web.catalogue import Catalogue, Entry
from beamsplit.web.limits import Limits
from beamsplit.web.pictures import features_of, from_base64
from beamsplit.web.problems import Problem
from beamsplit.web.requests import Asked, AskedPicture, AskedSearch
from beamsplit.web.samples import Samples

__all__ = ["Job", "Jobs"]


_COMPARED = [AskedSearch.model_validate(each) for each in ({"strategy": "bs"}, {})]  # unless a request says


@dataclass(frozen=True, kw_only=True)
class Job:
    """Searches to compare on one input."""

    model: str
    specs: tuple[StrategySpec, ...]
    make_inputs: Callable[[], Any]
    """For `steps`. Pictures take a while, so this is for the thread that searches."""
    max_length: int
    seed: int
    tree: bool
    recordings: bool


@dataclass(frozen=True)
class Jobs:
    """Makes jobs of requests, for what there is and as much as is allowed."""

    catalogue: Catalogue
    samples: Samples
    limits: Limits

    def of(self, asked: Asked) -> Job:
        entry = self.catalogue.entry(asked.model)
        return Job(
            model=entry.name,
            specs=self._specs(asked, entry),
            make_inputs=self._inputs(asked, entry),
            max_length=self._max_length(asked.max_length, entry),
            seed=asked.seed,
            tree=asked.tree,
            recordings=asked.recordings,
        )

    def _specs(self, asked: Asked, entry: Entry) -> tuple[StrategySpec, ...]:
        searches = _COMPARED if asked.searches is None else asked.searches
        specs = tuple(search.spec(entry.widths) for search in searches)
        beams = sum(spec.outputs for spec in specs)
        if beams > self.limits.beams:
            raise Problem(
                422, f"the searches have {beams} beams, and the limit is {self.limits.beams}: ask for fewer"
            )
        return specs

    def _max_length(self, asked: int | None, entry: Entry) -> int:
        most = self.limits.max_length
        if asked is not None and asked > most:
            raise Problem(422, f"max_length is {asked}, and the limit is {most}: ask for less")
        return asked or min(entry.max_length, most)

    # What to write about

    def _inputs(self, asked: Asked, entry: Entry) -> Callable[[], Any]:
        given = "text" if asked.text is not None else "picture"
        if given != entry.takes:
            raise Problem(422, f"{entry.name} takes a {entry.takes}, and the request has a {given}")
        if asked.text is not None:
            return partial(_several, self._text(asked.text))
        assert asked.picture is not None
        return partial(features_of, self._picture(asked.picture), self.limits)

    def _text(self, text: str) -> str:
        most = self.limits.text_letters
        if len(text) > most:
            raise Problem(422, f"the text has {len(text)} letters, and the limit is {most}: shorten it")
        if not text.strip():
            raise Problem(422, "the text is empty: write something to begin with")
        return text

    def _picture(self, picture: AskedPicture) -> bytes:
        if picture.data is not None:
            return from_base64(picture.data, self.limits)
        data, _ = self.samples.read(str(picture.sample))
        return data


def _several(text: str) -> list[str]:
    return [text]
