"""Choose a setting of each family on the validation prompts: the most to read at the reference's quality."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from beamsplit.errors import ArgumentError
from research.novelty.settings import REFERENCE

__all__ = ["choose_settings", "is_good_enough", "mean_of", "reference_of"]

Results = Mapping[str, Any]
QUALITY = {"log_prob_token": 0.0, "passed_readable": 0.02}
"""Figures in which a setting must come up to the reference, and by how much it may fall short."""
GOAL = "readable_50"


def mean_of(setting: Results, figure: str) -> float:
    """Return the mean of a figure over prompts."""
    values: list[float] = setting["figures"][figure]
    return mean(values)


def reference_of(results: Results) -> Results:
    """Return the setting that the others are held against. Raise if it was not measured."""
    for setting in results["settings"].values():
        if setting["family"] == REFERENCE:
            found: Results = setting
            return found
    raise ArgumentError(f"there is no {REFERENCE!r} among what was measured: decode its run first")


def is_good_enough(setting: Results, reference: Results) -> bool:
    """Tell whether the answers are as likely as those of the reference, and about as many are readable."""
    return all(
        mean_of(setting, figure) >= mean_of(reference, figure) - slack for figure, slack in QUALITY.items()
    )


def choose_settings(results: Results) -> dict[str, str]:
    """Return the name of the chosen setting of each family.

    It is the one with the most readable clusters among those that are good enough. If none of a family is, it
    is the one with the likeliest answers.
    """
    reference = reference_of(results)
    families: dict[str, dict[str, Results]] = {}
    for name, setting in results["settings"].items():
        families.setdefault(setting["family"], {})[name] = setting
    return {family: _best(settings, reference) for family, settings in families.items()}


def _best(settings: Mapping[str, Results], reference: Results) -> str:
    good = [name for name, setting in settings.items() if is_good_enough(setting, reference)]
    if good:
        return max(good, key=lambda name: mean_of(settings[name], GOAL))
    return max(settings, key=lambda name: mean_of(settings[name], "log_prob_token"))
