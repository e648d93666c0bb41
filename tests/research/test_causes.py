"""Why diverse lists win or lose: how sure models are, how much of all probability lists hold, similarity."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from beamsplit.evaluation import RunSettings
from beamsplit.metrics import Example
from beamsplit.testing import MarkovModel
from research.experiments import causes
from research.experiments.causes import VectorSimilarity, follow_greedily, list_mass
from research.experiments.report import renew_tables


class Ending(MarkovModel):
    end = 0


# After 2 comes 1, after 1 the end; token 3 is never said.
TABLE = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.25, 0.25, 0], [0.2, 0.8, 0, 0], [0.25, 0.25, 0.25, 0.25]])


def test_a_model_is_followed_to_its_end() -> None:
    path = follow_greedily(Ending(TABLE.log()), [2, 1], max_length=9)
    # Both inputs first, then the first alone: it takes a step more.
    assert path.best.tolist() == pytest.approx([0.8, 0.5, 0.5])
    assert path.gap.tolist() == pytest.approx([math.log(4), math.log(2), math.log(2)])
    half, quarter = 0.5 * math.log(2), 0.25 * math.log(4)
    fifth = -0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    assert path.entropy.tolist() == pytest.approx([fifth, half + 2 * quarter, half + 2 * quarter])
    figures = path.figures(outputs=2)
    assert figures["steps"] == 1.5
    assert figures["gap_above_0.5"] == 1
    assert figures["gap_above_3"] == 0


def test_a_model_is_followed_no_further_than_asked() -> None:
    assert len(follow_greedily(Ending(TABLE.log()), [2, 1], max_length=1).gap) == 2


def test_the_mass_of_a_list_counts_each_text_once() -> None:
    lists = [
        Example(("a", "b", "a"), log_probs=tuple(math.log(p) for p in (0.5, 0.25, 0.125))),
        Example(("c",), log_probs=(math.log(0.25),)),
    ]
    assert list_mass(lists) == pytest.approx((0.75 + 0.25) / 2)


def test_similarity_by_hand() -> None:
    vectors = {
        "cat": torch.tensor([1.0, 0.0]),
        "dog": torch.tensor([0.6, 0.8]),
        "sky": torch.tensor([0.0, 1.0]),
    }
    metric = VectorSimilarity({word: vector.double() for word, vector in vectors.items()})
    example = Example(("A cat!", "the dog", "zzz", "cat sky"), ("the cat", "sky"))
    # A dog is at 0.6 to a cat and at 0.8 to the sky; cat and sky together are at the root of a half to both.
    assert metric.scores([example])[0] == pytest.approx([100, 80, 0, 100 * math.sqrt(0.5)])


def test_word_vectors_of_the_package() -> None:
    metric = VectorSimilarity.shipped()
    ((same, near, far),) = metric.scores([Example(("a dog", "a puppy", "a stapler"), ("a dog",))])
    assert same == pytest.approx(100)
    assert same > near > far


def test_experiments_are_measured_and_put_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "task": "coco.test",
        "model": "mine.safetensors",
        "items": 3,
        "steps": 10.25,
        "entropy": 1.5,
        "best": 0.625,
        "gap_above_0.5": 0.75,
        "gap_above_3": 0.25,
        "mass": {"BS": 0.125, "DBS": 0.0625},
        "similarity": {
            "oracle_vectors@1": {
                "BS": {"value": 90.0},
                "DBS": {"value": 91.0, "against_first": {"low": 0.5, "high": 1.5}},
            },
        },
    }
    measured: list[Path] = []

    def measure(path: Path, _: RunSettings) -> dict[str, object]:
        measured.append(path)
        return found

    monkeypatch.setattr(causes, "measure", measure)
    out = tmp_path / "causes.json"
    for name in ("coco", "vqg"):
        assert CliRunner().invoke(causes.main, [name, "--out", str(out)]).exit_code == 0
    assert [path.name for path in measured] == ["coco.toml", "vqg.toml"]
    assert json.loads(out.read_text(encoding="utf-8")) == {"models": {"coco": found, "vqg": found}}
    page = "<!-- causes: sureness BS MMI -->\n<!-- end -->\n<!-- causes: similarity vqg -->\n<!-- end -->\n"
    lines = [line.split() for line in renew_tables(page, tmp_path).splitlines() if line.startswith("| ")]
    row = "| mine | coco.test | 10.2 | 1.50 | 0.62 | 75% | 25% | 12.5% | |".split()
    assert lines[1:3] == [row, row]
    assert lines[-1] == ["|", "DBS", "|", "91.0\\*", "|"]
    refused = CliRunner().invoke(causes.main, ["cocoa", "--out", str(out)])
    assert refused.exit_code == 2
    assert "there is no experiment 'cocoa': give one such as paper/coco" in refused.output
