"""The page of results says what its files say, the files are of the experiments, and these still run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from beamsplit.evaluation import TASKS, Method, RunSettings, read_experiment, run
from beamsplit.evaluation.scoring import LIST_METRICS, TEXT_METRICS
from research.experiments.choice import best_of_families, deciding
from research.experiments.report import renew_tables
from research.experiments.runner import PAGES

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "research" / "experiments"
RESULTS = ROOT / "docs" / "results"
FILES = sorted(EXPERIMENTS.rglob("*.toml"))
CHOSEN_ON = {
    "coco": "coco",
    "pascal50s": "pascal50s",
    "vqg": "vqg",
    "tatoeba": "tatoeba",
    "multi30k": "multi30k",
    "newstest2013": "newstest2012",
    "newstest2014": "newstest2012",
}
PAPER = sorted(file.stem for file in (EXPERIMENTS / "paper").glob("*.toml"))


def name_of(file: Path) -> str:
    return str(file.relative_to(EXPERIMENTS).with_suffix(""))


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_experiments_are_complete(file: Path) -> None:
    experiment = read_experiment(file)
    assert experiment.task in TASKS
    assert {*experiment.metrics, *([experiment.mbr] if experiment.mbr else [])} <= set(TEXT_METRICS)
    assert set(experiment.lists) <= set(LIST_METRICS)
    assert experiment.title


def results(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def described(name: str) -> dict[str, Any]:
    return {each.name: each.description for each in read_experiment(EXPERIMENTS / f"{name}.toml").methods}


def of_method(about: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in about.items() if key not in ("family", "varied")}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_tables_of_its_files(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert renew_tables(page, RESULTS) == page


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_of_the_page_is_there(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    pictures = [line.partition("](")[2].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert pictures
    assert [each for each in pictures if not (ROOT / "docs" / each).is_file()] == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_results_are_of_the_experiment_as_it_is(file: Path) -> None:
    found, experiment = results(name_of(file)), read_experiment(file)
    assert {name: of_method(about) for name, about in found["methods"].items()} == described(name_of(file))
    assert (found["task"], found["model"]) == (experiment.task, Path(experiment.model).name)
    assert experiment.limit is None or found["items"] + found["refused"] == experiment.limit


@pytest.mark.parametrize("name", CHOSEN_ON)
def test_settings_are_the_best_on_validation_data(name: str) -> None:
    """Of each family, and for "DBS, tuned" of all that are diverse beam search."""
    validation = results(f"validation/{CHOSEN_ON[name]}")
    best = best_of_families(validation)
    figures = validation["figures"][deciding(validation)]
    diverse = [each for family, each in best.items() if family.startswith("DBS")]
    best["DBS, tuned"] = max(diverse, key=lambda each: float(figures[each]["value"]))
    for method, about in described(name).items():
        assert about == of_method(validation["methods"][best[method]])
    assert ("DBS, tuned" in described(name)) == (best["DBS, tuned"] != best["DBS"])


@pytest.mark.parametrize("name", PAPER)
def test_settings_under_the_papers_conditions_are_the_best_on_validation_data(name: str) -> None:
    validation = results(f"paper/validation/{name}")
    best = best_of_families(validation)
    for method, about in described(f"paper/{name}").items():
        assert about == of_method(validation["methods"][best[method]])


def test_terms_have_their_best_strengths() -> None:
    validation = results("validation/terms")
    best = best_of_families(validation)
    assert described("terms") == {name: of_method(validation["methods"][each]) for name, each in best.items()}


@pytest.mark.parametrize("name", ["coco", "pascal50s", "vqg", "tatoeba", "multi30k"])
def test_a_few_real_inputs(name: str, tmp_path: Path) -> None:
    """A small fixed part of each task, with what is fast to measure."""
    if not os.environ.get("BEAMSPLIT_DATA"):
        pytest.skip("BEAMSPLIT_DATA is not set to a folder of real data")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    whole = read_experiment(EXPERIMENTS / f"{name}.toml")
    methods = tuple(each for each in whole.methods if each.name in ("BS", "DBS") and isinstance(each, Method))
    settings = {**vars(whole), "methods": methods, "metrics": whole.metrics[:1], "mbr": "", "oracle": (1, 20)}
    found = run(type(whole)(**settings), RunSettings(cache=tmp_path, limit=12, draws=50))
    assert found["items"] + found["refused"] == 12
    figures = found["figures"]
    top, best = (figures[each] for each in figures if each.startswith("oracle_"))
    for method in ("BS", "DBS"):
        assert 0 < top[method]["value"] < best[method]["value"]
    if name != "tatoeba":  # where twenty groups repeat themselves
        assert figures["list_distinct_2"]["DBS"]["value"] > figures["list_distinct_2"]["BS"]["value"]
    assert bool(found["parts"]) == whole.split
