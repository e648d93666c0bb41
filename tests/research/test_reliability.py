"""Memory is flat over many decodes, and the servers hold many clients: short versions of what is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from research.reliability import decodes
from research.reliability.decodes import decode_many, growth
from research.reliability.load import hold_demo, hold_study
from research.reliability.report import renewed

ROOT = Path(__file__).parent.parent.parent
RESULTS: dict[str, Any] = json.loads((ROOT / "docs/results/reliability.json").read_text(encoding="utf-8"))


def test_many_decodes_hold_no_more_memory_than_a_few() -> None:
    grown = growth(decode_many(500, points=10))
    assert grown["objects"] < 150  # of 450 decodes: none keeps an object
    assert grown["megabytes"] < 20


def test_a_leak_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(decodes, "decode", lambda *_, **__: kept.append([torch.zeros(1)]))
    assert growth(decode_many(500, points=10))["objects"] > 400


def test_what_was_measured_is_flat() -> None:
    assert RESULTS["decodes"]["decodes"] >= 100_000
    grown = growth(RESULTS["decodes"])
    assert grown["objects"] < 1_000
    assert grown["megabytes"] < 20


def test_the_tables_of_the_page_are_what_was_measured() -> None:
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    assert renewed(page, RESULTS) == page
    changed = json.loads(json.dumps(RESULTS))
    changed["demo"]["requests"] += 1
    changed["decodes"]["points"][-1]["objects"] += 1
    assert renewed(page, changed) != page


def test_the_demo_holds_some_clients() -> None:
    pytest.importorskip("fastapi", reason="the demo needs '.[web]'")
    held(hold_demo(3, 1.5))


def test_a_study_holds_some_clients() -> None:
    pytest.importorskip("sqlalchemy", reason="studies need '.[study]'")
    found = hold_study(3, 1.5)
    held(found)
    assert found["votes_kept"] == found["votes_acknowledged"] > 0


def held(found: dict[str, Any]) -> None:
    """No client is left without an answer, and no answer is an error of the server."""
    assert found["requests"] > 3
    assert set(found["statuses"]) <= {"200", "303", "429", "503"}
    assert found["statuses"]["200"] > 0
    assert found["answers_afterwards"]
    assert found["megabytes_after"] - found["megabytes_before"] < 100


@pytest.mark.parametrize("name", ["demo", "study"])
def test_the_servers_held_what_was_measured(name: str) -> None:
    found = RESULTS[name]
    assert found["clients"] >= 16
    assert found["seconds"] >= 60
    held(found)
