"""Lines that install what is missing: they work today, and name extras that there are."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from beamsplit.extras import PACKAGES, install_line, need

ROOT = Path(__file__).parent.parent
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
FILES = [
    path
    for folder in ("src", "docs", "examples", "research", "tests", "scripts")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".html", ".js", ".toml", "")
    and path.is_file()
    and path != Path(__file__)
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def packages_of(extra: str) -> set[str]:
    """What an extra installs, with the extras that it names."""
    found: set[str] = set()
    for each in EXTRAS[extra]:
        own = re.fullmatch(r"beamsplit\[(.*)\]", each)
        found |= {package for name in own[1].split(",") for package in packages_of(name)} if own else {each}
    return found


def test_messages_name_the_packages_that_the_extras_install() -> None:
    assert {extra: set(packages) for extra, packages in PACKAGES.items()} == {
        extra: packages_of(extra) for extra in EXTRAS if extra not in ("all", "dev")
    }


def test_all_has_everything_that_users_may_want() -> None:
    extras = ("hf", "gguf", "engines", "ray", "vision", "evaluate", "web", "study")
    wanted: set[str] = set().union(*map(packages_of, extras))
    assert packages_of("all") == wanted
    assert not {"mypy>=1.10", "pytest>=8"} & wanted


def printed() -> dict[str, list[str]]:
    """Every extra that a line of pip names, in any page, message or help, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        for names in re.findall(
            r"'[^'\s]*(?:\.|\.whl|beamsplit)\[([\w,]+)\]'", path.read_text(encoding="utf-8")
        ):
            for name in names.split(","):
                found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_line_names_an_extra_that_exists() -> None:
    found = printed()
    assert set(found) <= set(EXTRAS), found
    assert {"all", "hf", "gguf", "ray", "vision", "evaluate", "web", "study", "postgres"} <= set(found)
    assert "README.md" in found["all"]


def test_no_line_asks_the_index_for_a_release_that_is_not_there() -> None:
    wrong = r"pip install (?:-\S+ |'[^']*' )*'?beamsplit(?:\[|'|\s|$)"
    assert re.search(wrong, "pip install 'beamsplit[hf]'")
    assert re.search(wrong, "pip install -U beamsplit")
    assert [str(path) for path in FILES if re.search(wrong, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("extra", sorted(PACKAGES))
def test_a_missing_package_is_named_with_a_line_that_installs_it(extra: str) -> None:
    with pytest.raises(ImportError) as caught:
        need("no_such_package.part", "this", extra)
    assert str(caught.value) == f"this needs no_such_package: {install_line(extra)}"
    assert "\n" not in install_line(extra)
    for package in PACKAGES[extra]:
        assert f" '{package}'" in install_line(extra)


def test_the_name_to_install_is_not_always_the_name_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        ImportError, match=r"^a picture needs pillow: pip install 'efficientnet-lite-pytorch>=0\.1' "
    ):
        need("PIL", "a picture", "vision")
