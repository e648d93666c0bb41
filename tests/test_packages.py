"""Wheel and sdist are built, and run with each extra alone: with what it asks for, and nothing else.

A folder is made for each extra with the wheel, unpacked, and links to the packages that the wheel's own
metadata ask for, and to what those ask for. Python runs there without this environment's packages.
`scripts/test-packages` does the same with pip, which takes longer.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
packaging = pytest.importorskip("packaging.requirements", reason="pip install '.[dev]'")
builders = pytest.importorskip("hatchling.builders.wheel", reason="pip install '.[dev]'")
sdists = pytest.importorskip("hatchling.builders.sdist", reason="pip install '.[dev]'")
utils = pytest.importorskip("packaging.utils", reason="pip install '.[dev]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    (made,) = sdists.SdistBuilder(str(ROOT)).build(directory=str(folder))
    return Path(made)


@pytest.fixture(scope="module")
def wheel(sdist: Path, folder: Path) -> Path:
    """The wheel that is built from the sdist, as pip does where there is no other."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (root,) = (folder / "unpacked").iterdir()
    (made,) = builders.WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    return Path(made)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "wheel")
    return folder / "wheel"


def test_the_sdist_has_all_that_the_wheel_is_made_of(wheel: Path) -> None:
    from_tree = builders.WheelBuilder(str(ROOT)).recurse_included_files()
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert archive.testzip() is None
    assert names == {each.distribution_path for each in from_tree}


def test_the_sdist_has_its_tests_and_pages(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/test_packages.py",
        "docs/reliability.md",
        "scripts/setup",
        "LICENSE",
        "pyproject.toml",
    } <= names
    assert not [name for name in names if name.startswith((".venv", ".")) and name not in ("", ".gitignore")]


# What an extra brings


@cache
def installed() -> dict[str, metadata.Distribution]:
    return {utils.canonicalize_name(each.name): each for each in metadata.distributions()}


@cache
def owners() -> dict[str, set[str]]:
    """Which packages have files in each file or folder of the folder that packages are installed in."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, package in installed().items():
        for file in package.files or ():
            found[file.parts[0]].add(name)
    return found


def needed(requires: list[str], extra: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the packages, and their extras, that lines of metadata ask for with this extra, or with none."""
    for line in requires:
        each = packaging.Requirement(line)
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield utils.canonicalize_name(each.name), frozenset(each.extras)


def closure(requires: list[str], extra: str) -> set[str]:
    """Return all packages that come with an extra."""
    todo, done = [*needed(requires, ""), *needed(requires, extra)], set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) not in done:
            done.add((name, extras))
            own = requires if name == "beamsplit" else list(installed()[name].requires or ())
            for part in ("", *extras):
                todo += needed(own, part)
    return {name for name, _ in done} - {"beamsplit"}


def install(names: set[str], folder: Path) -> None:
    """Link packages into a folder: as a whole, or file by file where others have files beside theirs."""
    for name in names:
        files = [file for file in installed()[name].files or () if ".." not in file.parts]
        alone = {file.parts[0] for file in files if owners()[file.parts[0]] <= names}
        for part in [*alone, *(str(file) for file in files if file.parts[0] not in alone)]:
            link = folder / part
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(str(installed()[name].locate_file(part))))


EXTRAS = metadata.metadata("beamsplit").get_all("Provides-Extra") or []
ALONE = ["", *sorted(each for each in EXTRAS if each not in ("all", "dev"))]

BEGIN = """
import sys
from pathlib import Path
sys.path += sys.argv[1:]
from beamsplit import cli
Path("in.jsonl").write_text('{"input": "Hello.", "references": ["Bonjour."]}\\n' * 3)
Path("a.jsonl").write_text('{"id": "0", "hypotheses": ["one", "two"]}\\n')
Path("b.jsonl").write_text('{"id": "0", "hypotheses": ["this", "that"]}\\n')

def run(*arguments, code=0):
    assert cli.main(list(arguments)) == code, arguments
"""

FOREIGN = """
import importlib.util
assert importlib.util.find_spec("hypothesis") is None
"""

