"""The page about studies names the options that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamsplit.cli.study import study

PAGE = (Path(__file__).parent.parent.parent / "docs" / "study.md").read_text(encoding="utf-8")
# These are as for beamsplit evaluate.
ELSEWHERE = {"--data", "--limit", "--device", "--batch-size", "--cache", "--draws", "--max-length"}
ELSEWHERE |= {"--groups", "--diversity", "--host", "--port", "--format", "--output", "--help"}
OPTIONS = {
    option
    for command in study.commands.values()
    for each in command.params
    for option in each.opts
    if option.startswith("--")
}


@pytest.mark.parametrize("option", sorted(OPTIONS - ELSEWHERE))
def test_options_are_explained(option: str) -> None:
    assert option in PAGE


@pytest.mark.parametrize("command", study.commands)
def test_commands_are_explained(command: str) -> None:
    assert f"study {command}" in PAGE
