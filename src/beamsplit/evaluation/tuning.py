"""Search settings of Diverse Beam Search on a validation set: term, number of groups, strength.

tune(Tuning(task="valid.jsonl", model="en-fr"), RunSettings())      what was tried and what to take, for JSON
recommending.report(...)                                            the same for people

Quality is the best of the first k by a metric of texts, diversity a figure of whole lists. Optuna looks for
settings that are good at both; among those that no other beats, the front, the target chooses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import beamsplit
from beamsplit import checks, metrics
from beamsplit.diversity.names import (
    TERMS,
    needs_word_vectors,
    quick_terms,
    term_defaults,
)
from beamsplit.errors import ArgumentError
from beamsplit.evaluation.experiment import Experiment, experiment_of
from beamsplit.evaluation.figures import signatures
from beamsplit.evaluation.methods import read_methods
from beamsplit.evaluation.recommending import (
    Setting,
    setting_command,
    setting_python,
    setting_toml,
    setting_words,
)
from beamsplit.evaluation.running import Prepared, RunSettings, lists_of, prepare
from beamsplit.evaluation.scoring import Measured, check_metrics, measured
from beamsplit.evaluation.tasks import has_references
from beamsplit.extras import need
from beamsplit.metrics import Score
from beamsplit.metrics.coco import keeping_programs
from beamsplit.model import StepModel, word_vectors_of
from beamsplit.strategies.defaults import DEFAULTS

__all__ = ["TARGETS", "Point", "Tuning", "choose", "front", "tune"]

TARGETS = {  # with the note for the case that no setting meets it
    "quality": "No setting is better than beam search",
    "diversity": "No setting is more diverse than beam search and keeps {keep:g} of its quality",
    "balance": "No setting gains more than it loses, compared with beam search",
}
_STRENGTHS = (0.05, 3.0)
_FIRST = (0.5, 0.2, 0.8)  # strengths: the paper's, and the ends of the range it recommends
_PATIENCE = 10  # proposals a trial, since the search may propose what was tried before


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What to tune, on what, and what for."""

    task: str
    model: str
    beams: int = DEFAULTS["evaluate"].widths.beams
    metric: str = "bleu"
    k: int | None = None
    """As many as there are beams, unless you say."""
    diversity_metric: str = "distinct-2"
    target: str = "quality"
    """"quality": the best; of equals the most diverse. "diversity": the most diverse that keeps a share of
    beam search's quality. "balance": the largest sum of the gains over beam search, each relative to it."""
    keep: float | None = None
    """That share: 0.98, unless you say."""
    trials: int = 40
    terms: tuple[str, ...] = ()
    """By name; all that are not slow, unless you say."""
    max_length: int = Experiment.max_length
    min_length: int = 0
    unique: bool = False
    """Whether groups leave out what an earlier one has found."""
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("beams", self.beams, 2)
        checks.at_least("trials", self.trials, 1)
        if self.k is not None and not 1 <= self.k <= self.beams:
            raise ArgumentError(f"k is {self.k}, and lists are of {self.beams}: give 1 to {self.beams}")
        _check_known("target", self.target, TARGETS)
        for term in self.terms:
            _check_term(term)
        if self.keep is not None and self.target != "diversity":
            raise ArgumentError(f"keep is for the target 'diversity', not {self.target!r}: leave it out")
        checks.fraction("keep", self.share)

    @property
    def share(self) -> float:
        return 0.98 if self.keep is None else self.keep


def _check_term(term: str) -> None:
    name, colon, _ = term.partition(":")
    if colon and name in TERMS:
        raise ArgumentError(
            f"terms has {term!r}: give {name!r} alone, since its settings are what is searched for"
        )
    _check_known("term", term, TERMS)


