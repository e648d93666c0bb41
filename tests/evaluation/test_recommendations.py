"""Whatever messages and pages recommend exists: options, commands, and modules to be run."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import beamsplit
from beamsplit import cli

HOME = Path(beamsplit.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
SOURCES = [
    *(HOME / "evaluation").glob("*.py"),
    *(HOME / "metrics").glob("*.py"),
    *(HOME / "study").glob("*.py"),
    *(HOME / "cli" / f"{name}.py" for name in ("evaluate", "tune", "study", "options", "search_options")),
]
PAGES = [DOCS / "evaluate.md", DOCS / "study.md"]


def commands(group: click.Group = cli.program, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


def command(words: tuple[str, ...]) -> click.Command:
    found: click.Command = cli.program
    for word in words:
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


def options(words: tuple[str, ...]) -> set[str]:
    return {option for each in command(words).params for option in each.opts} | {"--help", "-h"}


EVERY = {option for words in commands() for option in options(words)} | {"--version"}


def told(path: Path) -> Iterator[str]:
    """The texts of a module, its documentation too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_messages_name_options_that_exist(path: Path) -> None:
    named = {option for text in told(path) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)}
    assert named <= EVERY


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_options_that_exist(path: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", path.read_text(encoding="utf-8")))
    assert named <= EVERY
    assert len(named) > 5


def lines_of(path: Path) -> list[list[str]]:
    """The commands of a page, word by word."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^ {4}(?:\$ )?(beamsplit .*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_of_pages_are_understood(path: Path) -> None:
    assert lines_of(path)
    for _, first, *rest in lines_of(path):
        found: click.Command = cli.program.commands[first]
        if isinstance(found, click.Group):
            found, rest = found.commands[rest[0]], rest[1:]
        found.make_context(first, rest)  # raises if an option or a value is not understood


def test_the_file_of_spice_can_be_fetched_as_the_message_says() -> None:
    quality = (HOME / "metrics" / "quality.py").read_text(encoding="utf-8")
    (module,) = re.findall(r"python -m ([\w.]+)", quality)
    pytest.importorskip("pycocoevalcap")
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    assert "__main__" in Path(found.origin).read_text(encoding="utf-8")
