"""The page about experiments names all that they may say."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from beamsplit.evaluation import Experiment
from beamsplit.evaluation.methods import METHODS, OPTIONS, SAVED, TERMS
from beamsplit.evaluation.scoring import LIST_METRICS, TEXT_METRICS

PAGE = (Path(__file__).parent.parent / "docs" / "evaluate.md").read_text(encoding="utf-8")
KEYS = [each.name for each in fields(Experiment)]


@pytest.mark.parametrize("word", [*KEYS, *OPTIONS, *METHODS, SAVED, *TEXT_METRICS, *LIST_METRICS])
def test_what_an_experiment_may_say_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("term", TERMS)
def test_terms_are_named(term: str) -> None:
    assert f'"{term}"' in PAGE
