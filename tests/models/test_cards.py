"""The cards and the page about the models say what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from beamsplit.models import Complexity, load, storage

ROOT = Path(__file__).parent.parent.parent
CARDS = storage.WEIGHTS.parent / "cards"
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def figures(name: str) -> Any:
    return json.loads((CARDS / f"{name}.json").read_text(encoding="utf-8"))


def table_row(name: str, title: str) -> list[str]:
    card = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(title)} \|(.*)\|$", card, re.MULTILINE)
    assert found, f"{name}.md has no row {title!r}"
    return [cell.strip() for cell in found[1].split("|")]


def of_captions(measured: Any) -> list[str]:
    return [
        f"{measured['cider_d']['score']:.3f}",
        f"{measured['meteor']['score']:.1f}",
        f"{measured['bleu_4']['score']:.1f}",
    ]


@pytest.mark.parametrize(("title", "data"), [("COCO test", "coco.test"), ("PASCAL-50S", "pascal50s")])
@pytest.mark.parametrize(("search", "key"), [("greedy", "greedy"), ("beam 5", "beam_5")])
def test_the_captioners_card(title: str, data: str, search: str, key: str) -> None:
    assert table_row("captioner", f"{title}, {search}") == of_captions(figures("captioner")[data][key])


@pytest.mark.parametrize(("search", "key"), [("greedy", "greedy"), ("beam 5", "beam_5")])
def test_the_questioners_card(search: str, key: str) -> None:
    assert table_row("questioner", search) == of_captions(figures("questioner")["vqg.test"][key])


@pytest.mark.parametrize(
    ("title", "data"),
    [
        ("Tatoeba test", "tatoeba.test"),
        ("Multi30k test 2016", "multi30k.test_2016_flickr"),
        ("newstest2013", "newstest2013"),
    ],
)
def test_the_translators_card(title: str, data: str) -> None:
    measured = figures("en-fr")[data]
    scores = [measured[key]["bleu"]["score"] for key in ("greedy", "beam_5")]
    scores.append(measured["beam_5"]["chrf"]["score"])
    assert table_row("en-fr", title)[-3:] == [f"{score:.1f}" for score in scores]


@pytest.mark.parametrize("name", ["en-fr", "captioner", "questioner", "complexity"])
def test_the_page_has_the_models_and_their_sizes(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
    assert row
    file = (storage.WEIGHTS / f"{name}.safetensors").stat().st_size
    assert f"{file / 1e6:.1f} MB" in row[0]
    model = load(name)
    if isinstance(model, Complexity):
        assert f"{len(model.support):,} support vectors" in row[0]
    else:
        assert f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million" in row[0]
