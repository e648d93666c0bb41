"""The wheel has the package, whole and alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from beamsplit.models.storage import WEIGHTS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel() -> dict[str, Path]:
    """The files that a wheel would have, by their names in it."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="pip install '.[dev]'")
    included = builders.WheelBuilder(str(ROOT)).recurse_included_files()
    return {each.distribution_path: Path(each.path) for each in included}


def test_it_has_nothing_but_the_package(wheel: dict[str, Path]) -> None:
    assert {Path(name).parts[0] for name in wheel} == {"beamsplit"}
    assert not [name for name in wheel if {"research", "training", "tests"} & set(Path(name).parts)]


def test_it_has_what_is_not_code_too(wheel: dict[str, Path]) -> None:
    weights = {f"beamsplit/models/weights/{file.name}" for file in WEIGHTS.iterdir()}
    others = {"beamsplit/py.typed", "beamsplit/models/cards/en-fr.md", "beamsplit/web/static/index.html"}
    assert len(weights) == 5
    assert weights | others <= set(wheel)


def test_no_module_of_it_imports_what_it_has_not(wheel: dict[str, Path]) -> None:
    """Neither research nor a module of the package that was left behind."""
    missing = [
        f"{name}: {module}"
        for name, file in wheel.items()
        if name.endswith(".py")
        for module in _imports(file)
        if module.split(".")[0] == "research" or not _in_wheel(module, wheel)
    ]
    assert missing == []


def _imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module


def _in_wheel(module: str, wheel: dict[str, Path]) -> bool:
    """Return whether the wheel has a module of ours; others come from elsewhere."""
    path = module.replace(".", "/")
    return module.split(".")[0] != "beamsplit" or f"{path}.py" in wheel or f"{path}/__init__.py" in wheel


def test_its_metadata_has_the_extras() -> None:
    core = pytest.importorskip("hatchling.metadata.core", reason="pip install '.[dev]'")
    manager = pytest.importorskip("hatchling.plugin.manager", reason="pip install '.[dev]'")
    metadata = core.ProjectMetadata(str(ROOT), manager.PluginManager())
    spec = pytest.importorskip("hatchling.metadata.spec", reason="pip install '.[dev]'")
    lines = spec.get_core_metadata_constructors()["2.4"](metadata).splitlines()
    extras = {line.removeprefix("Provides-Extra: ") for line in lines if line.startswith("Provides-Extra: ")}
    users = {"engines", "evaluate", "gguf", "hf", "postgres", "ray", "study", "vision", "web"}
    assert extras == {"all", "dev", *users}
    assert [
        line for line in lines if line.startswith("Requires-Dist: transformers<6,>=4.57;") and "'all'" in line
    ]
