"""The models that ship run ahead, and say what they say step by step."""

from __future__ import annotations

from typing import Any

import pytest

from beamsplit import BeamSearch, DiverseBeamSearch, decode
from beamsplit.search.ahead.runner import Runner
from models import shipped


@pytest.mark.parametrize("graphs", ["called", "recorded"])
@pytest.mark.parametrize(
    "strategy",
    [BeamSearch(beams=4), DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.5)],
    ids=["beams", "groups"],
)
@pytest.mark.parametrize("name", ["en-fr", "captioner", "questioner"])
def test_models_that_ship_run_ahead(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str, strategy: Any, graphs: str
) -> None:
    """Texts of different lengths end at different times."""
    model, inputs = shipped.model(name), shipped.inputs(name)
    expected = decode(model, inputs, strategy, max_length=20)
    if graphs == "recorded":
        request.getfixturevalue("recordings")
    launched: list[Runner] = []
    launch = Runner.launch
    monkeypatch.setattr(Runner, "launch", lambda self: launched.append(self) or launch(self))  # type: ignore[func-returns-value]
    monkeypatch.setenv("BEAMSPLIT_GRAPHS", "1")
    found = decode(model, inputs, strategy, max_length=20)
    assert launched
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.text for h in ours] == [h.text for h in theirs]
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in theirs], abs=2e-5)
