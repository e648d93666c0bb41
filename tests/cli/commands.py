"""What the tests of commands have in common."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from beamsplit import cli


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints, that has no complaints."""
    code = cli.main(arguments)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    return shown.out


def entries(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The lines of JSON that a command prints."""
    return [json.loads(line) for line in printed(capsys, *arguments).splitlines()]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line by which a command refuses, and does nothing else."""
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return line.removeprefix("beamsplit: ")


def give_stdin(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    """Standard input, as a pipe would have it."""
    raw = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
