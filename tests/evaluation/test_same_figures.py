"""Figures do not depend on how they are computed: at once or in parts, by one process or by several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from beamsplit.evaluation import RunSettings, experiment_of, run
from beamsplit.evaluation.workers import Workers
from evaluation.made_up import made_up_experiment, only_figures

pytest.importorskip("sacrebleu")
pytest.importorskip("pycocoevalcap")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")

GOLDEN = Path(__file__).parents[1] / "golden" / "figures.json"
"""What commit db934f4 gave, which asked the reference implementations about each method by itself."""

EXACT = ("cider_d", "meteor", "bleu", "rouge", "chrf", "distinct", "unique", "length")
"""Whose values are the same on every machine; those of matrix products may differ in the last digit."""


def figures_of(folder: Path, jobs: int) -> dict[str, Any]:
    experiment = experiment_of(made_up_experiment(folder))
    with Workers(jobs) as workers:
        found = run(experiment, RunSettings(cache=folder / "cache", draws=50), workers=workers)
    return only_figures(found)


def rounded(value: Any) -> Any:
    """The same with numbers to twelve digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return float(f"{value:.12g}") if isinstance(value, float) else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for both tests, since METEOR takes seconds to start and its scores are kept."""
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    """The figures of one process."""
    return figures_of(folder, jobs=1)


def test_figures_are_those_of_before(alone: dict[str, Any]) -> None:
    before = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert rounded(alone) == rounded(before)
    exact = [name for name in before["figures"] if any(part in name for part in EXACT)]
    assert len(exact) > 30
    for name in exact:
        for method, found in before["figures"][name].items():
            assert alone["figures"][name][method]["value"] == found["value"], (name, method)


def test_figures_do_not_depend_on_the_number_of_processes(alone: dict[str, Any], folder: Path) -> None:
    assert figures_of(folder, jobs=2) == alone
