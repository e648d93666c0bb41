"""What methods cost: with a clock whose every second is known, and with the real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError
from beamsplit.evaluation import cost, markdown
from evaluation.small import figures_of, numbers, said, write_lines, write_numbers

METHODS = {"narrow": {"strategy": "bs", "beams": 1}, "wide": {"strategy": "bs", "beams": 2}}


class Clock:
    """A clock, and a search that takes the seconds it is told to."""

    def __init__(self, *seconds: float) -> None:
        self.now = 0.0
        self.batches: list[int] = []
        self._left: Iterator[float] = iter(seconds)

    def perf_counter(self) -> float:
        return self.now

    def decode(self, model: Any, inputs: Any, *_: Any, **__: Any) -> None:
        self.now += next(self._left)
        self.batches.append(len(inputs))


def results(folder: Path, count: int = 3, **changes: Any) -> dict[str, Any]:
    content = {"task": write_numbers(folder, count), "model": "mine", "max_length": 2, "lists": ["unique"]}
    changes = {"methods": METHODS, "cost": {"turns": 3, "inputs": 2}, **changes}
    return figures_of(folder, content | changes, numbers())


def timed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamsplit.evaluation.cost.decode", clock.decode)
    monkeypatch.setattr("beamsplit.evaluation.cost.time", SimpleNamespace(perf_counter=clock.perf_counter))


def test_ratios_are_taken_within_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first turn pays for what is set up. Then the machine slows down, and wide takes 2, 3 and 5 times.
    clock = Clock(100, 1, 1, 2, 2, 6, 4, 20)
    timed(clock, monkeypatch)
    found = results(tmp_path)["cost"]
    assert found["methods"] == {
        "narrow": {"seconds": 2, "ratio": {"median": 1, "low": 1, "high": 1}, "tokens": 0},
        "wide": {"seconds": 6, "ratio": {"median": 3, "low": 2.5, "high": 4}, "tokens": 0},
    }
    assert (found["turns"], found["inputs"]) == (3, 2)
    assert clock.batches == [2] * 8


def test_of_one_turn_there_are_no_quartiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(Clock(9, 9, 2, 3), monkeypatch)
    found = results(tmp_path, cost={"turns": 1})["cost"]
    assert found["methods"]["wide"]["ratio"] == {"median": 1.5, "low": 1.5, "high": 1.5}
    assert found["inputs"] == 3


def test_seven_turns_of_32_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(*[1] * 16)
    timed(clock, monkeypatch)
    found = results(tmp_path, 40, cost={})["cost"]
    assert (found["turns"], found["inputs"]) == (7, 32)
    assert clock.batches == [32] * 16


def test_a_real_clock(tmp_path: Path) -> None:
    found = results(tmp_path)
    cost_of = found["cost"]["methods"]
    assert list(cost_of) == ["narrow", "wide"]
    assert all(each["seconds"] > 0 for each in cost_of.values())
    assert cost_of["narrow"]["ratio"] == {"median": 1, "low": 1, "high": 1}
    ratio = cost_of["wide"]["ratio"]
    assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    assert (found["cost"]["device"], found["cost"]["threads"]) == ("cpu", torch.get_num_threads())
    # Outputs have two tokens: the first is chosen from what the model answers to the start.
    assert [each["tokens"] for each in cost_of.values()] == [2, 4]
    assert json.loads(json.dumps(found)) == found
    assert "### Cost" in markdown(found)


def test_nothing_is_measured_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(Clock(), monkeypatch)
    found = results(tmp_path, cost=None)
    assert "cost" not in found
    assert "### Cost" not in markdown(found)


def test_memory_is_measured_of_a_model_that_can_be_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = write_lines(tmp_path / "mine.jsonl", {"input": "I'm cold.", "references": ["J'ai froid."]})
    file = tmp_path / "mine.toml"
    table = '[methods.BS]\nstrategy = "bs"\nbeams = 20\n'
    settings = 'model = "en-fr"\nmax_length = 10\nlists = ["length"]\ncost = { turns = 1 }\n'
    file.write_text(f'task = "{task}"\n{settings}{table}', encoding="utf-8")
    shown = said(capsys, str(file), "--json", "--cache", str(tmp_path / "cache"))
    memory = json.loads(shown)["cost"]["methods"]["BS"]["peak_megabytes"]
    assert 0 < memory < 1000


def test_a_model_that_is_given_is_not_loaded_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("another process")

    monkeypatch.setattr(cost, "ProcessPoolExecutor", never)
    found = results(tmp_path)["cost"]["methods"]
    assert all(set(each) == {"seconds", "ratio", "tokens"} for each in found.values())


def test_lists_in_files_cost_nothing(tmp_path: Path) -> None:
    lists = write_lines(tmp_path / "a.jsonl", *({"id": place, "hypotheses": ["1"]} for place in range(3)))
    saved = {"file": str(lists)}
    assert list(results(tmp_path, methods={"A": saved, **METHODS})["cost"]["methods"]) == ["narrow", "wide"]
    with pytest.raises(ArgumentError, match=r"^cost is for methods that decode, and all of these are lists"):
        results(tmp_path, methods={"A": saved})


# Systems without the module `resource`, such as Windows

WITHOUT_RESOURCE = (
    "import sys; sys.modules['resource'] = None; from beamsplit.cli import main; sys.exit(main())"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "I'm cold.", "--groups", "2", "--json"),
        ("evaluate", "--task", "mine.jsonl", "--model", "en-fr", "--strategies", "bs", "--beams", "2"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_do_not_need_resource(arguments: tuple[str, ...], tmp_path: Path) -> None:
    write_lines(tmp_path / "mine.jsonl", {"input": "I'm cold.", "references": ["J'ai froid."]})
    command = [sys.executable, "-c", WITHOUT_RESOURCE, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "froid" in done.stdout or "chrF" in done.stdout) == (0, True), done.stderr


def test_memory_is_not_measured_without_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is left out, and the table says so."""
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(cost, "Path", lambda _: tmp_path / "absent")  # no /proc either
    monkeypatch.setattr(cost, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    task = write_lines(tmp_path / "mine.jsonl", {"input": "I'm cold.", "references": ["J'ai froid."]})
    content = {"task": str(task), "model": "en-fr", "max_length": 3, "lists": ["length"]}
    found = figures_of(tmp_path, {**content, "methods": METHODS, "cost": {"turns": 1}})
    assert all(set(each) == {"seconds", "ratio", "tokens"} for each in found["cost"]["methods"].values())
    assert markdown(found).count("not measured") == 2
