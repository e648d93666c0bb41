"""Pages say what is so: they name all settings, their examples run, their pictures are the program's."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from beamsplit import BeamSearch, cli, decode
from beamsplit.diversity.names import TERMS
from beamsplit.evaluation import Experiment
from beamsplit.evaluation.scoring import LIST_METRICS, TEXT_METRICS
from beamsplit.models.scenes import painted
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import OPTIONS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "evaluate.md").read_text(encoding="utf-8")
KEYS = [each.name for each in fields(Experiment)]


@pytest.mark.parametrize("word", [*KEYS, *OPTIONS, "vary", "file", *STRATEGIES, *TEXT_METRICS, *LIST_METRICS])
def test_what_an_experiment_may_say_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("term", TERMS)
def test_terms_are_named(term: str) -> None:
    assert f'"{term}"' in PAGE


def test_the_examples_about_pictures_run() -> None:
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    assert names["svg"].startswith("<svg ")
    assert names["late"].hypotheses.best.text == names["diverse"].hypotheses.best.text == "J'ai froid."
    assert "as it grows" in names["so_far"]


def test_the_examples_about_meaning_run(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.split("## Meaning and checks")[1], re.DOTALL)
    exec(code, {})
    printed = capsys.readouterr().out.splitlines()
    promised = [line.partition("# ")[2] for line in code.splitlines() if line.startswith("print")]
    for number, value in zip(printed, promised, strict=True):
        assert number.startswith(value.removesuffix("..."))


def test_the_examples_about_files_run() -> None:
    page = (DOCS / "decode.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    assert [len(found) for found in names["lists"]] == [3, 3]


def test_the_examples_of_the_models_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install '.[vision]'")
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    (tmp_path / "photo.jpg").write_bytes(painted("boat"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    assert capsys.readouterr().out.startswith("J'ai froid. (")
    assert len(names["found"]) == len(set(names["found"].texts)) == 6


def test_the_examples_of_the_method_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "method.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    assert [len(group) for group in names["longer"][0].groups] == [2] * 6
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_examples_of_the_contract_run() -> None:
    page = (DOCS / "contract.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    assert repr(names["ask"]).startswith("Advance(tokens=tensor([1, 2]), parents=tensor([0, 0])")
    assert [h.tokens for h in names["step"].hypotheses[0]] == [(1,), (2,)]
    model = names["Bigram"](torch.eye(3))
    assert decode(model, [1], BeamSearch(beams=1), max_length=2)[0].best.tokens == (1, 1)


@pytest.mark.parametrize(
    "name",
    [
        *("widen", "start_with_room", "advance", "join", "fixed_rows", "keeps_earlier_steps"),
        *("end", "to_text", "word_vectors", "language_model", "features", "accepts", "fingerprint"),
        *("Guided", "LogProbs", "Shortlist", "Room"),
    ],
)
def test_all_that_a_model_may_offer_is_in_the_table(name: str) -> None:
    """And nothing else is looked for: these are the names in `beamsplit.model`."""
    table = (DOCS / "contract.md").read_text(encoding="utf-8").split("## The table")[1].split("\n## ")[0]
    assert re.search(rf"\b{name}\b", table)
    assert name in (ROOT / "src" / "beamsplit" / "model.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["tree.svg", "groups.svg"])
def test_the_picture_is_what_the_command_beside_it_draws(name: str, tmp_path: Path) -> None:
    page = (DOCS / "pictures.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(rf"^ +beamsplit (translate .* {name})$", page, re.MULTILINE)
    assert f"](pictures/{name})" in page
    drawn = tmp_path / name
    assert cli.main([word if word != name else str(drawn) for word in shlex.split(command)]) == 0
    assert _said_in(drawn) == _said_in(DOCS / "pictures" / name)


def _said_in(picture: Path) -> str:
    """What a picture says in words; numbers may differ from machine to machine in their last digits."""
    description = ElementTree.parse(picture).getroot().find("{http://www.w3.org/2000/svg}desc")
    assert description is not None
    return re.sub(r"[\d.−]+", "#", description.text or "")


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
