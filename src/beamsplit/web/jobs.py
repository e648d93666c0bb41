"""From a request to searches that are ready to run: everything is checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from beamsplit.choices import Choice
from beamsplit.web.catalogue import Catalogue, Entry
from beamsplit.web.limits import DemoLimits
from beamsplit.web.pictures import decode_base64, picture_features
from beamsplit.web.problems import Problem
from beamsplit.web.requests import DecodeRequest, PictureRequest
from beamsplit.web.samples import SamplePictures

__all__ = ["Job", "JobFactory"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Searches to compare on one input."""

    model: str
    choices: tuple[Choice, ...]
    make_inputs: Callable[[], Any]
    """For `steps`. Pictures take a while, so this is for the thread that searches."""
    max_length: int
    seed: int
    tree: bool
    recordings: bool


@dataclass(frozen=True)
class JobFactory:
    """Makes jobs of requests, for what there is and as much as is allowed."""

    catalogue: Catalogue
    samples: SamplePictures
    limits: DemoLimits

    def of(self, asked: DecodeRequest) -> Job:
        entry = self.catalogue.entry(asked.model)
        return Job(
            model=entry.name,
            choices=self._choices(asked, entry),
            make_inputs=self._inputs(asked, entry),
            max_length=self._max_length(asked.max_length, entry),
            seed=asked.seed,
            tree=asked.tree,
            recordings=asked.recordings,
        )

    def _choices(self, asked: DecodeRequest, entry: Entry) -> tuple[Choice, ...]:
        if asked.searches is None:
            choices: Sequence[Choice] = (entry.choice.beside(), entry.choice)
        else:
            choices = [search.choice(entry.choice) for search in asked.searches]
        beams = sum(choice.beams for choice in choices)
        if beams > self.limits.beams:
            raise Problem(
                422, f"the searches have {beams} beams, and the limit is {self.limits.beams}: ask for fewer"
            )
        for choice in choices:
            _ = choice.method  # refuses what has to be refused
        return tuple(choices)

    def _max_length(self, asked: int | None, entry: Entry) -> int:
        most = self.limits.max_length
        if asked is not None and asked > most:
            raise Problem(422, f"max_length is {asked}, and the limit is {most}: ask for less")
        return asked or min(entry.max_length, most)

    # What to write about

    def _inputs(self, asked: DecodeRequest, entry: Entry) -> Callable[[], Any]:
        given = "text" if asked.text is not None else "picture"
        if given != entry.takes:
            raise Problem(422, f"{entry.name} takes a {entry.takes}, and the request has a {given}")
        if asked.text is not None:
            return partial(_several, self._text(asked.text))
        assert asked.picture is not None
        return partial(picture_features, self._picture(asked.picture), self.limits)

    def _text(self, text: str) -> str:
        most = self.limits.text_letters
        if len(text) > most:
            raise Problem(422, f"the text has {len(text)} letters, and the limit is {most}: shorten it")
        if not text.strip():
            raise Problem(422, "the text is empty: write something to begin with")
        return text

    def _picture(self, picture: PictureRequest) -> bytes:
        if picture.data is not None:
            return decode_base64(picture.data, self.limits)
        data, _ = self.samples.read(str(picture.sample))
        return data


def _several(text: str) -> list[str]:
    return [text]