# Something that needs what the extra brings. Of extras without a line here, all packages are imported.
USES = {
    "": 'run("translate", "Hello.", "--json")\nrun("caption", "none.jpg", code=2)\nrun("demo", code=2)',
    "hf": """
import torch, transformers
from beamsplit.huggingface import diverse_beam_search
config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=1)
model = transformers.GPT2LMHeadModel(config).eval()
found = model.generate(
    torch.tensor([[1, 2]]), custom_generate=diverse_beam_search, num_beams=4, num_beam_groups=2,
    diversity_penalty=0.5, num_return_sequences=4, max_new_tokens=3, pad_token_id=0,
)
assert found.shape[0] == 4
""",
    "gguf": """
import accelerate, gguf
from beamsplit.huggingface import loading
Path("a.gguf").touch()
loading._check_gguf(Path("a.gguf"))
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
""",
    "vision": """
from beamsplit.models.scenes import painted
Path("photo.png").write_bytes(painted("boat"))
run("caption", "photo.png", "--json")
""",
    "evaluate": """
given = ("--task", "in.jsonl", "--model", "en-fr", "--beams", "2")
run("evaluate", *given, "--strategies", "bs,branching", "--out", "out")
assert list(Path("out").glob("*.svg"))
run("tune", *given, "--trials", "1", "--terms", "hamming")
import pycocoevalcap
""",
    "web": """
import threading, urllib.request
from beamsplit.serving import address, listen
from beamsplit.web import DemoSettings, make_app, make_server
listening = listen("127.0.0.1", 0)
server = make_server(make_app(DemoSettings()))
thread = threading.Thread(target=server.run, args=([listening],))
thread.start()
try:
    assert urllib.request.urlopen(address("127.0.0.1", listening) + "/api/health", timeout=60).status == 200
finally:
    server.should_exit = True
    thread.join()
""",
    "study": """
lists = ("--lists", "BS=a.jsonl", "--lists", "DBS=b.jsonl")
run("study", "create", "s.db", *lists, "--annotators", "2", "--votes", "1")
run("study", "report", "s.db", "--out", "out")
assert list(Path("out").glob("*.png"))
from beamsplit.study.serving import serve
import uvicorn
""",
    "postgres": "import psycopg\nassert psycopg.pq.__impl__ == 'binary'",
    "engines": """
from beamsplit.engines.http import Client
Client("http://localhost:8000")
run("generate", "--engine", "no address", "Hello.", code=2)
""",
}


def code_for(extra: str) -> str:
    """Return a program that uses what an extra brings; where no use is known, its packages are imported."""
    return BEGIN + (USES[extra] if extra in USES else _imports(extra))


def _imports(extra: str) -> str:
    requires = metadata.requires("beamsplit") or []
    direct = dict(needed(requires, extra)).keys() - dict(needed(requires, "")).keys()
    tops = sorted(
        top for top, names in owners().items() if names & direct and re.fullmatch(r"[A-Za-z]\w*", top)
    )
    return "\n".join(f"import {top}" for top in tops)


@pytest.mark.parametrize("extra", ALONE, ids=lambda extra: extra or "no extra")
def test_each_extra_alone_is_enough(extra: str, unpacked: Path, tmp_path: Path) -> None:
    (about,) = unpacked.glob("*.dist-info")
    requires = list(metadata.PathDistribution(about).requires or ())
    names = closure(requires, extra)
    packages, work = tmp_path / "packages", tmp_path / "work"
    for each in (packages, work):
        each.mkdir()
    for part in unpacked.iterdir():
        (packages / part.name).symlink_to(part)
    install(names, packages)
    code = f"{code_for(extra)}\n{FOREIGN}"
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", code, str(packages)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3_000:]


def test_an_environment_has_no_more_than_it_asks_for(tmp_path: Path) -> None:
    """Without the extra, what it brings is missing: so the test above would fail if it brought too little."""
    install(
        closure([line for line in metadata.requires("beamsplit") or () if "extra" not in line], ""), tmp_path
    )
    code = "import sys; sys.path.append(sys.argv[1]); import click, numpy; import transformers"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert "No module named 'transformers'" in done.stderr
