"""Figures by image complexity, metrics that are not to be had, and the tables of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError, metrics
from beamsplit.evaluation import (
    TASKS,
    Cache,
    Method,
    RunSettings,
    Task,
    decode_cached,
    experiment_of,
    markdown,
    run,
)
from beamsplit.evaluation.scoring import TEXT_METRICS
from beamsplit.models import load
from beamsplit.strategies.spec import StrategySpec

TASK = Task(
    name="pictures",
    ids=tuple(map(str, range(6))),
    inputs=torch.rand(6, 1280, generator=torch.Generator().manual_seed(0)),
    references=(("a cat",),) * 6,
    difficulty=(1.0, 3.0, 3.0, 3.0, 3.0, 9.0),
)
EXPERIMENT = {
    "task": "pascal50s",
    "model": "captioner",
    "split": True,
    "distinct": [1],
    "max_length": 6,
    "methods": {"BS": {"strategy": "bs", "beams": 3}, "one": {"strategy": "bs", "beams": 1}},
}


class NotToBeHad:
    name = signature = "none"

    def scores(self, examples: Any) -> Any:
        raise metrics.Unavailable("it is gone")


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(TASKS, "pascal50s", lambda _: TASK)
    monkeypatch.setitem(TEXT_METRICS, "spice", NotToBeHad)
    experiment = experiment_of({**EXPERIMENT, "metrics": ["spice"]})
    return run(experiment, RunSettings(data=str(tmp_path), cache=tmp_path, draws=20))


def test_parts_are_of_their_pictures_alone(found: Any) -> None:
    people = found["parts"]["people"]
    # The mean is 3.67, the deviation 2.5: from 6.1 on complex, up to 1.2 simple.
    assert {part: each["items"] for part, each in people.items()} == {"simple": 1, "average": 4, "complex": 1}
    whole = found["figures"]["top_log_prob"]["BS"]["value"]
    parts = [(each["items"], each["figures"]["top_log_prob"]["BS"]["value"]) for each in people.values()]
    assert sum(count * value for count, value in parts) / 6 == pytest.approx(whole)
    assert len({value for _, value in parts}) == 3
    assert sum(each["items"] for each in found["parts"]["predicted"].values()) == 6


def test_the_hardest_picture_is_the_complex_one(found: Any, tmp_path: Path) -> None:
    (complex_part,) = [each for part, each in found["parts"]["people"].items() if part == "complex"]
    (simple_part,) = [each for part, each in found["parts"]["people"].items() if part == "simple"]
    rows = [each["figures"]["top_log_prob"]["BS"]["value"] for each in (complex_part, simple_part)]

    method = Method(name="BS", spec=StrategySpec.of_table({"strategy": "bs", "beams": 3}))
    lists = decode_cached(load("captioner"), TASK.inputs, method, max_length=6, cache=Cache(tmp_path))
    assert rows == pytest.approx([lists[5].best.log_prob, lists[0].best.log_prob])


def test_what_is_not_to_be_had_is_said_and_the_rest_measured(found: Any) -> None:
    assert found["unavailable"] == {"spice": "it is gone"}
    assert "list_distinct_1" in found["figures"]
    assert "Without spice: it is gone." in markdown(found)


# Ways to divide


def divided(folder: Path, monkeypatch: pytest.MonkeyPatch, split: Any, **changes: Any) -> Any:
    monkeypatch.setitem(TASKS, "pascal50s", lambda _: replace(TASK, **changes))
    experiment = experiment_of({**EXPERIMENT, "split": split, "lists": ["length"]})
    return run(experiment, RunSettings(data=str(folder), cache=folder, draws=20))


def test_inputs_may_be_divided_by_the_length_of_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a", "a cat here", "a cat here", "a cat here", "a cat here", "a cat sits here on it"]
    references = tuple((text, text) for text in texts)
    found = divided(tmp_path, monkeypatch, ["length"], references=references)
    assert {part: each["items"] for part, each in found["parts"]["length"].items()} == {
        "short": 1,
        "average": 4,
        "long": 1,
    }
    assert "By length of the references" in markdown(found)


def test_ways_to_divide_are_those_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(divided(tmp_path, monkeypatch, ["people"])["parts"]) == ["people"]
    assert list(divided(tmp_path, monkeypatch, True)["parts"]) == ["predicted", "people"]
    assert divided(tmp_path, monkeypatch, [])["parts"] == {}
    with pytest.raises(
        ArgumentError, match=r"^split names 'people', which is not known of pictures: leave it"
    ):
        divided(tmp_path, monkeypatch, ["people"], difficulty=None)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (["size"], "split in it names 'size': there are predicted, people, length"),
        ("length", "split in it must be true, false or a list of predicted, people, length, not 'length'"),
        (1, "split in it must be true, false or a list of predicted, people, length, not 1"),
    ],
)
def test_no_way_to_divide(split: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        experiment_of({**EXPERIMENT, "split": split}, "it")
    assert str(caught.value) == message
