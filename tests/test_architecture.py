"""The folder list is the architecture: imports point one way, and there is no cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import beamsplit

HOME = Path(beamsplit.__file__).parent

# From the ground up. A room may import from the rooms below its own, and from those beside it.
FLOORS = {
    "base": ("errors", "checks", "extras", "files", "lazy", "ngrams", "progress"),
    "contract": (
        "diversity",
        "functions",
        "guidance",
        "hypotheses",
        "messages",
        "model",
        "options",
        "ordering",
        "scoring",
        "selecting",
        "similarity",
    ),
    "search": ("search",),
    "strategies": ("strategies",),
    "decoding": ("continuing", "decoding", "testing"),
    "jobs": ("jobs",),
    "doors": ("engines", "huggingface", "loading", "models"),
    "tools": ("batch", "comparison", "evaluation", "metrics", "recording", "tree"),
    "faces": ("cli", "serving", "study", "web"),
}
FLOOR = {room: number for number, rooms in enumerate(FLOORS.values()) for room in rooms}

# The whole package by name, looked up when used: anyone may ask it for a version or a public name.
TOP = {"__init__", "__main__"}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, without `beamsplit.`."""
    found = {}
    for path in HOME.rglob("*.py"):
        parts = path.relative_to(HOME).with_suffix("").parts
        if parts[0] not in TOP:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path: Path, at_once: bool) -> Iterator[str]:
    """What a module imports from the package: everything, or only what is imported along with it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _at_once(tree) if at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            target = _module_of(name)
            if target is not None:
                yield target


def _at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes outside functions and outside what is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_once(node)


def _module_of(name: str) -> str | None:
    """The module that a dotted name stands for or lies in; None if it is not the package's."""
    if not name.startswith("beamsplit."):
        return None
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts) or None


def room_of(module: str) -> str:
    return module.partition(".")[0]


def test_every_room_has_its_floor() -> None:
    assert {room_of(module) for module in MODULES} == set(FLOOR)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module: str) -> None:
    """Also those inside functions: a call may not flow upwards either."""
    for target in imported(MODULES[module], at_once=False):
        own, other = room_of(module), room_of(target)
        assert FLOOR[other] <= FLOOR[own], f"{module} imports {target}, which is a floor above"


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Some way from a node back to itself, if there is one."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for target in sorted(graph[node]):
            if cycle := visit(target, [*way, node]):
                return cycle
        done.add(node)
        return []

    return next(filter(None, (visit(node, []) for node in sorted(graph))), [])


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {room: set() for room in FLOOR}
    for module, path in MODULES.items():
        graph[room_of(module)] |= {room_of(t) for t in imported(path, at_once=False)} - {room_of(module)}
    assert find_cycle(graph) == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {}
    for module, path in MODULES.items():
        # A package's __init__ gathers what is in it, which is no circle of the things themselves.
        targets = {t for t in imported(path, at_once=True) if not module.startswith(f"{t}.")}
        graph[module] = targets - {module}
    assert find_cycle(graph) == []


def test_a_search_knows_nothing_of_strategies_and_doors() -> None:
    """The core is torch and itself: what it imports from elsewhere is on the floors below."""
    outside = {
        room_of(t) for m, p in MODULES.items() if room_of(m) == "search" for t in imported(p, at_once=False)
    }
    assert outside - {"search"} <= set(FLOORS["base"]) | set(FLOORS["contract"])
