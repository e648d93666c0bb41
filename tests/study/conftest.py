"""Databases to try studies in: a file of SQLite, and a PostgreSQL that is started for the tests alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for _module in ("sqlalchemy", "starlette", "jinja2", "scipy", "krippendorff"):
    pytest.importorskip(_module, reason="studies need '.[study]'")

from beamsplit.study import Store, StudyPlan, create_study, open_study  # noqa: E402


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """The folder with the socket of a PostgreSQL."""
    pytest.importorskip("psycopg")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (str(programs[-1]) if programs else None)
    if found is None:
        pytest.skip("there is no PostgreSQL on this machine")
    folder = Path(tempfile.mkdtemp(prefix="study-"))
    user = _unprivileged(folder)
    _init(found, folder, user)
    command = [str(Path(found).with_name("postgres")), "-D", f"{folder}/data", "-k", str(folder), "-F"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-c", "listen_addresses="], stdout=log, stderr=log, cwd=folder, **user
        )
    try:
        _wait(folder)
        yield folder
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        shutil.chown(folder, "postgres")
    except LookupError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return {"user": "postgres", "group": "postgres", "extra_groups": []}


def _init(program: str, folder: Path, user: dict[str, Any]) -> None:
    command = [program, "-D", f"{folder}/data", "-U", "study", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run([*command, "--locale=C"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)


def _wait(folder: Path) -> None:
    import psycopg

    for _ in range(100):
        try:
            psycopg.connect(f"host={folder} user=study dbname=postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError((folder / "log").read_text())


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a location for a new study."""
    if request.param == "sqlite":
        return str(tmp_path / "study.db")
    return fresh(request.getfixturevalue("cluster"))


def fresh(cluster: Path) -> str:
    """A database with nothing in it."""
    import psycopg

    name = f"study_{time.monotonic_ns()}"
    with psycopg.connect(f"host={cluster} user=study dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql://study@/{name}?host={cluster}"


class Studies:
    """Makes and opens studies in one location, and closes them after a test."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.opened: list[Store] = []

    def create(self, plan: StudyPlan, **more: Any) -> Store:
        self.opened.append(create_study(self.location, plan, **more))
        return self.opened[-1]

    def open(self) -> Store:
        self.opened.append(open_study(self.location))
        return self.opened[-1]


@pytest.fixture
def studies(location: str) -> Iterator[Studies]:
    made = Studies(location)
    yield made
    for each in made.opened:
        each.close()
