"""The settings that are compared: how a list of answers is made, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from beamsplit import (
    BeamSearch,
    DiverseBeamSearch,
    DiverseSampling,
    LengthNormalised,
    LogProb,
    Sampling,
    Scorer,
    Strategy,
)
from beamsplit.diversity.names import make_term, read_term

__all__ = ["ANSWERS", "CHOSEN", "LONGEST", "Setting", "compared", "tried"]

ANSWERS = 8
LONGEST = 120

CHOSEN = "groups of 2, Hamming 1.5"
"""The setting that was chosen on the validation prompts, and is the default for chat."""

_SCORERS: dict[str, Scorer] = {
    "": LogProb(),
    ", per token": LengthNormalised(),
    ", per token to the first end": LengthNormalised(stop="first"),
}


@dataclass(frozen=True)
class Setting:
    """A strategy, and options of `decode`."""

    strategy: Strategy
    options: dict[str, Any] = field(default_factory=dict)


def compared() -> dict[str, Setting]:
    """Return the settings that are compared on the test prompts: all with as many answers."""
    first = LengthNormalised(stop="first")
    return {
        "beam search": Setting(BeamSearch(beams=ANSWERS)),
        "beam search, no 4-gram twice": Setting(
            BeamSearch(beams=ANSWERS), {"no_repeat_ngram": 4, "scorer": first}
        ),
        "sampling, temperature 1": _sampled(1.0),
        "sampling, temperature 0.7": _sampled(0.7),
        "sampling, temperature 0.5": _sampled(0.5),
        "sampling, temperature 0.5, best 8 of 16": _sampled(0.5, 2 * ANSWERS),
        "groups of 1, Hamming 1.5": _groups("hamming", 1.5, no_repeat_ngram=4, min_length=2, scorer=first),
        CHOSEN: _groups("hamming", 1.5, 2, no_repeat_ngram=4, min_length=2, scorer=first),
    }


def tried() -> dict[str, Setting]:
    """Return all settings that were tried on the validation prompts."""
    found = {**_baselines(), **_terms(), **_lengths()}
    for limit in (2, 3, 6, 10):
        found[f"hamming 2, no {limit}-gram twice"] = _groups("hamming", 2.0, no_repeat_ngram=limit)
    for beams, strengths in ((1, (1.0, 2.0)), (2, (0.5, 1.0, 1.5, 2.0)), (3, (1.0,))):
        for strength in strengths:
            for note, scorer in _SCORERS.items():
                found[f"hamming {strength:g} x{beams}, no 4-gram twice{note}"] = _groups(
                    "hamming", strength, beams, no_repeat_ngram=4, scorer=scorer
                )
    for term, strengths in {"cumulative:temperature=2": (1.0, 3.0), "ngram:n=2": (0.5, 1.0)}.items():
        for strength in strengths:
            found[f"{term} {strength:g} x2, no 4-gram twice, per token"] = _groups(
                term, strength, 2, no_repeat_ngram=4, scorer=LengthNormalised()
            )
    return found


def _baselines() -> dict[str, Setting]:
    found = {
        "beam search": Setting(BeamSearch(beams=ANSWERS)),
        "beam search, no 3-gram twice": Setting(BeamSearch(beams=ANSWERS), {"no_repeat_ngram": 3}),
        "nucleus 0.9": Setting(Sampling(samples=ANSWERS, top_p=0.9)),
        "min-p 0.1": Setting(Sampling(samples=ANSWERS, min_p=0.1)),
    }
    for temperature in (0.3, 0.5, 0.7, 1.0):
        found[f"sampling {temperature:g}"] = _sampled(temperature)
    for temperature in (0.5, 0.7):
        found[f"sampling {temperature:g}, no 4-gram twice, best 8 of 16"] = _sampled(
            temperature, 2 * ANSWERS, no_repeat_ngram=4
        )
        found[f"diverse sampling {temperature:g}, no 4-gram twice"] = Setting(
            DiverseSampling(groups=ANSWERS, strength=1.0, temperature=temperature), {"no_repeat_ngram": 4}
        )
    return found


def _terms() -> dict[str, Setting]:
    terms = {
        "hamming": (0.5, 1.0, 2.0, 4.0),
        "cumulative:temperature=2": (1.0, 3.0, 6.0),
        "cumulative:temperature=10": (0.5, 1.0, 2.0),
        "ngram:n=1": (0.1, 0.3, 1.0),
        "ngram:n=2": (0.3, 1.0, 3.0),
        "ngram:n=3": (1.0, 3.0),
    }
    return {
        f"{term} {strength:g}" + (f", no {limit}-gram twice" if limit else ""): _groups(
            term, strength, no_repeat_ngram=limit
        )
        for term, strengths in terms.items()
        for strength in strengths
        for limit in (None, 4)
    }


def _lengths() -> dict[str, Setting]:
    found = {}
    stops: tuple[Literal["exact", "first"], ...] = ("exact", "first")
    for stop in stops:
        scorer = LengthNormalised(alpha=0.5, stop=stop)
        found[f"hamming 2, no 4-gram twice, length to 0.5, {stop}"] = _groups(
            "hamming", 2.0, no_repeat_ngram=4, scorer=scorer
        )
    for least in (5, 10, 20):
        found[f"hamming 2, no 4-gram twice, at least {least}"] = _groups(
            "hamming", 2.0, no_repeat_ngram=4, min_length=least
        )
        found[f"hamming 1 x2, no 4-gram twice, per token, at least {least}"] = _groups(
            "hamming", 1.0, 2, no_repeat_ngram=4, min_length=least, scorer=LengthNormalised()
        )
    return found


def _groups(term: str, strength: float, beams: int = 1, **options: Any) -> Setting:
    """Return groups of so many beams, each of which gives its best answer."""
    diversity = make_term(read_term(term), None)
    strategy = DiverseBeamSearch(
        groups=ANSWERS, beams_per_group=beams, strength=strength, diversity=diversity
    )
    return Setting(strategy, {"return_per_group": 1, **options})


def _sampled(temperature: float, samples: int = ANSWERS, **options: Any) -> Setting:
    return Setting(Sampling(samples=samples, temperature=temperature), options)
