"""The program as a whole: help, its page, completion, models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from beamsplit import cli
from beamsplit.cli.options import OURS
from beamsplit.models.loading import NAMES
from cli.commands import entries, printed, refusal

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_help_is_what_the_program_says() -> None:
    # In a process of its own: click remembers help from when a command was first called, perhaps on its own.
    command = [sys.executable, "-m", "beamsplit.cli.reference"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == printed, "python -m beamsplit.cli.reference > docs/cli.md"


@pytest.mark.parametrize("module", ["beamsplit", "beamsplit.cli"])
def test_the_program_runs_as_a_module(module: str) -> None:
    command = [sys.executable, "-m", module, "models", "no-such-model"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("beamsplit: there is no card of 'no-such-model'")
    shown = subprocess.run([sys.executable, "-m", module, "-h"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("Usage: beamsplit [OPTIONS]")


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for path, command in commands(cli.program):
        shown = printed(capsys, *path, "--help")
        assert f"beamsplit {' '.join(path)}" in shown.partition("\n")[2], path
        assert command.short_help, path


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below, with the words by which it is called."""
    for name, command in group.commands.items():
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "_BEAMSPLIT_COMPLETE" in printed(capsys, "completion", shell)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("beamsplit tr", {"translate"}),
        ("beamsplit translate --strategy di", {"divmbest", "diverse-sampling", "diverse-arithmetic"}),
        ("beamsplit translate -d cu", {"cumulative"}),
        ("beamsplit caption --tre", {"--tree"}),
        ("beamsplit models ca", {"captioner", "ca"}),  # and files that begin so
        ("beamsplit caption ph", {"ph"}),
        ("beamsplit decode ph", {"ph"}),
    ],
)
def test_completion_completes(words: str, expected: set[str]) -> None:
    environment = {
        **os.environ,
        "_BEAMSPLIT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = "import sys; sys.argv[0] = 'beamsplit'; from beamsplit.cli import main; sys.exit(main())"
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert {line.partition(",")[2] for line in found.stdout.splitlines()} == expected, found.stderr


def test_models_and_their_cards(capsys: pytest.CaptureFixture[str]) -> None:
    found = entries(capsys, "models", "--json")
    assert [each["name"] for each in found] == ["en-fr", "captioner", "questioner", "complexity"]
    assert all(each["megabytes"] > 1 for each in found)
    for each in found:
        card = printed(capsys, "models", each["name"])
        assert card.startswith("# ")
        assert entries(capsys, "models", each["name"], "--json") == [{**each, "card": card}]
    assert set(OURS) == set(NAMES)
    assert refusal(capsys, "models", "captionner") == (
        "there is no card of 'captionner': did you mean 'captioner'?"
    )


def test_nothing_is_loaded_for_help() -> None:
    """Help and completion should not wait for what commands need."""
    heavy = "torch transformers fastapi sqlalchemy matplotlib scipy optuna".split()
    program = (
        "import sys; from beamsplit.cli import main; main(['--help']); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_what_is_missing_is_said_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "completion")
    assert line.startswith("Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish")


def test_translating_needs_no_evaluation() -> None:
    """A sentence is decoded without what experiments and metrics need."""
    heavy = ("beamsplit.evaluation", "beamsplit.metrics")
    program = (
        "import sys; from beamsplit.cli import main; main(['translate', 'I am cold.', '--max-length', '4']); "
        f"print([name for name in sys.modules if name.startswith({heavy})])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
