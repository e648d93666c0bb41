"""docs/reliability.md is a promise: each row names tests, and all of them exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.split("## ")[0].splitlines() if line.startswith("| ") and "| | |" not in line][
    1:
]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def names_in(file: Path) -> set[str]:
    """The tests that pytest would find in a file."""
    found = ast.parse(file.read_text(encoding="utf-8")).body
    functions = (each for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each.name for each in functions if each.name.startswith("test_")}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_it_names_exists(file: str, name: str) -> None:
    assert name in names_in(ROOT / file)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_names_a_test(row: str) -> None:
    assert re.search(r"\| `tests/[\w/]+\.py::\w+`(, `tests/[\w/]+\.py::\w+`)* \|$", row)


def test_it_covers_all_themes() -> None:
    themes = re.findall(r"^\| \*\*(\w[\w ]*)\*\* \| \| \|$", PAGE, re.MULTILINE)
    assert themes == ["Faults", "Bad inputs", "Load", "Memory", "Security", "Packages"]
    assert len(ROWS) > 45
