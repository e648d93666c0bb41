"""Small tasks, lists and models, whose figures can be worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import cli
from beamsplit.evaluation import RunSettings, experiment_of, run
from beamsplit.testing import MarkovModel


def write_lines(path: Path, *entries: dict[str, Any]) -> Path:
    """A file with a line of JSON for each."""
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    return path


def write_numbers(folder: Path, count: int = 3, **more: list[Any]) -> str:
    """A task for `numbers`: inputs 0, 1, 2, 0, ... that are to be answered "1 2"."""
    entries = (
        {"input": place % 3, "references": ["1 2"], **{key: values[place] for key, values in more.items()}}
        for place in range(count)
    )
    return str(write_lines(folder / "numbers.jsonl", *entries))


def numbers() -> MarkovModel:
    """After 0 mostly comes 1, after 1 comes 2, after 2 comes 0; it has no words and never ends."""
    return MarkovModel(torch.tensor([[0.1, 0.7, 0.2], [0.3, 0.1, 0.6], [0.8, 0.15, 0.05]]).log())


def figures_of(folder: Path, content: dict[str, Any], model: Any = None, **settings: Any) -> dict[str, Any]:
    """What running the experiment gives."""
    settings = {"cache": folder / "cache", "draws": 20, **settings}
    return run(experiment_of(content), RunSettings(**settings), model)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `beamsplit evaluate` prints."""
    assert cli.main(["evaluate", "--draws", "20", *arguments]) == 0
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line by which it refuses."""
    assert cli.main(["evaluate", "--draws", "20", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("beamsplit: ")
    return line.removeprefix("beamsplit: ")
