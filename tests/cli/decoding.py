"""What the tests of `decode` have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beamsplit import decode

OPTIONS = ("-g", "2", "-b", "1", "-s", "0.5", "-d", "hamming", "--max-length", "10")
TEXTS = ["I'm cold.", "Where did you leave the keys?", "Thank you.", "He is late.", "Go home now, please."]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts_of(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[each["text"] for each in line["hypotheses"]] for line in lines]


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def part_lines(folder: Path) -> list[dict[str, Any]]:
    return read(folder / "out.jsonl.part")


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt the program at the search after so many; the list has one entry a search."""
    from beamsplit.jobs import batches

    calls: list[int] = []

    def interrupted(model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        calls.extend([1] * bool(inputs))
        if len(calls) > count:
            raise KeyboardInterrupt
        return decode(model, inputs, *rest, **options)

    monkeypatch.setattr(batches, "decode", interrupted)
    return calls