def _check_known(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise ArgumentError(f"there is no {name} {value!r}: there are {', '.join(known)}")


@dataclass(frozen=True)
class Point:
    """A setting and its figures."""

    setting: Setting
    quality: float
    diversity: float
    measured: tuple[Measured, ...] = field(default=(), repr=False, compare=False)

    @property
    def entry(self) -> dict[str, Any]:
        """The point as plain data, for a file."""
        return {"setting": self.setting, "quality": self.quality, "diversity": self.diversity}


def tune(tuning: Tuning, settings: RunSettings, model: StepModel | None = None) -> dict[str, Any]:
    """Return what was tried, the front and what suits the target. A `model` replaces the named one."""
    need("optuna", "tuning", "evaluate")  # before anything is decoded
    experiment = _experiment(tuning)
    if not has_references(tuning.task):
        raise ArgumentError(
            f"{tuning.task} has no references, which quality is measured by: give references; "
            "beamsplit evaluate compares settings by their diversity alone"
        )
    prepared = prepare(experiment, settings, model)
    terms = _terms(tuning, prepared.model)
    measure = partial(_measure, experiment, prepared, settings)
    with keeping_programs():
        beam = measure("beam search", _beam_search(tuning))
        tried = _search(tuning, terms, measure)
    chosen, note = choose(front(tried), beam, tuning.target, tuning.share)
    return {
        "task": tuning.task,
        "model": tuning.model,
        "beamsplit": beamsplit.__version__,
        "items": len(prepared.task.ids),
        "refused": prepared.refused,
        "max_length": tuning.max_length,
        "min_length": tuning.min_length,
        "seed": tuning.seed,
        "target": {"name": tuning.target} | ({"keep": tuning.share} if tuning.target == "diversity" else {}),
        "figures": [each.metric.name for each in beam.measured],
        "signatures": signatures(beam.measured),
        "beam_search": beam.entry,
        "trials": [each.entry for each in tried],
        "front": [each.entry for each in front(tried)],
        "recommended": {
            **chosen.entry,
            "against_beam_search": _against(beam, chosen, settings.draws),
            "toml": setting_toml(chosen.setting),
            "python": setting_python(chosen.setting, tuning, _first_text(prepared), loads=model is None),
            # A model that was given cannot be had by its name.
            **({} if model is not None else {"command": setting_command(chosen.setting, tuning, settings)}),
        },
        "note": note,
    }


# The choice


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats, from the best to the most diverse; of equals, the first."""
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each.quality, each.diversity), reverse=True):
        if not found or point.diversity > found[-1].diversity:
            found.append(point)
    return found


def choose(points: Sequence[Point], beam: Point, target: str, keep: float) -> tuple[Point, str]:
    """Return the point that suits the target; if none does, the nearest, and a line that says so."""

    def worth(point: Point) -> tuple[float, ...]:
        if target == "balance":
            return (_gain(point.quality, beam.quality) + _gain(point.diversity, beam.diversity),)
        return (point.quality, point.diversity) if target == "quality" else (point.diversity, point.quality)

    allowed = [each for each in points if target != "diversity" or each.quality >= keep * beam.quality]
    best = max(allowed, key=worth) if allowed else max(points, key=lambda each: each.quality)
    if allowed and worth(best) > worth(beam):
        return best, ""
    return best, f"{TARGETS[target].format(keep=keep)}. The one that is recommended comes closest."


def _gain(value: float, before: float) -> float:
    if not before:
        raise ArgumentError(
            "beam search has a figure of 0, so there is no relative gain over it: take another target"
        )
    return value / before - 1


def _against(beam: Point, chosen: Point, draws: int) -> dict[str, Any]:
    """Return the difference between the chosen and beam search in each figure, with its interval."""
    return {
        name: asdict(metrics.compare(_score(before), _score(after), before.metric, draws=draws))
        for name, before, after in zip(("quality", "diversity"), beam.measured, chosen.measured, strict=True)
    }


# Measuring


def _experiment(tuning: Tuning) -> Experiment:
    """Return an experiment that measures the two figures."""
    asked = re.fullmatch(r"(distinct)-([1-9])|(unique|vendi|spread)", tuning.diversity_metric)
    if asked is None:
        raise ArgumentError(
            f"there is no diversity metric {tuning.diversity_metric!r}: there are distinct-1 to distinct-9, "
            "unique, vendi, spread"
        )
    content = {
        "task": tuning.task,
        "model": tuning.model,
        "metrics": [tuning.metric],
        "oracle": [tuning.k or tuning.beams],
        "lists": [asked[1] or asked[3]],
        "distinct": [int(asked[2] or 1)],
        "max_length": tuning.max_length,
        "min_length": tuning.min_length,
        "methods": {"beam search": _beam_search(tuning)},
    }
    made = experiment_of(content, "tuning")
    check_metrics(made)
    return made


def _beam_search(tuning: Tuning) -> Setting:
    return {"strategy": "bs", "beams": tuning.beams, **_options(tuning)}


def _options(tuning: Tuning) -> dict[str, Any]:
    """Return what all settings have in common."""
    return {"unique": True} if tuning.unique else {}


def _terms(tuning: Tuning, model: StepModel | None) -> Sequence[str]:
    for term in tuning.terms:
        if needs_word_vectors(term) and word_vectors_of(model) is None:
            raise ArgumentError(
                f"the term {term!r} needs word vectors, and {type(model).__name__} has none: leave it out"
            )
    return tuning.terms or quick_terms()


def _measure(
    experiment: Experiment, prepared: Prepared, settings: RunSettings, name: str, setting: Setting
) -> Point:
    (method,) = read_methods({name: setting}, "tuning")
    lists = {name: lists_of(method, prepared, experiment, settings)}
    unavailable: dict[str, str] = {}
    found = measured(experiment, lists, settings.cache, unavailable)
    quality = next(found)
    if unavailable:
        raise ArgumentError(f"quality cannot be measured: {next(iter(unavailable.values()))}")
    diversity = next(found)
    return Point(setting, _score(quality).value, _score(diversity).value, (quality, diversity))


def _score(measured: Measured) -> Score:
    """Return the only score, that of one method, run once."""
    ((score,),) = measured.scores.values()
    return score


# The search


def _search(tuning: Tuning, terms: Sequence[str], measure: Callable[[str, Setting], Point]) -> list[Point]:
    """Return so many different settings with their figures, the paper's first; fewer if no more are found."""
    optuna = need("optuna", "tuning", "evaluate")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=tuning.seed)
    study = optuna.create_study(directions=["maximize", "maximize"], sampler=sampler)
    divisors = [groups for groups in range(2, tuning.beams + 1) if tuning.beams % groups == 0]
    first = "hamming" if "hamming" in terms else terms[0]
    own = {_parameter(first, name): value for name, value in term_defaults(first).items()}
    for strength in _FIRST:
        study.enqueue_trial({**own, "term": first, "groups": len(divisors) - 1, "strength": strength})
    found: dict[str, Point] = {}
    for _ in range(_PATIENCE * tuning.trials):
        trial = study.ask()
        setting = {**_proposed(trial, divisors, terms), **_options(tuning)}
        key = setting_words(setting)
        if key not in found:
            found[key] = measure(f"{len(found) + 1}/{tuning.trials} {key}", setting)
        study.tell(trial, (found[key].quality, found[key].diversity))
        if len(found) == tuning.trials:
            break
    return list(found.values())


def _proposed(trial: Any, divisors: Sequence[int], terms: Sequence[str]) -> Setting:
    """Return a setting; its numbers have two digits, so that people can read them."""

    def number(name: str, least: float, most: float) -> float:
        return float(f"{trial.suggest_float(name, least, most, log=True):.1e}")

    groups = divisors[trial.suggest_int("groups", 0, len(divisors) - 1)]
    term = trial.suggest_categorical("term", terms)
    diversity: dict[str, Any] = {"term": term}
    for name, (least, most) in TERMS[term].tuned.items():
        whole = isinstance(least, int) and isinstance(most, int)
        suggest = trial.suggest_int if whole else number
        diversity[name] = suggest(_parameter(term, name), least, most)
    return {
        "strategy": "dbs",
        "groups": groups,
        "beams_per_group": divisors[-1] // groups,
        "strength": number("strength", *_STRENGTHS),
        "diversity": diversity,
    }


def _parameter(term: str, setting: str) -> str:
    """Return a name of its own: settings of different terms have nothing in common."""
    return f"{term}.{setting}"


def _first_text(prepared: Prepared) -> str | None:
    first = prepared.task.inputs[0]
    return first if isinstance(first, str) else None
